"""How far estimates of U from few candidates are off, where U is known with a standard error."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
ROUNDING = 1e-20  # scores have 12 decimals: a smaller sum of squares is none


def squared_errors(estimates: Floats, U: Floats, error: Floats) -> Floats:
    """[N] squared error of estimates [D, N], mean over D draws, without that of U: single ones may be below 0.

    ``U`` and ``error``, its standard error: [N].
    """
    return np.asarray(((estimates - U) ** 2).mean(axis=0) - error**2)


def variance_of_one_sample(draws: Floats, M: int) -> Floats:
    """[N] unbiased: M times the variance of D disjoint draws' means of M samples, [D, N], D at least 2."""
    return np.asarray(M * draws.var(axis=0, ddof=1), dtype=np.float64)


def error_ratio(errors: Floats, reference: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """[R] √(mean of ``errors`` / mean of ``reference``), both [N] squared, in each resample: counts [N, R].

    A mean below 0 is taken for 0; NaN where the reference's is not above 0.
    """
    above, below = np.maximum(errors @ counts, 0.0), reference @ counts
    below[below < ROUNDING] = 0.0
    return np.asarray(np.sqrt(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)))
