"""Turn a score into the probability that the answer is right, and measure how well that holds.

Isotonic regression is scipy's. Venn–Abers (Vovk & Petej, *Venn–Abers predictors*, UAI 2014, its
inductive form) gives two: the answer is put among the calibration's once as wrong and once as
right, and isotonic regression of each is read at its score. The one of its true label is
calibrated, whatever the distribution; the true label is not known beforehand. They are two
probabilities, not the ends of a confidence interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation.bootstrap import Estimate, estimate, resample_blocks
from beamuq.evaluation.candidate_sets import groups_of
from beamuq.evaluation.intervals import proportion_interval

Calibrator = Literal["venn_abers", "isotonic"]
CALIBRATORS: tuple[Calibrator, ...] = ("venn_abers", "isotonic")
FOLDS = 5
BINS = 10
BIN_NAMES = tuple(
    f"[{k / BINS:g}, {(k + 1) / BINS:g}{']' if k + 1 == BINS else ')'}" for k in range(BINS)
)


@dataclass(frozen=True)
class LabelledScores:
    """The calibration's answers by rising score, [K]: how many there are, how many are right."""

    scores: Floats
    n: Floats
    right: Floats


def labelled_scores(scores: npt.ArrayLike, right: npt.ArrayLike) -> LabelledScores:
    """Answers [N] counted by score."""
    values, index, n = np.unique(
        np.asarray(scores, dtype=np.float64), return_inverse=True, return_counts=True
    )
    counted = np.bincount(index, weights=np.asarray(right, dtype=np.float64), minlength=len(values))
    return LabelledScores(values, n.astype(np.float64), counted.astype(np.float64))


def probabilities(
    calibrator: Calibrator, calibration: LabelledScores, scores: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Two probabilities of being right [N] of ``scores`` [N], lower and higher.

    But for Venn–Abers it is one twice. They fall, or stay, as the score rises. Between two known
    scores the isotonic one is interpolated.
    """
    new_scores = np.asarray(scores, dtype=np.float64)
    if calibrator == "venn_abers":
        return _venn_abers(calibration, new_scores)
    from scipy.optimize import isotonic_regression  # its import takes a second

    shares = isotonic_regression(
        calibration.right / calibration.n, weights=calibration.n, increasing=False
    ).x
    probability = np.interp(new_scores, calibration.scores, shares)
    return probability, probability


def _venn_abers(calibration: LabelledScores, new_scores: Floats) -> tuple[Floats, Floats]:
    """Each new score's isotonic probability with its answer added as wrong, and as right."""
    n = calibration.n
    right = calibration.right
    answers, of_right = _pooled_with_one_more_wrong(n, right)
    low = (of_right / answers)[np.searchsorted(calibration.scores, new_scores)]
    # one more right answer: the same the other way round
    answers, of_wrong = _pooled_with_one_more_wrong(n[::-1], (n - right)[::-1])
    behind = len(n) - np.searchsorted(calibration.scores, new_scores, side="right")
    high = ((answers - of_wrong) / answers)[behind]
    return low, high


def merged(low: Floats, high: Floats) -> Floats:
    """One probability from Venn–Abers' two, least regret in log loss: high / (1 − low + high)."""
    return high / (1.0 - low + high)


def cross_fitted(
    calibrator: Calibrator,
    scores: npt.ArrayLike,
    right: npt.ArrayLike,
    groups: Sequence[str],
    *,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Probabilities as :func:`probabilities`, of each answer by the answers of other folds.

    A group is in one fold.
    """
    values = np.asarray(scores, dtype=np.float64)
    labels = np.asarray(right, dtype=np.float64)
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[group]
    low = np.full(len(values), np.nan)
    high = np.full(len(values), np.nan)
    for number in np.unique(fold):
        held = fold == number
        if held.all():
            break  # a single group: nothing is left to calibrate by
        calibration = labelled_scores(values[~held], labels[~held])
        low[held], high[held] = probabilities(calibrator, calibration, values[held])
    return low, high


def reliability(
    probability: npt.ArrayLike,
    right: npt.ArrayLike,
    groups: Sequence[str],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """How well probabilities [N] hold on labels [N]: :func:`reliability_measures`, with intervals.

    Over groups [N]. Groups are resampled whole. ``probability`` has no NaN.
    """
    p = np.asarray(probability, dtype=np.float64)
    y = np.asarray(right, dtype=np.float64)
    blocks = resample_blocks(groups, resamples, seed, "reliability")
    measures = reliability_measures(p, y, blocks)
    return {
        name: estimate(float(values[0]), values[1:], n=len(p)) for name, values in measures.items()
    }


def reliability_measures(
    p: Floats, y: Floats, blocks: Iterable[npt.NDArray[Any]]
) -> dict[str, Floats]:
    """How well probabilities hold, [R] each.

    Column r of all blocks [N, …] says how often each answer counts.

    ece: expected calibration error, Σ_b n_b/n |share right − mean probability| over the ten bins of
    equal width ``BIN_NAMES``; of perfect probabilities it is above 0, the more so the fewer
    answers. brier: mean squared error; brier = reliability − resolution + uncertainty + within
    (Murphy 1973; within: what the bins hide, Stephenson, Coelho & Jolliffe 2008).

    The first column is the data, the others are resamples of them, two at least; the mean of what
    noise biases (ece, reliability, resolution) is put where the data's is, so that their spread is
    around it.
    """
    members = in_bins(p)
    summed = np.vstack([members, members * p, members * y, (p - y) ** 2])
    *sums, squared = np.hstack([summed @ counts for counts in blocks])
    n, sum_p, sum_y = np.reshape(sums, (3, BINS, -1))
    measures = _measures_of_bins(n, sum_p, sum_y, squared)
    for name in ("ece", "reliability", "resolution"):
        # noise within bins adds to these, once more in each resample: left there, intervals would
        # lie above the value
        drawn = measures[name][1:]
        measures[name][1:] = np.maximum(drawn - (drawn.mean() - measures[name][0]), 0.0)
    return measures


def _measures_of_bins(
    n: Floats, sum_p: Floats, sum_y: Floats, squared: Floats
) -> dict[str, Floats]:
    """The measures by bins [10, R]: answers, sums of probabilities and of labels; squared [R]."""
    total = n.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean_p = np.nan_to_num(sum_p / n)
        mean_y = np.nan_to_num(sum_y / n)
    share = n / total
    base = sum_y.sum(axis=0) / total
    measures = {
        "ece": (share * np.abs(mean_y - mean_p)).sum(axis=0),
        "brier": squared / total,
        "reliability": (share * (mean_y - mean_p) ** 2).sum(axis=0),
        "resolution": (share * (mean_y - base) ** 2).sum(axis=0),
        "uncertainty": base * (1 - base),
    }
    measures["within"] = (
        measures["brier"]
        - measures["reliability"]
        + measures["resolution"]
        - measures["uncertainty"]
    )
    return measures


def reliability_by_bin(
    p: Floats, right: Bools, groups: Sequence[str], confidence: float = 0.95
) -> pd.DataFrame:
    """Of probabilities [N] in each bin that has any: how many answers are right, of labels [N].

    Columns ``bin``, ``probability`` (their mean), ``right`` (the share), ``low`` and ``high``
    (Wilson's interval of it, by groups [N]) and ``n``.
    """
    rows = []
    for name, members in zip(BIN_NAMES, in_bins(p), strict=True):
        if not members.any():
            continue
        low, high = proportion_interval(right[members], groups_of(groups, members), confidence)
        rows.append(
            {
                "bin": name,
                "probability": float(p[members].mean()),
                "right": float(right[members].astype(np.float64).mean()),
                "low": low,
                "high": high,
                "n": int(members.sum()),
            }
        )
    return pd.DataFrame(rows, columns=["bin", "probability", "right", "low", "high", "n"])


def in_bins(p: Floats) -> Bools:
    """Which probabilities [N] lie in which of the bins ``BIN_NAMES``, [10, N]."""
    bin_of_each = np.minimum((p * BINS).astype(int), BINS - 1)
    return np.asarray(bin_of_each == np.arange(BINS)[:, None])


def _pooled_with_one_more_wrong(n: Floats, right: Floats) -> Floats:
    """With a wrong answer behind k scores, how many answers isotonic regression pools with it.

    And how many right ones: [2, K + 1], for k = 0 … K. Their quotient is the slope of the line that
    lies over the points (answers, right ones) counted up to each score, those behind the added
    answer moved by it. As k grows, the line's ends only move on, so one pass finds all (Vovk, Petej
    & Fedorova, *Large-scale probabilistic predictors*, NeurIPS 2015).
    """
    points = _Points(_cumulated(n), _cumulated(right))
    hull = points.upper_hull()
    start = 0
    pooled: list[tuple[int, int]] = []
    for k in range(len(points.answers)):
        if k == 0 or points.slope(start, k) > points.slope(start, hull[-1], 1):
            start = k
            while len(hull) > 1 and points.slope(k, hull[-1], 1) <= points.slope(k, hull[-2], 1):
                hull.pop()
        end = hull[-1]
        pooled.append(
            (
                points.answers[end] - points.answers[start] + 1,
                points.right[end] - points.right[start],
            )
        )
    return np.array(pooled, dtype=np.float64).T


def _cumulated(counts: Floats) -> list[int]:
    """The sums of the first 0 … K counts."""
    return [0, *np.cumsum(counts).astype(int).tolist()]


@dataclass(frozen=True)
class _Points:
    """Points (answers, right ones), counted up to each score."""

    answers: list[int]
    right: list[int]

    def slope(self, start: int, end: int, moved: int = 0) -> float:
        """Between two points, the second of them ``moved`` by so many answers."""
        rise = self.right[end] - self.right[start]
        return float(rise / (self.answers[end] - self.answers[start] + moved))

    def upper_hull(self) -> list[int]:
        """The points of the line that lies over all of them, the first one last."""
        hull: list[int] = []
        for k in reversed(range(len(self.answers))):
            while len(hull) > 1 and self.slope(k, hull[-1]) <= self.slope(k, hull[-2]):
                hull.pop()
            hull.append(k)
        return hull
