"""Numbers as printed, ranks within a column, and intervals of means and proportions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from beamuq.exhibits.core import Cell

TIE = 1e-12
LEAST_GROUPS = 5
MEAN_INTERVALS = "t intervals over questions, cut at 0 and 1; none below five questions or where all are equal"
Floats = NDArray[np.float64]


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def percent(value: float, digits: int = 0) -> str:
    """A fraction as ``63%``."""
    return f"{100 * value:.{digits}f}%"


def undefined(reason: str) -> Cell:
    """A value that does not exist, with why."""
    return Cell("n/a", note=reason)


def marks(values: Sequence[float | None]) -> list[str]:
    """``best`` for every value equal to the largest, ``second`` for every value equal to the next one below it.

    Values are compared unrounded; those within 1e-12 are equal (the same ranking by another sum). None: no mark.
    """
    known = sorted({v for v in values if v is not None}, reverse=True)
    if not known:
        return [""] * len(values)
    best = known[0]
    second = next((v for v in known if v < best - TIE), None)
    return [
        "" if v is None else "best" if v >= best - TIE else "second" if second is not None and v >= second - TIE else ""
        for v in values
    ]


def better(value: float | None, other: float | None) -> bool:
    """Whether ``value`` is strictly above ``other``, unrounded."""
    return value is not None and other is not None and value > other + TIE


def proportion_interval(successes: NDArray[np.bool_], groups: Sequence[str], confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion, with the sample size cut by the design effect of dependent questions.

    Parameters
    ----------
    successes
        One truth value a question, at least one.
    groups
        The question's group: a CoQA story; otherwise the question itself, which gives Wilson's interval.
    confidence
        Such as 0.95.

    Notes
    -----
    n_eff = n / max(1, d), d the ratio of the cluster-robust variance of the mean to the binomial one (Kish's design
    effect, as Korn and Graubard use it). At 0 % and 100 %, where d does not exist, n_eff is the number of groups.
    """
    n, p = len(successes), float(np.mean(successes))
    clustered, count = _clustered(successes, groups)
    effective = float(count)
    if 1 < count < n and 0 < p < 1:
        effective = n / max(1.0, clustered / (p * (1 - p) / n))
    z = float(ndtri((1 + confidence) / 2))
    center = (p + z**2 / (2 * effective)) / (1 + z**2 / effective)
    half = z / (1 + z**2 / effective) * math.sqrt(p * (1 - p) / effective + z**2 / (4 * effective**2))
    return max(0.0, center - half), min(1.0, center + half)


def mean_interval(values: Floats, groups: Sequence[str], confidence: float) -> tuple[float, float] | None:
    """Student's t interval of a mean of shares, cut to [0, 1]; None below five groups or where all are equal.

    Parameters
    ----------
    values
        One a question, in [0, 1].
    groups
        The question's group: a CoQA story; otherwise the question itself.
    confidence
        Such as 0.95.

    Notes
    -----
    The variance of the mean is cluster-robust, with a degree of freedom less than there are groups. A percentile
    bootstrap of few groups is too short: of two it is their range, which covers half of what it says.
    """
    clustered, count = _clustered(values, groups)
    if count < LEAST_GROUPS or np.ptp(values) == 0:
        return None
    mean, half = float(np.mean(values)), float(stdtrit(count - 1, (1 + confidence) / 2)) * math.sqrt(clustered)
    return max(0.0, mean - half), min(1.0, mean + half)


def _clustered(values: NDArray[np.bool_] | Floats, groups: Sequence[str]) -> tuple[float, int]:
    """The cluster-robust variance of the mean of values [N], NaN below two groups; the number of groups."""
    names, index = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return math.nan, len(names)
    sums = np.bincount(index, weights=values - np.mean(values))
    return len(names) / (len(names) - 1) * float(np.sum(sums**2)) / len(values) ** 2, len(names)
