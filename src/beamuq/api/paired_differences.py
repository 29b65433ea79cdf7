"""Differences on the same questions, as they show themselves in words and in pictures."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from beamuq.api.draws_of_samples import settings_of_draws
from beamuq.api.score_series import counted, form_in_words
from beamuq.drawing.curves import draw_values
from beamuq.drawing.series_on_axes import Axes, axes_or_new, title_with_facts
from beamuq.evaluation.bootstrap import Estimate, interval_in_words
from beamuq.printed_numbers import decimal

FEW = 100
"""Questions, or groups of them, of which fewer are called few."""
DRAWS = 5
"""The mean of how many draws is advised where there is one."""
LINE = "\n"


class Part(NamedTuple):
    """One of the two values whose difference is taken: its name, its look and itself."""

    name: str
    variant: str
    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class PairedDifference(ABC):
    """A difference on the same questions, with the interval and p of a paired bootstrap.

    quality: the judge's name. value, low, high, std: the difference, its interval and its standard
    deviation over the resamples; None where it is undefined, and ``note`` says why. p: two-sided,
    of a difference of 0. n questions, in so many ``groups``, which are what is drawn.
    """

    quality: str
    value: float | None
    low: float | None
    high: float | None
    std: float | None
    p: float | None
    n: int
    groups: int
    note: str = ""

    def __repr__(self) -> str:
        return "\n".join([self._first_line(), *self._lines(), *self._few_in_words()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both values and the difference, with their intervals; the axes drawn on.

        ``ax``: of matplotlib; None: those of a new figure. Raises BeamUQError without matplotlib.
        """
        ax = axes_or_new(ax, height=3)
        difference = Estimate(self.value, self.low, self.high, self.std, self.note, self.n)
        parts = [*self._parts(), Part(self._row_of_difference(), "", difference)]
        rows = [{"name": name, "variant": look, **ends_of(part)} for name, look, part in parts]
        draw_values(pd.DataFrame(rows), ax)
        measure, title = self._measure_and_title()
        ax.set_xlabel(measure)
        title_with_facts(ax, title, self.facts, [part.name for part in parts])
        return ax

    @property
    @abstractmethod
    def name_of_difference(self) -> str:
        """What is subtracted from what: ``beams − samples``."""

    @property
    def facts(self) -> list[str]:
        """What a picture says below its title."""
        return [f"by {self.quality}", f"n = {self.n}{self._groups_in_words()}"]

    def _row_of_difference(self) -> str:
        """What the difference is called in a picture."""
        return self.name_of_difference

    @abstractmethod
    def _parts(self) -> list[Part]:
        """Both values, from the top of the picture."""

    @abstractmethod
    def _measure_and_title(self) -> tuple[str, str]:
        """What the values measure, and what the picture is of."""

    @abstractmethod
    def _heading(self) -> str:
        """What stands before the difference."""

    @abstractmethod
    def _lines(self) -> list[str]:
        """What stands below the difference."""

    def _first_line(self) -> str:
        if self.value is None:
            return f"{self._heading()}: {self.note or 'undefined'}, n = {self.n}"
        p = "" if self.p is None else f", p = {decimal(self.p)}"
        interval = interval_in_words(self.low, self.high)
        size = f"n = {self.n}{self._groups_in_words()}"
        return f"{self._heading()}: {decimal(self.value)}{interval}{p}, {size}"

    def _groups_in_words(self) -> str:
        return "" if self.groups == self.n else f" in {self.groups} groups"

    def _few_in_words(self) -> list[str]:
        if self.groups >= FEW:
            return []
        return [f"few questions: ask some hundreds, not {self.groups}"]


@dataclass(frozen=True, kw_only=True, repr=False)
class PairedComparison(PairedDifference):
    """PRR of a method over beams minus that over samples, on the same questions.

    quality: the judge's name. value, low, high, std: the difference, above 0 where beams rank
    better, with the interval and the standard deviation of the paired bootstrap; None where it is
    undefined, and ``note`` says why. p: two-sided, of a difference of 0 (see ``compare``). n
    questions, in so many ``groups``. beams, samples: the PRR of each. similarity: what texts were
    compared by, "" where that is not known. It shows itself in words.

    draws: the PRR of each draw of samples, of which ``samples`` is the mean; one where the samples
    are one draw, none where it is undefined. sizes: the most beams that a question has, and the
    fewest samples of a draw; 0 where that is not known.
    """

    method: str
    setting: str
    beams: Estimate
    samples: Estimate
    similarity: str = ""
    draws: tuple[float, ...] = ()
    sizes: tuple[int, int] = (0, 0)

    @property
    def name_of_difference(self) -> str:
        """What is subtracted from what."""
        return "beams − samples"

    @property
    def facts(self) -> list[str]:
        """What a picture says below its title."""
        return with_similarity(super().facts, self.similarity)

    def _parts(self) -> list[Part]:
        beams, samples = self.sizes
        beams_name = counted("beams", (beams, beams))
        samples_name = counted("samples", (samples, samples)) + mean_in_words(self.draws)
        return [
            Part(samples_name, "multinomial", self.samples),
            Part(beams_name, "beamsearch", self.beams),
        ]

    def _measure_and_title(self) -> tuple[str, str]:
        return "PRR", f"{self.method} {self.setting}".strip()

    def _heading(self) -> str:
        name = f"{self.method} {self.setting}".strip()
        compared = f", similarity {self.similarity}" if self.similarity else ""
        return f"beams − samples in PRR of {name} by {self.quality}{compared}"

    def _lines(self) -> list[str]:
        draws = draws_in_words(self.draws, self.sizes[1])
        lines = [f"beams   {self.beams.in_words()}", f"samples {self.samples.in_words()}{draws}"]
        if self.value is None:
            return lines
        return [
            *lines,
            *(
                self._several_in_words()
                or advice_on_one_draw(self.draws, self.sizes[1], self.setting)
            ),
        ]

    def _several_in_words(self) -> list[str]:
        """That there are several times as many samples as beams, and what to do then."""
        beams, samples = self.sizes
        if self.setting or not beams or samples < 2 * beams:
            return []
        several = f"score(rows, draw_size={beams}) compares as many, in the mean of several draws"
        if samples % beams:
            several = f"give as many, or a multiple of {beams}, of which {several}"
        return [f"{samples} samples beside {beams} beams: {several}"]


@dataclass(frozen=True, kw_only=True)
class ComparedScore:
    """One of two scores that are compared: a method in a form, and how well it ranks.

    prr: over samples of several draws the mean of theirs. draws: of each draw, one where the
    samples are one draw; none of a method of another form, or where it is undefined. candidates:
    the fewest and the most of a question, 0 of the answer alone and where that is not known.
    similarity: what texts were compared by, "" if by none, or that is not known.
    """

    method: str
    form: str
    setting: str
    prr: Estimate
    draws: tuple[float, ...] = ()
    candidates: tuple[int, int] = (0, 0)
    similarity: str = ""

    def in_words(self, separator: str = " ") -> str:
        """Method and form: ``CocoaPPL over 10 beams``, ``Prob of the answer alone``."""
        name = f"{self.method} {self.setting}".strip()
        form = form_in_words(self.method, self.form, self.candidates, plain=True)
        return separator.join(filter(None, [name, form]))


@dataclass(frozen=True, kw_only=True, repr=False)
class ScoresComparison(PairedDifference):
    """PRR of one score minus that of another one, on the same questions.

    quality: the judge's name. value, low, high, std: the difference, above 0 where ``first`` ranks
    better, with the interval and the standard deviation of the paired bootstrap; None where it is
    undefined, and ``note`` says why. p: two-sided, of a difference of 0 (see ``compare``). n
    questions, in so many ``groups``. first, second: each score with its PRR. It shows itself in
    words.
    """

    first: ComparedScore
    second: ComparedScore

    @property
    def similarity(self) -> str:
        """By what either score compares texts; "": by none, or it is not known."""
        names = [self.first.similarity, self.second.similarity]
        return " and ".join(dict.fromkeys(filter(None, names)))

    @property
    def name_of_difference(self) -> str:
        """What is subtracted from what."""
        return f"{self.first.in_words()} − {self.second.in_words()}"

    @property
    def facts(self) -> list[str]:
        """What a picture says below its title."""
        return with_similarity(super().facts, self.similarity)

    def _row_of_difference(self) -> str:
        return "difference"

    def _parts(self) -> list[Part]:
        return [
            Part(f"{score.in_words(LINE)}{mean_in_words(score.draws)}", score.form, score.prr)
            for score in (self.first, self.second)
        ]

    def _measure_and_title(self) -> tuple[str, str]:
        return "PRR", f"{self.first.method} − {self.second.method}"

    def _heading(self) -> str:
        compared = f", similarity {self.similarity}" if self.similarity else ""
        return f"{self.name_of_difference} in PRR by {self.quality}{compared}"

    def _lines(self) -> list[str]:
        scores = (self.first, self.second)
        width = max(len(score.in_words()) for score in scores)
        lines = [
            f"{score.in_words():{width}} {score.prr.in_words()}"
            f"{draws_in_words(score.draws, score.candidates[0])}"
            for score in scores
        ]
        if self.value is None:
            return lines
        advice = [
            advice_on_one_draw(score.draws, score.candidates[0], score.setting) for score in scores
        ]
        return lines + (advice[0] or advice[1])


@dataclass(frozen=True, kw_only=True, repr=False)
class QualityComparison(PairedDifference):
    """Mean quality of one answer to each question minus that of another one.

    quality: the judge's name. value, low, high, std: the difference, above 0 where the first
    answers are better, with the interval and the standard deviation of the paired bootstrap; None
    where it is undefined, and ``note`` says why. p: two-sided, of a difference of 0 (see
    ``compare``). n questions, in so many ``groups``. better, worse, equal: questions of which the
    first answer is that. first, second: the mean quality of each; names: what they are called. It
    shows itself in words.
    """

    first: Estimate
    second: Estimate
    better: int
    worse: int
    equal: int
    names: tuple[str, str] = ("first", "second")

    @property
    def name_of_difference(self) -> str:
        """What is subtracted from what."""
        return " − ".join(self.names)

    def _parts(self) -> list[Part]:
        both = zip(self.names, (self.first, self.second), strict=True)
        return [Part(name, "", estimate) for name, estimate in both]

    def _measure_and_title(self) -> tuple[str, str]:
        return "Mean quality", self._counts_in_words()

    def _heading(self) -> str:
        return f"{self.name_of_difference} in mean {self.quality}"

    def _lines(self) -> list[str]:
        width = max(map(len, self.names))
        both = zip(self.names, (self.first, self.second), strict=True)
        lines = [f"{name:{width}} {estimate.in_words()}" for name, estimate in both]
        return [*lines, self._counts_in_words()]

    def _counts_in_words(self) -> str:
        """Of how many questions the first answer is better, worse or as good."""
        return f"{self.names[0]}: {self.better} better, {self.worse} worse, {self.equal} equal"


def with_similarity(facts: Sequence[str], similarity: str) -> list[str]:
    """Facts of a picture, with the similarity behind the judge where it is known."""
    judge, *rest = facts
    return [judge, *([f"similarity {similarity}"] if similarity else []), *rest]


def ends_of(estimate: Estimate | PairedDifference) -> dict[str, float]:
    """A value and its interval as numbers; NaN, which is not drawn, where there is none."""
    parts = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: math.nan if part is None else part for name, part in parts.items()}


def mean_in_words(draws: Sequence[float]) -> str:
    """What stands below a name in a picture where a value is the mean of several draws."""
    return f",\nmean of {len(draws)} draws" if len(draws) > 1 else ""


def draws_in_words(draws: Sequence[float], size: int) -> str:
    """What stands behind a PRR over samples: of how many draws, and how far these lie apart."""
    if not draws:
        return ""
    number = f" of {size}" if size else ""
    if len(draws) == 1:
        return f", one draw{number}"
    spread = f"{decimal(min(draws))} to {decimal(max(draws))}"
    return f", mean of {len(draws)} draws{number} ({spread})"


def advice_on_one_draw(draws: Sequence[float], size: int, setting: str) -> list[str]:
    """What to do where samples are one draw of so many, 0: it is not known how many.

    ``setting``: of the method; ``score`` gives draws to the one without a setting alone.
    """
    if len(draws) != 1:
        return []
    caveat = "one draw of samples: another one changes this"
    if settings_of_draws([setting]):
        return [f"{caveat}; without the setting {setting} it is the mean of all draws"]
    if setting:
        return [f"{caveat}; the setting {setting} is not scored on several draws"]
    each = size or 10
    return [
        f"{caveat}; decode(…, samples={DRAWS * each}) and "
        f"score(rows, draw_size={each}) give the mean of {DRAWS} draws"
    ]
