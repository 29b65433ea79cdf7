"""The weights w of the candidates for every weighted method, in log space.

All take candidates as [N, M] arrays with a mask [N, M] (False: padding, where a question has fewer
than M candidates) and return weights [N, M]: non-negative, 0 on padding, summing to 1 over each
question. None of them underflows: weights depend on log-probabilities through differences only.
"""

from __future__ import annotations

import numpy as np

from beamuq.log_space_sums import Array, Mask, log_sum_exp

LEAST_RESIDUAL = 1e-9  # below this mass outside the beams a hybrid has nothing to draw


def uniform(mask: Mask) -> Array:
    """1/M each: candidates drawn from p(·|x) itself (eq. mc_estimator)."""
    return _normalized(np.zeros(mask.shape), mask)


def restricted_mass(logprob: Array, mask: Mask, epsilon: float = 0.0) -> Array:
    """Probability renormalised over the candidates, each floored at ``epsilon``.

    (Eqs. restricted-mass, epsilon_floor.) ``epsilon`` in [0, 1]: 0 is the main text's definition, 1
    gives uniform weights.
    """
    with np.errstate(divide="ignore"):
        return _normalized(np.maximum(logprob, np.log(epsilon)), mask)


def temperature(logprob: Array, mask: Mask, T: float) -> Array:
    """The paper's importance weights p^(1 − 1/T) of candidates sampled at temperature ``T``.

    (Eq. importance_weights.) Exact only if tempering each token tempered the sequence; it does not.
    See :func:`importance`.
    """
    return _normalized((1.0 - 1.0 / T) * logprob, mask)


def power(logprob: Array, mask: Mask, gamma: float) -> Array:
    """p^γ renormalised over the candidates: 1 is the restricted mass, 0 weighs all alike.

    ``gamma`` ≥ 0. A candidate of probability 0 has no weight at any γ.
    """
    possible = mask & np.isfinite(logprob)
    finite = np.where(possible, logprob, 0.0)
    return _normalized(np.where(possible, gamma * finite, -np.inf), mask)


def importance(logprob: Array, policy_logprob: Array, mask: Mask) -> Array:
    """Self-normalised p / p_T, with p_T what the candidate was really drawn from."""
    return _normalized(logprob - policy_logprob, mask)


def hybrid(logprob: Array, drawn: Mask, mask: Mask) -> Array:
    """Beams weigh their probability; draws from outside the beams share the rest evenly.

    (Eq. hybrid_weights.) ``drawn`` [N, M] marks the draws. Without draws, or with a residual mass
    under 1e-9, the beams' probabilities are renormalised. Without beams, draws are uniform.
    """
    beams = mask & ~drawn
    draws = mask & drawn
    residual = -np.expm1(log_sum_exp(np.where(beams, logprob, -np.inf)))
    residual[residual < LEAST_RESIDUAL] = 0.0
    with np.errstate(divide="ignore"):
        share = np.log(residual) - np.log(np.maximum(draws.sum(axis=1), 1))
    return _normalized(np.where(drawn, share[:, None], logprob), mask)


def _normalized(log_weights: Array, mask: Mask) -> Array:
    """exp(log_weights) over its sum; uniform where every log weight of a question is −inf."""
    log_weights = np.where(mask, log_weights, -np.inf)
    total = log_sum_exp(log_weights)[:, None]
    log_weights = np.subtract(
        log_weights, total, out=np.zeros_like(log_weights), where=~np.isneginf(total)
    )
    weights = np.where(mask, np.exp(log_weights), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
