"""``tab:test_datasets``: how many questions, few-shot examples and new tokens each dataset has in this study."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Exhibit, Grid, Row, Rule, Table
from beamuq.study import Study

LABEL = "test_datasets"
PRECEDING = "all preceding"


def needs(study: Study) -> list[Artifact]:
    """The questions of every dataset that the grid asks, and its few-shot examples where it has some."""
    found = []
    for dataset in _asked(study):
        found.append(Artifact("questions", dataset=dataset))
        if study.datasets[dataset].few_shot:
            found.append(Artifact("shots", dataset=dataset))
    return found


def build(study: Study, inputs: Inputs) -> Table:
    """Counts of the tables that were used, not of what was asked for."""
    datasets = _asked(study)
    questions = {d: len(inputs.frame(Artifact("questions", dataset=d))) for d in datasets}
    shots = {d: _shots(study, inputs, d) for d in datasets}
    tokens = {d: study.datasets[d].max_new_tokens for d in datasets}
    lines: dict[tuple[str, str], Mapping[str, int | str]] = {
        ("questions", "# Questions"): questions,
        ("few_shot", "# few-shot examples"): shots,
        ("max_new_tokens", "Max new tokens"): tokens,
    }
    rows: list[tuple[object, ...]] = []
    body: list[Row | Rule] = []
    for (metric, title), values in lines.items():
        body += [Rule()] if body else []
        body.append(Row((title,), tuple(Cell(str(values[d])) for d in datasets)))
        rows += [
            (f"tab:{LABEL}", "", d, metric, "", "", "", values[d], None, None, None, questions[d]) for d in datasets
        ]
    stories = [
        f"the {questions[d]} questions of {study.datasets[d].title} are turns of "
        f"{inputs.frame(Artifact('questions', dataset=d))['group'].nunique()} dialogues"
        for d in datasets
        if study.datasets[d].adapter == "coqa"
    ]
    title = "Test datasets: settings and sizes"
    caption = wording.caption(
        study,
        [
            f"{title}, as used in this study.",
            f"Of these, {wording.listing(stories)}; each is asked with all preceding turns." if stories else "",
        ],
    )
    header = (
        tuple(study.datasets[d].category for d in datasets),
        tuple(study.datasets[d].title for d in datasets),
    )
    frame = pd.DataFrame(rows, columns=list(CSV_COLUMNS))
    return Table(LABEL, wording.titled(study, title), caption, frame, Grid(("",), header, tuple(body)))


def _asked(study: Study) -> list[str]:
    return [d for d in study.datasets if any(d in entry.datasets for entry in study.grid)]


def _shots(study: Study, inputs: Inputs, dataset: str) -> int | str:
    if study.datasets[dataset].adapter == "coqa":
        return PRECEDING
    if not study.datasets[dataset].few_shot:
        return 0
    need = Artifact("shots", dataset=dataset)
    found = len(inputs.frame(need))
    if found != study.datasets[dataset].few_shot:
        raise BeamUQError(f"{need.path}: holds {found} examples, the study asks {study.datasets[dataset].few_shot}")
    return found


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
