"""Curves over scores with bootstrap bands: quality retained as answers are rejected, and risk against coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats, Ints
from beamuq.evaluation.bootstrap import MOST_UNDEFINED
from beamuq.evaluation.prr_and_auc import rejection_curves


def rejection_bands(uncertainty: Floats, quality: Floats, counts: Ints, confidence: float = 0.95) -> pd.DataFrame:
    """The curves of :func:`.rejection_curves` of uncertainty and quality [N], with the band of a bootstrap.

    counts [N, R]: how often each resample draws each question. Columns ``rejected`` (share, 0 to 1), ``quality`` (mean
    of what is retained), ``low`` and ``high`` (its band), ``oracle`` and ``random``.
    """
    drawn = rejection_curves(uncertainty, quality)
    again = (rejection_curves(np.repeat(uncertainty, times), np.repeat(quality, times)) for times in counts.T)
    curves = [np.interp(drawn.rejected, of.rejected, of.uncertainty) for of in again]
    low, high = np.quantile(curves, [(1 - confidence) / 2, 1 - (1 - confidence) / 2], axis=0)
    columns = {"rejected": drawn.rejected, "quality": drawn.uncertainty, "low": low, "high": high}
    return pd.DataFrame(columns | {"oracle": drawn.oracle, "random": drawn.random})


def risk_coverage(
    uncertainty: Floats, wrong: Bools, groups: Sequence[str], counts: Ints, confidence: float = 0.95
) -> pd.DataFrame:
    """Of the answers up to each distinct uncertainty [N], how many are shown and how many of these are ``wrong`` [N].

    Groups, such as stories, count alike, whatever their number of questions; counts [N, R] are their resamples. Columns
    ``score``, ``shown`` (share, to 1), ``wrong`` (share of the shown), ``low`` and ``high`` (its band; NaN where more
    than 1 % of resamples show nothing).
    """
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weights = np.column_stack((np.ones(len(groups)), counts)) / sizes[unit, None]
    order = np.argsort(uncertainty, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(uncertainty[order]) > 0, True))
    shown, failed = (np.cumsum(each[order], axis=0)[ends] for each in (weights, weights * wrong[:, None]))
    with np.errstate(invalid="ignore"):
        risk = failed / shown
    defined, band = np.isnan(risk).mean(axis=1) <= MOST_UNDEFINED, np.full((2, len(ends)), np.nan)
    band[:, defined] = np.nanquantile(risk[defined, 1:], [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    columns = {"score": uncertainty[order][ends], "shown": shown[:, 0] / shown[-1, 0], "wrong": risk[:, 0]}
    return pd.DataFrame(columns | {"low": band[0], "high": band[1]})
