"""Estimators of U from few candidates: which ones a study scores, and what they give in one cell that knows U."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation.estimators_of_u import METHOD, Estimator, EstimatorsOfCell, samples
from beamuq.exhibits import captions, cells
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES
from beamuq.exhibits.inputs import Inputs
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.study_config import Recipe, Scoring, Study

LARGE_ERROR = 0.01
"""Questions whose U has a larger standard error are counted in captions."""
READS = tuple(dict.fromkeys((*CANDIDATES, *SCORES, *EVALUATION)))


def estimators(study: Study, recipe: str, sizes: Container[int]) -> list[Estimator]:
    """What the recipe's scoring estimates U by from M candidates, M among the ``sizes``: by M, then as listed."""
    of, listed = study.recipes[recipe], []
    strategies = of.strategies()
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        for strategy in strategy_names.of_kind(strategies, kind):
            if lacks(weighting, strategy) is not None or kind == "above" or weighting == "match":
                continue
            settings = {int(M): strategy} if (M := strategy_names.parse(strategy)[1].get("M")) else {}
            if kind == "sample" and of.sample:
                scored = (M for M in {study.main.num_candidates, *_sizes_in(strategies)} if of.sample.size >= M)
                settings = {M: strategy_names.samples_of(strategy, M) for M in scored}
            elif kind == "hybrid" and of.hybrid:
                settings = {of.hybrid.size: strategy}
            listed += [Estimator(weighting, strategy, M, setting) for M, setting in settings.items() if M in sizes]
    return sorted(listed, key=lambda estimator: estimator.M)


def compared_sizes(study: Study, recipe: str) -> list[int]:
    """The M at which estimators are compared: those of strategies that only estimators read, else the main one."""
    of = study.recipes[recipe]
    names = [name for name in of.strategies() if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS]
    sizes = _sizes_in(names) or {study.main.num_candidates}
    return sorted(M for M in sizes if of.sample is None or of.sample.size >= M)


def _sizes_in(strategies: Iterable[str]) -> set[int]:
    return {int(M) for name in strategies if (M := strategy_names.parse(name)[1].get("M"))}


def cells_with_exact_value(study: Study, dataset: str = "", *needed: str) -> list[Cell]:
    """The cells of the first recipe that knows U with its standard error; ``needed``: further estimators or strategies.

    Raises BeamUQError if there is none, or it does not score what U is compared with.
    """

    def has(recipe: Recipe, scoring: Scoring) -> bool:
        return bool(recipe.above and recipe.above.lattices > 1 and "stratified above" in scoring.estimators)

    needs = (
        "with above: {draws: …, lattices: 2 or more} and, among its scoring's estimators, 'stratified above', as truth "
        "in studies/demo.yaml"
    )
    recipe = cells.recipes_with(study, has, needs)[0]
    known = {*study.scoring[recipe].estimators, *study.scoring[recipe].methods, *study.recipes[recipe].strategies()}
    if lacking := [name for name in ("uniform sample", "normalised beam", *needed) if name not in known]:
        raise BeamUQError(
            f"recipes.{recipe} or scoring.{recipe} lacks {', '.join(lacking)}; add it or drop the exhibit"
        )
    return [cell for cell in cells.recipe_cells(study, recipe) if dataset in ("", cell.dataset)]


def draws(study: Study, recipe: Recipe) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples; 1 where there are not two."""
    size, M = recipe.sample.size if recipe.sample else 0, study.main.num_candidates
    return max(1, size // M)


def read(study: Study, inputs: Inputs, cell: Cell) -> EstimatorsOfCell:
    """What a cell's files tell of estimators of U, which is the stratified estimate above a probability."""
    scores, recipe = inputs.scores(cell), study.recipes[cell.recipe]
    prr = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all")
    names = strategy_names.of_kind(recipe.strategies(), "above")
    exact = next(name for name in names if "lattices" in strategy_names.parse(name)[1])
    main, counts = samples(study.main.sample, study.main.num_candidates), inputs.resample_counts(cell, scores.ids)
    return EstimatorsOfCell(scores, inputs.candidates(cell), prr, counts, exact, main, draws(study, recipe))


def facts(study: Study, of_cells: Sequence[EstimatorsOfCell]) -> dict[str, Any]:
    """What captions say of U, of its standard error, and of draws."""
    n, uncertain = sum(of.n for of in of_cells), sum(int((of.error > LARGE_ERROR).sum()) for of in of_cells)
    worst, M, count = max(float(of.error.max()) for of in of_cells), study.main.num_candidates, of_cells[0].draws
    sizes = {name: [of.n for of in of_cells if of.keys["dataset"] == name] for name in study.datasets}
    return captions.question_facts(study, {name: counts for name, counts in sizes.items() if counts}) | {
        "U": f"U is {METHOD} under the model's whole distribution, from every outcome above a probability and draws "
        f"outside them ({of_cells[0].exact}); its standard error is above {LARGE_ERROR:g} at "
        f"{uncertain} of {n} questions (at most {worst:.3f}).",
        "draws": f"Samples at M = {M} are the mean over {count} disjoint draws of the same questions." * (count > 1),
    }
