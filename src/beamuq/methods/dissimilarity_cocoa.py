"""Consistency of the produced answer with the candidates: Dissimilarity, CoCoA, Degree Matrix.

Sections 2.2, 3.1 and 3.3 of the paper. One formula serves both forms of each method: weights 1/M
over samples give the Monte Carlo estimator, restricted masses over beams the beam-weighted one
(:mod:`beamuq.methods.candidate_weights`). Similarities lie in [0, 1].
"""

from __future__ import annotations

import numpy as np

from beamuq.log_space_sums import Array, Index
from beamuq.methods.answer_probability import perplexity, prob


def dissimilarity(similarity: Array, weights: Array) -> Array:
    """Dissimilarity, Σ_i w_i (1 − s(y_i, y*)) (eqs. mc_estimator, beam-estimator).

    similarity [N, M]: of each candidate to the produced answer, P(entail | premise y*, hypothesis
    y_i); weights [N, M] → [N] in [0, 1], higher = more uncertain.
    """
    return np.asarray((weights * (1.0 - similarity)).sum(axis=1))


def cocoa(answer_uncertainty: Array, dissimilarity: Array) -> Array:
    """CoCoA, u(y*|x) · U_D (section 3.3).

    [N] in [0, ∞), [N] in [0, 1] → [N] in [0, ∞), higher = more uncertain.
    """
    return answer_uncertainty * dissimilarity


def cocoa_msp(logprob: Array, similarity: Array, weights: Array) -> Array:
    """CocoaMSP, :func:`cocoa` with u = −log p(y*|x).

    logprob [N]; the rest as for :func:`dissimilarity`.
    """
    return cocoa(prob(logprob), dissimilarity(similarity, weights))


def cocoa_ppl(logprob: Array, length: Index, similarity: Array, weights: Array) -> Array:
    """CocoaPPL, :func:`cocoa` with u = −(1/L) log p(y*|x).

    logprob, length [N]; the rest as for :func:`dissimilarity`.
    """
    return cocoa(perplexity(logprob, length), dissimilarity(similarity, weights))


def degree_matrix(similarity: Array, weights: Array) -> Array:
    """Degree Matrix, Σ_i Σ_j w_i w_j (1 − s(y_i, y_j)), i = j included (appendix, "Degree Matrix").

    similarity [N, M, M] among the candidates, weights [N, M] → [N] in [0, 1], higher = more
    uncertain.
    """
    return np.asarray(np.einsum("ni,nij,nj->n", weights, 1.0 - similarity, weights))
