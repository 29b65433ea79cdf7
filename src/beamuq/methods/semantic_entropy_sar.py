"""Uncertainty of the question rather than of one answer: Semantic Entropy and SAR (appendix).

As in :mod:`beamuq.methods.dissimilarity_cocoa`, the weights make the form: 1/M over samples, masses
over beams.
"""

from __future__ import annotations

import numpy as np

from beamuq.log_space_sums import Array, Index, Mask, entropy_terms, log_sum_exp

SAR_TEMPERATURE = 0.001


def semantic_clusters(same: Mask, mask: Mask) -> Index:
    """Group candidates by meaning: each joins the first cluster whose first member means the same.

    same [N, M, M]: candidates i and j mean the same; mask [N, M] → [N, M]: the position of each
    candidate's cluster's first member, −1 on padding. Depends on the order of candidates: draws as
    drawn, beams by descending p.
    """
    M = mask.shape[1]
    cluster = np.where(mask, np.arange(M), -1)
    for i in range(1, M):
        heads = cluster[:, :i] == np.arange(i)
        joins = heads & same[:, :i, i] & mask[:, i, None]
        cluster[:, i] = np.where(joins.any(axis=1), joins.argmax(axis=1), cluster[:, i])
    return cluster


def cluster_masses(clusters: Index, weights: Array) -> Array:
    """p̂(c), [N, M]: the summed weights of each cluster, at its first member's position; else 0."""
    members = clusters[:, :, None] == np.arange(clusters.shape[1])
    return np.asarray(np.einsum("nj,njc->nc", weights, members))


def semantic_entropy(clusters: Index, weights: Array) -> Array:
    """SemanticEntropy, −Σ_c p̂(c) log p̂(c) with p̂(c) = Σ_{i∈c} w_i (appendix).

    Over samples this is the count-based entropy, over beams the mass-weighted one. clusters,
    weights [N, M] → [N] in [0, log M], higher = more uncertain.
    """
    return np.asarray(entropy_terms(cluster_masses(clusters, weights)).sum(axis=1))


def semantic_entropy_printed(clusters: Index, weights: Array) -> Array:
    """SemanticEntropy as printed, −(1/|C|) Σ_c log p̂(c).

    [N] in [0, ∞). Not an entropy: it ranks a 9 + 1 split of ten samples above 5 + 5.
    """
    masses = cluster_masses(clusters, weights)
    logs = np.log(np.where(masses > 0, masses, 1.0))
    return np.asarray(-logs.sum(axis=1) / (masses > 0).sum(axis=1))


def semantic_entropy_likelihood(clusters: Index, logprob: Array, mask: Mask) -> Array:
    """SemanticEntropy as the official code has it, −(1/M) Σ_i log Σ_{j∈c(i)} p(y_j|x).

    Repeats are counted again. logprob [N, M] → [N] in (−log M, ∞): sums over repeats can exceed 1.
    """
    together = (clusters[:, :, None] == clusters[:, None, :]) & mask[:, None, :]
    likelihood = log_sum_exp(np.where(together, logprob[:, None, :], -np.inf))
    return np.asarray(-np.where(mask, likelihood, 0.0).sum(axis=1) / mask.sum(axis=1))


def token_sar(relevances: Array, logprobs: Array, mask: Mask) -> Array:
    """TokenSAR, −Σ_l R̃_l log p(y_l|y_<l, x) with R̃ the relevances over their sum (eq. tokensar).

    relevances [..., L] ≥ 0 (1 − similarity to the text without token l), logprobs [..., L], mask
    [..., L] → [...] in [0, ∞). Where no token is relevant all are, equally.
    """
    relevances = np.where(mask, relevances, 0.0)
    relevances = np.where(relevances.sum(axis=-1, keepdims=True) > 0, relevances, mask)
    total = relevances.sum(axis=-1, keepdims=True)
    shares = relevances / np.where(total > 0, total, 1.0)
    return np.asarray(-(shares * np.where(mask, logprobs, 0.0)).sum(axis=-1))


def sar(
    token_sar: Array, similarity: Array, weights: Array, mask: Mask, t: float = SAR_TEMPERATURE
) -> Array:
    """SAR: SentenceSAR of the relevance-weighted probabilities q_i = exp(−TokenSAR_i).

    SentenceSAR is −Σ_i w_i log(q_i + (1/t) Σ_{k≠i} s_ik q_k) (appendix; the beam form is our
    formulation).

    token_sar [N, M] of the candidates, similarity [N, M, M] in [0, 1], weights [N, M] → [N], higher
    = more uncertain.
    """
    other_candidates = mask[:, :, None] & mask[:, None, :] & ~np.eye(mask.shape[1], dtype=bool)
    with np.errstate(divide="ignore"):
        log_similarity = np.log(np.where(other_candidates, similarity, 0.0)) - np.log(t)
    terms = np.concatenate([-token_sar[:, :, None], log_similarity - token_sar[:, None, :]], axis=2)
    support = log_sum_exp(terms)
    return np.asarray(-(weights * np.where(mask, support, 0.0)).sum(axis=1))
