"""The documentation builds without a warning, its blocks run, and what it names exists."""

from __future__ import annotations

import csv
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from PIL import Image

import beamuq
import generate_reference
import sync_gallery
import synthetic
from beamuq import cli, parquet_tables
from beamuq.api import ask_model, score_candidates
from beamuq.exhibits import list_of_exhibits
from beamuq.methods.registry import METHODS
from beamuq.study_config import ROOT
from docs_blocks import DOCS, follow

pytestmark = pytest.mark.slow

PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; warnings, dead links and unknown references among them, are errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(folder)],
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built_and_reachable_from_the_first(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in PAGES:
        name = page.removesuffix(".md") + ".html"
        assert (site / name).is_file()
        assert page == "index.md" or f'href="{name}"' in index, page


def test_the_reference_holds_every_method_with_its_equation_and_range(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "reference/methods.html").read_text(encoding="utf-8"))
    for name in METHODS:
        section = text.split(f"{name}¶", 1)[1]
        assert "range: " in section[:1500], name
        assert "higher = more uncertain" in section[:1500], name
        assert "Σ" in section[:2500] or "log" in section[:2500] or "components" in section[:2500], name


def test_the_reference_holds_every_key(site: Path) -> None:
    text = (site / "reference/config.html").read_text(encoding="utf-8")
    for key in ("data_root", "memory_gb", "few_shot_split", "penalties", "equivalence_threshold", "resamples"):
        assert f">{key}<" in text, key


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_stand_in_the_page_and_are_in_step_with_the_code(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert "@@" not in text
    assert generate_reference.fill(page, text) == text, "run python tools/sync_docs.py"


def test_a_generated_part_that_is_unknown_or_has_no_end_is_refused() -> None:
    with pytest.raises(KeyError, match=r"p\.md: no generated part 'nothing'; known: ask-options"):
        generate_reference.fill("p.md", "<!-- generated: nothing -->\n<!-- end -->\n")
    with pytest.raises(KeyError, match="has no end"):
        generate_reference.fill("p.md", "<!-- generated: row -->\n")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_without_being_built(page: str) -> None:
    """A code host shows no text for an empty link and a role by its braces."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert not re.findall(r"\[\]\(|\{\w+\}`", text)
    for target in re.findall(r"\]\(((?!http)[^)#]+)[^)]*\)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_the_readme_is_short_shows_three_pictures_and_leads_to_what_there_is() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 500 <= sum(any(map(str.isalnum, word)) for word in text.split()) <= 600
    assert len(re.findall(r"^!\[[^\]]+\]\(", text, re.MULTILINE)) == 3
    for target in re.findall(r"\]\(((?!http)[^)#]+)[^)]*\)", text):
        assert (ROOT / target).exists(), target


def test_citation_changelog_and_package_name_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## \[(\d.*?)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert newest.groups() == (citation["version"], citation["date-released"]) == (beamuq.__version__, newest[2])


GALLERY = {found[1]: found for found in sync_gallery.ENTRY.finditer(sync_gallery.PAGE.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("label", GALLERY)
def test_an_exhibit_of_the_gallery_is_no_older_than_the_code_that_draws_it(label: str) -> None:
    _, code, shown, text = GALLERY[label].groups()
    exhibit = list_of_exhibits.exhibit(label, sync_gallery.demo()) if label != sync_gallery.EXPLORER.name else None
    assert code == sync_gallery.code_hash(exhibit), "the code changed; run make gallery"
    assert shown == sync_gallery.shown_hash(label, text), "the entry changed by hand; run make gallery"


def test_the_gallery_shows_every_exhibit_of_the_demo() -> None:
    assert set(GALLERY) == {*sync_gallery.demo().exhibits, sync_gallery.EXPLORER.name}, "run make gallery"


def test_pictures_of_the_gallery_say_demo_and_are_small() -> None:
    files = sorted(sync_gallery.PICTURES.glob("*.png"))
    assert {file.stem for file in files} <= set(GALLERY)
    for file in files:
        picture = Image.open(file)
        assert picture.mode == "P", file
        assert "demo" in picture.info["Title"], file
    assert sum(file.stat().st_size for file in files) < 1_500_000


def test_the_hash_of_an_exhibit_follows_the_code_that_draws_it_and_no_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhibit = list_of_exhibits.exhibit("redundancy", sync_gallery.demo())
    module = tmp_path / "exhibits" / "drawn.py"
    module.parent.mkdir()
    monkeypatch.setattr(sync_gallery, "step_sources", lambda *_: [module])

    def of(text: str) -> str:
        module.write_text(text)
        return sync_gallery.code_hash(exhibit)

    before = of('"""Draws."""\n\n\ndef draw():\n    return 1\n')
    assert of('def draw():\n    """One."""\n    # a comment\n    return 1\n') == before
    assert of("def draw():\n    return 2\n") != before


@pytest.mark.parametrize("page", ["own_models_and_candidates.md", "what_scores_mean.md", "decide.md"])
def test_marked_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    assert follow(page, tmp_path)


def test_the_tutorial_runs_on_files_of_a_study(tmp_path: Path) -> None:
    """On a made-up cell of the same layout, so that the page is tested before any demo has run."""
    cell = synthetic.cell(N=24)
    ids = cell["questions"].column("id")
    produced = {"answer_source": "greedy", "method": "Dissimilarity", "setting": ""}
    variants = ("multinomial", "beamsearch")
    scores = pa.Table.from_pylist(
        [
            produced | {"id": key, "variant": v, "value": n / 24}
            for v in variants
            for n, key in enumerate(ids.to_pylist())
        ]
    )
    measured = {"answer_source": "greedy", "quality": "answer_f1", "subset": "all", "metric": "PRR", "method": "Prob"}
    evaluation = [measured | {"variant": "", "setting": "", "value": 0.5, "low": 0.1, "high": 0.9, "n": 24, "note": ""}]
    quality = cell["quality"].filter(pc.equal(cell["quality"].column("answer_source"), "greedy"))
    model, tail = "smollm2-135m-plain", "triviaqa/main.parquet"
    results = tmp_path / "results/demo"
    parquet_tables.write(results / f"candidates/{model}/{tail}", "candidates", cell["candidates"])
    parquet_tables.write(results / f"scores/embedding/{model}/{tail}", "scores", scores)
    parquet_tables.write(results / f"quality/answer_f1/{model}/{tail}", "quality", quality)
    parquet_tables.write(results / f"evaluation/embedding/{model}/{tail}", "evaluation", evaluation)
    printed = follow("tutorial.md", tmp_path)
    assert len(printed) == 4
    assert "beam M=10" in printed[0]
    assert "most certain half" in printed[2]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:workflow|studies|profiles|envs|tools|tests)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("command", ["ask", "score"])
def test_options_that_the_page_names_are_those_of_the_commands(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    page = (DOCS / "own_models_and_candidates.md").read_text(encoding="utf-8")
    asking, scoring = page.split("## Score your own candidates")
    part = asking if command == "ask" else scoring
    assert {"--similarity", "--epsilon", "--alpha", "--device", "--dtype", "--threads"} <= known
    assert set(re.findall(r"^\| `(--[a-z-]+)", part, re.MULTILINE)) == known
    assert set(re.findall(r"--[a-z][a-z-]+", part)) - {"--help", "--completion"} == known


@pytest.mark.parametrize(("command", "function"), [("ask", ask_model.ask), ("score", score_candidates.score)])
def test_defaults_are_the_same_from_the_command_line_and_from_python(
    command: str, function: Callable[..., object]
) -> None:
    given = {action.dest: action.default for action in cli.options_of(command)._actions}
    wanted = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    assert wanted.keys() - given.keys() == set()
    assert {name for name, value in wanted.items() if value not in (inspect.Parameter.empty, given[name])} == set()


def test_the_printed_means_that_a_page_quotes_are_those_of_print() -> None:
    text = (ROOT / "docs" / "own_models_and_candidates.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\.\d{3}\b", text[text.index("## Which score to take") :])
    values: dict[tuple[str, str], list[float]] = {}
    with (ROOT / "workflow" / "paper_numbers" / "paper_values.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["table"] == "tab:qa_mean_prr":
                values.setdefault((row["method"], row["variant"]), []).append(float(row["value"]))
    forms = [("CocoaPPL", "CocoaMSP", "Dissimilarity"), ("beamsearch", "multinomial")]
    assert quoted == [f"{np.mean(values[method, form]):.3f}".lstrip("0") for form in forms[1] for method in forms[0]]
    highest = sorted(values, key=lambda key: -np.mean(values[key]))[:3]
    assert highest == [(method, "beamsearch") for method in forms[0]]
