"""What the study was made of, as one page: models, scorers, datasets, versions, dropped, empty and cut answers."""

import json
from pathlib import Path
from typing import Any

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.html_pages import PageSection, sections_page
from beamuq_study.overview import empty_and_cut_answers, overview_tables
from beamuq_study.plan.cells_of_a_study import Grid
from beamuq_study.provenance import check_one_run, check_settings, settings_of
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study

READING = (
    "Nothing is dropped in silence. A row without id, question or answer, an id used twice or a missing passage stops "
    "the run with file and row; so does a prompt that leaves no room for its answer in a model's context.",
)
ANSWERS = (
    "asked: questions put to the model. dropped: those of them without this answer. empty: nothing is left after "
    "cleaning. cut: the largest number of new tokens came before a stop token. Empty and cut answers stay and are "
    "scored.",
)
OPTIONS = (
    "Under gold_label an answer is right if the one option that it names, by letter or text, is the gold one. none: it "
    "names no option. several: it names more than one. Both are wrong.",
)
STRATEGIES = ("Every candidate, not only the produced answer; n is the column texts.",)
VERSIONS = ("More than one version of a package means that some tables were made before an upgrade.",)


def run(*, study: Path, manifests: tuple[Path, ...] | None, html: Path, csv: Path, listed: Path) -> None:
    """Read footers, manifests and candidates, write the page and its tables.

    ``manifests``: fetched.json of models and scorers; ``csv``: counts of dropped, empty and cut answers; ``listed``:
    the questions with such an answer.
    """
    of, results = load_study(study), study.parent
    grid = Grid(of)
    questions = [parquet_tables.read(results / artifact.path, "questions") for artifact in grid.questions]
    candidates = [parquet_tables.read(results / artifact.path, "candidates") for artifact in grid.generations]
    others = (artifact for artifact in grid.measured if artifact.kind != "candidates")
    others_made = (parquet_tables.read_footer(results / artifact.path) for artifact in (*grid.prompts, *others))
    footers = [*questions, *candidates, *others_made]
    check_one_run(footers)
    for table in footers:
        check_settings(table, settings_of(of, table))
    fetched = {manifest["source"]: manifest for manifest in map(_read_json, manifests or ())}
    question_ids = {loaded.cell["dataset"]: loaded.table["id"].to_pylist() for loaded in questions}
    counts, questions_listed = (
        empty_and_cut_answers.counts(of, question_ids, candidates),
        empty_and_cut_answers.listed(of, question_ids, candidates),
    )
    named = overview_tables.options_named(of, footers)
    further = f"Questions by id; all of them are in {listed.name}, the counts in {csv.name}."
    sections = [
        PageSection("Settings", overview_tables.settings(of, candidates)),
        PageSection("Models", overview_tables.models(of, candidates, fetched)),
        PageSection("Similarity and quality", overview_tables.scorers(of, footers, fetched)),
        PageSection("Datasets", overview_tables.datasets(of, questions)),
        PageSection("Questions read and left out", overview_tables.reading(of, questions), READING),
        PageSection(
            "Dropped, empty and cut answers",
            empty_and_cut_answers.shown(of, counts, questions_listed),
            (*ANSWERS, further),
        ),
        *([] if named.empty else [PageSection("Options that answers name", named, OPTIONS)]),
        PageSection("Candidates by strategy", empty_and_cut_answers.by_strategy(of, counts), STRATEGIES, folded=True),
        PageSection("Prompt templates", overview_tables.prompts(of, footers), folded=True),
        PageSection("Versions", overview_tables.versions(footers), VERSIONS),
    ]
    opening = [captions.DEMO_WARNING] if of.demo else []
    hashes = "Revisions and hashes are shortened to 12 characters; the footer of each table holds them whole."
    io.write_text(html, sections_page(captions.titled(of, of.title), [*opening, hashes], sections))
    for path, frame in ((csv, counts), (listed, questions_listed)):
        io.write_text(path, csv_text(frame))


def _read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    run_script(run)
