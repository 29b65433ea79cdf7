"""The array types of the methods, and sums in log space without NaN."""

from __future__ import annotations

import numpy as np

from beamuq.array_types import Bools, Floats, Ints

Array = Floats
Mask = Bools
Index = Ints


def log_sum_exp(values: Array) -> Array:
    """log Σ exp(values) along the last axis; −inf for a sum of nothing."""
    top = values.max(axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(values - shift).sum(axis=-1)) + shift.squeeze(-1)
    return total


def covered_mass(logprob: Array, mask: Mask) -> Array:
    """m_B, the mass of the candidates together: [N, M] of distinct outcomes → [N] in [0, 1]."""
    return np.minimum(np.exp(log_sum_exp(np.where(mask, logprob, -np.inf))), 1.0)


def entropy_terms(probabilities: Array) -> Array:
    """−p log p, elementwise, with 0 · log 0 = 0."""
    return np.asarray(-probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0)))
