"""Claims of our own about estimators of Dissimilarity: other weightings and other candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation import significance
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.strategy_names import kind_of, of_kind
from beamuq_study import grid
from beamuq_study.comparison.claims.case import Case, measured_at, question_count
from beamuq_study.comparison.claims.judges import judge
from beamuq_study.comparison.claims.verdict import Part, Verdict
from beamuq_study.exhibits import true_dissimilarity
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study

Comparisons = Sequence[tuple[str, str, float]]  # the better estimator, the worse, the margin
ANY_SIZE = range(1, 10**6)


def _with_estimators(study: Study, comparisons: Comparisons, **_: Any) -> list[Cell]:
    """The cells in whose recipe all the estimators are scored, each in the first such recipe."""
    names = {name for better, worse, _ in comparisons for name in (better, worse)}
    return grid.select(
        study,
        has=lambda recipe: all(_scored_name(study, recipe, name) for name in names),
        take="each",
    )


@judge(cells=_with_estimators)
def estimators(case: Case, comparisons: Comparisons) -> Verdict:
    """Estimators of Dissimilarity against others in PRR on every dataset, by one-sided bounds.

    Each is a weighting and its candidates; of samples the mean over all disjoint draws that are
    scored.

    Yes: on every dataset each lower bound of better − worse at ``level`` is above minus its margin;
    since all have to be, no correction is needed.

    No: one upper bound, after Bonferroni over all, is below that.

    Value: the difference that is least shown, between these two bounds.
    """
    case = case.answered()
    level = case.tolerances["level"]
    prr = case.estimates(metric="PRR", method="Dissimilarity")
    gaps = _gaps(case, prr, comparisons)
    margins = np.repeat([margin for *_, margin in comparisons], len(case.cells))
    low, high = significance.one_sided_bounds(gaps, level)
    shown = low > -margins
    denied = bool((high < -margins).any())
    case.notes.append(f"{shown.sum()} of {len(gaps)} shown by one-sided {1 - level:.0%} bounds")
    sign: Part = "undecided"
    if shown.all():
        sign = "yes"
    elif denied:
        sign = "no"
    weakest = int((low + margins).argmin())
    return Verdict(
        question_count(prr),
        sign,
        opposite=denied,
        value=gaps.frame["value"].iloc[weakest],
        low=low[weakest],
        high=high[weakest],
        std=float(np.nanstd(gaps.replicates[weakest], ddof=1)),
    )


def _gaps(case: Case, prr: Estimates, comparisons: Comparisons) -> Estimates:
    """The better estimator minus the worse one: a row a comparison and, within it, a cell."""
    gaps = []
    for better, worse, _ in comparisons:
        for cell in case.cells:
            better_prr = _prr_of(case, prr, cell, better)
            worse_prr = _prr_of(case, prr, cell, worse)
            gaps.append(better_prr.minus(worse_prr))
    return joined(gaps)


def _prr_of(case: Case, prr: Estimates, cell: Cell, name: str) -> Estimates:
    """PRR of an estimator in a cell; of samples the mean over disjoint draws, where measured."""
    scored_name = _scored_name(case.results.study, cell.recipe, name) or name
    variant, _, setting = scored_name.partition(" ")
    of_variant = prr.where(dataset=cell.dataset, variant=variant)
    measured = of_variant.frame["setting"]
    draws = list(measured[measured.str.startswith(f"{setting} draw=")])
    settings = draws if kind_of(setting) == "sample" and draws else [setting]
    chosen = measured_at(of_variant, pd.DataFrame({"setting": settings}))
    return chosen.mean_over_draws(setting)


def _scored_name(study: Study, recipe: str, name: str) -> str | None:
    """``name`` with the strategy whose scores it is of; None where the recipe does not score it."""
    weighting, _, kind = name.partition(" ")
    if kind == "all_above":
        if name not in study.scoring[recipe].estimators:
            return None
        strategies = of_kind(study.recipes[recipe].strategies(), kind)
        scored = [strategy for strategy in strategies if lacks(weighting, strategy) is None]
        return f"{weighting} {scored[0]}" if scored else None
    scored_names = {
        f"{estimator.weighting} {estimator.setting}"
        for estimator in true_dissimilarity.estimators(study, recipe, ANY_SIZE)
    }
    return name if name in scored_names else None
