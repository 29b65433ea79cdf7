"""What a study found, and what it was made of, as one page."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.comparison import comparison_inputs
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.grid import Grid
from beamuq_study.html_pages import Drawing, PageTable, render, title_of
from beamuq_study.overview import overview_tables
from beamuq_study.parquet_tables import Footer, Loaded, OnDisk
from beamuq_study.provenance import check_one_run, check_study, check_weights
from beamuq_study.rule_programs import run_program
from beamuq_study.served_models import check_same_servers
from beamuq_study.study_config import Study, load_study

MAIN_TABLE = "qa_mean_prr"
MAIN_FIGURES = ("paired", "abl_nsamples", "redundancy")
MOST_FIGURES = 3
Files = tuple[Path, ...]


def run(*, study: Path, manifests: Files, exhibits: Files, claims: Path, **outputs: Path) -> None:
    """Read footers, manifests and candidates, write the page and its tables.

    ``manifests``: fetched.json of models and scorers; ``exhibits``: a file of each table and
    figure, in the page's order; ``claims``: of the comparison; ``outputs``: the page, "csv" with
    counts of dropped, empty and cut answers, and the questions "listed" that have one.
    """
    content = load_study(study)
    read = _read(content, study.parent)
    check_one_run(read.footers)
    check_study(content, read.footers)
    check_same_servers(read.candidates)
    fetched = {}
    for path in manifests:
        manifest = json.loads(path.read_bytes())
        fetched[manifest["source"]] = manifest
    check_weights(read.footers, {source: _hashes(fetched[source]) for source in fetched})
    ids = {table.cell["dataset"]: table.table["id"].to_pylist() for table in read.questions}
    counts = overview_tables.counts(content, ids, read.candidates)
    made_of = {
        "Models": overview_tables.models(content, read.candidates, fetched),
        "Similarity and quality": overview_tables.scorers(content, read.footers, fetched),
        "Datasets": overview_tables.datasets(content, read.questions),
        "Dropped, empty and cut answers": overview_tables.answers_shown(content, counts),
        "Options that answers name": overview_tables.options_named(content, read.footers),
        "Versions": overview_tables.versions(read.footers),
    }
    listed = overview_tables.listed(content, ids, read.candidates)
    io.write_text(outputs["html"], page(content, exhibits, claims, study.parent, made_of))
    io.write_text(outputs["csv"], csv_text(counts))
    io.write_text(outputs["listed"], csv_text(listed))


@dataclass(frozen=True)
class _Read:
    """What is read of a study: questions, candidates, and the footer of every table."""

    questions: list[Loaded]
    candidates: list[OnDisk]
    footers: list[Footer]


def _read(study: Study, results: Path) -> _Read:
    grid = Grid(study)
    questions = [parquet_tables.read(results / file.path, "questions") for file in grid.questions]
    candidates = [
        parquet_tables.on_disk(results / file.path, "candidates", overview_tables.OF_TEXTS)
        for file in grid.generations
    ]
    footers: list[Footer] = [*questions, *candidates]
    for file in (*grid.prompts, *grid.measured):
        if file.kind != "candidates":
            footers.append(parquet_tables.read_footer(results / file.path))
    return _Read(questions, candidates, footers)


def page(
    study: Study, exhibits: Files, claims: Path, folder: Path, made_of: Mapping[str, pd.DataFrame]
) -> str:
    """The page: what was found, links from ``folder`` to ``exhibits``, what it was made of.

    It shows the main table, or where the study has none its first, and three figures: the main
    ones, then its first. A claim is listed that is asked of this study and about all datasets or
    one that the study has.
    """
    tables = [path.with_suffix(".html") for path in exhibits if path.parent.name == "tables"]
    figures = [path.with_suffix(".svg") for path in exhibits if path.parent.name != "tables"]
    first_tables = sorted(tables, key=lambda path: path.stem != MAIN_TABLE)
    first_figures = sorted(figures, key=lambda path: path.stem not in MAIN_FIGURES)
    judged = pd.read_csv(claims, keep_default_na=False)
    return render(
        "overview.html.jinja",
        title=captions.titled(study, study.title),
        study=study.title,
        warning=captions.DEMO_WARNING if study.demo else "",
        table=_shown(first_tables[0]) if first_tables else None,
        drawings=[Drawing.read(path) for path in first_figures[:MOST_FIGURES]],
        claims=_outcomes_by_claim(study, judged),
        asked=judged.loc[judged["outcome"] != "not asked", "id"].nunique(),
        declared=judged["id"].nunique(),
        exhibits={"Tables": _links(tables, folder), "Figures": _links(figures, folder)},
        made_of={heading: PageTable(frame) for heading, frame in made_of.items() if len(frame)},
    )


def _outcomes_by_claim(study: Study, judged: pd.DataFrame) -> list[tuple[Any, Any, dict[Any, int]]]:
    """Each listed claim's text, where the paper makes it, and how often each outcome stands."""
    elsewhere = judged["id"].isin(_claims_about_other_datasets(study))
    listed = judged[(judged["outcome"] != "not asked") & ~elsewhere]
    return [
        (claim, where, outcomes.value_counts(sort=False).to_dict())
        for (claim, where), outcomes in listed.groupby(["claim", "where"], sort=False)["outcome"]
    ]


def _claims_about_other_datasets(study: Study) -> list[str]:
    """The claims about datasets of the paper of which the study has none."""
    claims = comparison_inputs.read_claims()
    return [
        claim.id
        for claim in claims
        if claim.datasets and not study.datasets.keys() & set(claim.datasets)
    ]


def _hashes(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {name: file["sha256"] for name, file in manifest["files"].items()}


def _shown(table: Path) -> dict[str, Any]:
    """A table's page of this package in its parts: the caption and the table are markup already."""
    text = table.read_text(encoding="utf-8")
    parts = re.search(r"<p>(.*?)</p>\n(.*?)\n(?:<footer>.*</footer>\n)?</body>", text, re.DOTALL)
    assert parts is not None
    caption = parts[1].removeprefix(f"{escape(title_of(table))}. ")
    return {"title": title_of(table), "caption": Markup(caption), "body": Markup(parts[2])}


def _links(pages: Sequence[Path], folder: Path) -> list[tuple[str, str]]:
    return [(title_of(path), os.path.relpath(path, folder)) for path in pages]


if __name__ == "__main__":
    run_program(run, output="html")
