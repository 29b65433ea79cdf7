"""What the study was made of, as one page: models, scorers, datasets, versions, dropped, empty and cut answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beamuq import artifacts
from beamuq.exhibits import wording
from beamuq.exhibits.exhibit_inputs import read_study
from beamuq.html_pages import PageSection, sections_page
from beamuq.overview import empty_and_cut_answers, overview_tables
from beamuq.overview.table_footers import footers
from beamuq.steps.entry import run

READING = (
    "Nothing is dropped in silence. A row without id, question or answer, an id used twice or a missing passage stops "
    "the run with file and row; so does a prompt that leaves no room for its answer in a model's context.",
)
ANSWERS = (
    "asked: questions put to the model. dropped: those of them without this answer. empty: nothing is left after "
    "cleaning. cut: the largest number of new tokens came before a stop token. Empty and cut answers stay and are "
    "scored.",
)
STRATEGIES = ("Every candidate, not only the produced answer; n is the column texts.",)
VERSIONS = ("More than one version of a package means that some tables were made before an upgrade.",)


def main(argv: Sequence[str] | None = None) -> None:
    """Read footers, manifests and candidates, write the page and its tables."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.overview", description=__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json")
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--candidates", type=Path, nargs="+", required=True)
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="the others, of which footers are read")
    parser.add_argument("--manifests", type=Path, nargs="*", default=[], help="fetched.json of models and scorers")
    parser.add_argument("--html", type=Path, required=True)
    parser.add_argument("--csv", type=Path, required=True, help="counts of dropped, empty and cut answers")
    parser.add_argument("--listed", type=Path, required=True, help="the questions with such an answer")
    options = parser.parse_args(argv)

    study = read_study(options.study)
    questions = [artifacts.read(path, "questions") for path in options.questions]
    candidates = [artifacts.read(path, "candidates") for path in options.candidates]
    made = footers([*options.questions, *options.candidates, *options.tables])
    manifests = {said["source"]: said for said in map(_json, options.manifests)}
    asked = {loaded.cell["dataset"]: loaded.table["id"].to_pylist() for loaded in questions}
    counts = empty_and_cut_answers.counts(study, asked, candidates)
    listed = empty_and_cut_answers.listed(study, asked, candidates)
    further = f"Questions by id; all of them are in {options.listed.name}, the counts in {options.csv.name}."
    sections = [
        PageSection("Settings", overview_tables.settings(study, candidates)),
        PageSection("Models", overview_tables.models(study, candidates, manifests)),
        PageSection("Similarity and quality", overview_tables.scorers(study, made, manifests)),
        PageSection("Datasets", overview_tables.datasets(study, questions)),
        PageSection("Questions read and left out", overview_tables.reading(study, questions), READING),
        PageSection(
            "Dropped, empty and cut answers", empty_and_cut_answers.shown(study, counts, listed), (*ANSWERS, further)
        ),
        PageSection(
            "Candidates by strategy", empty_and_cut_answers.by_strategy(study, counts), STRATEGIES, folded=True
        ),
        PageSection("Prompt templates", overview_tables.prompts(study, made), folded=True),
        PageSection("Versions", overview_tables.versions(made), VERSIONS),
    ]
    opening = [wording.DEMO_WARNING] if study.demo else []
    hashes = "Revisions and hashes are shortened to 12 characters; the footer of each table holds them whole."
    with artifacts.atomic(options.html) as temporary:
        page = sections_page(wording.titled(study, study.title), [*opening, hashes], sections)
        temporary.write_text(page, encoding="utf-8")
    for path, frame in ((options.csv, counts), (options.listed, listed)):
        with artifacts.atomic(path) as temporary:
            frame.to_csv(temporary, index=False, lineterminator="\n")


def _json(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return said


if __name__ == "__main__":
    run(main)
