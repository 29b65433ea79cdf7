"""The 1,958 printed values as data, and where a study measures each of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import NamedTuple

from beamuq.comparison.tolerances_and_families import FOLDER, ComparisonRules, PrintedTable
from beamuq.exhibits.read_evaluation import Key, stored_setting
from beamuq.parquet_tables import Artifact
from beamuq.study_config import GridEntry, Study

MEAN = "mean"


class RowKey(NamedTuple):
    """What a printed number is of; distinct among them."""

    table: str
    model: str
    dataset: str
    metric: str
    method: str
    variant: str
    setting: str

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number; ``std`` is its ±, None where there is none."""

    key: RowKey
    value: float
    std: float | None


def read_printed_numbers() -> list[PrintedNumber]:
    """``paper_values.csv``, in its order."""
    with (FOLDER / "paper_values.csv").open(encoding="utf-8", newline="") as file:
        return [
            PrintedNumber(
                RowKey(*(row[column] for column in RowKey._fields)),
                float(row["value"]),
                float(row["std"]) if row["std"] else None,
            )
            for row in csv.DictReader(file)
        ]


@dataclass(frozen=True)
class MeasuredPlace:
    """Where a study measures a printed number: one file a dataset, and what to read there."""

    files: tuple[Artifact, ...]
    key: Key


def measured_place(study: Study, key: RowKey, rules: ComparisonRules) -> MeasuredPlace | str:
    """The measurement of ours that answers a printed number, or, in a few words, what the study lacks for it."""
    table = rules.tables[key.table]
    if key.model not in study.models:
        return f"the study has no model {key.model!r}"
    names = []
    for dataset in list(rules.paper.datasets) if key.dataset == MEAN else [key.dataset]:
        entry = next((e for e in study.grid if _answers(study, e, table, key.model, dataset)), None)
        scorer = next((s for s in entry.scorers if _plays(study, s, table)), "") if entry else ""
        if entry is None or (table.scorer and not scorer):
            return f"the grid has no {key.model}/{dataset} for {key.table}"
        if table.part == "accuracy":
            names.append(Artifact("quality", dataset, key.model, entry.recipe, metric=study.main_quality.metric))
        else:
            names.append(Artifact("evaluation", dataset, key.model, entry.recipe, scorer))
    setting = stored_setting(study, key.setting)
    return MeasuredPlace(tuple(names), Key(key.metric, key.method, key.variant, setting, table.answer_source))


def _plays(study: Study, scorer: str, table: PrintedTable) -> bool:
    """Whether a scorer has the part that the table's scorer has in the paper."""
    return scorer == study.main.scorer if table.scorer == "nli" else study.scorers[scorer].kind == table.scorer


def _answers(study: Study, entry: GridEntry, table: PrintedTable, model: str, dataset: str) -> bool:
    if model not in entry.models or dataset not in entry.datasets:
        return False
    if table.scorer and not any(_plays(study, scorer, table) for scorer in entry.scorers):
        return False
    scoring = study.scoring[entry.recipe]
    return {
        "main": entry.recipe == study.main.recipe,
        "accuracy": entry.recipe == study.main.recipe,
        "strategies": scoring.every_strategy,
        "epsilon": bool(scoring.epsilon),
        "spectrum": bool(scoring.alpha or scoring.fixed_k),
    }[table.part]
