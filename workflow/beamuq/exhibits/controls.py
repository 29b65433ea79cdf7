"""Controls of Dissimilarity over beams: is it the similarity or the probability of sequences that works?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.exhibits import captions, exact_value, exhibit_cells, holm_bold, number_format
from beamuq.exhibits.exact_value import METHOD, OF_U, CellEstimates, OfExactValue, spearman
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableBody,
    TableCell,
    TableExhibit,
    TableGrid,
    TableRow,
    block,
)
from beamuq.exhibits.read_evaluation import Key, Measured, difference
from beamuq.study_config import Study

Floats = NDArray[np.float64]
Place = tuple[str, str, tuple[str, ...]]  # method, variant, settings: several of disjoint draws

PRR, GAIN, PARTIAL = "PRR", "ΔPRR", "partial rank correlation"
PROB, BEAMS = "Prob", "beams: p and s"
NEEDED = ("uniform beam", "match beam", "match sample")
MEAN = "mean"
Row = dict[str, Measured]


@dataclass(frozen=True)
class Controls(OfExactValue, TableExhibit):
    """What is left of Dissimilarity over beams without its weights, without its similarity, and beside Prob."""

    def cells(self, study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
        """Those with the main beams, Prob and every estimator that is needed."""
        recipe, cells = exact_value.cells_with_beams(study)
        scoring = study.scoring[recipe]
        if lacking := [name for name in NEEDED if name not in scoring.estimators]:
            raise BeamUQError(f"scoring.{recipe}.estimators lacks {', '.join(lacking)}; add it or drop the exhibit")
        if PROB not in scoring.methods:
            raise BeamUQError(f"scoring.{recipe}.methods lacks {PROB}; add it or drop the exhibit")
        return recipe, cells

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A block a cell, then one of the mean of a model's: a row a score."""
        recipe, cells = self.cells(study)
        read = {cell: CellEstimates(study, inputs, *cell, recipe) for cell in cells}
        blocks: dict[exhibit_cells.Cell, dict[str, Row]] = {}
        for model, of_model in exact_value.by_model(cells).items():
            blocks |= {cell: _block(study, read[cell], recipe) for cell in of_model}
            if len(of_model := exact_value.averaged(read, model)) > 1:
                blocks[model, MEAN] = {
                    name: exact_value.means(study, of_model, [blocks[cell][name] for cell in of_model])
                    for name in blocks[of_model[0]]
                }
        body: TableBody = []
        values: list[dict[str, Any]] = []
        told = []
        for (model, dataset), rows in blocks.items():
            where = "mean over datasets" if dataset == MEAN else study.datasets[dataset].title
            adjusted = holm_of(rows, study.evaluation.confidence)
            body += block(f"{study.models[model].title}, {where}, n = {rows[PROB][PRR].n}", body)
            body += [TableRow((name,), _printed(row, adjusted.get(name))) for name, row in rows.items()]
            told.append(f"{study.models[model].title}, {where}: {_tally(adjusted)}")
            for name, row in rows.items():
                place = {"model": model, "dataset": dataset, "variant": name}
                place["method"] = PROB if name == PROB else METHOD
                values += [place | {"metric": what} | of.numbers for what, of in row.items()]
                if name in adjusted:
                    values.append(place | {"metric": f"{GAIN}, p by Holm", "value": adjusted[name]})
        datasets = list(dict.fromkeys(dataset for _, dataset in cells))
        M = study.main.num_candidates
        draws = len(read[cells[0]].settings(exact_value.main_samples(study)))
        title = f"Is it the similarity or the probability of sequences? Controls of {METHOD}"
        sentences = [
            f"{title}; print has no such table. {M} beams or samples a question"
            + (f", of samples the mean over {draws} disjoint draws" if draws > 1 else "")
            + ". Beams weigh 1 − s by their normalised p (the paper's), or alike (without p); with exact match in "
            "place of s what is left is 1 − the (normalised) mass of the produced answer's text (without s).",
            f"ΔPRR: PRR (higher is better) minus that of beams as the paper has them, paired; bold: not 0 at the "
            f"{100 * holm_bold.LEVEL:g} % level, two-sided, corrected by Holm over the other rows of the block.",
            *told,
            "Partial: Spearman's rank correlation of certainty (minus the score) with quality, given Prob: what a "
            "score orders that the probability of the answer does not; 0 if it adds nothing.",
            exact_value.sentence_of_exact_value(study, recipe, list(read.values())),
            f"In brackets: {captions.confidence(study)} percentile intervals over "
            f"{captions.resampled(study, datasets)}.",
        ]
        grid = TableGrid(("Score",), (("PRR", "ΔPRR against beams", "Partial"),), tuple(body))
        return self.table(study, title, sentences, values, grid)


def partial_rank_correlation(score: Floats, quality: Floats, given: Floats, counts: NDArray[np.int64]) -> Floats:
    """[R] Spearman's correlation of score and quality [N] with that of ``given`` [N] taken out of both; counts [N, R].

    (r_sq − r_sg r_qg) / √((1 − r_sg²)(1 − r_qg²)); NaN where any is constant, or ``given`` orders one of both entirely.
    """
    of_score, of_quality = spearman(score, given, counts), spearman(quality, given, counts)
    left = (1 - of_score**2) * (1 - of_quality**2)
    found: Floats = np.full(counts.shape[1], np.nan)
    np.divide(
        spearman(score, quality, counts) - of_score * of_quality,
        np.sqrt(np.maximum(left, 0)),
        out=found,
        where=left > 1e-12,
    )
    return found


def holm_of(rows: Mapping[str, Row], confidence: float) -> dict[str, float]:
    """p of each row's difference to beams in PRR, corrected over all of them; one that has no interval counts as 1."""
    pairs = {name: (row[PRR], rows[BEAMS][PRR]) for name, row in rows.items() if name != BEAMS}
    return {name: p for name, (_, p) in holm_bold.gains(pairs, confidence).items()}


def _places(study: Study, cell: CellEstimates, recipe: str) -> dict[str, Place]:
    """Every row and what it reads."""
    beam, of_u = study.main.beam, exact_value.setting_of_exact_value(study, recipe)
    samples = {
        weighting: tuple(cell.settings(exact_value.main_samples(study, weighting)))
        for weighting in ("uniform", "match")
    }
    return {
        PROB: (PROB, "", ("",)),
        BEAMS: (METHOD, "normalised", (beam,)),
        "beams: s without p": (METHOD, "uniform", (beam,)),
        "beams: p without s": (METHOD, "match", (beam,)),
        "samples: s": (METHOD, "uniform", samples["uniform"]),
        "samples: without s": (METHOD, "match", samples["match"]),
        "U itself": (METHOD, OF_U, (of_u,)),
    }


def _block(study: Study, cell: CellEstimates, recipe: str) -> dict[str, Row]:
    """One cell: PRR, its difference to beams and the partial correlation of each row."""
    confidence, prob = study.evaluation.confidence, cell.scored.scores(PROB, "")
    every = np.ones((cell.n, 1), dtype=np.int64)
    rows: dict[str, Row] = {}
    for name, (method, variant, settings) in _places(study, cell, recipe).items():
        found = [cell.measured[Key(PRR, method, variant, setting)] for setting in settings]
        rows[name] = {PRR: exact_value.mean_of_draws(found, confidence)}
        if name != PROB:
            scores = [-cell.scored.scores(method, variant, setting) for setting in settings]
            value, drawn = (
                np.mean([partial_rank_correlation(of, cell.scored.quality, -prob, counts) for of in scores], axis=0)
                for counts in (every, cell.counts)
            )
            rows[name][PARTIAL] = cell.with_interval(float(value[0]), drawn, "undefined: ranks that are all equal")
    for name, row in rows.items():
        if name != BEAMS:
            row[GAIN] = difference(row[PRR], rows[BEAMS][PRR], confidence)
    return rows


def _tally(adjusted: Mapping[str, float]) -> str:
    """What moved."""
    moved = [name for name, p in adjusted.items() if p < holm_bold.LEVEL]
    if not adjusted:
        return "no PRR is defined."
    if not moved:
        return f"PRR does not move in any of {len(adjusted)} rows (smallest corrected p {min(adjusted.values()):.2g})."
    return f"PRR moves in {len(moved)} of {len(adjusted)} rows: {captions.listing(moved)}."


def _printed(row: Row, adjusted: float | None) -> tuple[TableCell, ...]:
    """PRR, ΔPRR and the partial correlation; an en dash where a row has none."""
    cells = []
    for what in (PRR, GAIN, PARTIAL):
        of = row.get(what)
        if of is None:
            cells.append(TableCell("–"))
        elif of.value is None:
            cells.append(number_format.undefined(of.note))
        elif what == GAIN:
            cell = number_format.difference(of.value, of.low, of.high, of.note)
            cells.append(replace(cell, mark="best" if adjusted is not None and adjusted < holm_bold.LEVEL else ""))
        else:
            spread = number_format.interval(of.low, of.high)
            cells.append(TableCell(number_format.decimal(of.value), spread=spread, note=of.note))
    return tuple(cells)
