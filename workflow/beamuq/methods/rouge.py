"""Lexical Similarity: how many words the candidates share, by ROUGE-L."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from beamuq.methods.log_space_sums import Array, Mask

Texts = npt.NDArray[np.object_]


@lru_cache(maxsize=1)
def _rouge() -> tuple[Callable[[str], list[str]], Any]:
    """ROUGE's words of a text, each text split and stemmed once, and the scorer on them; imported when needed."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    split = lru_cache(maxsize=1 << 16)(DefaultTokenizer(use_stemmer=True).tokenize)
    return split, RougeScorer(["rougeL"], tokenizer=SimpleNamespace(tokenize=split))


def words(text: str) -> list[str]:
    """Lower-cased, stemmed words, as ROUGE counts them."""
    return _rouge()[0](text)


@lru_cache(maxsize=1 << 20)
def rouge_l(one: str, other: str) -> float:
    """ROUGE-L F-measure of two texts after stemming, in [0, 1], symmetric.

    Two texts without a word (nothing ROUGE counts as one) get 1 if they are equal, the empty ones too, else 0 (D11,
    degenerate input).
    """
    if not words(one) and not words(other):
        return float(one == other)
    return float(_rouge()[1].score(one, other)["rougeL"].fmeasure)


def rouge_matrix(texts: Texts, mask: Mask) -> Array:
    """ROUGE-L among the texts [N, M] of each question, [N, M, M]; 0 on padding."""
    N, M = mask.shape
    similarity = np.zeros((N, M, M))
    for n in range(N):
        members = np.flatnonzero(mask[n])
        for position, i in enumerate(members):
            for j in members[position:]:
                one, other = sorted((texts[n, i], texts[n, j]))
                similarity[n, i, j] = similarity[n, j, i] = rouge_l(one, other)
    return similarity


def lexical_similarity(similarity: Array, mask: Mask) -> Array:
    """LexicalSimilarity, 1 − the mean similarity of the M(M−1)/2 pairs of candidates (eq. lsrl).

    similarity [N, M, M], symmetric, in [0, 1] → [N] in [0, 1], higher = more uncertain; 0 for a single candidate.
    """
    M = mask.sum(axis=1)
    pairs = mask[:, :, None] & mask[:, None, :] & np.triu(np.ones(similarity.shape[1:], dtype=bool), k=1)
    mean = np.where(pairs, similarity, 0.0).sum(axis=(1, 2)) / np.maximum(M * (M - 1) / 2, 1)
    return np.where(M > 1, 1.0 - mean, 0.0)
