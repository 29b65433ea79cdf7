"""Whether a method ranks better over beams than over samples, on anyone's questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.answers_alone import check_are_of_the_same
from beamuq.api.draws_of_samples import settings_of_draws
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.paired_prr import RESAMPLES, measured_prr, only_estimate
from beamuq.api.score_candidates import Scores, as_scores
from beamuq.api.score_series import similarity_of
from beamuq.array_types import Floats
from beamuq.drawing.curves import draw_values
from beamuq.drawing.series_on_axes import Axes, axes_or_new
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import Estimate, interval_in_words
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

    draws: the PRR of each draw of samples, of which ``samples`` is the mean; one where the samples
    are one draw, none where it is undefined. sizes: the most beams that a question has, and the
    fewest samples of a draw; 0 where that is not known.
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
    draws: tuple[float, ...] = ()
    sizes: tuple[int, int] = (0, 0)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the PRR of each form and the difference, with their intervals; the axes drawn on.

        ``ax``: of matplotlib; None: those of a new figure. Raises BeamUQError without matplotlib.
        """
        ax = axes_or_new(ax, height=2)
        rows = [
            {"name": self._samples_name(), "variant": "multinomial", **_drawn(self.samples)},
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
            f"samples {self.samples.in_words()}, {self._draws_in_words()}",
            *self._size_in_words(),
            *few,
        ]
        return "\n".join(lines)

    def _samples_name(self) -> str:
        several = len(self.draws) > 1
        return f"samples, mean of {len(self.draws)} draws" if several else "samples"

    def _draws_in_words(self) -> str:
        """Of how many draws the PRR over samples is, and how far these lie apart."""
        if len(self.draws) < 2:
            return "of this one draw"
        _, size = self.sizes
        each = f" of {size}" if size else ""
        spread = f"{decimal(min(self.draws))} to {decimal(max(self.draws))}"
        return f"mean of {len(self.draws)} draws{each} ({spread})"

    def _size_in_words(self) -> list[str]:
        """That there are several times as many samples as beams, and what to do then."""
        beams, samples = self.sizes
        if not beams or samples < 2 * beams:
            return []
        several = f"score(rows, draw_size={beams}) compares as many, in the mean of several draws"
        if samples % beams:
            several = f"give as many, or a multiple of {beams}, of which {several}"
        return [f"{samples} samples beside {beams} beams: {several}"]


def compare(
    scores: pd.DataFrame,
    quality: npt.ArrayLike,
    method: str = "Dissimilarity",
    *,
    groups: Sequence[object] | None = None,
    setting: str = "",
    max_rejection: float = 0.5,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison:
    """Compare a method over beams with itself over samples: the difference in PRR, paired.

    As in a study: both are measured on the same resamples of the questions, or of their groups, so
    that the difference has an interval of its own and a p. Where ``score`` was given ``draw_size``,
    the samples are several draws, and the mean of the draws' PRR is what beams are compared with.

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
        Of the percentile bootstrap. Its draws are those of prr: each form has the interval there
        that it has here.

    Returns
    -------
    The difference: value, low, high, p and n; and the PRR of each form, over samples the mean over
    their draws. All are of these samples: another draw (``decode`` with another seed) gives other
    samples and another difference, which neither the interval nor p contains. The more draws, the
    less that matters.

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
    if not isinstance(method, str):
        raise BeamUQError(
            "method: give one; for several {method: beamuq.compare(scores, quality, method)}, "
            "which beamuq.plot.gains draws"
        )
    check_are_of_the_same(scores, quality)
    frame = as_scores(scores)
    ids = pd.Index(frame["id"].unique())
    columns = _columns(frame, ids, method, setting)
    check_order(scores=columns[0].scores, quality=quality, groups=groups)
    names = list(map(str, ids))
    units = names if groups is None else group_column(groups)
    measured = measured_prr(
        [(column.keys, np.asarray(column.scores, dtype=np.float64)) for column in columns],
        _quality_values(ids, quality, units),
        names,
        units,
        max_rejection=max_rejection,
        resamples=resamples,
        seed=seed,
    )
    beams = measured.where(variant="beamsearch")
    draws = measured.where(variant="multinomial")
    samples = draws.mean_over_draws("")
    difference = beams.minus(samples)
    of_difference = only_estimate(difference, confidence)
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
        beams=only_estimate(beams, confidence),
        samples=only_estimate(samples, confidence),
        note=of_difference.note,
        similarity=similarity_of(frame, method),
        draws=tuple(draws.frame["value"].dropna()),
        sizes=(columns[0].most, min(column.fewest for column in columns[1:])),
    )


@dataclass(frozen=True)
class _Column:
    """Scores of one form, or of one draw of samples, by id, and from how many candidates.

    ``keys``: form and setting; fewest, most: candidates of a question, 0 where that is not known.
    """

    keys: dict[str, str]
    scores: pd.Series[float]
    fewest: int
    most: int


def _columns(scores: Scores, ids: pd.Index, method: str, setting: str) -> list[_Column]:
    """The scores over beams, and those over each draw of samples, or over all that there are."""
    of_method = scores[(scores["method"] == method) & (scores["variant"] == "multinomial")]
    draws = [] if setting else settings_of_draws(of_method["setting"].unique())
    settings = [("beamsearch", setting)]
    settings += [("multinomial", draw) for draw in draws or [setting]]
    return [_column(scores, ids, method, form, name) for form, name in settings]


def _column(scores: Scores, ids: pd.Index, method: str, form: str, setting: str) -> _Column:
    values = scores_of_form(scores, ids, method, form, setting)
    in_form = (scores["method"] == method) & (scores["variant"] == form)
    rows = scores[in_form & (scores["setting"] == setting) & scores["value"].notna()]
    counts = [0]
    if "candidates" in rows and rows["candidates"].notna().all():
        counts = [int(count) for count in rows["candidates"]]
    return _Column({"variant": form, "setting": setting}, values, min(counts), max(counts))


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
