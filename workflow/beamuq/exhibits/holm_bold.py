"""The bold of the tables with intervals: values that a paired test cannot tell from the best of their column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from beamuq.evaluation import bootstrap
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.exhibits import number_format
from beamuq.exhibits.read_evaluation import Measured

LEVEL = 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """Whether a value is bold; ``note``: why it could not be compared with the best, and so is not."""

    bold: bool
    note: str = ""


def verdicts(column: Sequence[Measured]) -> list[Verdict]:
    """A verdict a row. Bold: the best value, its ties, and those whose difference to it is not significant.

    The test is two-sided and paired over the replicates, which must come from the same resamples; Holm corrects over
    every other row of the column, at :data:`LEVEL`. A comparison that cannot be made counts as the least significant
    and its row is not bold. Among tied best values the first in the order of reading is compared with.
    """
    marks = number_format.marks([row.value for row in column])
    if "best" not in marks:
        return [Verdict(False) for _ in column]
    best = marks.index("best")
    compared = [_difference(column[best], row) for row in column]
    p = np.array([np.nan if p is None else p for p, _ in compared])
    others = np.arange(len(column)) != best
    adjusted = np.full(len(column), np.nan)
    adjusted[others] = holm(p[others], int(others.sum()))
    return [
        Verdict(True) if mark == "best" else Verdict(bool(found >= LEVEL), note)
        for mark, found, (_, note) in zip(marks, adjusted, compared, strict=True)
    ]


def smallest_p(resamples: int) -> float:
    """The smallest two-sided p that so many resamples can give."""
    return min(1.0, 2 / (resamples + 1))


def gains(
    pairs: Mapping[T, tuple[Measured, Measured]], confidence: float
) -> dict[T, tuple[bootstrap.Difference, float]]:
    """The first minus the second of each pair and p, corrected over all; one without an interval counts as p = 1.

    Pairs of which either is undefined are left out.
    """
    found = {}
    for name, (a, b) in pairs.items():
        if a.value is not None and b.value is not None:
            assert a.replicates is not None
            assert b.replicates is not None
            found[name] = bootstrap.difference(a.value, b.value, a.replicates, b.replicates, confidence)
    p = [1.0 if of.p is None else of.p for of in found.values()]
    return {name: (found[name], float(adjusted)) for name, adjusted in zip(found, holm(p, len(p)), strict=True)}


def _difference(best: Measured, row: Measured) -> tuple[float | None, str]:
    """p of best − row, or None and why."""
    if best.value is None or row.value is None:
        return None, ""
    if best.replicates is None or row.replicates is None or len(best.replicates) != len(row.replicates):
        return None, "not compared with the best: no common resamples"
    found = bootstrap.difference(best.value, row.value, best.replicates, row.replicates)
    if found.p is not None:
        return found.p, ""
    reason = f": {found.note.removesuffix(': no interval')}" if row.low is not None else ""  # else the row's own note
    return None, f"not compared with the best{reason}"
