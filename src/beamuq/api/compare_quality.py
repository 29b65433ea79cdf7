"""Whether one answer to each question is better than another one: chosen or greedy, two models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.answers_alone import CHOSEN, JUDGED, check_is_no_score
from beamuq.api.compare_forms import name_of_quality
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.paired_differences import QualityComparison
from beamuq.api.paired_prr import RESAMPLES, names_of_answers, only_estimate, p_or_none
from beamuq.api.rows import check_settings
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_blocks
from beamuq.evaluation.estimates import TIE, Estimates


def compare_quality(
    quality: npt.ArrayLike,
    against: npt.ArrayLike,
    *,
    groups: Sequence[object] | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> QualityComparison:
    """Compare the answers' quality with that of other answers: the difference of means, paired.

    Of the same questions by one metric: what ``choose`` picked against the greedy answers, one
    model against another one. Both means are of the same resamples of the questions, or of their
    groups, so that the difference has an interval of its own and a p, made as that of ``compare``.

    Parameters
    ----------
    quality
        How right each answer is, higher = better: a series by id as ``beamuq.quality`` returns it,
        or numbers.
    against
        The same of the other answers, in the same order.
    groups
        What belongs together (a story, a user, a theme), and is resampled together; None: each
        question on its own.
    resamples, confidence, seed
        Of the percentile bootstrap, of two resamples or more, whose draws are those of ``compare``
        and ``prr``.

    Returns
    -------
    The difference: value, low, high, p and n; of how many questions the answer is better, worse and
    equal; and both means.

    Raises BeamUQError in one line: a missing quality, two metrics, columns of other questions or in
    another order, a setting out of its range.

    Examples
    --------
    >>> rows = [{"answer": "Rome", "samples": ["Pisa", "Pisa"]}]
    >>> best = beamuq.choose(rows, similarity="lexical")
    >>> chosen = beamuq.quality(best, ["Rome"])
    >>> comparison = beamuq.compare_quality(chosen, beamuq.quality(rows, ["Rome"]))
    >>> comparison.value, comparison.worse
    (-1.0, 1)
    """
    check_settings(resamples=resamples, confidence=confidence, seed=seed)
    check_is_no_score("quality", quality)
    check_is_no_score("against", against)
    check_order(quality=quality, against=against, groups=groups)
    columns = [number_column("quality", quality, truth_values=True)]
    columns.append(number_column("against", against, truth_values=True))
    ids = names_of_answers(len(columns[0]), quality, against)
    units = ids if groups is None else group_column(groups)
    _check_lengths(columns, units, grouped=groups is not None)
    name = draws_name("", zip(ids, units, strict=True))
    counts = np.concatenate([*resample_blocks(units, resamples, seed, name)], axis=1)
    first, second = [_mean(column, counts) for column in columns]
    difference = first.minus(second)
    of_difference = only_estimate(difference, confidence)
    differences = columns[0] - columns[1]
    return QualityComparison(
        quality=_metric(quality, against),
        value=of_difference.value,
        low=of_difference.low,
        high=of_difference.high,
        std=of_difference.std,
        p=p_or_none(difference),
        n=len(ids),
        groups=len(set(units)),
        note=of_difference.note,
        first=only_estimate(first, confidence),
        second=only_estimate(second, confidence),
        better=int((differences > TIE).sum()),
        worse=int((differences < -TIE).sum()),
        equal=int((abs(differences) <= TIE).sum()),
        names=_names(quality, against),
    )


def _mean(column: Floats, counts: npt.NDArray[np.int64]) -> Estimates:
    """The mean of a column [N], and those of its resamples, [N, 1 + R] counts."""
    means = column @ counts / counts.sum(axis=0)
    row = {"metric": "mean", "value": means[0], "n": len(column)}
    return Estimates.from_rows([row], [means[1:]])


def _check_lengths(columns: Sequence[Floats], units: Sequence[str], *, grouped: bool) -> None:
    first, second = columns
    if not len(first) == len(second) == len(units) or not len(first):
        groups = f", groups: {len(units)}" if grouped else ""
        raise BeamUQError(
            f"quality: {len(first)}, against: {len(second)}{groups}; give one of each per question"
        )
    for name, column in (("quality", first), ("against", second)):
        missing = np.flatnonzero(np.isnan(column))
        if len(missing):
            raise BeamUQError(
                f"{name}: row {missing[0] + 1}: missing; leave this question out of both"
            )


def _metric(quality: object, against: object) -> str:
    """The metric of both; raises BeamUQError if they are named after two."""
    names = [name_of_quality(column) for column in (quality, against)]
    known = [name for name in names if name != "quality"]
    if len(set(known)) > 1:
        raise BeamUQError(
            f"quality is by {names[0]}, against by {names[1]}; give both by one metric"
        )
    if len(known) == 1:
        judged, unnamed = (
            ("quality", "against") if names[1] == "quality" else ("against", "quality")
        )
        raise BeamUQError(
            f"{judged} is by {known[0]}, {unnamed} names no judge; give both by one: judge "
            f"{unnamed} by it too, or both by eye, as two lists"
        )
    return known[0] if known else "quality"


def _names(quality: object, against: object) -> tuple[str, str]:
    """What both are called, where one is of the texts that ``choose`` picked."""
    first, second = [
        isinstance(column, pd.Series) and column.attrs.get(JUDGED) == CHOSEN
        for column in (quality, against)
    ]
    if first and not second:
        return "chosen", "answers"
    if second and not first:
        return "answers", "chosen"
    return "first", "second"
