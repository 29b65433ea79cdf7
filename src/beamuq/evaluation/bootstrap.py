"""Bootstrap over questions, or over the stories they belong to: draws, intervals, deviations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beamuq import printed_numbers
from beamuq.array_types import Bools, Floats, Ints

MOST_UNDEFINED = 0.01  # a larger share of undefined resamples leaves no interval
_BLOCK = 256  # resamples counted together, so that their arrays stay in the cache
_CELLS = 2**22  # of many questions fewer, so that an array of a block takes 32 MB at most


@dataclass(frozen=True)
class Interval:
    """A percentile interval and the standard deviation of replicates; None if none, and why."""

    low: float | None
    high: float | None
    std: float | None
    note: str = ""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; None where undefined. ``n``: of how many answers, if it is told.

    It shows itself as ``Estimate(.357 [.214, .489], n = 200)``.
    """

    value: float | None
    low: float | None
    high: float | None
    std: float | None
    note: str = ""
    n: int | None = None

    def __repr__(self) -> str:
        return f"Estimate({self.in_words()})"

    def in_words(self) -> str:
        """The value, its interval and n, as a sentence has them."""
        size = "" if self.n is None else f", n = {self.n}"
        if self.value is None:
            return f"{self.note or 'undefined'}{size}"
        return (
            f"{printed_numbers.decimal(self.value)}{interval_in_words(self.low, self.high)}{size}"
        )


def interval_in_words(low: float | None, high: float | None) -> str:
    """An interval behind its value, or that there is none."""
    if low is None or high is None:
        return " (no interval)"
    return f" {printed_numbers.interval(low, high)}"


def resample_counts(
    groups: Sequence[str], resamples: int, seed: int, name: str
) -> npt.NDArray[np.int32]:
    """How often each resample draws each question, [N, resamples].

    Of 2,000 questions and 10,000 resamples these are 80 MB. ``groups`` [N] are the units drawn with
    replacement, as many as there are: the question itself, or its story. The draws depend on
    ``seed``, ``name`` and the set of groups alone, so that all scores of the same questions are
    paired.
    """
    counts = np.empty((len(groups), resamples + 1), dtype=np.int32)
    first = 0
    for block in resample_blocks(groups, resamples, seed, name):
        counts[:, first : first + block.shape[1]] = block
        first += block.shape[1]
    return counts[:, 1:]


def resample_blocks(groups: Sequence[str], resamples: int, seed: int, name: str) -> Iterator[Ints]:
    """A column of ones, the data, and those of :func:`resample_counts`, at most 256 at a time."""
    for rows in resample_rows(groups, resamples, seed, name):
        yield np.ascontiguousarray(rows.T)


def resample_rows(groups: Sequence[str], resamples: int, seed: int, name: str) -> Iterator[Ints]:
    """The same transposed, a resample a row: [≤ 256, N]."""
    units, unit_of_question = np.unique(np.asarray(groups), return_inverse=True)
    generator = _generator(seed, name)
    width = max(1, min(_BLOCK, _CELLS // (len(unit_of_question) or 1)))
    for start in range(0, resamples + 1, width):
        drawn = min(width, resamples + 1 - start)
        if start == 0:
            drawn -= 1  # the first row is the data
        counts_of_units = _drawn_counts(generator, drawn, len(units))
        counts = counts_of_units.take(unit_of_question, axis=1)
        yield counts if start else np.insert(counts, 0, 1, axis=0)


def _drawn_counts(generator: np.random.Generator, resamples: int, units: int) -> Ints:
    """[resamples, units] how often each resample draws each unit, of as many draws as units."""
    cells = generator.integers(units, size=(resamples, units))
    cells += np.arange(resamples)[:, None] * units
    return np.bincount(cells.ravel(), minlength=cells.size).reshape(cells.shape)


def one_half(groups: Sequence[str], seed: int, name: str) -> Bools:
    """Which of N questions are in the first half of all groups, [N].

    Groups stay whole; of an odd number the first half has one more. As the draws of
    :func:`resample_counts`, it depends on ``seed``, ``name`` and the set of groups alone.
    """
    units, unit_of_question = np.unique(np.asarray(groups), return_inverse=True)
    place = _generator(seed, f"{name}/half").permutation(len(units))
    in_first_half = place < (len(units) + 1) // 2
    return np.asarray(in_first_half[unit_of_question])


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    key = int.from_bytes(digest[:16], "big")
    return np.random.Generator(np.random.Philox(key=key))


def draws_name(dataset: str, questions: Iterable[tuple[str, str]]) -> str:
    """The ``name`` of resamples of a dataset's ``questions``, each its id and group, in any order.

    Whoever answered the same questions shares their draws: luck with the questions is then the same
    for every model.
    """
    listed = json.dumps(sorted(questions), ensure_ascii=False)
    return f"{dataset}/{hashlib.sha256(listed.encode()).hexdigest()}"


def interval(replicates: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """The percentile interval of replicates [R]; NaN: undefined in that resample.

    Undefined resamples are counted in the note; more than 1 % of them leave no interval and no
    standard deviation.
    """
    values = np.asarray(replicates, dtype=np.float64)
    defined = values[~np.isnan(values)]
    missing = len(values) - len(defined)
    note = f"{missing} of {len(values)} resamples undefined" if missing else ""
    if missing > MOST_UNDEFINED * len(values) or len(defined) < 2:
        reason = note or "too few resamples"
        return Interval(None, None, None, f"{reason}: no interval")
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), float(defined.std(ddof=1)), note)


def estimate(
    value: float, replicates: Floats, confidence: float = 0.95, n: int | None = None
) -> Estimate:
    """A value of ``n`` answers with the interval of its replicates [R]; NaN: undefined."""
    if np.isnan(value):
        return Estimate(None, None, None, None, "undefined in at least one part", n)
    ends = interval(replicates, confidence)
    return Estimate(value, ends.low, ends.high, ends.std, ends.note, n)
