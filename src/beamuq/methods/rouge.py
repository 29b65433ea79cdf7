"""Lexical Similarity: the share of words that candidates have in common, by ROUGE-L."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec, module_from_spec
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from beamuq.log_space_sums import Array, Mask

Texts = npt.NDArray[np.object_]


@cache
def _tokenizer() -> Any:
    """ROUGE's own tokenizer with stemming, imported when needed.

    Of nltk it needs the stemmer alone: its packages are found but not run, since they load
    scikit-learn.
    """
    packages = [name for name in ("nltk", "nltk.stem") if name not in sys.modules]
    for name in packages:
        spec = find_spec(name)
        if spec:
            sys.modules[name] = module_from_spec(spec)
    try:
        from rouge_score.tokenizers import DefaultTokenizer
    finally:
        for name in packages:
            sys.modules.pop(name, None)  # who imports nltk later gets it whole
    return DefaultTokenizer(use_stemmer=True)


@lru_cache(maxsize=1 << 12)  # a text is compared with those of its question, and then no more
def words(text: str) -> list[str]:
    """Lower-cased, stemmed words, as ROUGE counts them."""
    stems: list[str] = _tokenizer().tokenize(text)
    return stems


@lru_cache(maxsize=1 << 20)
def rouge_l(text: str, other: str) -> float:
    """ROUGE-L F-measure of two texts after stemming, in [0, 1], symmetric.

    Two texts without a word (nothing ROUGE counts as one) get 1 if they are equal, the empty ones
    too, else 0.
    """
    first = words(text)
    second = words(other)
    if not first and not second:
        return float(text == other)
    return rouge_l_of_words(first, second)


def rouge_l_of_words(first: Sequence[str], second: Sequence[str]) -> float:
    """ROUGE-L F-measure of two texts given as words, in [0, 1]; 0 without a common one."""
    common = longest_common_subsequence(first, second)
    if not common:
        return 0.0
    precision = common / len(second)
    recall = common / len(first)
    return 2 * precision * recall / (precision + recall)


def longest_common_subsequence(text: Sequence[str], other_text: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    By bits: bit i of ``row`` is 0 where the subsequence of ``text[: i + 1]`` and the words of
    ``other_text`` so far is one longer than that of ``text[:i]`` (Hyyrö 2004, "Bit-parallel
    LCS-length computation revisited").
    """
    places: dict[str, int] = {}
    for place, word in enumerate(text):
        places[word] = places.get(word, 0) | 1 << place
    all_bits = (1 << len(text)) - 1
    row = all_bits
    for word in other_text:
        matched = row & places.get(word, 0)
        row = (row + matched | row - matched) & all_bits
    return len(text) - row.bit_count()


def rouge_matrix(texts: Texts, mask: Mask) -> Array:
    """ROUGE-L among the texts [N, M] of each question, [N, M, M]; 0 on padding."""
    similarity = np.zeros((*mask.shape, mask.shape[1]))
    for n, members in enumerate(mask):
        for i, j in combinations_with_replacement(np.flatnonzero(members), 2):
            text, other = sorted((texts[n, i], texts[n, j]))
            similarity[n, i, j] = similarity[n, j, i] = rouge_l(text, other)
    return similarity


def lexical_similarity(similarity: Array, mask: Mask) -> Array:
    """LexicalSimilarity, 1 − the mean similarity of the M(M−1)/2 pairs of candidates (eq. lsrl).

    similarity [N, M, M], symmetric, in [0, 1] → [N] in [0, 1], higher = more uncertain; 0 for a
    single candidate, as in a study's scores at M = 1; ``score`` gives none there.
    """
    M = mask.sum(axis=1)
    above_diagonal = np.triu(np.ones(similarity.shape[1:], dtype=bool), k=1)
    pairs = mask[:, :, None] & mask[:, None, :] & above_diagonal
    mean = np.where(pairs, similarity, 0.0).sum(axis=(1, 2)) / np.maximum(M * (M - 1) / 2, 1)
    return np.where(M > 1, 1.0 - mean, 0.0)


def lexical_similarity_of_texts(texts: Texts, mask: Mask) -> Array:
    """:func:`lexical_similarity` of texts [N, M+1] without the produced answer's, the first."""
    return lexical_similarity(rouge_matrix(texts[:, 1:], mask), mask)
