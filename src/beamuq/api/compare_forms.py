"""Whether one score ranks better than another one: a method over beams and samples, or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.answers_alone import check_are_of_the_same
from beamuq.api.named_scores import Name, ScoreColumn, ScoreKeys, columns_of, keys_of
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.paired_differences import ComparedScore, PairedComparison, ScoresComparison
from beamuq.api.paired_prr import RESAMPLES, measured_prr, only_estimate, p_or_none
from beamuq.api.rows import check_settings
from beamuq.api.score_candidates import Scores, as_scores
from beamuq.api.score_series import judge_in_words, similarity_of
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import Estimates


@overload
def compare(
    scores: pd.DataFrame,
    quality: npt.ArrayLike,
    method: str = ...,
    *,
    against: None = ...,
    groups: Sequence[object] | None = ...,
    setting: str = ...,
    max_rejection: float = ...,
    resamples: int = ...,
    confidence: float = ...,
    seed: int = ...,
) -> PairedComparison: ...


@overload
def compare(
    scores: pd.DataFrame,
    quality: npt.ArrayLike,
    method: Name = ...,
    *,
    against: Name,
    groups: Sequence[object] | None = ...,
    setting: str = ...,
    max_rejection: float = ...,
    resamples: int = ...,
    confidence: float = ...,
    seed: int = ...,
) -> ScoresComparison: ...


def compare(
    scores: pd.DataFrame,
    quality: npt.ArrayLike,
    method: Name = "Dissimilarity",
    *,
    against: Name | None = None,
    groups: Sequence[object] | None = None,
    setting: str = "",
    max_rejection: float = 0.5,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison | ScoresComparison:
    """Compare a method over beams with itself over samples, or two methods: difference in PRR.

    As in a study: both are measured on the same resamples of the questions, or of their groups, so
    that the difference has an interval of its own and a p. Where ``score`` was given ``draw_size``,
    the samples are several draws, and a method over samples has the mean of the draws' PRR.

    p is two-sided, of a difference of 0, from the resamples that the interval is from. Of R
    resamples k have a difference at or beyond 0, counted on the side of 0 where fewer lie: p is
    2 (k + 1) / (R + 1), at most 1; so of 2,000 resamples .001 is the least. It is not corrected for
    other comparisons.

    Parameters
    ----------
    scores
        What ``score`` returns of rows with samples and beams.
    quality
        Of each question, in the order of ``scores``, or a series by id as ``beamuq.quality``
        returns it; higher = better.
    method
        Whose scores. Beside ``against`` also one score, as there.
    against
        None: beams minus samples of ``method``. Else another score, which is subtracted: a method,
        over beams where it has any, else over samples, as ``scores["Prob"]``; a method with its
        form, ``("Dissimilarity", "samples")``; or a name that ``scores.wide()`` has,
        ``"Dissimilarity + multinomial"``.
    groups
        What belongs together (a story, a user, a theme), and is resampled together; None: each
        question on its own.
    setting
        A further formulation of the method.
    max_rejection
        The area goes to this share of rejected answers, in (0, 1].
    resamples, confidence, seed
        Of the percentile bootstrap, of two resamples or more. Its draws are those of prr: each form
        has the interval there that it has here.

    Returns
    -------
    The difference: value, low, high, p and n; and the PRR of each form (``beams``, ``samples``) or
    of each score (``first.prr``, ``second.prr``), over samples the mean over their draws. All are
    of these samples: another draw (``decode`` with another seed) gives other samples and another
    difference, which neither the interval nor p contains. The more draws, the less that matters:
    ``decode(…, samples=50)`` and ``score(rows, draw_size=10)`` make five.

    Raises BeamUQError in one line: a method without both forms, a score with itself, a question
    that lacks a score or a quality, columns of other questions or in another order, a setting out
    of its range.

    Examples
    --------
    >>> samples = [["Rome", "Rome"], ["Rome", "Bari"], ["Bari", "Pisa"], ["Bari", "Rome"]]
    >>> beams = [{"text": "Rome", "logprob": -0.7}, {"text": "Bari", "logprob": -0.9}]
    >>> rows = [{"answer": "Rome", "samples": drawn, "beams": beams} for drawn in samples]
    >>> scores = beamuq.score(rows, similarity="lexical")
    >>> comparison = beamuq.compare(scores, [1, 1, 0, 0], "Dissimilarity")
    >>> comparison.n, round(comparison.value, 3)
    (4, -1.0)
    >>> samples = ("Dissimilarity", "samples")
    >>> beamuq.compare(scores, [1, 1, 0, 0], "LexicalSimilarity", against=samples).first.method
    'LexicalSimilarity'
    """
    check_settings(
        max_rejection=max_rejection, resamples=resamples, confidence=confidence, seed=seed
    )
    _check_one_method(method, against)
    check_are_of_the_same(scores, quality)
    frame = as_scores(scores)
    ids = pd.Index(frame["id"].unique())
    first, second = _compared_keys(frame, method, against, setting)
    sides = [columns_of(frame, ids, first), columns_of(frame, ids, second)]
    columns = sides[0] + sides[1]
    check_order(scores=columns[0].values, quality=quality, groups=groups)
    names = list(map(str, ids))
    units = names if groups is None else group_column(groups)
    measured = measured_prr(
        [({}, np.asarray(column.values, dtype=np.float64)) for column in columns],
        _quality_values(ids, quality, units),
        names,
        units,
        max_rejection=max_rejection,
        resamples=resamples,
        seed=seed,
    )
    of_first = _mean_of_draws(measured, 0, len(sides[0]))
    of_second = _mean_of_draws(measured, len(sides[0]), len(columns))
    difference = of_first.mean.minus(of_second.mean)
    of_difference = only_estimate(difference, confidence)
    comparison = ScoresComparison(
        quality=name_of_quality(quality),
        value=of_difference.value,
        low=of_difference.low,
        high=of_difference.high,
        std=of_difference.std,
        p=p_or_none(difference),
        n=len(ids),
        groups=len(set(units)),
        note=of_difference.note,
        first=_compared_score(frame, sides[0], of_first, confidence),
        second=_compared_score(frame, sides[1], of_second, confidence),
    )
    return comparison if against is not None else _of_forms(comparison)


def name_of_quality(quality: object) -> str:
    """What a quality is called: the metric that names a series, and whether it was cut in two."""
    return judge_in_words(quality) or "quality"


def _check_one_method(method: object, against: object) -> None:
    if against is not None or (isinstance(method, str) and " " not in method):
        return
    if isinstance(method, str | tuple):
        raise BeamUQError(
            f"method: {method!r:.60}: a score in one form; give the method alone, to compare its "
            "beams with its samples, or another score beside it: against='Prob'"
        )
    raise BeamUQError(
        "method: give one; for several {method: beamuq.compare(scores, quality, method)}, "
        "which beamuq.plot.gains draws"
    )


def _compared_keys(
    scores: Scores, method: Name, against: Name | None, setting: str
) -> tuple[ScoreKeys, ScoreKeys]:
    """What is compared; raises BeamUQError if a method lacks a form, or both are the same."""
    if against is None:
        return _keys_of_forms(scores, str(method), setting)
    first = keys_of("method", scores, method, setting)
    second = keys_of("against", scores, against)
    if first == second:
        raise BeamUQError(
            f"against: {second.in_words()}, which method is too; give another method, or another "
            "form of it: against=('Dissimilarity', 'samples')"
        )
    return first, second


def _keys_of_forms(scores: Scores, method: str, setting: str) -> tuple[ScoreKeys, ScoreKeys]:
    """Beams and samples of a method; raises BeamUQError if it has but one of them."""
    beams = ScoreKeys(method, "beamsearch", setting)
    samples = ScoreKeys(method, "multinomial", setting)
    rows = scores[(scores["method"] == method) & (scores["setting"] == setting)]
    fix = (
        "beams minus samples takes a method that has scores over both, such as Dissimilarity; for "
        "another method beside it give against=…"
    )
    if setting:
        fix = "leave the setting out, or give another score beside it: against=…"
    for keys, kind in ((beams, "beams"), (samples, "samples")):
        if len(rows) and keys.form not in set(rows["variant"]):
            name = f"{method} {setting}".strip()
            raise BeamUQError(f"{name}: is not scored over {kind}; {fix}")
    return beams, samples


@dataclass(frozen=True)
class _OfDraws:
    """PRR of a score: the mean over the draws, one row, and that of each draw."""

    mean: Estimates
    draws: tuple[float, ...]


def _mean_of_draws(measured: Estimates, start: int, end: int) -> _OfDraws:
    rows = measured.rows(range(start, end))
    return _OfDraws(rows.mean_over_draws(""), tuple(rows.frame["value"].dropna()))


def _compared_score(
    scores: Scores, columns: Sequence[ScoreColumn], measured: _OfDraws, confidence: float
) -> ComparedScore:
    keys = columns[0].keys
    return ComparedScore(
        method=keys.method,
        form=keys.form,
        setting=keys.setting if len(columns) == 1 else "",
        prr=only_estimate(measured.mean, confidence),
        draws=measured.draws if keys.is_over_samples else (),
        candidates=(
            min(column.counts[0] for column in columns),
            max(column.counts[1] for column in columns),
        ),
        similarity=similarity_of(scores, keys.method),
    )


def _of_forms(comparison: ScoresComparison) -> PairedComparison:
    """The comparison of beams, first, with samples, second, of one method."""
    beams = comparison.first
    samples = comparison.second
    return PairedComparison(
        method=beams.method,
        setting=beams.setting,
        quality=comparison.quality,
        value=comparison.value,
        low=comparison.low,
        high=comparison.high,
        std=comparison.std,
        p=comparison.p,
        n=comparison.n,
        groups=comparison.groups,
        note=comparison.note,
        beams=beams.prr,
        samples=samples.prr,
        similarity=comparison.similarity,
        draws=samples.draws,
        sizes=(beams.candidates[1], samples.candidates[0]),
    )


def _quality_values(ids: pd.Index, quality: npt.ArrayLike, units: Sequence[str]) -> Floats:
    values = number_column("quality", quality, truth_values=True)
    if not len(ids) == len(values) == len(units):
        raise BeamUQError(
            f"scores: {len(ids)} questions, quality: {len(values)}, groups: {len(units)}; give one "
            "of each per question"
        )
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise BeamUQError(
            f"quality: id {ids[missing[0]]!r}: missing; leave the question out of both"
        )
    return values
