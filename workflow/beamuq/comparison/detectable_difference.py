"""What a comparison of two noisy numbers can see."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Array = npt.NDArray[np.float64]


def z_score(difference: npt.ArrayLike, std: npt.ArrayLike, other_std: npt.ArrayLike) -> Array:
    """difference / √(std² + other_std²), as of independent numbers; NaN where both spreads are 0."""
    spread = np.hypot(std, other_std)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 0, np.asarray(difference) / spread, np.nan))


def smallest_detectable(std: npt.ArrayLike, other_std: npt.ArrayLike, z: float, power: float) -> Array:
    """The true difference that |z| exceeds its limit for with probability ``power`` (the far tail left out)."""
    return np.asarray((z + ndtri(power)) * np.hypot(std, other_std))


def differing_by_chance(z: float) -> float:
    """The share of cells with |z| at or above the limit when both numbers come from one truth."""
    return float(2 * ndtr(-z))
