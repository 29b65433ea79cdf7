"""PRR, ROC-AUC and PR-AUC of uncertainty scores, on the questions and on every resample of them.

A resample is a column of counts: how often each question was drawn. Sorting a score once serves all resamples, since a
question drawn twice sits beside itself. Within a group of equal scores, order is random and every metric is its exact
expectation over the orders: retained quality grows linearly through the group, pairs within it count one half, and
precision is averaged position by position. A question drawn twice is such a group, whatever its score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools, Floats, Ints
from beamuq.errors import BeamUQError

Counts = npt.NDArray[np.signedinteger]
Number = TypeVar("Number", np.float64, np.signedinteger)

METRICS = ("PRR", "ROC-AUC", "PR-AUC")


def rejection_curves(uncertainty: Floats, quality: Floats) -> pd.DataFrame:
    """The curves whose areas PRR compares (eq. prr). uncertainty, quality [N]; quality keeps its own scale.

    N rows, from nothing rejected on: ``rejected`` (share, from 0), and the mean quality of what is retained after
    rejecting the most uncertain (``quality``), the worst (``oracle``) or any (``random``).
    """
    retained = np.arange(len(quality), 0, -1)
    return pd.DataFrame(
        {
            "rejected": 1.0 - retained / len(quality),
            "quality": _retained_quality(uncertainty, quality)[retained - 1],
            "oracle": _retained_quality(-quality, quality)[retained - 1],
            "random": quality.mean(),
        }
    )


def rejection_bands(uncertainty: Floats, quality: Floats, counts: Ints, confidence: float = 0.95) -> pd.DataFrame:
    """The curves of :func:`rejection_curves` of uncertainty and quality [N], with the band of a bootstrap.

    counts [N, R]: how often each resample draws each question. Further columns ``low`` and ``high``: the band of
    ``quality``.
    """
    drawn = rejection_curves(uncertainty, quality)
    again = (rejection_curves(np.repeat(uncertainty, times), np.repeat(quality, times)) for times in counts.T)
    curves = [np.interp(drawn["rejected"], of["rejected"], of["quality"]) for of in again]
    low, high = np.quantile(curves, [(1 - confidence) / 2, 1 - (1 - confidence) / 2], axis=0)
    return drawn.assign(low=low, high=high)


def prediction_rejection_ratio(area: Floats, oracle: Floats, random: Floats) -> Floats:
    """(AUC_unc − AUC_rnd) / (AUC_oracle − AUC_rnd) (eq. prr): 1 for the oracle's order, 0 for a random one."""
    return (area - random) / (oracle - random)


def prr_to(max_rejection: float) -> str:
    """The name of PRR up to another rejection than the study's first, exactly: ``PRR@1``, ``PRR@0.1234567``."""
    short = f"{max_rejection:g}"
    return f"PRR@{short if float(short) == max_rejection else repr(max_rejection)}"


class Evaluator:
    """Metrics of any score of the same questions, on every resample.

    quality [N]: how right each produced answer is, correct strictly above ``threshold``; incorrect is the positive
    class. counts [N, R]: how often each resample draws each question; a column of ones is the data themselves. PRR
    averages over retained sizes n, n − 1, …, n − k + 1 with k = ⌊max_rejection · n⌋ of the n drawn.

    Raises BeamUQError if there is no question, or a quality is not finite.
    """

    def __init__(self, quality: Floats, counts: Counts, *, max_rejection: float = 0.5, threshold: float = 0.5) -> None:
        if not len(quality) or not np.isfinite(quality).all():
            raise BeamUQError("quality: needs at least one question and finite values only; score the answers again")
        self._quality = quality
        self._incorrect = quality <= threshold
        self._counts = np.ascontiguousarray(counts, dtype=np.int32)
        self._total = counts.sum(axis=0, dtype=np.int64)
        self._positives = counts[self._incorrect].sum(axis=0, dtype=np.int64)
        self._max_rejection = max_rejection

    @np.errstate(divide="ignore", invalid="ignore")
    def measure(self, uncertainty: Floats, metrics: Sequence[str] = METRICS) -> dict[str, Floats]:
        """Each metric of a score [N] on each resample, [R]; NaN where that resample leaves it undefined.

        PRR: ≤ 1, 0 for a random order, negative for a worse one; undefined for k < 2 or constant quality. ROC-AUC in
        [0, 1]: undefined without both correct and incorrect answers. PR-AUC in [0, 1], average precision with the most
        uncertain first: undefined without an incorrect answer. It is scikit-learn's where no scores are equal; of equal
        ones that takes one threshold, which is not what is expected of an order. All higher = better.

        Raises BeamUQError if a score is not finite.
        """
        if not np.isfinite(uncertainty).all():
            raise BeamUQError("uncertainty: not all finite; a score must rank on purpose")
        order, starts = _groups(uncertainty)
        tied, incorrect = len(starts) < len(order), self._incorrect[order]
        (drawn, retained), values = self._drawn(order, starts), {}
        if "PRR" in metrics:
            values["PRR"] = self.prr(
                self._quality[order] @ self._retained_weights(starts, drawn, retained) / self._sizes
            )
        if "ROC-AUC" in metrics or "PR-AUC" in metrics:
            holding = np.logical_or.reduceat(incorrect, starts)  # groups with an incorrect answer
            wrong = _cumulated(drawn * incorrect[:, None])[np.append(starts[1:], len(order)) - 1]
            within = _steps_of(retained)[holding] if tied else drawn[holding]
            positive = _steps_of(wrong)[holding] if tied else within  # a group of one: all or nothing
            total, wrong = retained[holding], wrong[holding]
            if "ROC-AUC" in metrics:  # correct answers ranked below, half of those in the same group
                below = (total - wrong) - 0.5 * (within - positive)
                pairs = self._positives * (self._total - self._positives)
                values["ROC-AUC"] = np.einsum("gr,gr->r", positive, below) / pairs
            if "PR-AUC" in metrics:
                called = self._total - total  # answers more uncertain than the group
                wrongly = called - (self._positives - wrong)
                reciprocals = self._harmonic.take(called + within) - self._harmonic.take(called)
                precisions = _expected_precisions(called, wrongly, within, positive, reciprocals, tied)
                values["PR-AUC"] = precisions / self._positives
        return values

    def area(self, uncertainty: Floats, qualities: Floats | None = None) -> Floats:
        """The area under the rejection curve, [R]: mean quality over the k retained sizes; NaN for k = 0.

        Of other ``qualities`` [Q, N] of the same questions [Q, R], with one sort for all.
        """
        order, starts = _groups(uncertainty)
        weights = self._retained_weights(starts, *self._drawn(order, starts))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self._quality if qualities is None else qualities)[..., order] @ weights / self._sizes)

    def prr(self, area: Floats) -> Floats:
        """PRR of an area, [R]; of the mean area of several scores the mean of their PRR."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = prediction_rejection_ratio(area, self._oracle, self._random)
        return np.where(self._undefined, np.nan, found)

    @cached_property
    def _sizes(self) -> Counts:
        """k of each resample."""
        return _number_of_sizes(self._total, self._max_rejection)

    @cached_property
    def _oracle(self) -> Floats:
        return self.area(-self._quality)

    @cached_property
    def _random(self) -> Floats:
        """The exact expectation of the area under random rejection: the mean quality."""
        return np.asarray(self._quality @ self._counts / self._total)

    @cached_property
    def _undefined(self) -> Bools:
        """Resamples in which PRR is undefined: k < 2, or a single distinct quality."""
        order, starts = _groups(self._quality)
        largest = np.add.reduceat(self._counts[order], starts).max(axis=0)
        return np.asarray((self._sizes < 2) | (largest == self._total))

    @cached_property
    def _position_weights(self) -> tuple[Floats, Counts]:
        """Tables of Σ_{p ≤ P} w(p), end to end, and where each resample's table starts.

        The quality at position p of n sorted ones counts w(p) = Σ 1/m over the retained sizes m that include it.
        """
        sizes, which = np.unique(self._total, return_inverse=True)
        tables = []
        for n in sizes:
            reciprocal = 1.0 / np.arange(1, n + 1)
            reciprocal[: n - _number_of_sizes(n, self._max_rejection)] = 0.0
            tables.append(np.concatenate([[0.0], np.cumsum(reciprocal[::-1].cumsum()[::-1])]))
        return np.concatenate(tables), (np.cumsum(sizes + 1) - (sizes + 1))[which]

    @cached_property
    def _harmonic(self) -> Floats:
        """Σ_{p ≤ P} 1/p for P = 0 … the most drawn."""
        return np.append(0.0, np.cumsum(1.0 / np.arange(1, self._total.max() + 1)))

    def _drawn(self, order: Counts, starts: Counts) -> tuple[Counts, Counts]:
        """How often each sorted question is drawn, [N, R], and how often those up to the end of each group, [G, R]."""
        drawn = self._counts[order]
        return drawn, _cumulated(drawn)[np.append(starts[1:], len(order)) - 1]

    def _retained_weights(self, starts: Counts, drawn: Counts, retained: Counts) -> Floats:
        """What the quality of each sorted question counts, [N, R]: within a group each draw of one counts alike."""
        table, offsets = self._position_weights
        weights = _steps_of(table.take(retained + offsets))
        if len(starts) == len(drawn):
            return weights
        weights /= np.maximum(_steps_of(retained), 1)
        return np.repeat(weights, np.diff(starts, append=len(drawn)), axis=0) * drawn


def measure_blocks(
    scores: Sequence[Floats], quality: Floats, blocks: Iterable[Counts], metrics: Sequence[str], **options: float
) -> list[dict[str, Floats]]:
    """Each metric of each score [N] on all resamples, [R], by an :class:`Evaluator` with ``options`` a block."""
    found: list[dict[str, list[Floats]]] = [defaultdict(list) for _ in scores]
    for counts in blocks:
        evaluator = Evaluator(quality, counts, **options)
        for uncertainty, values in zip(scores, found, strict=True):
            for metric, of_block in evaluator.measure(uncertainty, metrics).items():
                values[metric].append(of_block)
    return [{metric: np.concatenate(of_blocks) for metric, of_blocks in values.items()} for values in found]


def area_under_generalised_risk(accuracy: npt.ArrayLike, roc_auc: npt.ArrayLike) -> Floats:
    """AUGRC in [0, ½], lower is better, from arrays of one shape (Traub et al. 2024; docs/what_scores_mean.md).

    Where all answers are right, or all wrong, there is no ROC-AUC (NaN) and no order matters: 0, or ½.
    """
    a, auc = np.asarray(accuracy, dtype=np.float64), np.asarray(roc_auc, dtype=np.float64)
    pairs = a * (1 - a)
    return np.asarray(0.5 * (1 - a) ** 2 + np.where(pairs == 0, 0.0, pairs * (1 - auc)))


def why_undefined(metric: str, quality: Floats, max_rejection: float = 0.5, threshold: float = 0.5) -> str:
    """Why a metric is undefined on these answers; empty if it is defined."""
    incorrect = quality <= threshold
    if metric == "PRR":
        if _number_of_sizes(len(quality), max_rejection) < 2:
            return f"undefined: rejecting {max_rejection:.0%} of {len(quality)} answers leaves fewer than two sizes"
        return "undefined: every answer has the same quality" if np.ptp(quality) == 0 else ""
    if not incorrect.any():
        return "undefined: every answer is correct"
    return "undefined: every answer is incorrect" if metric == "ROC-AUC" and incorrect.all() else ""


def _number_of_sizes(n: npt.ArrayLike, max_rejection: float) -> Counts:
    """k, how many sizes the area of each of ``n`` questions averages over."""
    return np.asarray(max_rejection * np.asarray(n), dtype=np.int64)


def _groups(values: Floats) -> tuple[Counts, Counts]:
    """The ascending order of ``values`` and where, in it, each group of equal ones starts."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _expected_precisions(
    called: Counts, wrongly: Counts, within: Counts, positive: Counts, reciprocals: Floats, tied: bool
) -> Floats:
    """Σ over incorrect answers of the expected precision at their position, each array [G, R] → [R].

    Of n = ``within`` equal scores p = ``positive`` are incorrect; c = ``called`` answers are more uncertain, of them
    w = ``wrongly`` correct. The answer at position c + j is incorrect with probability p/n, and then the first c + j
    hold c − w + 1 + (j − 1) r incorrect ones, r = (p − 1)/(n − 1). Summed over j, with
    h = ``reciprocals`` = Σ_j 1/(c + j), it is p r + (p/n) ((1 − r)(c + 1) − w) h.
    Without ties p is n or 0 (copies of one question): p − w h.
    """
    if not tied:
        return np.asarray(positive.sum(axis=0) - np.einsum("gr,gr->r", wrongly, reciprocals))
    share = (positive - 1) / np.maximum(within - 1, 1)
    share[within == positive] = 1.0
    before = (1.0 - share) * (called + 1) - wrongly
    return np.asarray((positive * (share + before * reciprocals / np.maximum(within, 1))).sum(axis=0))


def _cumulated(rows: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Cumulative sums down the rows; row by row, which numpy's own cumsum along this axis is four times slower at."""
    total = np.empty_like(rows)
    running = np.zeros(rows.shape[1], dtype=rows.dtype)
    for row, out in zip(rows, total, strict=True):
        running = np.add(running, row, out=out)
    return total


def _steps_of(cumulated: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """What each row adds to the one before: the inverse of :func:`_cumulated`."""
    steps = cumulated.copy()
    steps[1:] -= cumulated[:-1]
    return steps


def _retained_quality(uncertainty: Floats, quality: Floats) -> Floats:
    """Expected mean quality of the n most certain answers, for n = 1 … N."""
    order, starts = _groups(uncertainty)
    ends = np.append(starts[1:], len(order))
    sums = np.add.reduceat(quality[order], starts).cumsum()
    sizes = np.arange(1, len(order) + 1)
    return np.asarray(np.interp(sizes, np.append(0, ends), np.append(0.0, sums)) / sizes)
