"""Lexical Similarity, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.methods.rouge import lexical_similarity, rouge_l, rouge_matrix


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("the sixth symphony", "sixth symphony", 2 * (2 / 3) * 1 / (2 / 3 + 1)),  # recall 2/3, precision 1
        ("a b c", "c b a", 1 / 3),  # the longest common subsequence is one word
        ("Running", "runs", 1.0),  # stemmed
        ("", "", 1.0),
        ("東京", "東京", 1.0),
        ("東京", "京都", 0.0),
        ("", "paris", 0.0),
    ],
)
def test_rouge_l(one: str, other: str, expected: float) -> None:
    assert rouge_l(one, other) == rouge_l(other, one) == pytest.approx(expected)


def test_lexical_similarity_averages_over_pairs() -> None:
    # pairs: rome–rome 1, rome–paris 0, rome–paris 0 → 1 − 1/3
    texts = np.array([["rome", "rome", "paris", ""]], dtype=object)
    mask = np.array([[True, True, True, False]])
    np.testing.assert_allclose(lexical_similarity(rouge_matrix(texts, mask), mask), [2 / 3])


def test_a_single_candidate_does_not_disagree_with_itself() -> None:
    mask = np.array([[True, False]])
    np.testing.assert_array_equal(lexical_similarity(np.zeros((1, 2, 2)), mask), [0.0])
