"""Scores of the produced answer alone, from the model's own probabilities (appendix of the paper).

Arrays have a leading axis N of questions; every score is higher where the answer is more uncertain.
Probabilities are natural logs; lengths count the terminator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beamuq.log_space_sums import Array, Index, Mask, log_sum_exp

LABELS = ("entail", "neutral", "contradict")
ENTAIL, NEUTRAL, CONTRADICT = range(3)


def prob(logprob: Array) -> Array:
    """Prob, −log p(y*|x) (eq. msp). logprob [N] → [N] in [0, ∞), in nats."""
    return -logprob


def perplexity(logprob: Array, length: Index) -> Array:
    """Perplexity, −(1/L) log p(y*|x) (eq. ppl): the logarithm of what is usually called so.

    logprob [N], length [N] → [N] in [0, ∞).
    """
    return -logprob / length


def mean_token_entropy(entropies: Array, mask: Mask) -> Array:
    """MTE, the mean over tokens of the entropy of the next-token distribution (eq. entropy).

    entropies [N, L] in nats, mask [N, L] (False: padding) → [N] in [0, log |V|].
    """
    return np.asarray(np.where(mask, entropies, 0.0).sum(axis=1) / mask.sum(axis=1))


def p_true(p_true_logprob: Array) -> Array:
    """P(True), −log p("True" | question, answer, "is it true?"). [N] → [N] in [0, ∞)."""
    return -p_true_logprob


def claim_conditioned_probability(
    logprobs: Array, labels: npt.NDArray[np.int8], mask: Mask
) -> Array:
    """CCP, 1 − Π_l P(alternatives entailing token l) / P(those entailing or contradicting it).

    logprobs [N, L, A] of the alternatives at each step, labels [N, L, A] (ENTAIL, NEUTRAL,
    CONTRADICT: the combined label of the alternative and the chosen token, the chosen token's own
    being ENTAIL), mask [N, L, A] (False: padding) → [N] in [0, 1]. A step whose alternatives are
    all neutral has nothing to say and counts 1.
    """
    entailing = log_sum_exp(np.where(mask & (labels == ENTAIL), logprobs, -np.inf))
    claiming = log_sum_exp(np.where(mask & (labels != NEUTRAL), logprobs, -np.inf))
    step = np.subtract(
        entailing, claiming, out=np.zeros_like(claiming), where=~np.isneginf(claiming)
    )
    return np.asarray(-np.expm1(np.minimum(step.sum(axis=1), 0.0)))


def computed_before(score: Array) -> Array:
    """A score [N] that an earlier stage made of tokens: MTE's, CCP's.

    By :func:`mean_token_entropy` and :func:`claim_conditioned_probability`.
    """
    return score


def combined_label(forward: str, backward: str) -> str:
    """One label from the two directions of an NLI pair.

    Equal labels remain; entailment against contradiction is neutral; otherwise the label that is
    not neutral.
    """
    named = {forward, backward} - {"neutral"}
    return named.pop() if len(named) == 1 else "neutral"
