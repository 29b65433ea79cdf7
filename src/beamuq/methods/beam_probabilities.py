"""Scores of what the most probable outcomes have for probabilities: no similarity is needed.

All take the log-probabilities [N, M] of distinct outcomes, the beams of a search or an exact set,
with a mask [N, M] (False: padding), in any order, and return [N], higher = more uncertain.
Probabilities are those of whole sequences, their ending included, neither divided by their sum nor
by their length; only :func:`beam_entropy` divides by the sum. An outcome of probability 0 counts
as padding. A question without any other gives an infinite score, which
:func:`~beamuq.methods.registry.compute` refuses.
"""

from __future__ import annotations

import numpy as np

from beamuq.log_space_sums import Array, Mask, entropy_terms
from beamuq.methods.candidate_weights import restricted_mass


def pro(logprob: Array, mask: Mask) -> Array:
    """PRO, −log p_K − Σ_i p_i log(p_i / p_K), p_K the least of the K probabilities.

    (Nguyen, Gupta and Le, "Probabilities Are All You Need", AAAI 2026, arXiv 2511.07694.) It equals
    −Σ_i p_i log p_i − (1 − Σ_i p_i) log p_K, which is at most the entropy of the model's whole
    distribution where the K are its most probable outcomes. K: all outcomes given. The paper leaves
    out those below a threshold on p, which its code chooses by the labels that it is then judged
    by; here there is no threshold. Of one outcome it is −log p.

    → [N] in [0, ∞), in nats.
    """
    probable = mask & np.isfinite(logprob)
    least = np.where(probable, logprob, np.inf).min(axis=1, initial=np.inf)
    least = np.where(np.isfinite(least), least, -np.inf)
    with np.errstate(invalid="ignore"):
        above_least = np.where(probable, logprob - least[:, None], 0.0)
    probability = np.where(probable, np.exp(logprob), 0.0)
    return np.asarray(-least - (probability * above_least).sum(axis=1))


def beam_entropy(logprob: Array, mask: Mask) -> Array:
    """BeamEntropy, −Σ_i q_i log q_i with q_i = p_i / Σ_j p_j, the entropy among the outcomes given.

    → [N] in [0, log M], in nats. Of one outcome it is 0, whatever its probability.
    """
    shares = restricted_mass(logprob, mask)
    entropy = np.asarray(entropy_terms(shares).sum(axis=1))
    return np.where(_any_probable(logprob, mask), entropy, np.inf)


def probability_margin(logprob: Array, mask: Mask) -> Array:
    """ProbMargin, 1 − (p_1 − p_2) of the two most probable outcomes.

    → [N] in [0, 1]: 1 where they tie. Of one outcome p_2 is 0.
    """
    padded = np.pad(np.where(mask, logprob, -np.inf), ((0, 0), (0, 1)), constant_values=-np.inf)
    second, first = np.sort(padded, axis=1)[:, -2:].T
    margin = np.exp(first) - np.exp(second)
    return np.where(_any_probable(logprob, mask), 1.0 - margin, np.inf)


def g_nll(logprob: Array, mask: Mask) -> Array:
    """G-NLL, −log max_i p_i, of the most probable outcome that was found.

    (Aichberger, Schweighofer and Hochreiter, "Rethinking Uncertainty Estimation in Natural Language
    Generation", arXiv 2412.15176, where greedy decoding stands for the search.)

    → [N] in [0, ∞), in nats.
    """
    return np.asarray(-np.where(mask, logprob, -np.inf).max(axis=1, initial=-np.inf))


def _any_probable(logprob: Array, mask: Mask) -> Mask:
    return np.asarray((mask & np.isfinite(logprob)).any(axis=1))
