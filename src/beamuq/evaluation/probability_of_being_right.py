"""Turn a score into the probability that the answer is right, and measure how well such
probabilities hold.

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

from beamuq.array_types import Bools, Floats
from beamuq.evaluation.bootstrap import Estimate, estimate, resample_blocks

Calibrator = Literal["venn_abers", "isotonic"]
CALIBRATORS: tuple[Calibrator, ...] = ("venn_abers", "isotonic")
FOLDS = 5
BINS = 10
BIN_NAMES = tuple(
    f"[{k / BINS:g}, {(k + 1) / BINS:g}{']' if k + 1 == BINS else ')'}" for k in range(BINS)
)


@dataclass(frozen=True)
class LabelledScores:
    """The calibration's answers: by rising score, how many there are and how many are right;
    [K].
    """

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
    """Two probabilities of being right [N] of ``scores`` [N], lower and higher; one twice but for
    Venn–Abers.

    They fall, or stay, as the score rises. Between two known scores the isotonic one is
    interpolated.
    """
    new_scores = np.asarray(scores, dtype=np.float64)
    if calibrator == "venn_abers":
        n, right, scores = calibration.n, calibration.right, calibration.scores
        answers, of_right = _pooled_with_one_more_wrong(n, right)
        low = (of_right / answers)[np.searchsorted(scores, new_scores)]
        answers, of_wrong = _pooled_with_one_more_wrong(
            n[::-1], (n - right)[::-1]
        )  # a right one: the other way round
        high = ((answers - of_wrong) / answers)[
            len(scores) - np.searchsorted(scores, new_scores, side="right")
        ]
        return low, high
    from scipy.optimize import isotonic_regression  # its import takes a second

    shares = isotonic_regression(
        calibration.right / calibration.n, weights=calibration.n, increasing=False
    ).x
    probability = np.interp(new_scores, calibration.scores, shares)
    return probability, probability


def merged(low: Floats, high: Floats) -> Floats:
    """One probability from Venn–Abers' two, that of least regret in log loss: high / (1 − low +
    high).
    """
    return high / (1.0 - low + high)


def cross_fitted(
    calibrator: Calibrator,
    scores: npt.ArrayLike,
    right: npt.ArrayLike,
    groups: Sequence[str],
    *,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Probabilities as :func:`probabilities`, of each answer by the answers of other folds; a group
    is in one fold.
    """
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.float64)
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[group]
    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
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
    """How well probabilities [N] hold on labels [N]: :func:`reliability_measures`, with intervals
    over groups [N].

    Groups are resampled whole. ``probability`` has no NaN.
    """
    p, y = np.asarray(probability, dtype=np.float64), np.asarray(right, dtype=np.float64)
    measures = reliability_measures(p, y, resample_blocks(groups, resamples, seed, "reliability"))
    return {name: estimate(float(values[0]), values[1:]) for name, values in measures.items()}


def reliability_measures(
    p: Floats, y: Floats, blocks: Iterable[npt.NDArray[Any]]
) -> dict[str, Floats]:
    """How well probabilities hold, [R] each, where column r of all blocks [N, …] says how often
    each counts.

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
    total = n.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean_p, mean_y = np.nan_to_num(sum_p / n), np.nan_to_num(sum_y / n)
    share, base = n / total, sum_y.sum(axis=0) / total
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
    for name in ("ece", "reliability", "resolution"):
        # noise within bins adds to these, once more in each resample: left there, intervals would
        # lie above the value
        measures[name][1:] = np.maximum(
            measures[name][1:] - (measures[name][1:].mean() - measures[name][0]), 0.0
        )
    return measures


def in_bins(p: Floats) -> Bools:
    """Which probabilities [N] lie in which of the bins ``BIN_NAMES``, [10, N]."""
    return np.asarray(np.minimum((p * BINS).astype(int), BINS - 1) == np.arange(BINS)[:, None])


def _pooled_with_one_more_wrong(n: Floats, right: Floats) -> Floats:
    """With a wrong answer added behind k scores, how many answers isotonic regression pools with
    it, and right ones.

    [2, K + 1], for k = 0 … K. Their quotient is the slope of the line that lies over the points
    (answers, right ones) counted up to each score, those behind the added answer moved by it. As k
    grows, the line's ends only move on, so one pass finds all (Vovk, Petej & Fedorova, *Large-scale
    probabilistic predictors*, NeurIPS 2015).
    """
    x, y = ([0, *np.cumsum(of).astype(int).tolist()] for of in (n, right))

    def slope(start: int, end: int, moved: int = 0) -> float:
        return float((y[end] - y[start]) / (x[end] - x[start] + moved))

    hull: list[int] = []  # of the points from above, the first one last
    for k in reversed(range(len(x))):
        while len(hull) > 1 and slope(k, hull[-1]) <= slope(k, hull[-2]):
            hull.pop()
        hull.append(k)
    start, pooled = 0, []
    for k in range(len(x)):
        if k == 0 or slope(start, k) > slope(start, hull[-1], 1):
            start = k
            while len(hull) > 1 and slope(k, hull[-1], 1) <= slope(k, hull[-2], 1):
                hull.pop()
        pooled.append((x[hull[-1]] - x[start] + 1, y[hull[-1]] - y[start]))
    return np.array(pooled, dtype=np.float64).T
