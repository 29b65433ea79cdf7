"""Paired differences over several pairs, with p corrected by Holm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from beamuq.evaluation import bootstrap
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.exhibits.read_evaluation import Measured

LEVEL = 0.05
T = TypeVar("T")


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
