"""Claims about the number of candidates M: who is ahead at each, and where a curve stops rising."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation import significance
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.strategy_names import ablation
from beamuq_study import grid
from beamuq_study.comparison.claims.case import Case, NotAskedError, measured_at, question_count
from beamuq_study.comparison.claims.judges import judge
from beamuq_study.comparison.claims.verdict import Part, Verdict, combined_part
from beamuq_study.exhibits.method_groups import OVER_BEAMS
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study

Forms = Sequence[tuple[str, str]]  # method, variant
Budget = tuple[str, int]  # a dataset, and an M that its cell scores
PLACE = ["dataset", "method", "variant", "setting"]


def _with_budgets(
    study: Study, better: Forms = (("Dissimilarity", ""),), worse: Forms = (), **_: Any
) -> list[Cell]:
    methods = dict.fromkeys(method for method, _ in (*better, *worse))
    return grid.with_budgets(study, list(methods))


@judge(cells=_with_budgets)
def ahead_at_budgets(
    case: Case, better: Forms, worse: Forms, first: int = 2, last: float = np.inf
) -> Verdict:
    """Whether each ``better`` form is above its ``worse`` one at every M from first to last.

    Yes: each is at each M on each dataset, significantly at ``level`` after Holm over all of these
    differences.

    No: half of them are above 0, or fewer, and one is significantly below.

    Value: the mean difference.
    """
    scoring = case.results.study.scoring
    budgets = [
        (cell.dataset, M)
        for cell in case.cells
        for M in scoring[cell.recipe].budgets
        if first <= M <= last
    ]
    if not budgets:
        raise NotAskedError(f"no budget is from M = {first} to {last:g}")
    methods = {method for method, _ in (*better, *worse)}
    prr = case.estimates(metric="PRR", method=methods)
    ahead = _at_budgets(prr, budgets, better)
    behind = _at_budgets(prr, budgets, worse)
    return case.rise(ahead.minus(behind), question_count(prr))


def _at_budgets(prr: Estimates, budgets: Sequence[Budget], forms: Forms) -> Estimates:
    places = [(dataset, *form, ablation("M", M)) for dataset, M in budgets for form in forms]
    return measured_at(prr, pd.DataFrame(places, columns=PLACE))


@judge(cells=_with_budgets)
def plateau(case: Case, near: int) -> Verdict:
    """From which M on Dissimilarity over beams is, and stays, at the height of its end.

    At it means that the interval of the difference lies within ± ``plateau``.

    Yes: on every dataset that M is ``near``, or off by ``plateau_slack`` of it at most, and the PRR
    at the end is above that at the smallest M, significantly at ``level`` after Holm over the
    datasets.

    No: on half of the datasets the curve rises, or on fewer; and on one it falls significantly, or
    the M is off by more. Where it rises and the M is off by more: partly.

    Value: the mean over datasets of that M.
    """
    prr = case.estimates(metric="PRR", method="Dissimilarity", variant=OVER_BEAMS)
    study = case.results.study
    parts = list[Part]()
    rises = list[Estimates]()
    starts = list[float]()
    for cell in case.cells:
        sizes = sorted(study.scoring[cell.recipe].budgets)
        curve = _curve_of_beams(prr, cell, sizes)
        start, earliest = significance.plateau(
            curve, sizes, case.tolerances["plateau"], study.evaluation.confidence
        )
        parts.append(_start_is_near(start, earliest, near, case.tolerances["plateau_slack"]))
        rises.append(curve.rows([-1]).minus(curve.rows([0])))
        starts.append(start)
        shown_start = f"{earliest} or later" if np.isnan(start) else start
        case.notes.append(f"M = {shown_start} on {cell.dataset}")
    size = combined_part(parts)
    verdict = case.rise(joined(rises), question_count(prr), size=size, opposite="no" in parts)
    return replace(verdict, value=float(np.mean(starts)), low=np.nan, high=np.nan, std=np.nan)


def _curve_of_beams(prr: Estimates, cell: Cell, sizes: Sequence[int]) -> Estimates:
    """Dissimilarity over beams of a cell, a row a number of candidates."""
    settings = [ablation("M", M) for M in sizes]
    places = pd.DataFrame({"setting": settings}).assign(
        dataset=cell.dataset, metric="PRR", method="Dissimilarity", variant=OVER_BEAMS
    )
    return measured_at(prr, places)


def _start_is_near(start: float, earliest: int, near: int, share: float) -> Part:
    """Whether a plateau starts at ``near``, a ``share`` of it more or less.

    ``start``: the first M that is shown to be on it, NaN: none; ``earliest``: the first that may
    be.
    """
    slack = share * near
    if earliest > near + slack or start < near - slack:
        return "no"
    return "yes" if start <= near + slack else "undecided"
