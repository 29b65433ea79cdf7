"""PRR, ROC-AUC and PR-AUC of uncertainty scores, on the questions and on every resample of them.

A resample is a column of counts: how often each question was drawn. Sorting a score once serves all resamples, since a
question drawn twice sits beside itself. Within a group of equal scores, order is random and every metric is its exact
expectation over the orders: retained quality grows linearly through the group, pairs within it count one half, and
precision is averaged position by position. A question drawn twice is such a group, whatever its score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools, Counts, Floats
from beamuq.errors import BeamUQError

Number = TypeVar("Number", np.float64, np.signedinteger)

METRICS = ("PRR", "ROC-AUC", "PR-AUC")
_CELLS = 2**16  # resamples times questions at a time, whose arrays stay in the cache


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


def rejection_bands(uncertainty: Floats, quality: Floats, counts: Counts, confidence: float = 0.95) -> pd.DataFrame:
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
        self._correct = quality > threshold
        self._counts = np.ascontiguousarray(counts.T, dtype=np.int32)
        self._total = self._counts.sum(axis=1, dtype=np.int64)
        self._positives = self._counts @ ~self._correct
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
        ranks = _Ranks(uncertainty)
        values = {"PRR": self.prr(self._area(ranks, self._quality))} if "PRR" in metrics else {}
        of_incorrect: dict[str, list[Floats]] = {metric: [] for metric in METRICS[1:] if metric in metrics}
        correct = self._correct[ranks.order]
        incorrect = ranks.single & ~correct  # of its own rank: all its draws are incorrect
        for rows, counts, drawn in self._resamples(ranks) if of_incorrect else ():
            right, positives = _cumulated(counts * correct), self._positives[rows]
            negatives, negative = self._total[rows] - positives, ranks.of_ties(right)
            positive = ranks.of_ties(drawn) - negative
            if "ROC-AUC" in metrics:  # correct answers ranked below, half of those in the same group
                below = right[:, ranks.first] + 0.5 * negative
                pairs = np.einsum("rn,rn->r", counts * incorrect, right[:, 1:]) + (positive * below).sum(axis=1)
                of_incorrect["ROC-AUC"].append(pairs / (positives * negatives))
            if "PR-AUC" in metrics:
                # answers more uncertain than each place, all and the correct ones
                called, wrongly = self._total[rows, None] - drawn, negatives[:, None] - right
                harmonic, last = self._harmonic.take(called), ranks.last
                tied = _expected_precisions(
                    called[:, last], wrongly[:, last], positive + negative, positive, -ranks.of_ties(harmonic)
                )
                single = ((harmonic[:, :-1] - harmonic[:, 1:]) * wrongly[:, 1:]) @ incorrect
                precisions = positives - positive.sum(axis=1) - single + tied
                of_incorrect["PR-AUC"].append(precisions / positives)
        return values | {metric: np.concatenate(parts) for metric, parts in of_incorrect.items()}

    def area(self, uncertainty: Floats, qualities: Floats | None = None) -> Floats:
        """The area under the rejection curve, [R]: mean quality over the k retained sizes; NaN for k = 0.

        Of other ``qualities`` [Q, N] of the same questions [Q, R], with one sort for all.
        """
        return self._area(_Ranks(uncertainty), self._quality if qualities is None else qualities)

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
        return np.asarray(self._counts @ self._quality / self._total)

    @cached_property
    def _undefined(self) -> Bools:
        """Resamples in which PRR is undefined: k < 2, or a single distinct quality."""
        order, starts = _groups(self._quality)
        largest = np.add.reduceat(self._counts.take(order, axis=1), starts, axis=1).max(axis=1)
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

    def _resamples(self, ranks: _Ranks) -> Iterator[tuple[slice, Counts, Counts]]:
        """All resamples, some at a time: which, how often each sorted question is drawn [r, N], and cumulated."""
        width = max(1, _CELLS // len(ranks.order))
        for start in range(0, len(self._counts), width):
            rows = slice(start, start + width)
            counts = self._counts[rows].take(ranks.order, axis=1)
            yield rows, counts, _cumulated(counts)

    @np.errstate(divide="ignore", invalid="ignore")
    def _area(self, ranks: _Ranks, qualities: Floats) -> Floats:
        """:meth:`area` by a score's ranks."""
        (table, offsets), values, areas = self._position_weights, qualities[..., ranks.order], []
        steps = -np.diff(values * ranks.single, prepend=0.0, append=0.0)
        for rows, counts, drawn in self._resamples(ranks):
            upto = table.take(drawn + offsets[rows, None] if offsets.any() else drawn)
            sums = steps @ upto.T  # Σ quality (upto − the one before), summed by parts
            if len(ranks.first):  # within a group each draw of a question counts alike
                tied = counts.take(ranks.tied, axis=1) * values[..., None, ranks.tied]
                means = np.add.reduceat(tied, ranks.first_tied, axis=-1) / np.maximum(ranks.of_ties(drawn), 1)
                sums += (means * ranks.of_ties(upto)).sum(axis=-1)
            areas.append(sums)
        return np.asarray(np.concatenate(areas, axis=-1) / self._sizes)


class _Ranks:
    """The ascending ``order`` of values [N]; which have a rank of their own (``single``, in that order), and the ties.

    Each of G groups of equal values begins at ``first`` and ends before ``last``, of the tied alone at ``first_tied``.
    """

    def __init__(self, values: Floats) -> None:
        self.order, starts = _groups(values)
        lengths = np.diff(starts, append=len(values))
        ties = lengths > 1
        self.single = np.repeat(~ties, lengths)
        self.tied = np.flatnonzero(~self.single)
        self.first, self.last = starts[ties], (starts + lengths)[ties]
        self.first_tied = np.cumsum(lengths[ties]) - lengths[ties]

    def of_ties(self, cumulated: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """What each group adds, [r, N + 1] → [r, G]."""
        return cumulated.take(self.last, axis=1) - cumulated.take(self.first, axis=1)


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


def _expected_precisions(called: Counts, wrongly: Counts, within: Counts, positive: Counts, harmonic: Floats) -> Floats:
    """Σ over incorrect answers of the expected precision at their position, each array [R, G] → [R].

    Of n = ``within`` equal scores p = ``positive`` are incorrect; c = ``called`` answers are more uncertain, of them
    w = ``wrongly`` correct. The answer at position c + j is incorrect with probability p/n, and then the first c + j
    hold c − w + 1 + (j − 1) r incorrect ones, r = (p − 1)/(n − 1). Summed over j, with
    h = ``harmonic`` = Σ_j 1/(c + j), it is p r + (p/n) ((1 − r)(c + 1) − w) h.
    Where p = n, as of copies of one question, it is p − w h.
    """
    share = (positive - 1) / np.maximum(within - 1, 1)
    share[within == positive] = 1.0
    before = (1.0 - share) * (called + 1) - wrongly
    return np.asarray((positive * (share + before * harmonic / np.maximum(within, 1))).sum(axis=1))


def _cumulated(counts: Counts) -> Counts:
    """Cumulative sums along the rows, from 0 on: [r, N] → [r, N + 1]."""
    sums = np.zeros((len(counts), counts.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    return sums


def _retained_quality(uncertainty: Floats, quality: Floats) -> Floats:
    """Expected mean quality of the n most certain answers, for n = 1 … N."""
    order, starts = _groups(uncertainty)
    ends = np.append(starts[1:], len(order))
    sums = np.add.reduceat(quality[order], starts).cumsum()
    sizes = np.arange(1, len(order) + 1)
    return np.asarray(np.interp(sizes, np.append(0, ends), np.append(0.0, sums)) / sizes)
