"""The array types of the methods, and sums in log space without NaN."""

from __future__ import annotations

import numpy as np

from beamuq.array_types import Bools, Floats, Ints

Array = Floats
Mask = Bools
Index = Ints


def log_sum_exp(values: Array, axis: int = -1) -> Array:
    """log Σ exp(values) along ``axis``; −inf for a sum of nothing."""
    top = values.max(axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(values - shift).sum(axis=axis)) + shift.squeeze(axis)
    return total


def entropy_terms(probabilities: Array) -> Array:
    """−p log p, elementwise, with 0 · log 0 = 0."""
    return np.asarray(-probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0)))
