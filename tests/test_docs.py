"""The documentation builds without a warning, its blocks run, and the files that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

import beamuq
import synthetic
from beamuq_study import parquet_tables
from beamuq_study.study_config import ROOT
from docs_blocks import DOCS, LIBRARY_PAGES, follow, unmarked

pytestmark = pytest.mark.slow

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Dead links and unknown references are warnings."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "dummy",
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_links_or_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!http)[^)#]+)[^)]*\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(
        r"`((?:workflow|studies|profiles|envs|tools|tests|evidence)/[\w./-]+)`", text
    ):
        assert (ROOT / path).exists(), path


NAMING = ["Containerfile", "Makefile", ".ci/run", "config.yaml", *PAGES]
NAMING += [
    *ROOT.glob("profiles/*/*.yaml"),
    *ROOT.glob(".github/workflows/*.yml"),
    ROOT / ".snakemake-workflow-catalog.yml",
]


@pytest.mark.parametrize("file", NAMING, ids=str)
def test_every_profile_and_program_that_a_file_names_exists(file: str | Path) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    named = re.findall(
        r"(?<![\w./<{-])((?:profiles|envs|tools|studies)/[\w-]+(?:[./][\w-]+)*)", text
    )
    own = {"studies/NAME.yaml", "studies/my-study.yaml"}  # what a reader writes
    assert [path for path in named if path not in own and not (ROOT / path).exists()] == []


def test_citation_changelog_and_package_name_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(
        r"^## \[(\d.*?)\] - (.*)$",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert newest
    assert (
        newest.groups()
        == (citation["version"], citation["date-released"])
        == (beamuq.__version__, newest[2])
    )


@pytest.mark.parametrize("page", ["your_own_answers.md", *LIBRARY_PAGES])
def test_every_block_of_a_page_is_followed_by_a_test(page: str) -> None:
    assert unmarked(page) == []


def test_the_tutorial_s_blocks_print_one_line_per_score(tmp_path: Path) -> None:
    """On a made-up cell of the same layout, with rows beside those of the main table that a block
    must leave out.
    """
    cell = synthetic.cell(N=24)
    ids = cell["questions"].column("id")
    values = {("Dissimilarity", v, ""): np.arange(24) / 24 for v in ("multinomial", "beamsearch")}
    rows = synthetic.score_rows(ids.to_pylist(), values)
    scores = pa.Table.from_pylist(rows + [row | {"answer_source": "top_beam"} for row in rows])
    estimate = {"variant": "", "value": 0.5, "low": 0.1, "high": 0.9, "n": 24, "note": ""}
    keys = ("method", "metric", "setting", "answer_source", "quality", "subset")
    main = ("Prob", "PRR", "", "greedy", "answer_f1", "all")
    others = ("MTE", "ROC-AUC", "M=5", "top_beam", "exact_match", "answered")
    named = [main, *((*main[:n], other, *main[n + 1 :]) for n, other in enumerate(others))]
    evaluation = [estimate | dict(zip(keys, names, strict=True)) for names in named]
    model, tail = "smollm2-135m-plain", "triviaqa/main.parquet"
    results = tmp_path / "results/demo"
    parquet_tables.write(results / f"candidates/{model}/{tail}", "candidates", cell["candidates"])
    parquet_tables.write(results / f"scores/embedding/{model}/{tail}", "scores", scores)
    parquet_tables.write(results / f"quality/answer_f1/{model}/{tail}", "quality", cell["quality"])
    parquet_tables.write(results / f"evaluation/embedding/{model}/{tail}", "evaluation", evaluation)
    *_, two_numbers, evaluated = follow("tutorial.md", tmp_path)
    assert [line.split()[:2] for line in two_numbers.splitlines()] == [
        ["Dissimilarity", "beamsearch"],
        ["Dissimilarity", "multinomial"],
    ]
    assert two_numbers.count("n = 24") == 2
    assert [line.split()[0] for line in evaluated.splitlines()] == ["method", "Prob", "MTE"]
