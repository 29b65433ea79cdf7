"""The 1,958 printed values as data, and where a study measures each of them."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from beamuq.comparison.tolerances_and_families import FOLDER, PAPER_STUDY, ComparisonRules, PrintedTable
from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_types import VALUE_COLUMNS
from beamuq.exhibits.read_evaluation import Key, stored_setting
from beamuq.methods.registry import METHODS
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import parse
from beamuq.study_config import GridEntry, Study

MEAN = "mean"
METRICS = ("PRR", "ROC-AUC", "PR-AUC", "accuracy")


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


def read_printed_numbers(rules: ComparisonRules, folder: Path = FOLDER) -> list[PrintedNumber]:
    """``paper_values.csv``, in its order.

    Raises BeamUQError if a column, a table's number of rows, a name, a number or the uniqueness of keys is not as the
    rules say.
    """
    path = folder / "paper_values.csv"
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != VALUE_COLUMNS:
            raise BeamUQError(f"{path}: columns are {reader.fieldnames}, expected {list(VALUE_COLUMNS)}; restore it")
        rows = [_printed(path, number, row, rules) for number, row in enumerate(reader, start=2)]
    counts = Counter(row.key.table for row in rows)
    for table, expected in rules.tables.items():
        if counts[table] != expected.rows:
            raise BeamUQError(f"{path}: {table} has {counts[table]} rows, expected {expected.rows}; restore the file")
    if len({row.key for row in rows}) != len(rows):
        twice = next(key for key, count in Counter(row.key for row in rows).items() if count > 1)
        raise BeamUQError(f"{path}: {twice} stands twice; restore the file")
    return rows


def _printed(path: Path, line: int, row: dict[str, str], rules: ComparisonRules) -> PrintedNumber:
    key = RowKey(*(row[column] for column in RowKey._fields))
    try:
        value, std = float(row["value"]), float(row["std"]) if row["std"] else None
        known = (
            key.table in rules.tables
            and key.model in rules.paper.models
            and key.dataset in {*rules.paper.datasets, MEAN}
            and key.metric in METRICS
            and (key.method in METHODS if key.metric != "accuracy" else not key.method)
            and key.variant in ("", "multinomial", "beamsearch")
        )
        if key.setting not in ("", "beam"):
            parse(key.setting)
    except (ValueError, BeamUQError) as error:
        raise BeamUQError(f"{path}: line {line}: {error}; restore the file") from error
    lowest = -1.0 if key.metric == "PRR" else 0.0
    if not (known and lowest <= value <= 1 and (std is None or (math.isfinite(std) and std > 0))):
        raise BeamUQError(
            f"{path}: line {line}: {key} {value} ± {std} is not a number of the paper; restore the file, and the "
            f"models and datasets of {PAPER_STUDY.name}"
        )
    return PrintedNumber(key, value, std)


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
