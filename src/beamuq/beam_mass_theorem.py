"""When beams beat Monte Carlo: Theorem 1 with its condition corrected; beams with draws.

Notation: outcomes of probability p, more than M of them, the dissimilarity 1 − s in [0, 1] of each
to the produced answer, a beam set B of M outcomes (those of highest probability, for an exact
search) of covered mass m_B, M samples. The general condition, (1 − m_B)|μ_B − μ_out| < σ/√M, is
right, and is an equivalence. The printed distribution-free one, m_B > 1 − 1/(2√M), rests on σ² ≤
1/4 where a lower bound on σ is needed. By the law of total variance σ² ≥ m_B(1 − m_B)(μ_B −
μ_out)², so that m_B > M/(M + 1) suffices (unless σ = 0: then both estimators are exact), and
nothing smaller does.

A set B of outcomes with n independent draws outside it has no bias, and variance r² σ_out²/n with r
= 1 − m_B. Since σ² ≥ r σ_out², that is at most r M/n times the variance σ²/M of M samples. Proofs:
docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.log_space_sums import Array, Mask, covered_mass

__all__ = [
    "COUNTEREXAMPLE",
    "COUNTEREXAMPLE_M",
    "Outcomes",
    "corrected_threshold",
    "covered_mass",
    "general_condition",
    "left_by_size",
    "meets_fair_share",
    "printed_threshold",
    "squared_errors",
]


def printed_threshold(M: int) -> float:
    """The printed condition on m_B, 1 − 1/(2√M): false for M > 1.

    (Eq. distribution_free_condition.)
    """
    _check_size(M)
    return 1.0 - 0.5 / float(np.sqrt(M))


def corrected_threshold(M: int) -> float:
    """The sharp distribution-free condition on m_B, M/(M + 1)."""
    _check_size(M)
    return M / (M + 1)


def _check_size(M: int) -> None:
    if M < 1:
        raise BeamUQError(f"M: {M}: there must be one outcome at least")


def meets_fair_share(left: Array, M: int) -> Mask:
    """Whether some set of 1 ≤ B < M outcomes covers its share B/M of the mass: r_B ≤ 1 − B/M.

    left [N, K]: r_B, the mass outside the set of size B = 0 … K − 1 (:func:`left_by_size`) → [N].
    Where it holds, that set and M − B independent draws outside it estimate Dissimilarity with at
    most the variance of M samples, under any similarity; no smaller mass suffices.
    """
    sizes = np.arange(left.shape[1])[:M]
    return np.asarray((left[:, 1:M] <= 1.0 - sizes[1:] / M).any(axis=1))


def left_by_size(logprob: Array, mask: Mask) -> Array:
    """r_B for B = 0 … M: the mass outside the first B of distinct outcomes.

    [N, M] → [N, M + 1] in [0, 1].
    """
    p = np.where(mask, np.exp(logprob), 0.0)
    covered = np.concatenate([np.zeros((len(p), 1)), np.cumsum(p, axis=1)], axis=1)
    return np.maximum(1.0 - covered, 0.0)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes [Y]: probability, of sum 1; dissimilarity in [0, 1]; inside: the beam set's."""

    probability: Array
    dissimilarity: Array
    inside: Mask

    @property
    def mass(self) -> float:
        """m_B."""
        return float(self.probability[self.inside].sum())

    @property
    def mean(self) -> float:
        """U_D, what both estimators estimate (eq. uncertainty_def)."""
        return float(self.probability @ self.dissimilarity)

    @property
    def variance(self) -> float:
        """σ² of the dissimilarity of one draw."""
        return float(self.probability @ (self.dissimilarity - self.mean) ** 2)

    @property
    def inside_mean(self) -> float:
        """μ_B, which is the beam-weighted estimate."""
        return self._mean_where(self.inside)

    @property
    def gap(self) -> float:
        """|μ_B − μ_out|; 0 where nothing is outside."""
        outside = ~self.inside
        if not outside.any():
            return 0.0
        return abs(self.inside_mean - self._mean_where(outside))

    def _mean_where(self, chosen: Mask) -> float:
        p = self.probability[chosen]
        return float(p @ self.dissimilarity[chosen] / p.sum())


def squared_errors(outcomes: Outcomes, M: int) -> tuple[float, float]:
    """Squared error of the beam-weighted estimate, and that expected of Monte Carlo, M samples."""
    _check_size(M)
    of_beams = (outcomes.inside_mean - outcomes.mean) ** 2
    of_samples = outcomes.variance / M
    return of_beams, of_samples


def general_condition(outcomes: Outcomes, M: int) -> bool:
    """Whether (1 − m_B)|μ_B − μ_out| < σ/√M (eq. general_condition)."""
    _check_size(M)
    return bool((1.0 - outcomes.mass) * outcomes.gap < np.sqrt(outcomes.variance / M))


COUNTEREXAMPLE_M = 10
COUNTEREXAMPLE = Outcomes(
    np.repeat([0.086, 0.01], [10, 14]), np.repeat([0.0, 1.0], [10, 14]), np.arange(24) < 10
)
"""Ten beams cover .86 > .842, and yet their squared error is .0196 against .0120 of ten samples."""
