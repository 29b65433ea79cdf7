"""Adjusted p values of many tests at once: Holm and Benjamini–Hochberg."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beamuq.array_types import Floats


def holm(p: npt.ArrayLike, tests: int) -> Floats:
    """Holm's adjusted p, [K], of a family of ``tests`` ≥ K; NaN stays NaN.

    Those not run count as the largest.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)  # NaN last
    factors = np.maximum(tests - np.arange(len(values)), 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p: npt.ArrayLike, tests: int) -> Floats:
    """Benjamini and Hochberg's adjusted p, [K], of a family of ``tests`` ≥ K; NaN stays NaN.

    Those not run count as p = 1.
    """
    values = np.asarray(p, dtype=np.float64)
    run = np.flatnonzero(~np.isnan(values))
    order = run[np.argsort(values[run])]
    scaled = values[order] * tests / np.arange(1, len(order) + 1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
