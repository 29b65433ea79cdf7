"""U, the true dissimilarity: cells that know it, what is read of them, what captions say."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Floats
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq_study import grid
from beamuq_study.errors_where_u_is_known import METHOD, Estimator, EstimatorsOfCell, samples
from beamuq_study.exhibits.captions import Facts
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

PLACE = ["model", "dataset"]
ANY_SIZE = range(1, 10**6)
LARGE_ERROR = 0.01  # questions whose U has a larger standard error are counted in captions
SCORED = ("stratified all_above", "uniform sample", "normalised beam")
"""The estimators that every exhibit of U needs."""
DRAWS_SENTENCE = (
    "Samples at M = {M} are the mean over {count} disjoint draws of the same questions, at other M "
    "over as many as were scored."
)
Measured = TypeVar("Measured")


def with_exact_value(
    study: Study,
    dataset: str = "",
    estimators: Sequence[str] = (),
    methods: Sequence[str] = (),
    strategies: Sequence[str] = (),
) -> list[Cell]:
    """The cells of the first recipe that knows U with its standard error and has all the others.

    ``dataset``: "" for all.
    """
    exact = {
        name
        for name, recipe in study.recipes.items()
        if recipe.all_above and recipe.all_above.lattices > 1
    }
    supplied = grid.select(
        study,
        methods=methods,
        estimators=(*SCORED, *estimators),
        strategies=strategies,
        has=exact.__contains__,
    )
    return [cell for cell in supplied if dataset in ("", cell.dataset)]


# -- estimators ------------------------------------------------------------------------------------


def estimators(study: Study, recipe: str, sizes: Container[int]) -> list[Estimator]:
    """What scoring estimates U by, from numbers of candidates among ``sizes``; by M, as listed."""
    strategies = study.recipes[recipe].strategies()
    listed = []
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        if kind == "all_above" or weighting == "match":
            continue
        for strategy in strategy_names.of_kind(strategies, kind):
            if lacks(weighting, strategy) is not None:
                continue
            for M, setting in _settings(study, recipe, strategy).items():
                if M in sizes:
                    listed.append(Estimator(weighting, strategy, M, setting))
    return sorted(listed, key=lambda estimator: estimator.M)


def _settings(study: Study, recipe: str, strategy: str) -> dict[int, str]:
    """By number of candidates the setting of the scores of a strategy."""
    decoded = study.recipes[recipe]
    kind = strategy_names.kind_of(strategy)
    if kind == "sample" and decoded.sample:
        pool = decoded.sample.size
        kinds = {name.partition(" ")[2] for name in study.scoring[recipe].estimators}
        beside = strategy_names.set_beside_samples(decoded.strategies(), kinds)
        sizes = {study.main.num_candidates, *sizes_in(beside)}
        return {M: strategy_names.samples_of(strategy, M) for M in sizes if pool >= M}
    if kind == "hybrid" and decoded.hybrid:
        return {decoded.hybrid.size: strategy}
    return dict.fromkeys(sizes_in([strategy]), strategy)


def sizes_in(strategies: Iterable[str]) -> set[int]:
    """The numbers of candidates that names of strategies have."""
    options = [strategy_names.parse(name)[1] for name in strategies]
    return {int(named["M"]) for named in options if named.get("M")}


# -- results ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrueValues:
    """What captions tell of a cell's U."""

    exact: str  # the setting that knows it
    draws: int  # of samples, disjoint
    error: Floats  # [N] standard errors


def read(study: Study, inputs: Inputs, cell: Cell) -> EstimatorsOfCell:
    """What a cell's files tell of estimators of U, the stratified estimate above a probability."""
    scores = inputs.scores(cell)
    names = strategy_names.of_kind(study.recipes[cell.recipe].strategies(), "all_above")
    return EstimatorsOfCell(
        scores,
        inputs.candidates(cell),
        inputs.estimates([cell], metric="PRR", answer_source="greedy", subset=ALL),
        inputs.resample_counts(cell, scores.ids),
        exact=next(name for name in names if "lattices" in strategy_names.parse(name)[1]),
        main=samples(study.main.sample, study.main.num_candidates),
        draws=grid.draws(study, cell.recipe),
    )


def measured_in_cells(
    study: Study,
    inputs: Inputs,
    chosen: Sequence[Cell],
    measure: Callable[[EstimatorsOfCell], Measured],
) -> tuple[list[Measured], Facts]:
    """What ``measure`` finds in each cell, and what captions tell of U there.

    A cell's candidates and counts take hundreds of megabytes: they are held while it is measured,
    and no longer.
    """
    measured = []
    true_values = []
    for cell in chosen:
        result, values = _measured_in_cell(study, inputs, cell, measure)
        measured.append(result)
        true_values.append(values)
    return measured, _facts(study, true_values)


def _measured_in_cell(
    study: Study, inputs: Inputs, cell: Cell, measure: Callable[[EstimatorsOfCell], Measured]
) -> tuple[Measured, TrueValues]:
    results = read(study, inputs, cell)
    return measure(results), TrueValues(results.exact, results.draws, results.error)


def _facts(study: Study, true_values: Sequence[TrueValues]) -> Facts:
    errors = np.concatenate([values.error for values in true_values])
    first = true_values[0]
    draws = ""
    if first.draws > 1:
        draws = DRAWS_SENTENCE.format(M=study.main.num_candidates, count=first.draws)
    return {
        "U": (
            f"U is {METHOD} under the model's whole distribution, from every outcome above a "
            f"probability and draws outside them ({first.exact}); its standard error is above "
            f"{LARGE_ERROR:g} at {(errors > LARGE_ERROR).sum()} of {len(errors)} questions (at "
            f"most {errors.max():.3f})."
        ),
        "draws": draws,
    }
