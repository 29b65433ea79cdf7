"""Every estimator of U from M candidates: what it takes, how far it is off, and how it ranks answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beamuq.evaluation.bootstrap import Difference
from beamuq.exhibits import captions, exact_value, exhibit_cells, holm_bold, number_format
from beamuq.exhibits.exact_value import METHOD, CellEstimates, Estimator, OfExactValue
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableBody,
    TableCell,
    TableExhibit,
    TableGrid,
    TableRow,
    TableRule,
    block,
)
from beamuq.exhibits.read_evaluation import Measured, mean_of
from beamuq.study_config import Study

EFFORT = {"candidates": 1, "distinct texts": 1, "rows": 1, "passes": 1}  # with how many digits each is printed
BIAS, RATIO, SPEARMAN, PRR, GAIN = "bias", "RMSE ratio", "Spearman with U", "PRR", "ΔPRR"
HEADS = ("Unbiased", *(name.capitalize() for name in EFFORT), "Bias", "RMSE ÷", "Spearman", "PRR", "ΔPRR")
Rows = dict[Estimator, dict[str, Measured]]


@dataclass(frozen=True)
class EstimatorsTable(OfExactValue, TableExhibit):
    """Estimators × what they take and what they give, of one dataset, or the mean over all with an exact value."""

    dataset: str = ""

    def cells(self, study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
        """Those of the dataset, where one is named."""
        recipe, cells = super().cells(study)
        return recipe, [cell for cell in cells if self.dataset in ("", cell[1])]

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A block a model: U itself, then a row an estimator and M; ΔPRR is against samples at the same M."""
        recipe, cells = self.cells(study)
        listed = exact_value.estimators(study, recipe, exact_value.sizes(study, recipe))
        body: TableBody = []
        values: list[dict[str, Any]] = []
        told: list[str] = []
        read: dict[exhibit_cells.Cell, CellEstimates] = {}
        sizes: dict[str, list[int]] = {}
        for model, of_model in exact_value.by_model(cells).items():
            datasets = [dataset for _, dataset in of_model]
            by_dataset = {}
            for dataset in datasets:
                cell = read[model, dataset] = CellEstimates(study, inputs, model, dataset, recipe)
                sizes.setdefault(dataset, []).append(cell.n)
                by_dataset[dataset] = {of: _measures(cell, of) for of in listed}
                values += _values(model, dataset, by_dataset[dataset], cell.prr_of_U)
            rows, of_u = by_dataset[datasets[0]], read[of_model[0]].prr_of_U
            if len(datasets) > 1:
                kept = [dataset for _, dataset in exact_value.averaged(read, model)]
                titles = [study.datasets[dataset].title for dataset in kept]
                rows = {
                    of: {name: _mean([by_dataset[d][of][name] for d in kept], titles, study) for name in found}
                    for of, found in rows.items()
                }
                exact = [read[model, dataset].prr_of_U for dataset in kept]
                of_u = mean_of(exact, titles, study.evaluation.confidence)
                values += _values(model, "mean", rows, of_u)
            gains = _gains(rows, study)
            values += _gain_values(model, datasets[0] if len(datasets) == 1 else "mean", gains)
            body += block(study.models[model].title, body)
            body += _rows(rows, of_u, gains)
            told.append(f"{study.models[model].title}: {_tally(gains, study.evaluation.resamples)}")
        name = study.datasets[self.dataset].title if self.dataset else "mean over datasets"
        title = f"Estimators of U from M candidates, {name}"
        names = list(sizes)
        sentences = [
            f"{title}; print has no such table.",
            exact_value.sentence_of_exact_value(study, recipe, list(read.values())),
            captions.sizes(study, sizes),
            "Candidates and distinct texts a question; rows: prefixes whose next token the model is asked for, "
            "beyond the prompt, and passes one after the other, each as if the strategy ran alone.",
            f"Bias: mean of estimate − U. RMSE ÷: divided by that {self._reference(study, recipe)}; the squared "
            "error of U is taken off. Spearman: rank correlation with U over questions.",
            "ΔPRR: PRR minus that of samples at the same M, with its "
            f"{captions.confidence(study)} paired interval; bold: not 0 at the {100 * holm_bold.LEVEL:g} % level, "
            "two-sided, corrected by Holm over the column. " + " ".join(told),
            f"Intervals are percentiles of {captions.resampled(study, names)}. They are of questions: a "
            "drawn estimate is one draw, except samples where several disjoint draws are scored "
            f"(M = {study.main.num_candidates}), whose means stand here.",
        ]
        grid = TableGrid(("M", "Estimator"), (HEADS,), tuple(body))
        return self.table(study, title, sentences, values, grid)

    @staticmethod
    def _reference(study: Study, recipe: str) -> str:
        sample, M = study.recipes[recipe].sample, study.main.num_candidates
        draws = sample.size // M if sample else 0
        return f"expected of M samples (their variance over {draws} draws of {M})" if draws > 1 else "of M samples"


def _measures(cell: CellEstimates, of: Estimator) -> dict[str, Measured]:
    """Every number of a row, ΔPRR apart."""
    effort = {
        name: Measured(value, None, None, None, cell.n, "" if value is not None else "not told by its file")
        for name, value in cell.taken(of).items()
    }
    bias = cell.mean((cell.estimates(of) - cell.U).mean(axis=0))
    found = {BIAS: bias, RATIO: cell.error_ratio(of), SPEARMAN: cell.rank_correlation(of), PRR: cell.prr(of)}
    return effort | found


def _mean(found: Sequence[Measured], titles: Sequence[str], study: Study) -> Measured:
    if all(one.replicates is not None or one.value is None for one in found):
        return mean_of(found, titles, study.evaluation.confidence)
    n, values = sum(one.n for one in found), [one.value for one in found if one.value is not None]
    if len(values) < len(found):
        return Measured(None, None, None, None, n, next(one.note for one in found if one.value is None))
    return Measured(float(np.mean(values)), None, None, None, n)


def _gains(rows: Rows, study: Study) -> dict[Estimator, tuple[Difference, float]]:
    """ΔPRR against samples at the same M, and p corrected by Holm over all; only where both are defined."""
    samples = {of.M: found[PRR] for of, found in rows.items() if of.title == "samples"}
    others = {of: found[PRR] for of, found in rows.items() if of.title != "samples" and of.M in samples}
    return holm_bold.gains({of: (found, samples[of.M]) for of, found in others.items()}, study.evaluation.confidence)


def _tally(gains: Mapping[Estimator, tuple[Difference, float]], resamples: int) -> str:
    """What moved."""
    if not gains:
        return "no PRR is defined beside that of samples."
    if holm_bold.smallest_p(resamples) * len(gains) >= holm_bold.LEVEL:
        return f"{resamples} resamples are too few to distinguish any of {len(gains)} differences from 0."
    moved = [f"{of.title} at M = {of.M}" for of, (_, p) in gains.items() if p < holm_bold.LEVEL]
    smallest = min(p for _, p in gains.values())
    if not moved:
        return f"PRR does not move: none of {len(gains)} differences is (smallest corrected p {smallest:.2g})."
    return f"{len(moved)} of {len(gains)} are: {captions.listing(moved)}."


def _rows(rows: Rows, of_u: Measured, gains: Mapping[Estimator, tuple[Difference, float]]) -> TableBody:
    """The rows of one model."""
    blank = TableCell("–")
    body: TableBody = [TableRow(("", "U itself"), (*[blank] * (len(HEADS) - 2), _cell(of_u), blank))]
    M = 0
    for of, found in rows.items():
        body += [TableRule()] if of.M != M else []
        cells = [TableCell("yes" if of.unbiased else "no")]
        cells += [_cell(found[name], digits) for name, digits in EFFORT.items()]
        cells += [_cell(found[name]) for name in (BIAS, RATIO, SPEARMAN, PRR)]
        cells.append(_gain(*gains[of]) if of in gains else blank)
        body.append(TableRow((str(of.M) if of.M != M else "", of.title), tuple(cells)))
        M = of.M
    return body


def _cell(of: Measured, digits: int = 3) -> TableCell:
    if of.value is None:
        return number_format.undefined(of.note)
    cell = TableCell(number_format.decimal(of.value, digits), note=of.note)
    return number_format.with_interval(cell, of.low, of.high)


def _gain(of: Difference, adjusted: float) -> TableCell:
    if of.value is None:
        return number_format.undefined(of.note)
    cell = number_format.difference(of.value, of.low, of.high, of.note)
    cell = replace(cell, mark="best" if adjusted < holm_bold.LEVEL else "")
    return number_format.with_interval(cell, of.low, of.high)


def _values(model: str, dataset: str, rows: Rows, of_u: Measured) -> list[dict[str, Any]]:
    place = {"model": model, "dataset": dataset, "method": METHOD}
    found: list[dict[str, Any]] = [place | {"metric": PRR, "variant": "U itself"} | of_u.numbers]
    for of, measured in rows.items():
        key = place | {"variant": of.weighting, "setting": of.setting}
        found.append(key | {"metric": "unbiased", "value": float(of.unbiased), "n": measured[PRR].n})
        found += [key | {"metric": name} | one.numbers for name, one in measured.items()]
    return found


def _gain_values(model: str, dataset: str, gains: Mapping[Estimator, tuple[Difference, float]]) -> list[dict[str, Any]]:
    place = {"model": model, "dataset": dataset, "method": METHOD}
    found: list[dict[str, Any]] = []
    for of, (difference, adjusted) in gains.items():
        key = place | {"variant": of.weighting, "setting": of.setting}
        numbers = {name: getattr(difference, name) for name in ("value", "std", "low", "high")}
        found += [key | {"metric": GAIN} | numbers, key | {"metric": f"{GAIN}, p by Holm", "value": adjusted}]
    return found
