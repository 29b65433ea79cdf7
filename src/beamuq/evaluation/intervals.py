"""Accuracy of answers, and intervals of means and proportions over questions, maybe in groups.

A group is what is independent: a CoQA story, otherwise the question itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats

LEAST_GROUPS = 5


def normal_quantile(probability: float) -> float:
    """The standard normal distribution's quantile at a probability in (0, 1)."""
    # every exhibit imports this module, few need the function: a tenth of their time otherwise
    from scipy.special import ndtri

    return float(ndtri(probability))


@dataclass(frozen=True)
class Accuracy:
    """The share of ``n`` answers that are correct, in [0, 1], with its interval."""

    value: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def std(self) -> float:
        """That of the interval.

        Where all are right, or none, the answers' own is 0 and would judge nothing.
        """
        return (self.high - self.low) / (2 * normal_quantile((1 + self.confidence) / 2))


def accuracy(
    quality: pd.DataFrame, questions: pd.DataFrame, threshold: float, confidence: float
) -> Accuracy:
    """The share of greedy answers of quality strictly above the threshold, with its interval.

    Wilson's, by groups. Of the columns ``id``, ``answer_source`` and ``value`` of ``quality``,
    ``id`` and ``group`` of ``questions``, which may hold more ids.
    """
    answers = quality[quality["answer_source"] == "greedy"]
    correct = (answers["value"] > threshold).to_numpy()
    groups = list(questions.set_index("id")["group"].loc[answers["id"]])
    low, high = proportion_interval(correct, groups, confidence)
    return Accuracy(float(correct.mean()), low, high, len(correct), confidence)


def proportion_interval(
    successes: Bools, groups: Sequence[str], confidence: float
) -> tuple[float, float]:
    """Wilson's score interval of a proportion, for questions that depend on one another.

    The sample size is cut by their design effect. Of ``successes`` [N], at least one, and their
    ``groups`` [N]; where each question is its own, Wilson's interval. n_eff = n / max(1, d), d the
    ratio of the cluster-robust variance of the mean to the binomial one (Kish's design effect, as
    Korn and Graubard use it). At 0 % and 100 %, where d does not exist, n_eff is the number of
    groups.
    """
    n = len(successes)
    p = float(np.mean(successes))
    clustered, count = cluster_robust_variance(successes, groups)
    effective = float(count)
    if 1 < count < n and 0 < p < 1:
        effective = n / max(1.0, clustered / (p * (1 - p) / n))
    z = normal_quantile((1 + confidence) / 2)
    center = (p + z**2 / (2 * effective)) / (1 + z**2 / effective)
    spread = math.sqrt(p * (1 - p) / effective + z**2 / (4 * effective**2))
    half = z / (1 + z**2 / effective) * spread
    return max(0.0, center - half), min(1.0, center + half)


def mean_interval(
    values: Floats, groups: Sequence[str], confidence: float
) -> tuple[float, float] | None:
    """Student's t interval of a mean of shares, cut to [0, 1].

    None below five groups or where all are equal. Of ``values`` [N] in [0, 1] and their ``groups``
    [N]. The variance of the mean is cluster-robust, with a degree of freedom less than there are
    groups. A percentile bootstrap of few groups is too short: of two it is their range, which
    covers half of what it says.
    """
    clustered, count = cluster_robust_variance(values, groups)
    if count < LEAST_GROUPS or np.ptp(values) == 0:
        return None
    from scipy.special import stdtrit  # as in normal_quantile

    mean = float(np.mean(values))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * math.sqrt(clustered)
    return max(0.0, mean - half), min(1.0, mean + half)


def interval_of_equal_values(
    value: float, groups: Sequence[str], confidence: float
) -> tuple[float, float] | None:
    """The exact interval of a mean of shares in [0, 1] that are all ``value``.

    None below five groups. G groups without another value leave at most 1 − (1 − confidence)^(1 /
    G) of such groups in the population (Clopper and Pearson; of zeros the rule of three), and
    theirs is at most 1 or at least 0.
    """
    count = len(set(groups))
    if count < LEAST_GROUPS:
        return None
    other = 1 - (1 - confidence) ** (1 / count)
    return value * (1 - other), value + (1 - value) * other


def share_interval(
    values: Bools | Floats, groups: Sequence[str], confidence: float
) -> tuple[float, float] | None:
    """The interval of a mean of shares [N]: yes or no, all equal, or anything else.

    None as for :func:`mean_interval` and :func:`interval_of_equal_values`.
    """
    if values.dtype == bool:
        return proportion_interval(values.astype(bool), groups, confidence)
    if np.ptp(values) == 0:
        return interval_of_equal_values(float(values.mean()), groups, confidence)
    return mean_interval(values.astype(np.float64), groups, confidence)


def mean_and_std(values: Bools | Floats, groups: Sequence[str]) -> tuple[float, float]:
    """The mean of values [N] and its cluster-robust standard error by groups [N]."""
    return float(values.mean()), math.sqrt(cluster_robust_variance(values, groups)[0])


def cluster_robust_variance(values: Bools | Floats, groups: Sequence[str]) -> tuple[float, int]:
    """The cluster-robust variance of the mean of values [N], NaN below two groups; their number."""
    names, group_of_value = np.unique(
        np.asarray(groups, dtype=object).astype(str), return_inverse=True
    )
    count = len(names)
    if count < 2:
        return math.nan, count
    sums = np.bincount(group_of_value, weights=values - np.mean(values))
    variance = count / (count - 1) * float(np.sum(sums**2)) / len(values) ** 2
    return variance, count
