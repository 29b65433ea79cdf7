"""What the study was made of, as one page: models, scorers, datasets, versions, dropped, empty and cut answers."""

import json
from pathlib import Path

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.html_pages import PageSection, sections_page
from beamuq_study.overview import overview_tables
from beamuq_study.plan.cells_of_a_study import Grid
from beamuq_study.provenance import check_one_run, check_settings, settings_of
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study

HASHES = "Revisions and hashes are shortened to 12 characters; the footer of each table holds them whole."
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
VERSIONS = ("More than one version of a package means that some tables were made before an upgrade.",)


def run(*, study: Path, manifests: tuple[Path, ...] | None, html: Path, csv: Path, listed: Path) -> None:
    """Read footers, manifests and candidates, write the page and its tables.

    ``manifests``: fetched.json of models and scorers; ``csv``: counts of dropped, empty and cut answers; ``listed``:
    the questions with such an answer.
    """
    content, results = load_study(study), study.parent
    grid = Grid(content)
    questions = [parquet_tables.read(results / artifact.path, "questions") for artifact in grid.questions]
    candidates = [parquet_tables.read(results / artifact.path, "candidates") for artifact in grid.generations]
    others = [artifact for artifact in (*grid.prompts, *grid.measured) if artifact.kind != "candidates"]
    footers = [*questions, *candidates, *(parquet_tables.read_footer(results / artifact.path) for artifact in others)]
    check_one_run(footers)
    for table in footers:
        check_settings(table, settings_of(content, table))
    fetched = {made["source"]: made for made in (json.loads(path.read_bytes()) for path in manifests or ())}
    question_ids = {loaded.cell["dataset"]: loaded.table["id"].to_pylist() for loaded in questions}
    counts = overview_tables.counts(content, question_ids, candidates)
    lists = overview_tables.listed(content, question_ids, candidates)
    named = overview_tables.options_named(content, footers)
    answers = overview_tables.answers_shown(content, counts, lists)
    further = f"Questions by id; all of them are in {listed.name}, the counts of every strategy in {csv.name}."
    sections = [
        PageSection("Models", overview_tables.models(content, candidates, fetched)),
        PageSection("Similarity and quality", overview_tables.scorers(content, footers, fetched)),
        PageSection("Datasets", overview_tables.datasets(content, questions), READING),
        PageSection("Dropped, empty and cut answers", answers, (*ANSWERS, further)),
        *([] if named.empty else [PageSection("Options that answers name", named, OPTIONS)]),
        PageSection("Prompt templates", overview_tables.prompts(content, footers), folded=True),
        PageSection("Versions", overview_tables.versions(footers), VERSIONS),
    ]
    opening = [captions.DEMO_WARNING, HASHES] if content.demo else [HASHES]
    io.write_text(html, sections_page(captions.titled(content, content.title), opening, sections))
    io.write_text(csv, csv_text(counts))
    io.write_text(listed, csv_text(lists))


if __name__ == "__main__":
    run_script(run)
