"""Every printed number beside ours: difference, z, smallest detectable difference, and a status by first match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from beamuq.comparison.declared_files import KEYS, ErrataLedger
from beamuq.comparison.paper_settings import Kind
from beamuq.comparison.results import STORED, Results, stored_keys, table_cell
from beamuq.evaluation import intervals
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY, Estimates, joined
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import records
from beamuq.exhibits.exhibit import EVALUATION

Floats = npt.NDArray[np.float64]
STATUSES = ("not run", "errata", "not comparable", "agrees", "differs")
FORMULATIONS = {"": "entropy of counts", "printed": "as printed", "likelihood-summed": "as in the official code"}
OURS = ["value", "low", "high", "std", "n"]
COLUMNS = [*KEYS, "printed", "printed_std", *OURS, "paper_n", "difference", "z", "detectable", "status", "reason"]
PLACE = ["model", "dataset", "recipe", "scorer", "answer_source", *STORED]
OF_ACCURACY = ("quality", "questions")
Cells = dict[Any, tuple[list[Cell], str]]
Rows = dict[Any, dict[str, Any]]


def compare(results: Results, ledger: ErrataLedger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every printed number, in print's order, and those of sampled Semantic Entropy against the forms it may be of.

    A row a number: ``COLUMNS`` and ``errata``, or ``formulation`` (D12, Semantic Entropy).
    """
    printed = results.printed
    places = printed[["table", "model", "dataset"]].drop_duplicates()
    cells = {tuple(place): _cells(results, *place) for place in places.to_numpy().tolist()}
    measured = _measured(results, [cell for of, _ in cells.values() for cell in of])
    wrong, doubted = (ledger.touching(printed, touches) for touches in ("value", "std"))
    printed = printed.assign(wrong=list(map(", ".join, wrong)), doubted=list(map(bool, doubted)))
    numbers = _held_against_print(results, printed, cells, measured)
    numbers["errata"] = ["; ".join(both) for both in map(list.__add__, wrong, doubted)]
    sampled = (printed["method"] == "SemanticEntropy") & (printed["variant"] != "beamsearch")
    forms = [
        _held_against_print(results, printed[sampled].assign(wrong=""), cells, measured, name).assign(formulation=title)
        for name, title in FORMULATIONS.items()
    ]
    return numbers, pd.concat(forms, ignore_index=True)[[*KEYS, "formulation", *COLUMNS[len(KEYS) :]]]


def _held_against_print(
    results: Results, printed: pd.DataFrame, cells: Cells, measured: Rows, setting: str = ""
) -> pd.DataFrame:
    """Numbers side by side; a ± that is absent or doubted is replaced by ours. ``setting``: a formulation's."""
    rules, ours = results.rules.agreement, _ours(results, printed, cells, measured, setting)
    frame = printed.join(ours.astype(dict.fromkeys(OURS[:-1], float) | {"n": "Int64"}))
    std = frame["std"].to_numpy(np.float64)
    other = np.where(frame["doubted"] | frame["printed_std"].isna(), std, frame["printed_std"])
    frame["difference"] = frame["value"] - frame["printed"]
    frame["z"] = z_score(frame["difference"], std, other)
    frame["detectable"] = smallest_detectable(std, other, rules.z, rules.power)
    undefined = np.where(frame["value"].isna(), "undefined", "no standard deviation of ours")
    demo = np.full(len(frame), results.study.demo)
    cases: list[tuple[Any, str, Any]] = [  # the first that matches
        (demo, "not comparable", "demo study"),
        (frame["absent"] != "", "not run", frame["absent"]),
        (frame["wrong"] != "", "errata", frame["wrong"]),
        (frame["why"] != "", "not comparable", frame["why"]),
        (frame["z"].isna(), "not comparable", frame["note"].where(frame["note"] != "", undefined)),
        (frame["z"].abs() < rules.z, "agrees", ""),
    ]
    matches, statuses, reasons = zip(*cases, strict=True)
    frame["status"], frame["reason"] = (
        np.select(matches, of, other) for of, other in ((statuses, "differs"), (reasons, ""))
    )
    return frame[COLUMNS]


def _ours(results: Results, printed: pd.DataFrame, places: Cells, measured: Rows, setting: str) -> pd.DataFrame:
    """Ours of printed numbers: ``OURS``, ``note``, ``paper_n``; ``absent``: why there is none; ``why``: no match."""
    rules, keys, rows = results.rules, stored_keys(results.study, printed), []
    for place, rows_of_place in printed.groupby(["table", "model", "dataset"], sort=False):
        (name, model, dataset), (cells, lacking) = map(str, cast(tuple[Any, ...], place)), places[place]
        table = rules.tables[name]
        sizes = {of: rules.questions(of, name) for of in (rules.paper.datasets if dataset == MEAN else [dataset])}
        differing = [each for cell in cells for each in results.differences(cell, table.scorer)]
        for row, (index, *key, stored) in zip(
            records(rows_of_place), keys.loc[rows_of_place.index].itertuples(), strict=True
        ):
            of = (table.answer_source, *key, setting or stored)
            each = {cell: measured.get((*vars(cell).values(), *of)) for cell in cells}
            missing = [cell.file("evaluation").path for cell, ours in each.items() if ours is None and cell.scorer]
            absent = lacking or (f"{missing[0]} has no row for {' '.join(filter(None, of))}" if missing else "")
            full = [cell.dataset for cell, ours in each.items() if ours and ours["empty"] > MOST_EMPTY]
            if dataset == MEAN and full and not absent:
                absent = f"more than a fifth of the answers are empty on {', '.join(full)}"
            kind = Kind(
                "accuracy" if table.part == "accuracy" else "scores", row["metric"], row["method"], row["setting"]
            )
            few = (rules.too_few(of["n"], cell.dataset, sizes[cell.dataset]) for cell, of in each.items() if of)
            why = rules.arbitrary.get(row["setting"]) or kind.first(differing) or next(filter(None, few), "")
            ours = {} if absent else measured[*vars(cells[0]).values(), *of]
            if dataset == MEAN and not absent:
                ours = measured[model, MEAN, *list(vars(cells[0]).values())[2:], *of]
            rows.append(
                {"note": "", **ours, "absent": absent, "why": why, "paper_n": sum(sizes.values()), "row": index}
            )
    return pd.DataFrame(rows).set_index("row").reindex(columns=[*OURS, "note", "absent", "why", "paper_n"])


def _cells(results: Results, name: str, model: str, dataset: str) -> tuple[list[Cell], str]:
    """The cells that measure a printed number, or the mean of which does, or why there are none."""
    study, table = results.study, results.rules.tables[name]
    datasets = results.rules.paper.datasets if dataset == MEAN else [dataset]
    if model not in study.models:
        return [], f"the study has no model {model!r}"
    cells = {of: table_cell(study, table, model, of) for of in datasets}
    if missing := [of for of, cell in cells.items() if cell is None]:
        return [], f"the grid has no {model}/{missing[0]} for {name}"
    found = [cell for cell in cells.values() if cell]
    lacking = results.lacking(found, *(OF_ACCURACY if table.part == "accuracy" else EVALUATION))
    return ([], f"{lacking} was not run") if lacking else (found, "")


def _measured(results: Results, cells: Sequence[Cell]) -> Rows:
    """By ``PLACE``: ``OURS``, ``note`` and ``empty`` of cells, and of means over the datasets of the main recipe."""
    study, rows, parts = results.study, Rows(), dict[Cell, Estimates]()
    for cell in dict.fromkeys(cells):
        if cell.scorer:
            found = results.estimates([cell])
            parts[cell] = found.rows(found.frame["metric"].isin(results.printed["metric"].unique()))
        else:  # stories count as groups
            quality, asked = (results.inputs.frame(cell.file(of, study.main_quality.metric)) for of in OF_ACCURACY)
            of = intervals.accuracy(quality, asked, study.main_quality.threshold, study.evaluation.confidence)
            place = (*vars(cell).values(), "greedy", "accuracy", "", "", "")
            rows[place] = {name: getattr(of, name) for name in OURS} | {"note": "", "empty": np.nan}
    main = [cell for cell in parts if cell.recipe == study.main.recipe]
    means = [
        joined([parts[cell] for cell in main if (cell.model, cell.scorer) == of]).mean_over_datasets()
        for of in dict.fromkeys((cell.model, cell.scorer) for cell in main)
    ]
    for part in (*parts.values(), *means):
        summary = part.summary(study.evaluation.confidence).set_index(PLACE)[[*OURS, "note", "empty"]]
        rows |= dict(zip(summary.index, summary.to_dict("records"), strict=True))
    return rows


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
