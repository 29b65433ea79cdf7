"""PRR, ROC-AUC and PR-AUC of uncertainty scores, on the questions and on every resample of them.

A resample is a column of counts: how often each question was drawn. Sorting a score once serves all
resamples, since a question drawn twice sits beside itself. Within a group of equal scores, order is
random and every metric is its exact expectation over the orders: retained quality grows linearly
through the group, pairs within it count one half, and precision is averaged position by position. A
question drawn twice is such a group, whatever its score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools, Counts, Floats, Ints
from beamuq.errors import BeamUQError

Number = TypeVar("Number", np.float64, np.int64)

METRICS = ("PRR", "ROC-AUC", "PR-AUC")
_BELOW_WHOLE = 1e-9  # by how much a product that is a whole number may be rounded below it
_CELLS = 2**16  # resamples times questions at a time, whose arrays stay in the cache


def rejection_curves(uncertainty: Floats, quality: Floats) -> pd.DataFrame:
    """The curves whose areas PRR compares (eq. prr). uncertainty, quality [N].

    Quality keeps its own scale. N rows, from nothing rejected on: ``rejected`` (share, from 0), and
    the mean quality of what is retained after rejecting the most uncertain (``quality``), the worst
    (``oracle``) or any (``random``).
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


def rejection_bands(
    uncertainty: Floats, quality: Floats, counts: Counts, confidence: float = 0.95
) -> pd.DataFrame:
    """The curves of :func:`rejection_curves` of uncertainty and quality [N], with a band.

    uncertainty: [N]; or [D, N], of several draws of samples, whose curves' mean is ``quality``.
    counts [N, R]: how often each resample draws each question. Further columns ``low`` and
    ``high``: the bootstrap's band of ``quality``.
    """
    draws = np.atleast_2d(uncertainty)
    curves = [rejection_curves(draw, quality) for draw in draws]
    mean = np.mean([curve["quality"] for curve in curves], axis=0)
    shares = curves[0]["rejected"].to_numpy()
    resampled = [
        np.mean([_resampled_quality(draw, quality, times, shares) for draw in draws], axis=0)
        for times in counts.T
    ]
    low, high = np.quantile(resampled, [(1 - confidence) / 2, 1 - (1 - confidence) / 2], axis=0)
    return curves[0].assign(quality=mean, low=low, high=high)


def _resampled_quality(
    uncertainty: Floats, quality: Floats, times: Counts, shares: Floats
) -> Floats:
    """Mean quality of what a resample retains at shares rejected; ``times`` [N]: how often each."""
    by_retained = _retained_quality(np.repeat(uncertainty, times), np.repeat(quality, times))
    retained = np.arange(len(by_retained), 0, -1)
    rejected = 1.0 - retained / len(by_retained)
    return np.interp(shares, rejected, by_retained[retained - 1])


def prediction_rejection_ratio(area: Floats, oracle: Floats, random: Floats) -> Floats:
    """(AUC_unc − AUC_rnd) / (AUC_oracle − AUC_rnd) (eq. prr).

    1 for the oracle's order, 0 for a random one. The area of an order that is as good as the
    oracle's is summed in another order than the oracle's, and may exceed it by the last digit: so
    it counts as the oracle's.
    """
    return (np.minimum(area, oracle) - random) / (oracle - random)


def prr_to(max_rejection: float) -> str:
    """The name of PRR up to another rejection than a study's first: ``PRR@1``, ``PRR@0.123``."""
    short = f"{max_rejection:g}"
    return f"PRR@{short if float(short) == max_rejection else repr(max_rejection)}"


@dataclass(frozen=True)
class Judged:
    """How right each of N answers is, ``quality`` [N]: correct strictly above ``threshold``."""

    quality: Floats
    threshold: float = 0.5


class Evaluator:
    """Metrics of any score of the same questions, on every resample.

    quality [N]: how right each produced answer is, correct strictly above ``threshold``; incorrect
    is the positive class. counts [N, R]: how often each resample draws each question; a column of
    ones is the data themselves. PRR averages over retained sizes n, n − 1, …, n − k + 1 with k =
    ⌊max_rejection · n⌋ of the n drawn.

    Raises BeamUQError if there is no question, or a quality is not finite.
    """

    def __init__(
        self, quality: Floats, counts: Counts, *, max_rejection: float = 0.5, threshold: float = 0.5
    ) -> None:
        self._shared = QualitiesEvaluator([Judged(quality, threshold)], counts, [max_rejection])

    def measure(self, uncertainty: Floats, metrics: Sequence[str] = METRICS) -> dict[str, Floats]:
        """Each metric of a score [N] on each resample, [R]: :meth:`QualitiesEvaluator.measure`."""
        return self._shared.measure(uncertainty, metrics)[0]

    def area(self, uncertainty: Floats, qualities: Floats | None = None) -> Floats:
        """The area under the rejection curve, [R]: mean quality over the k retained sizes.

        NaN for k = 0. Of other ``qualities`` [Q, N] of the same questions [Q, R], with one sort for
        all.
        """
        areas: Floats = self._shared.areas(uncertainty, qualities)[0]
        first: Floats = areas[0]
        return first if qualities is None else areas

    def prr(self, area: Floats) -> Floats:
        """PRR of an area, [R]; of the mean area of several scores the mean of their PRR."""
        values: Floats = self._shared.prr(area[None, None])[0, 0]
        return values


class QualitiesEvaluator:
    """Metrics of any score of the same questions by several qualities, on every resample.

    ``judged``: Q qualities, incorrect being the positive class. counts [N, R]: how often each
    resample draws each question; a column of ones is the data themselves. PRR averages over
    retained sizes n, n − 1, …, n − k + 1 with k = ⌊max_rejection · n⌋ of the n drawn, for each of L
    ``max_rejections``.

    Sorting the draws by a score and cumulating them costs as much as any metric, and is done once
    for all qualities and rejections. What a resample adds for each question is then the same
    whatever its quality, so that products of matrices sum it by every quality.

    Raises BeamUQError if there is no question, or a quality is not finite.
    """

    def __init__(
        self, judged: Sequence[Judged], counts: Counts, max_rejections: Sequence[float] = (0.5,)
    ) -> None:
        self._quality = np.stack([judgement.quality for judgement in judged])
        if not self._quality.shape[1] or not np.isfinite(self._quality).all():
            raise BeamUQError(
                "quality: needs at least one question and finite values only; score the answers "
                "again"
            )
        self._incorrect = np.stack(
            [judgement.quality <= judgement.threshold for judgement in judged]
        )
        self._counts = np.ascontiguousarray(counts.T, dtype=np.int64)
        self._total = self._counts.sum(axis=1)
        self._positives = (self._counts @ self._incorrect.T.astype(np.float64)).T
        self._max_rejections = max_rejections

    @np.errstate(divide="ignore", invalid="ignore")
    def measure(
        self, uncertainty: Floats, metrics: Sequence[str] = METRICS
    ) -> list[dict[str, Floats]]:
        """By quality each metric of a score [N] on each resample, [R]; NaN where undefined.

        PRR: ≤ 1, 0 for a random order, negative for a worse one; undefined for k < 2 or constant
        quality; to further rejections by the names of :func:`prr_to`. ROC-AUC in [0, 1]: undefined
        without both correct and incorrect answers. PR-AUC in [0, 1], average precision with the
        most uncertain first: undefined without an incorrect answer. It is scikit-learn's where no
        scores are equal; of equal ones that takes one threshold, which is not what is expected of
        an order. All higher = better.

        Raises BeamUQError if a score is not finite.
        """
        if not np.isfinite(uncertainty).all():
            raise BeamUQError("uncertainty: not all finite; a score must rank on purpose")
        parts = self._parts(uncertainty, [metric for metric in METRICS if metric in metrics])
        by_metric: dict[str, Floats] = {}  # [Q, R] each
        if "PRR" in parts:
            names = ["PRR", *map(prr_to, self._max_rejections[1:])]
            prrs = self.prr(np.concatenate(parts["PRR"], axis=-1))
            by_metric |= zip(names, prrs, strict=True)
        for metric in ("ROC-AUC", "PR-AUC"):
            if metric in parts:
                values = np.concatenate(parts[metric], axis=-1)
                by_metric[metric] = np.minimum(values, 1.0)  # a sum may exceed 1 by the last digit
        return [
            {metric: values[number] for metric, values in by_metric.items()}
            for number in range(len(self._quality))
        ]

    def _parts(self, uncertainty: Floats, metrics: Sequence[str]) -> dict[str, list[Floats]]:
        """Of each metric, of PRR its areas, the values on some resamples after others."""
        parts: dict[str, list[Floats]] = {metric: [] for metric in metrics}
        if not metrics:
            return parts
        of_metric = {"PRR": self._areas, "ROC-AUC": self._roc_auc, "PR-AUC": self._pr_auc}
        score = _Sorted(_Ranks(uncertainty), self._quality, self._incorrect)
        for draws in self._draws(score.ranks):
            for metric, values in parts.items():
                values.append(of_metric[metric](draws, score))
        return parts

    @np.errstate(divide="ignore", invalid="ignore")
    def areas(self, uncertainty: Floats, qualities: Floats | None = None) -> Floats:
        """The area under the rejection curve, [L, Q, R]: mean quality over the k retained sizes.

        NaN for k = 0. Of other ``qualities`` [Q, N] of the same questions if any are given.
        """
        if qualities is None:
            qualities = self._quality
        score = _Sorted(_Ranks(uncertainty), qualities, self._incorrect)
        parts = [self._areas(draws, score) for draws in self._draws(score.ranks)]
        return np.concatenate(parts, axis=-1)

    @np.errstate(divide="ignore", invalid="ignore")
    def prr(self, areas: Floats) -> Floats:
        """PRR of areas, [L, Q, R]; of the mean area of several scores the mean of their PRR."""
        ratio = prediction_rejection_ratio(areas, self._oracle, self._random)
        return np.where(self._undefined, np.nan, ratio)

    # -- a metric of some resamples, of a score's sorted draws -------------------------------------

    def _areas(self, draws: _Draws, score: _Sorted) -> Floats:
        """[L, Q, r]."""
        areas = np.empty((len(self._max_rejections), len(score.quality), len(draws.counts)))
        for number, max_rejection in enumerate(self._max_rejections):
            table, offsets = self._position_weights[number]
            places = draws.cumulated
            if offsets.any():
                places = places + offsets[draws.rows, None]
            sums = self._sums(
                draws, score, table.take(places), score.quality_steps, score.quality_of_tied
            )
            areas[number] = sums / _number_of_sizes(self._total[draws.rows], max_rejection)
        return areas

    def _roc_auc(self, draws: _Draws, score: _Sorted) -> Floats:
        """[Q, r] by Mann and Whitney's sum of the ranks of incorrect draws.

        Equal scores have their mean rank. The ranks of b − a draws at the positions a + 1 … b sum
        to (b² − a² + b − a) / 2.
        """
        squares = draws.cumulated.astype(np.float64)
        squares *= squares
        sums = self._sums(draws, score, squares, score.incorrect_steps, score.incorrect_of_tied)
        positives = self._positives[:, draws.rows]
        negatives = self._total[draws.rows] - positives
        return np.asarray((sums - positives**2) / (2 * positives * negatives))

    @staticmethod
    def _sums(
        draws: _Draws, score: _Sorted, upto: Floats, steps: Floats, of_tied: Floats
    ) -> Floats:
        """[Q, r] Σ value · weight over all draws.

        Of values by their ``steps`` [Q, N + 1] and ``of_tied`` [Q, tied]. ``upto`` [r, N + 1]: the
        weights of all positions up to where each question's draws end. The draws of a question are
        neighbours and take the weights of their positions; in a group of equal scores each takes
        the group's mean.
        """
        sums: Floats = steps @ upto.T  # Σ value (upto − the one before), summed by parts
        if len(score.ranks.first):
            weights = score.ranks.to_tied(score.ranks.of_ties(upto))
            weights *= draws.share_of_group(score.ranks)
            sums += of_tied @ weights.T
        return sums

    def _pr_auc(self, draws: _Draws, score: _Sorted) -> Floats:
        """[Q, r] the mean over incorrect draws of the precision at their position.

        The most uncertain come first. A question drawn c times behind ``called`` draws, p of them
        incorrect, adds c − (called − p) h with h = Σ_{j ≤ c} 1/(called + j). Groups of equal
        scores: :func:`_expected_precisions`.
        """
        called = self._total[draws.rows, None] - draws.cumulated
        harmonic = self._harmonic.take(called)
        reciprocals = harmonic[:, :-1] - harmonic[:, 1:]
        of_called = (reciprocals * called[:, 1:]) @ score.weights
        of_all = reciprocals @ score.weights
        upto = _cumulated(draws.counts.take(score.positions, axis=1))
        before = upto.take(score.starts[:-1], axis=1)
        positives = upto.take(score.starts[1:], axis=1) - before
        products = reciprocals.take(score.positions, axis=1)
        products *= upto[:, 1:]
        sums = positives - of_called + (positives + before) * of_all - products @ score.by_quality
        if len(score.ranks.first):
            sums += self._precisions_of_ties(draws, score, upto, called, harmonic)
        return np.asarray((sums / positives).T)

    @staticmethod
    def _precisions_of_ties(
        draws: _Draws, score: _Sorted, upto: Ints, called: Ints, harmonic: Floats
    ) -> Floats:
        """[r, Q] what groups of equal scores add to the sum over incorrect draws.

        ``upto``: incorrect draws cumulated over ``score.positions``; ``called`` and ``harmonic``
        [r, N + 1] as above.
        """
        ranks = score.ranks
        first, last = np.moveaxis(upto.take(score.ends_of_ties, axis=1), 1, 0)
        called_before = called.take(ranks.last, axis=1)[:, None]
        incorrect_before = upto.take(score.starts[1:], axis=1)[:, :, None] - last
        precisions = _expected_precisions(
            called_before,
            called_before - incorrect_before,
            ranks.of_ties(draws.cumulated)[:, None],
            last - first,
            -ranks.of_ties(harmonic)[:, None],
        )
        return np.asarray(precisions - (last - first).sum(axis=-1))

    # -- what all scores share ---------------------------------------------------------------------

    @cached_property
    def _oracle(self) -> Floats:
        """[L, Q, R] the areas under rejection by quality itself, where equal ones are as one."""
        areas = []
        for quality in self._quality:
            score = _Sorted(_Ranks(-quality, ties=False), quality[None], self._incorrect)
            parts = [self._areas(draws, score) for draws in self._draws(score.ranks)]
            areas.append(np.concatenate(parts, axis=-1))
        return np.concatenate(areas, axis=1)

    @cached_property
    def _random(self) -> Floats:
        """[Q, R] the exact expectation of the area under random rejection: the mean quality."""
        return np.asarray((self._counts @ self._quality.T).T / self._total)

    @cached_property
    def _undefined(self) -> Bools:
        """[L, Q, R] resamples in which PRR is undefined: k < 2, or a single distinct quality."""
        first = (self._counts > 0).argmax(axis=1)
        constant = []
        for quality in self._quality:
            alike = quality == quality[first, None]
            constant.append((self._counts * alike).sum(axis=1) == self._total)
        sizes = np.stack([_number_of_sizes(self._total, limit) for limit in self._max_rejections])
        return np.asarray((sizes[:, None] < 2) | np.stack(constant))

    @cached_property
    def _position_weights(self) -> list[tuple[Floats, Counts]]:
        """Of each rejection, tables of Σ_{p ≤ P} w(p), and where each resample's table starts.

        The tables lie end to end. The quality at position p of n sorted ones counts w(p) = Σ 1/m
        over the retained sizes m that include it.
        """
        return [self._weights_to(max_rejection) for max_rejection in self._max_rejections]

    def _weights_to(self, max_rejection: float) -> tuple[Floats, Counts]:
        sizes, size_of_resample = np.unique(self._total, return_inverse=True)
        tables = []
        for n in sizes:
            reciprocal = 1.0 / np.arange(1, n + 1)
            reciprocal[: n - _number_of_sizes(n, max_rejection)] = 0.0
            weights = reciprocal[::-1].cumsum()[::-1]
            tables.append(np.concatenate([[0.0], np.cumsum(weights)]))
        starts = np.cumsum(sizes + 1) - (sizes + 1)
        return np.concatenate(tables), starts[size_of_resample]

    @cached_property
    def _harmonic(self) -> Floats:
        """Σ_{p ≤ P} 1/p for P = 0 … the most drawn."""
        return np.append(0.0, np.cumsum(1.0 / np.arange(1, self._total.max() + 1)))

    def _draws(self, ranks: _Ranks) -> Iterator[_Draws]:
        """All resamples sorted by a score, some at a time."""
        width = max(1, _CELLS // len(ranks.order))
        for start in range(0, len(self._counts), width):
            rows = slice(start, start + width)
            counts = self._counts[rows].take(ranks.order, axis=1)
            yield _Draws(rows, counts, _cumulated(counts))


class _Sorted:
    """What questions sorted by a score are, by Q qualities [Q, N] and who is incorrect [Q, N]."""

    def __init__(self, ranks: _Ranks, quality: Floats, incorrect: Bools) -> None:
        self.ranks = ranks
        self.quality = quality[:, ranks.order]
        self._incorrect = incorrect[:, ranks.order]

    @cached_property
    def quality_steps(self) -> Floats:
        """[Q, N + 1] how far each quality falls below that of the one before, 0 for tied ones."""
        return -np.diff(self.quality * self.ranks.single, prepend=0.0, append=0.0)

    @cached_property
    def incorrect_steps(self) -> Floats:
        """[Q, N + 1] the same of 1 where incorrect, else 0."""
        return -np.diff(
            (self._incorrect & self.ranks.single).astype(np.float64), prepend=0.0, append=0.0
        )

    @cached_property
    def incorrect_of_tied(self) -> Floats:
        """[Q, tied] 1 where incorrect, else 0."""
        return self._incorrect[:, self.ranks.tied].astype(np.float64)

    @cached_property
    def quality_of_tied(self) -> Floats:
        """[Q, tied]."""
        return self.quality[:, self.ranks.tied]

    @cached_property
    def weights(self) -> Floats:
        """[N, Q] 1 where incorrect and not tied, else 0."""
        return np.ascontiguousarray((self._incorrect & self.ranks.single).T, dtype=np.float64)

    @cached_property
    def positions(self) -> Ints:
        """The positions of the incorrect ones by each quality, one quality behind the other."""
        return np.nonzero(self._incorrect)[1]

    @cached_property
    def starts(self) -> Ints:
        """[Q + 1] where, among ``positions``, each quality's start, and the end of the last."""
        return np.append(0, np.cumsum(self._incorrect.sum(axis=1)))

    @cached_property
    def by_quality(self) -> Floats:
        """[positions, Q] 1 where a position is a quality's and not tied, else 0."""
        columns = np.repeat(np.eye(len(self.quality)), np.diff(self.starts), axis=0)
        return columns * self.ranks.single[self.positions, None]

    @cached_property
    def segments(self) -> list[tuple[int, int]]:
        """Where, among ``positions``, each quality's start and end."""
        return list(itertools.pairwise(self.starts.tolist()))

    @cached_property
    def ends_of_ties(self) -> Ints:
        """[2, Q, G] where, among ``positions``, each tied group's incorrect ones start and end."""
        ends = np.stack([self.ranks.first, self.ranks.last])
        places = [
            start + np.searchsorted(self.positions[start:end], ends) for start, end in self.segments
        ]
        return np.stack(places, axis=1)


@dataclass
class _Draws:
    """r resamples, sorted by a score: which ones, and how often each question is drawn.

    counts [r, N], and cumulated [r, N + 1].
    """

    rows: slice
    counts: Ints
    cumulated: Ints
    _share: Floats | None = None

    def share_of_group(self, ranks: _Ranks) -> Floats:
        """[r, tied] the share of its group's draws that each tied question has."""
        if self._share is None:
            within = np.maximum(ranks.of_ties(self.cumulated), 1)
            self._share = self.counts.take(ranks.tied, axis=1) / ranks.to_tied(within)
        return self._share


class _Ranks:
    """The ascending ``order`` of values [N], and the ties.

    ``single``, in that order: which have a rank of their own. Each of G groups of equal values
    begins at ``first`` and ends before ``last``; none where ``ties`` do not count.
    """

    def __init__(self, values: Floats, *, ties: bool = True) -> None:
        self.order, starts = _groups(values)
        if not ties:
            starts = np.arange(len(values))
        lengths = np.diff(starts, append=len(values))
        several = lengths > 1
        self.single = np.repeat(~several, lengths)
        self.tied = np.flatnonzero(~self.single)
        self.first = starts[several]
        self.last = (starts + lengths)[several]
        self._group = np.repeat(np.arange(len(self.first)), lengths[several])

    def of_ties(self, cumulated: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """What each group adds, [r, N + 1] → [r, G]."""
        return cumulated.take(self.last, axis=1) - cumulated.take(self.first, axis=1)

    def to_tied(self, of_groups: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """The value of its group for each tied question, [r, G] → [r, tied]."""
        return of_groups.take(self._group, axis=1)


def measure_blocks(
    scores: Sequence[Floats],
    judged: Sequence[Judged],
    blocks: Iterable[Counts],
    metrics: Sequence[str],
    max_rejections: Sequence[float] = (0.5,),
) -> list[list[dict[str, Floats]]]:
    """By score [N] and quality each metric on all resamples, [R], some resamples at a time.

    blocks [N, …] hold how often each resample draws each question.
    """
    by_block: list[list[list[dict[str, Floats]]]] = []  # by score and quality within
    for counts in blocks:
        evaluator = QualitiesEvaluator(judged, counts, max_rejections)
        by_block.append([evaluator.measure(uncertainty, metrics) for uncertainty in scores])
    by_score = []
    for number in range(len(scores)):
        of_score = [measured[number] for measured in by_block]
        by_score.append([_joined_blocks(of_quality) for of_quality in zip(*of_score, strict=True)])
    return by_score


def _joined_blocks(blocks: Sequence[dict[str, Floats]]) -> dict[str, Floats]:
    """Each metric on the resamples of all blocks."""
    return {metric: np.concatenate([block[metric] for block in blocks]) for metric in blocks[0]}


def area_under_generalised_risk(accuracy: npt.ArrayLike, roc_auc: npt.ArrayLike) -> Floats:
    """AUGRC in [0, ½], lower is better, from arrays of one shape.

    Traub et al. 2024; docs/what_scores_mean.md. Where all answers are right, or all wrong, there is
    no ROC-AUC (NaN) and no order matters: 0, or ½.
    """
    a = np.asarray(accuracy, dtype=np.float64)
    auc = np.asarray(roc_auc, dtype=np.float64)
    pairs = a * (1 - a)
    return np.asarray(0.5 * (1 - a) ** 2 + np.where(pairs == 0, 0.0, pairs * (1 - auc)))


def why_undefined(
    metric: str, quality: Floats, max_rejection: float = 0.5, threshold: float = 0.5
) -> str:
    """Why a metric is undefined on these answers; empty if it is defined."""
    incorrect = quality <= threshold
    if metric == "PRR":
        if _number_of_sizes(len(quality), max_rejection) < 2:
            return (
                f"undefined: rejecting {max_rejection:.0%} of {len(quality)} answers leaves fewer "
                "than two sizes"
            )
        if np.ptp(quality) == 0:
            return "undefined: every answer has the same quality"
        return ""
    if not incorrect.any():
        return "undefined: every answer is correct"
    if metric == "ROC-AUC" and incorrect.all():
        return "undefined: every answer is incorrect"
    return ""


def _number_of_sizes(n: npt.ArrayLike, max_rejection: float) -> Counts:
    """k = ⌊max_rejection · n⌋, how many sizes the area of each of ``n`` questions averages over."""
    rejected = max_rejection * np.asarray(n)
    # in binary .29 of 100 is below 29
    return np.asarray(np.floor(rejected + _BELOW_WHOLE), dtype=np.int64)


def _groups(values: Floats) -> tuple[Counts, Counts]:
    """The ascending order of ``values`` and where, in it, each group of equal ones starts."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _expected_precisions(
    called: Ints, wrongly: Ints, within: Ints, positive: Ints, harmonic: Floats
) -> Floats:
    """Σ over incorrect answers of the expected precision at their position: [..., G] → [...].

    Of n = ``within`` equal scores p = ``positive`` are incorrect; c = ``called`` answers are more
    uncertain, of them w = ``wrongly`` correct. The answer at position c + j is incorrect with
    probability p/n, and then the first c + j hold c − w + 1 + (j − 1) r incorrect ones, r = (p −
    1)/(n − 1). Summed over j, with h = ``harmonic`` = Σ_j 1/(c + j), it is p r + (p/n) ((1 − r)(c +
    1) − w) h. Where p = n, as of copies of one question, it is p − w h.
    """
    share = np.where(within == positive, 1.0, (positive - 1) / np.maximum(within - 1, 1))
    before = (1.0 - share) * (called + 1) - wrongly
    return np.asarray((positive * (share + before * harmonic / np.maximum(within, 1))).sum(axis=-1))


def _cumulated(counts: Ints) -> Ints:
    """Cumulative sums along the rows, from 0 on: [r, N] → [r, N + 1].

    Of integers, since those of floats take seven times as long.
    """
    sums = np.empty((len(counts), counts.shape[1] + 1), dtype=np.int64)
    sums[:, 0] = 0
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    return sums


def _retained_quality(uncertainty: Floats, quality: Floats) -> Floats:
    """Expected mean quality of the n most certain answers, for n = 1 … N."""
    order, starts = _groups(uncertainty)
    ends = np.append(starts[1:], len(order))
    sums = np.add.reduceat(quality[order], starts).cumsum()
    sizes = np.arange(1, len(order) + 1)
    return np.asarray(np.interp(sizes, np.append(0, ends), np.append(0.0, sums)) / sizes)
