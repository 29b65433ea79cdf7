"""Every printed number beside ours: difference, z, smallest detectable difference, and a status by first match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from beamuq.comparison.declared_files import KEYS, ErrataLedger, PrintedTable
from beamuq.comparison.paper_settings import Kind
from beamuq.comparison.results import STORED, Results, stored_keys, table_cell
from beamuq.evaluation import intervals
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import EVALUATION

Floats = npt.NDArray[np.float64]
STATUSES = ("not run", "errata", "not comparable", "agrees", "differs")
FORMULATIONS = {"": "entropy of counts", "printed": "as printed", "likelihood-summed": "as in the official code"}
"""Of sampled Semantic Entropy, by the setting under which it is stored (D12)."""
OURS = ["value", "low", "high", "std", "n"]
COLUMNS = [*KEYS, "printed", "printed_std", *OURS, "paper_n", "difference", "z", "detectable", "status", "reason"]
COLUMNS += ["errata", "formulation"]
OF_ACCURACY = ("quality", "questions")


def compare(results: Results, ledger: ErrataLedger) -> pd.DataFrame:
    """Every printed number, in print's order; then those of sampled Semantic Entropy by its further ``FORMULATIONS``.

    A row a number, ``COLUMNS``; a ± that is absent or in the errata is replaced by ours.
    """
    sampled = (results.printed["method"] == "SemanticEntropy") & (results.printed["variant"] != "beamsearch")
    others = [results.printed[sampled].assign(formulation=name) for name in list(FORMULATIONS)[1:]]
    frame = pd.concat([results.printed.assign(formulation=""), *others], ignore_index=True)
    places = frame.groupby(["table", "model", "dataset"], sort=False)
    frame = frame.join(pd.concat([_ours(results, rows) for _, rows in places]))
    wrong, doubted = (ledger.touching(frame, touches) for touches in ("value", "std"))
    frame["errata"] = (wrong + ", " + doubted).str.strip(", ")
    rules, std = results.rules.agreement, frame["std"].to_numpy(np.float64)
    other = np.where((doubted != "") | frame["printed_std"].isna(), std, frame["printed_std"])
    frame["difference"] = frame["value"] - frame["printed"]
    frame["z"] = z_score(frame["difference"], std, other)
    frame["detectable"] = smallest_detectable(std, other, rules.z, rules.power)
    undefined = np.where(frame["value"].isna(), "undefined", "no standard deviation of ours")
    cases: list[tuple[Any, str, Any]] = [  # the first that matches
        (np.full(len(frame), results.study.demo), "not comparable", "demo study"),
        (frame["absent"] != "", "not run", frame["absent"]),
        (wrong != "", "errata", wrong),
        (frame["why"] != "", "not comparable", frame["why"]),
        (frame["z"].isna(), "not comparable", frame["note"].where(frame["note"] != "", undefined)),
        (frame["z"].abs() < rules.z, "agrees", ""),
    ]
    matches, statuses, reasons = zip(*cases, strict=True)
    frame["status"], frame["reason"] = np.select(matches, statuses, "differs"), np.select(matches, reasons, "")
    return frame[COLUMNS].astype({"n": "Int64"})


def _ours(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Of the printed numbers of one model and dataset in one table ``OURS``, ``note`` and ``paper_n``.

    ``absent``: why there is none; ``why``: why none can be compared.
    """
    name, model, dataset = rows[["table", "model", "dataset"]].iloc[0]
    rules, table = results.rules, results.rules.tables[name]
    datasets = rules.paper.datasets if dataset == MEAN else [dataset]
    sizes = {of: table.questions or rules.paper.datasets[of].questions for of in datasets}
    frame = pd.DataFrame({"note": "", "absent": "", "why": "", "paper_n": sum(sizes.values())}, rows.index)
    places = {of: table_cell(results.study, table, model, of) for of in sizes}
    cells = [cell for cell in places.values() if cell]
    if absent := _absent(results, name, model, places):
        return frame.assign(absent=absent, **dict.fromkeys(OURS, np.nan))
    stored = stored_keys(results.study, rows)
    stored["setting"] = rows["formulation"].where(rows["formulation"] != "", stored["setting"])
    measured, numbers = _measured(results, table, cells, stored, mean=dataset == MEAN)
    full = list(measured.loc[measured["empty"] > MOST_EMPTY, "dataset"].unique())
    counts = measured.groupby("dataset")["n"].min()
    few = [rules.too_few(counts[of], of, size) for of, size in sizes.items() if of in counts]
    differing = [each for cell in cells for each in results.differences(cell, table.scorer)]
    for row, metric, method, setting in rows[["metric", "method", "setting"]].itertuples():
        kind = Kind("accuracy" if table.part == "accuracy" else "scores", metric, method, setting)
        whys = (rules.arbitrary.get(setting), kind.first(differing), *few)
        frame.loc[row, "why"] = next(filter(None, whys), "")
    keys = pd.MultiIndex.from_frame(stored)
    there = measured.groupby(STORED).size().reindex(keys, fill_value=0).to_numpy() == len(cells)
    if dataset == MEAN and full:
        frame["absent"] = f"more than a fifth of the answers are empty on {', '.join(full)}"
    frame.loc[~there, "absent"] = [f"no row for {' '.join(filter(None, key))}" for key in keys[~there]]
    found = numbers.set_index(STORED)[[*OURS, "note"]].reindex(keys).set_index(rows.index)
    return frame.drop(columns="note").join(found.where(frame["absent"] == "")).fillna({"note": ""})


def _absent(results: Results, name: str, model: str, cells: dict[str, Cell | None]) -> str:
    """Why a study cannot measure what a printed table shows of a model on these datasets, else nothing."""
    if model not in results.study.models:
        return f"the study has no model {model!r}"
    if missing := [dataset for dataset, cell in cells.items() if cell is None]:
        return f"the grid has no {model}/{missing[0]} for {name}"
    kinds = OF_ACCURACY if results.rules.tables[name].part == "accuracy" else EVALUATION
    lacking = results.lacking([cell for cell in cells.values() if cell], *kinds)
    return lacking and f"{lacking} was not run"


def _measured(
    results: Results, table: PrintedTable, cells: Sequence[Cell], stored: pd.DataFrame, *, mean: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What each of the cells has, and the numbers that stand beside print: these, or their means over datasets."""
    study = results.study
    if table.part == "accuracy":  # stories count as groups
        quality, asked = (results.inputs.frame(cells[0].file(of, study.main_quality.metric)) for of in OF_ACCURACY)
        of = intervals.accuracy(quality, asked, study.main_quality.threshold, study.evaluation.confidence)
        row = stored.iloc[0].to_dict() | {name: getattr(of, name) for name in OURS}
        frame = pd.DataFrame([row | cells[0].place | {"note": "", "empty": np.nan}])
        return frame, frame
    keys = {name: set(stored[name]) for name in ("metric", "method", "setting")}
    found = results.estimates(cells).where(answer_source=table.answer_source, **keys)
    numbers = found.mean_over_datasets() if mean else found
    return found.frame, numbers.summary(study.evaluation.confidence)


def z_score(difference: npt.ArrayLike, std: npt.ArrayLike, other_std: npt.ArrayLike) -> Floats:
    """difference / √(std² + other_std²), as of independent numbers; NaN where both spreads are 0."""
    spread = np.hypot(std, other_std)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 0, np.asarray(difference) / spread, np.nan))


def smallest_detectable(std: npt.ArrayLike, other_std: npt.ArrayLike, z: float, power: float) -> Floats:
    """The true difference that |z| exceeds its limit for with probability ``power`` (the far tail left out)."""
    return np.asarray((z + ndtri(power)) * np.hypot(std, other_std))


def differing_by_chance(z: float) -> float:
    """The share of cells with |z| at or above the limit when both numbers come from one truth.

    An upper bound for two runs that share questions: they differ less than z assumes.
    """
    return float(2 * ndtr(-z))
