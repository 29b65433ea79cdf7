"""Write the notebooks of ``docs/notebooks`` from the pages' tested blocks, with what they print.

A page of ``tools/notebooks`` is a notebook's text. In it ``<!-- block: PAGE | HEADING | N -->``
stands for the Nth block under a heading of ``docs/PAGE`` that is run there or written into a file,
and becomes a cell; ``<!-- shown: … -->`` shows one that is not run, such as one that needs a
server. A Python file that a later block imports becomes a cell too, and that import is left out.

``python tools/make_notebooks.py`` runs all of them, or those that are named, on the packaged
models; ``--check`` runs nothing, and fails where text or code of a notebook is not that of its
pages. Outputs are stored without times and counts.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from page_blocks import Block, blocks_by_heading

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "tools/notebooks"
NOTEBOOKS = ROOT / "docs/notebooks"
MODELS = ROOT / "resources/models"
SECONDS_OF_A_CELL = 1200
_PLACE = re.compile(r"^<!-- (block|shown): ([^|]+?) \| (.+?) \| (\d+) -->$", re.MULTILINE)
# a progress bar, and tqdm's word of why it is plain, which names a folder
_BAR = re.compile(r"\r|\d+%\||TqdmWarning|notebook_tqdm$")
# the line of a command's result that changes from day to day
_FOOTER = re.compile(r"made \d{4}-\d\d-\d\d \(UTC\) by beamuq ")
# the file and line of a cell that warns
_CELL = re.compile(r"\S*ipykernel_\d+/\d+\.py:\d+: ")
# what a call that draws returns: its picture is beside it
_AXES = re.compile(r"\[?<Axes")
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}
Notebook = nbformat.NotebookNode


def notebook(text: Path) -> Notebook:
    """The notebook of a text, not run."""
    source = text.read_text(encoding="utf-8")
    places = list(_PLACE.finditer(source))
    blocks = [_block(text, place) for place in places]
    cells = []
    end = 0
    for place, block in zip(places, blocks, strict=True):
        cells += _text_cells(source[end : place.start()])
        if place[1] == "shown":
            cells.append(nbformat.v4.new_markdown_cell(_shown(block)))
        else:
            cells.append(nbformat.v4.new_code_cell(_code(block, blocks)))
        end = place.end()
    cells += _text_cells(source[end:])
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{number}"
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def _block(text: Path, place: re.Match[str]) -> Block:
    """The block of a page at a place of a text; stops where there is none."""
    page, heading, number = place[2], place[3], int(place[4])
    sections = blocks_by_heading(page)
    if heading not in sections:
        sys.exit(f"{text}: docs/{page} has no heading {heading!r}")
    marked = sections[heading]
    if not 1 <= number <= len(marked):
        sys.exit(f"{text}: docs/{page}, {heading!r}: {len(marked)} blocks, no number {number}")
    return marked[number - 1]


def _text_cells(text: str) -> Iterator[Notebook]:
    if text.strip():
        yield nbformat.v4.new_markdown_cell(text.strip())


def _shown(block: Block) -> str:
    """A block as text, under the name of its file if it has one."""
    language = "bash" if block.kind == "run" else "python"
    name = f"`{block.path}`:\n\n" if block.path else ""
    return f"{name}```{language}\n{block.text}```"


def _code(block: Block, blocks: Sequence[Block]) -> str:
    """A cell's code: a command, a file to write, or Python without imports of earlier cells."""
    modules = [Path(file.path).stem for file in blocks if file.path.endswith(".py")]
    own_imports = [f"from {module} import " for module in modules]
    if block.kind == "run":
        return f"%%bash\n{block.text}".rstrip()
    imported = any(
        line.startswith(f"from {Path(block.path).stem} import ")
        for other in blocks
        for line in other.text.splitlines()
    )
    if block.kind == "file" and not imported:
        return f"%%writefile {block.path}\n{block.text}".rstrip()
    lines = block.text.splitlines()
    return "\n".join(line for line in lines if not line.startswith(tuple(own_imports))).strip()


def run(unrun: Notebook, models: Path = MODELS) -> Notebook:
    """Fill in what every cell gives, in a folder of its own, without a network."""
    with tempfile.TemporaryDirectory() as folder:
        programs = str(Path(sys.executable).parent)
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BEAMUQ_MODELS": str(models),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "IPYTHONDIR": f"{folder}/ipython",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
        workplace = Path(folder) / "workplace"
        workplace.mkdir()
        client = NotebookClient(
            unrun,
            timeout=SECONDS_OF_A_CELL,
            startup_timeout=SECONDS_OF_A_CELL,
            kernel_name="python3",
            resources={"metadata": {"path": str(workplace)}},
        )
        client.execute(env=environment)
    unrun["metadata"] = METADATA
    for cell in unrun.cells:
        cell["metadata"] = {}
        if cell.cell_type == "code":
            cell["execution_count"] = None
            cell["outputs"] = list(_outputs(cell["outputs"]))
    return unrun


def _outputs(outputs: Sequence[Any]) -> Iterator[Any]:
    """What a cell gave, without counts, dates and progress bars; pieces of one stream are one."""
    for name in ("stdout", "stderr"):
        pieces = [output.text for output in outputs if output.get("name") == name]
        lines = "".join(pieces).splitlines(keepends=True)
        lines = [line for line in lines if not _FOOTER.match(line)]
        text = "".join(line for line in lines if name == "stdout" or not _BAR.search(line))
        if text:
            yield nbformat.v4.new_output("stream", name=name, text=_CELL.sub("", text))
    for output in outputs:
        if output.output_type == "stream" or _AXES.match(
            output.get("data", {}).get("text/plain", "")
        ):
            continue
        if "execution_count" in output:
            output["execution_count"] = None
        yield output


def sources(book: Notebook) -> list[tuple[str, str]]:
    """Kind and text of every cell."""
    return [(cell.cell_type, cell.source) for cell in book.cells]


def stored(text: Path) -> Path:
    """Where the notebook of a text lies."""
    return NOTEBOOKS / f"{text.stem}.ipynb"


def is_in_step(text: Path) -> bool:
    """Whether the stored notebook has the text and the code of its pages."""
    path = stored(text)
    return path.exists() and sources(nbformat.read(path, as_version=4)) == sources(notebook(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="run nothing, compare text and code")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="such as first_score; without: all"
    )
    options = parser.parse_args()
    texts = sorted(TEXTS.glob("*.md"))
    names = [text.stem for text in texts]
    for name in options.names:
        if name not in names:
            sys.exit(f"no notebook {name!r}; there are {', '.join(names)}")
    for text in texts:
        if options.names and text.stem not in options.names:
            continue
        if not options.check:
            nbformat.write(run(notebook(text)), stored(text))
        elif not is_in_step(text):
            path = stored(text).relative_to(ROOT)
            sys.exit(f"{path} is out of step with its pages; run python tools/make_notebooks.py")


if __name__ == "__main__":
    main()
