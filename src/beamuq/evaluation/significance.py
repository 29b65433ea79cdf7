"""Whether a difference can be chance: of two measurements, of the best of several, in a margin."""

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
    """difference / √(std² + other_std²), as of independent numbers; NaN if both spreads are 0."""
    spread = np.hypot(std, other_std)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 0, np.asarray(difference) / spread, np.nan))


def smallest_detectable(
    std: npt.ArrayLike, other_std: npt.ArrayLike, z: float, power: float
) -> Floats:
    """The true difference for which |z| exceeds its limit with probability ``power``.

    The far tail is left out.
    """
    return np.asarray((z + ndtri(power)) * np.hypot(std, other_std))


def differing_by_chance(z: float) -> float:
    """The share of cells, at most, with |z| ≥ ``z`` where both numbers have one truth."""
    return float(2 * ndtr(-z))


def selected_lead(estimates: Estimates, ahead: Bools) -> tuple[float, float]:
    """The best of the rows ``ahead`` minus the best of the others; its corrected one-sided p.

    Corrected for the choice. Max-T over the replicates, each centred on its own value. p against
    one of the others: how often the largest lead of any of ``ahead`` over it is by chance at least
    the one found, as the best of many leads too far by chance. All of the others have to be beaten,
    so theirs is the largest of these p, and choosing the best of them needs no further correction.
    Choosing anew within each resample would not do: the largest of resampled values is itself too
    large. More than 1 % of resamples undefined, an undefined value, or a lead that resampling
    cannot move: p is 1.
    """
    values = estimates.frame["value"].to_numpy(np.float64)
    drawn = estimates.replicates.astype(np.float64)
    errors = (drawn - values[:, None])[:, ~np.isnan(drawn).any(axis=0)]
    resamples = errors.shape[1]
    leads = values[ahead].max() - values[~ahead]
    lead = float(leads.min())
    if resamples < (1 - MOST_UNDEFINED) * drawn.shape[1] or np.isnan(leads).any():
        return lead, 1.0
    p = 0.0
    for lead_over_one, errors_of_one in zip(leads, errors[~ahead], strict=True):
        leads_by_chance = (errors[ahead] - errors_of_one).max(axis=0)
        if np.ptp(leads_by_chance) == 0:
            return lead, 1.0
        as_large = int((leads_by_chance >= lead_over_one).sum())
        p = max(p, (1 + as_large) / (resamples + 1))
    return lead, p


def tested_lead(estimates: Estimates, ahead: Bools) -> tuple[float, float]:
    """The best of the rows ``ahead`` minus the best of the others; its two-sided p."""
    lead, p = selected_lead(estimates, ahead)
    if lead <= 0:
        _, p = selected_lead(estimates, ~ahead)
    return lead, min(1.0, 2 * p)


def behind_in_some(columns: Sequence[Estimates], level: float) -> Bools:
    """Whether each row is significantly behind another one in some column, after Holm over them."""
    all_but_one = ~np.eye(len(columns[0]), dtype=bool)
    behind: list[bool] = []
    for ahead in all_but_one:
        p = [selected_lead(column, ahead)[1] for column in columns]
        behind.append(holm(p, len(columns)).min() < level)
    return np.array(behind)


def one_sided_bounds(differences: Estimates, level: float) -> tuple[Floats, Floats]:
    """The lower bound of each difference at a level, and the upper one, Bonferroni over all."""
    undefined = np.isnan(differences.replicates).mean(axis=1) > MOST_UNDEFINED
    bounds = np.nanquantile(differences.replicates, [level, 1 - level / len(differences)], axis=1)
    low, high = np.where(undefined, np.nan, bounds)
    return low, high


def within(summary: pd.DataFrame, margin: float) -> list[Within]:
    """Whether the interval of each difference lies within ± a margin, outside it, or neither.

    "yes", "no", or "undecided". ``summary`` has columns ``low`` and ``high`` (NaN: no interval), as
    :meth:`.Estimates.summary` gives them.
    """
    low = summary["low"]
    high = summary["high"]
    inside = (-margin <= low) & (high <= margin)
    outside = (low > margin) | (high < -margin)
    decisions: list[Within] = np.select([inside, outside], ["yes", "no"], "undecided").tolist()
    return decisions


def plateau(
    curve: Estimates, sizes: Sequence[int], margin: float, confidence: float = 0.95
) -> tuple[float, int]:
    """From which size on a curve, a row a size, is as high as its last row, within ± a margin.

    By paired intervals. The first size inside, behind the last one that is outside (NaN: none but
    the last is); and the first that is behind the last one outside, from which on none is shown to
    be off.
    """
    last = len(curve) - 1
    to_end = curve.rows(range(last)).minus(curve.rows([last] * last))
    decisions = within(to_end.summary(confidence), margin)
    outside = [place for place, decision in enumerate(decisions) if decision == "no"]
    behind = max(outside, default=-1) + 1
    inside = [sizes[place] for place in range(behind, last) if decisions[place] == "yes"]
    return next(iter(inside), np.nan), sizes[behind]
