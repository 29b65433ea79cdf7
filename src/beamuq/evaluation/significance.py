"""Whether a difference can be chance: of two measurements, of the best of several estimates, or
within a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from beamuq.array_types import Bools, Floats
from beamuq.evaluation.bootstrap import MOST_UNDEFINED
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.holm_and_benjamini_hochberg import holm

Within = Literal["yes", "no", "undecided"]


def z_score(difference: npt.ArrayLike, std: npt.ArrayLike, other_std: npt.ArrayLike) -> Floats:
    """difference / √(std² + other_std²), as of independent numbers; NaN where both spreads are
    0.
    """
    spread = np.hypot(std, other_std)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 0, np.asarray(difference) / spread, np.nan))


def smallest_detectable(
    std: npt.ArrayLike, other_std: npt.ArrayLike, z: float, power: float
) -> Floats:
    """The true difference that |z| exceeds its limit for with probability ``power`` (the far tail
    left out).
    """
    return np.asarray((z + ndtri(power)) * np.hypot(std, other_std))


def differing_by_chance(z: float) -> float:
    """The share of cells with |z| at or above the limit when both numbers come from one truth, or
    at most that.
    """
    return float(2 * ndtr(-z))


def selected_lead(estimates: Estimates, ahead: Bools) -> tuple[float, float]:
    """The best of the rows ``ahead`` minus the best of the others; its one-sided p, corrected for
    the choice.

    Max-T over the replicates, each centred on its own value. p against one of the others: how often
    the largest lead of any of ``ahead`` over it is by chance at least the one found, as the best of
    many leads too far by chance. All of the others have to be beaten, so theirs is the largest of
    these p, and choosing the best of them needs no further correction. Choosing anew within each
    resample would not do: the largest of resampled values is itself too large. More than 1 % of
    resamples undefined, an undefined value, or a lead that resampling cannot move: p is 1.
    """
    values, drawn = (
        estimates.frame["value"].to_numpy(np.float64),
        estimates.replicates.astype(np.float64),
    )
    off = (drawn - values[:, None])[:, ~np.isnan(drawn).any(axis=0)]
    leads = values[ahead].max() - values[~ahead]
    by_chance = [(off[ahead] - other).max(axis=0) for other in off[~ahead]]
    undefined = off.shape[1] < (1 - MOST_UNDEFINED) * drawn.shape[1] or np.isnan(leads).any()
    if undefined or any(np.ptp(of) == 0 for of in by_chance):
        return float(leads.min()), 1.0
    p = [
        (1 + int((of >= lead).sum())) / (off.shape[1] + 1)
        for of, lead in zip(by_chance, leads, strict=True)
    ]
    return float(leads.min()), max(p)


def tested_lead(estimates: Estimates, ahead: Bools) -> tuple[float, float]:
    """The best of the rows ``ahead`` minus the best of the others; its two-sided p."""
    (lead, p), (_, p_behind) = (selected_lead(estimates, chosen) for chosen in (ahead, ~ahead))
    return lead, min(1.0, 2 * (p if lead > 0 else p_behind))


def behind_in_some(columns: Sequence[Estimates], level: float) -> Bools:
    """Whether each row is significantly behind another one in some of the columns, after Holm over
    these.
    """
    others = ~np.eye(len(columns[0]), dtype=bool)
    p = [[selected_lead(column, other)[1] for column in columns] for other in others]
    return np.array([holm(each, len(columns)).min() < level for each in p])


def one_sided_bounds(differences: Estimates, level: float) -> tuple[Floats, Floats]:
    """The lower bound of each difference at a level, and the upper one corrected by Bonferroni over
    all.
    """
    undefined = np.isnan(differences.replicates).mean(axis=1) > MOST_UNDEFINED
    bounds = np.nanquantile(differences.replicates, [level, 1 - level / len(differences)], axis=1)
    low, high = np.where(undefined, np.nan, bounds)
    return low, high


def within(summary: pd.DataFrame, margin: float) -> list[Within]:
    """Whether the interval of each difference lies within ± a margin: "yes", "no" (outside it),
    else "undecided".

    ``summary`` has columns ``low`` and ``high`` (NaN: no interval), as :meth:`.Estimates.summary`
    gives them.
    """
    low, high = summary["low"], summary["high"]
    inside, outside = (-margin <= low) & (high <= margin), (low > margin) | (high < -margin)
    found: list[Within] = np.select([inside, outside], ["yes", "no"], "undecided").tolist()
    return found


def plateau(
    curve: Estimates, sizes: Sequence[int], margin: float, confidence: float = 0.95
) -> tuple[float, int]:
    """From which size on a curve, a row a size, is as high as its last row, within ± a margin by
    paired intervals.

    The first size inside, behind the last one that is outside (NaN: none but the last is); and the
    first that is behind the last one outside, from which on none is shown to be off.
    """
    last = len(curve) - 1
    to_end = curve.rows(range(last)).minus(curve.rows([last] * last))
    there = within(to_end.summary(confidence), margin)
    behind = max((place for place, part in enumerate(there) if part == "no"), default=-1) + 1
    return next(
        (sizes[place] for place in range(behind, last) if there[place] == "yes"), np.nan
    ), sizes[behind]
