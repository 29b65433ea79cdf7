"""What the study was made of, as one page: models, scorers, datasets, versions, empty and cut answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq import tables
from beamuq.exhibits import escape
from beamuq.exhibits.core import study_given
from beamuq.overview import facts
from beamuq.steps.entry import run
from beamuq.study import Study


def main(argv: Sequence[str] | None = None) -> None:
    """Read footers, manifests and candidates, write the page and its tables."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.overview", description=__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json")
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--candidates", type=Path, nargs="+", required=True)
    parser.add_argument("--manifests", type=Path, nargs="*", default=[], help="fetched.json of models and scorers")
    parser.add_argument("--html", type=Path, required=True)
    parser.add_argument("--csv", type=Path, required=True, help="the table of empty and cut answers")
    options = parser.parse_args(argv)

    study = study_given(options.study)
    questions = [tables.read(path, "questions") for path in options.questions]
    candidates = [tables.read(path, "candidates") for path in options.candidates]
    manifests = {said["source"]: said for said in map(_json, options.manifests)}
    answers = facts.answers(study, candidates)
    sections = {
        "Models": facts.models(study, candidates, manifests),
        "Similarity and quality": facts.scorers(study, manifests),
        "Datasets": facts.datasets(study, questions),
        "Versions": facts.versions(candidates),
        "Empty answers and answers cut at the longest length": answers,
    }
    with tables.atomic(options.html) as temporary:
        temporary.write_text(page(study, sections), encoding="utf-8")
    with tables.atomic(options.csv) as temporary:
        answers.to_csv(temporary, index=False, lineterminator="\n")


def page(study: Study, sections: dict[str, pd.DataFrame]) -> str:
    """One self-contained HTML page; every text is escaped."""
    title = ("[demo] " if study.demo else "") + study.title
    warning = "<p>A demo: its numbers show that the machinery works and are no results of the paper.</p>"
    body = "".join(f"<h2>{escape.page(name)}</h2>{_table(frame)}" for name, frame in sections.items())
    style = (
        "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 10px;text-align:left}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape.page(title)}</title>'
        f"<style>{style}tr:nth-child(even){{background:#f4f4f4}}</style></head><body><h1>{escape.page(title)}</h1>"
        f"{warning if study.demo else ''}<p>Seed {study.seed}.</p>{body}</body></html>\n"
    )


def _table(frame: pd.DataFrame) -> str:
    head = "".join(f"<th>{escape.page(str(name))}</th>" for name in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape.page(str(cell))}</td>" for cell in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _json(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return said


if __name__ == "__main__":
    run(main)
