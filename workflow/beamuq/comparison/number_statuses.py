"""Every printed number beside ours: difference, z, smallest detectable difference, and a status by first match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from beamuq.comparison import detectable_difference
from beamuq.comparison.errata import ErrataLedger, errata_of
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.paper_settings import Measurement, incomparable, other_template
from beamuq.comparison.printed_numbers import MEAN, MeasuredPlace, PrintedNumber, RowKey, measured_place
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.exhibits.read_evaluation import Key, Measured, mean_over_datasets

DEMO = "demo study"
STATUSES = ("not run", "errata", "not comparable", "agrees", "differs")
FORMULATIONS = {"": "entropy of counts", "printed": "as printed", "likelihood-summed": "as in the official code"}
NOT_COMPARABLE = "not comparable"
COLUMNS = [
    *RowKey._fields,
    *("printed", "printed_std", "value", "low", "high", "std", "n", "paper_n", "difference", "z", "detectable"),
    *("status", "reason", "errata"),
]


@dataclass(frozen=True)
class OurMeasurement:
    """Our measurement of a printed number, or why there is none; ``reason`` also where it is not comparable."""

    measured: Measured | None
    reason: str
    paper_n: int


def compare(
    results: MeasuredResults, values: Sequence[PrintedNumber], ledger: ErrataLedger, rules: ComparisonRules
) -> pd.DataFrame:
    """One row a printed number, in print's order; the columns are ``COLUMNS``."""
    wrong, spread = errata_of(ledger, values, "value"), errata_of(ledger, values, "std")
    notes = [[*wrong.get(row.key, []), *spread.get(row.key, [])] for row in values]
    frame = _held_against_print(results, values, set(spread), rules, wrong=wrong)
    return frame.assign(errata=["; ".join(ids) for ids in notes])[COLUMNS]


def formulations(
    results: MeasuredResults, values: Sequence[PrintedNumber], ledger: ErrataLedger, rules: ComparisonRules
) -> pd.DataFrame:
    """Every printed number of sampled Semantic Entropy against the forms it may be of (D12, Semantic Entropy)."""
    rows = [row for row in values if row.key.method == "SemanticEntropy" and row.key.variant != "beamsearch"]
    spread = set(errata_of(ledger, values, "std"))
    parts = [
        _held_against_print(results, rows, spread, rules, formulation=name).assign(formulation=title)
        for name, title in FORMULATIONS.items()
    ]
    columns = [column for column in COLUMNS if column != "errata"]
    return pd.concat(parts, ignore_index=True)[[*columns[:7], "formulation", *columns[7:]]]


def expected_to_differ(frame: pd.DataFrame, rules: ComparisonRules) -> tuple[int, float]:
    """How many cells were held against print, and how many of them chance alone would on average call different.

    An upper bound: two runs that share questions differ less than z assumes.
    """
    decided = int(frame["status"].isin(["agrees", "differs"]).sum())
    return decided, decided * detectable_difference.differing_by_chance(rules.agreement.z)


def _held_against_print(
    results: MeasuredResults,
    rows: Sequence[PrintedNumber],
    spread: set[RowKey],
    rules: ComparisonRules,
    *,
    formulation: str = "",
    wrong: Mapping[RowKey, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Numbers side by side with their status; ``spread``: rows whose ± is doubted, ``wrong``: errata of a value."""
    ours = [_ours(results, rules, row.key, formulation) for row in rows]
    frame = _numbers(ours, rows, spread, rules)
    demo = results.study.demo
    statuses = [
        (NOT_COMPARABLE, DEMO) if demo else _status(our, wrong.get(row.key, ()), z, rules)
        for our, row, z in zip(ours, rows, frame["z"], strict=True)
    ]
    return frame.assign(
        status=[status for status, _ in statuses],
        reason=[reason for _, reason in statuses],
    )


def _ours(results: MeasuredResults, rules: ComparisonRules, key: RowKey, formulation: str = "") -> OurMeasurement:
    """Our measurement; its ``reason`` is set where it is absent, or present and not comparable."""
    table = rules.tables[key.table]
    datasets = list(rules.paper.datasets) if key.dataset == MEAN else [key.dataset]
    sizes = [rules.questions(dataset, key.table) for dataset in datasets]
    found = measured_place(results.study, key, rules)
    if isinstance(found, str):
        return OurMeasurement(None, found, sum(sizes))
    parts = _measured(results, found, formulation)
    if isinstance(parts, str):
        return OurMeasurement(None, parts, sum(sizes))
    measured, counts = parts
    file = found.files[0]
    of = Measurement(
        key.model,
        tuple(datasets),
        file.recipe,
        part="accuracy" if table.part == "accuracy" else "scores",
        scorer=file.scorer,
        role=table.scorer or "nli",
        metric=key.metric,
        method=key.method,
        setting=key.setting,
    )
    reason = rules.arbitrary.get(key.setting) or incomparable(results.study, rules, of)
    reason = reason or other_template(results.study, rules, of, results.templates(key.model, datasets))
    return OurMeasurement(measured, reason or _too_few(counts, datasets, sizes, rules), sum(sizes))


def _measured(results: MeasuredResults, found: MeasuredPlace, formulation: str) -> tuple[Measured, list[int]] | str:
    """The measurement and the questions of each dataset behind it, or what was not run."""
    if found.files[0].kind == "quality":
        accuracy = results.accuracy(found.files[0])
        return (accuracy, [accuracy.n]) if accuracy else f"{found.files[0].path} was not run"
    key = found.key._replace(setting=formulation) if formulation else found.key
    cells = []
    for artifact in found.files:
        cell = results.cell(artifact)
        if cell is None:
            return f"{artifact.path} was not run"
        if key not in cell:
            return f"{artifact.path} has no row for {_named(key)}"
        cells.append(cell)
    counts = [cell[key].n for cell in cells]
    if len(cells) == 1:
        return cells[0][key], counts
    if empty := [cell.path for cell in cells if cell.left_out(key.answer_source)]:
        return f"more than a fifth of the answers are empty in {', '.join(empty)}"
    titles = [artifact.dataset for artifact in found.files]
    return mean_over_datasets(cells, titles, key, results.study.evaluation.confidence), counts


def _named(key: Key) -> str:
    return " ".join(filter(None, (key.metric, key.method, key.variant, key.setting, f"({key.answer_source} answers)")))


def _too_few(counts: Sequence[int], datasets: Sequence[str], sizes: Sequence[int], rules: ComparisonRules) -> str:
    for count, dataset, size in zip(counts, datasets, sizes, strict=True):
        if reason := too_few(count, dataset, size, rules):
            return reason
    return ""


def too_few(count: int, dataset: str, size: int, rules: ComparisonRules) -> str:
    """Why ``count`` questions cannot stand for the paper's ``size`` of them, else nothing."""
    enough = count >= rules.agreement.least_share_of_questions * size
    return "" if enough else f"{count} questions of {dataset}, the paper has {size}"


def _numbers(
    ours: Sequence[OurMeasurement], values: Sequence[PrintedNumber], spread: set[RowKey], rules: ComparisonRules
) -> pd.DataFrame:
    """Values side by side; a printed ± that is absent or in the errata is replaced by ours."""
    measured = [our.measured for our in ours]
    frame = pd.DataFrame([row.key for row in values], columns=RowKey._fields).assign(
        printed=[row.value for row in values],
        printed_std=pd.array([row.std for row in values], dtype="float64"),
        **{
            name: pd.array([getattr(m, name) if m else None for m in measured], dtype="float64")
            for name in ("value", "low", "high", "std")
        },
        n=pd.array([m.n if m else None for m in measured], dtype="Int64"),
        paper_n=[our.paper_n for our in ours],
    )
    std = frame["std"].to_numpy(dtype=np.float64)
    trusted = np.array([row.std is not None and row.key not in spread for row in values])
    other = np.where(trusted, frame["printed_std"].to_numpy(dtype=np.float64), std)
    difference = (frame["value"] - frame["printed"]).to_numpy(dtype=np.float64)
    agreement = rules.agreement
    return frame.assign(
        difference=difference,
        z=detectable_difference.z_score(difference, std, other),
        detectable=detectable_difference.smallest_detectable(std, other, agreement.z, agreement.power),
    )


def _status(ours: OurMeasurement, errata: Sequence[str], z: float, rules: ComparisonRules) -> tuple[str, str]:
    """The first that matches, and why."""
    if ours.measured is None:
        return "not run", ours.reason
    if errata:
        return "errata", ", ".join(errata)
    if ours.reason:
        return NOT_COMPARABLE, ours.reason
    if ours.measured.value is None:
        return NOT_COMPARABLE, ours.measured.note or "undefined"
    if np.isnan(z):
        return NOT_COMPARABLE, ours.measured.note or "no standard deviation of ours"
    return ("agrees", "") if abs(z) < rules.agreement.z else ("differs", "")
