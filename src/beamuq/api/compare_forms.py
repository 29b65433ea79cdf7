"""Whether a method ranks better over beams than over samples, on anyone's questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.score_candidates import Scores, as_scores
from beamuq.api.score_series import similarity_of
from beamuq.array_types import Counts, Floats
from beamuq.drawing.curves import draw_values
from beamuq.drawing.series_on_axes import Axes, axes_or_new
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import (
    Estimate,
    draws_name,
    interval_in_words,
    resample_blocks,
)
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks, why_undefined
from beamuq.printed_numbers import decimal

FORMS = {"beamsearch": "beams", "multinomial": "samples"}
"""The two forms that are compared, and what they are called."""
FEW = 100
"""Questions, or groups of them, of which fewer are called few."""


@dataclass(frozen=True)
class PairedComparison:
    """PRR of a method over beams minus that over samples, on the same questions.

    value, low, high, std: the difference, above 0 where beams rank better, with the interval and
    the standard deviation of the paired bootstrap; None where it is undefined, and ``note`` says
    why. p: two-sided, of a difference of 0. n questions, in so many ``groups``. beams, samples: the
    PRR of each. similarity: what texts were compared by, "" where that is not known. It shows
    itself in words.
    """

    method: str
    setting: str
    quality: str
    value: float | None
    low: float | None
    high: float | None
    std: float | None
    p: float | None
    n: int
    groups: int
    beams: Estimate
    samples: Estimate
    note: str = ""
    similarity: str = ""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the PRR of each form and the difference, with their intervals; the axes drawn on.

        ``ax``: of matplotlib; None: those of a new figure. Raises BeamUQError without matplotlib.
        """
        ax = axes_or_new(ax, height=2)
        rows = [
            {"name": "samples", "variant": "multinomial", **_drawn(self.samples)},
            {"name": "beams", "variant": "beamsearch", **_drawn(self.beams)},
            {"name": "beams − samples", "variant": "", **_drawn(self)},
        ]
        draw_values(pd.DataFrame(rows), ax)
        ax.set_xlabel(f"PRR of {self.method} by {self.quality}, n = {self.n}")
        return ax

    def __repr__(self) -> str:
        name = f"{self.method} {self.setting}".strip()
        compared = f", similarity {self.similarity}" if self.similarity else ""
        heading = f"beams − samples in PRR of {name} by {self.quality}{compared}"
        if self.value is None:
            return f"{heading}: {self.note or 'undefined'}, n = {self.n}"
        p = "" if self.p is None else f", p = {decimal(self.p)}"
        groups = "" if self.groups == self.n else f" in {self.groups} groups"
        interval = interval_in_words(self.low, self.high)
        few = [] if self.groups >= FEW else [f"few questions: ask some hundreds, not {self.groups}"]
        lines = [
            f"{heading}: {decimal(self.value)}{interval}{p}, n = {self.n}{groups}",
            f"beams   {self.beams.in_words()}",
            f"samples {self.samples.in_words()}, of this one draw",
            *few,
        ]
        return "\n".join(lines)


def compare(
    scores: pd.DataFrame,
    quality: npt.ArrayLike,
    method: str = "Dissimilarity",
    *,
    groups: Sequence[object] | None = None,
    setting: str = "",
    max_rejection: float = 0.5,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison:
    """Compare a method over beams with itself over samples: the difference in PRR, paired.

    As in a study: both are measured on the same resamples of the questions, or of their groups, so
    that the difference has an interval of its own and a p.

    Parameters
    ----------
    scores
        What ``score`` returns of rows with samples and beams.
    quality
        Of each question, in the order of ``scores``, or a series by id as ``beamuq.quality``
        returns it; higher = better.
    method
        Whose scores.
    groups
        What belongs together (a story, a user, a theme), and is resampled together; None: each
        question on its own.
    setting
        A further formulation of the method.
    max_rejection
        The area goes to this share of rejected answers.
    resamples, confidence, seed
        Of the percentile bootstrap.

    Returns
    -------
    The difference: value, low, high, p and n; and the PRR of each form. All are of these samples:
    another draw (``decode`` with another seed) gives other samples and another difference, which
    neither the interval nor p contains.

    Raises BeamUQError in one line: a method without both forms, a question that lacks a score or a
    quality, columns of other questions or in another order.

    Examples
    --------
    >>> samples = [["Rome", "Rome"], ["Rome", "Bari"], ["Bari", "Pisa"], ["Bari", "Rome"]]
    >>> beams = [{"text": "Rome", "logprob": -0.7}, {"text": "Bari", "logprob": -0.9}]
    >>> rows = [{"answer": "Rome", "samples": drawn, "beams": beams} for drawn in samples]
    >>> scores = beamuq.score(rows, similarity="lexical")
    >>> comparison = beamuq.compare(scores, [1, 1, 0, 0], "Dissimilarity")
    >>> comparison.n, round(comparison.value, 3)
    (4, -1.0)
    """
    frame = as_scores(scores)
    ids = pd.Index(frame["id"].unique())
    pair = [scores_of_form(frame, ids, method, form, setting) for form in FORMS]
    check_order(scores=pair[0], quality=quality, groups=groups)
    units = list(map(str, ids)) if groups is None else group_column(groups)
    values = _quality_values(ids, quality, units)
    name = draws_name("", zip(map(str, ids), units, strict=True))
    blocks = resample_blocks(units, resamples, seed, name)
    columns = [np.asarray(series.to_numpy(), dtype=np.float64) for series in pair]
    measured = _measured(columns, values, blocks, max_rejection)
    difference = measured.rows([0]).minus(measured.rows([1]))
    of_difference = _estimate(difference, confidence)
    p = float(difference.p()[0])
    return PairedComparison(
        method=method,
        setting=setting,
        quality=str(getattr(quality, "name", None) or "quality"),
        value=of_difference.value,
        low=of_difference.low,
        high=of_difference.high,
        std=of_difference.std,
        p=None if math.isnan(p) else p,
        n=len(ids),
        groups=len(set(units)),
        beams=_estimate(measured.rows([0]), confidence),
        samples=_estimate(measured.rows([1]), confidence),
        note=of_difference.note,
        similarity=similarity_of(frame, method),
    )


def _drawn(estimate: Estimate | PairedComparison) -> dict[str, float]:
    """A value and its interval as numbers; NaN, which is not drawn, where there is none."""
    parts = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: math.nan if part is None else part for name, part in parts.items()}


def scores_of_form(
    scores: Scores, ids: pd.Index, method: str, form: str, setting: str
) -> pd.Series[float]:
    """The scores of one form by id; raises BeamUQError if a question has none."""
    rows = scores[(scores["method"] == method) & (scores["setting"] == setting)]
    if len(rows) and form not in set(rows["variant"]):
        raise BeamUQError(
            f"{method}: is not scored over {FORMS[form]}; compare takes a method that has scores "
            "over beams and over samples, such as Dissimilarity"
        )
    series = scores.scores_of(method, form, setting)
    for label in ids:
        if label not in series.index:
            raise BeamUQError(_no_score(rows, label, method, form))
    return pd.Series(series.loc[ids].to_numpy(np.float64), index=ids)


def _no_score(rows: pd.DataFrame, label: object, method: str, form: str) -> str:
    of_question = rows[(rows["id"] == label) & (rows["variant"] == form)]
    reasons = list(of_question.get("reason", pd.Series(dtype=str)))
    reason = f" ({reasons[0]})" if reasons and reasons[0] else ""
    return (
        f"scores: id {label!r}: no {method} over {FORMS[form]}{reason}; leave the question out: "
        f"scores[scores['id'] != {label!r}], quality.drop({label!r})"
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


def _measured(
    scores: Sequence[Floats], quality: Floats, blocks: Iterable[Counts], max_rejection: float
) -> Estimates:
    """PRR of both forms on the same resamples, a row each; ``blocks`` [N, …]: those resamples."""
    measured = measure_blocks(scores, [Judged(quality)], blocks, ["PRR"], [max_rejection])
    drawn = [by_metric["PRR"] for (by_metric,) in measured]
    note = why_undefined("PRR", quality, max_rejection)
    rows = [
        {"metric": "PRR", "variant": form, "value": prr[0], "n": len(quality), "note": note}
        for form, prr in zip(FORMS, drawn, strict=True)
    ]
    return Estimates.from_rows(rows, [prr[1:] for prr in drawn])


def _estimate(estimates: Estimates, confidence: float) -> Estimate:
    """The only row of estimates."""
    (row,) = estimates.summary(confidence).to_dict("records")
    ends = {name: _none_if_nan(row[name]) for name in ("value", "low", "high", "std")}
    return Estimate(**ends, note=str(row["note"]), n=int(row["n"]))


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
