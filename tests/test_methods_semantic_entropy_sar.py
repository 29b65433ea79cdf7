"""Semantic Entropy and SAR, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.methods import semantic_entropy_sar


def clusters(*labels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """First-member positions of one question's labels."""
    return np.array([[labels.index(label) for label in labels]])


def full(M: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.ones((1, M), dtype=bool)


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        # 0–1 and 1–2 mean the same, 0–2 do not: 2 starts a cluster of its own though it means what
        # 1 means
        (([0, 1, 1, 2], [1, 0, 2, 1]), [0, 0, 2]),
        (([0, 2, 1, 2], [2, 0, 2, 1]), [0, 1, 0]),
    ],
)
def test_a_candidate_joins_the_earliest_cluster_whose_first_member_fits(
    pairs: tuple[list[int], list[int]], found: list[int]
) -> None:
    same = np.zeros((1, 3, 3), dtype=bool)
    same[0, *pairs] = True
    np.testing.assert_array_equal(semantic_entropy_sar.semantic_clusters(same, full(3)), [found])


def test_padding_belongs_to_no_cluster() -> None:
    mask = np.array([[True, True, False]])
    np.testing.assert_array_equal(
        semantic_entropy_sar.semantic_clusters(np.ones((1, 3, 3), dtype=bool), mask), [[0, 0, -1]]
    )


def test_semantic_entropy_counts_samples_and_weighs_beams() -> None:
    members = clusters(0, 0, 0, 1)
    # 3/4 and 1/4; with masses 0.5 and 0.5
    by_count = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose(
        semantic_entropy_sar.semantic_entropy(members, np.full((1, 4), 0.25)), [by_count]
    )
    w = np.array([[0.3, 0.1, 0.1, 0.5]])
    np.testing.assert_allclose(semantic_entropy_sar.semantic_entropy(members, w), [np.log(2)])


def test_the_likelihood_summed_form_counts_repeats_again() -> None:
    # clusters {0.3, 0.3} and {0.2}: −(log 0.6 + log 0.6 + log 0.2)/3
    found = semantic_entropy_sar.semantic_entropy_likelihood(
        clusters(0, 0, 1), np.log([[0.3, 0.3, 0.2]]), full(3)
    )
    np.testing.assert_allclose(found, [-(2 * np.log(0.6) + np.log(0.2)) / 3])


def test_token_sar_weighs_tokens_by_relevance() -> None:
    # relevances 0.3, 0.1 → 0.75, 0.25; −(0.75 · log 0.5 + 0.25 · log 0.25), padding ignored
    found = semantic_entropy_sar.token_sar(
        np.array([[0.3, 0.1, 9.0]]), np.log([[0.5, 0.25, 0.1]]), np.array([[True, True, False]])
    )
    np.testing.assert_allclose(found, [1.25 * np.log(2)])


def test_token_sar_without_a_relevant_token_is_their_mean() -> None:
    found = semantic_entropy_sar.token_sar(np.zeros((1, 2)), np.log([[0.5, 0.25]]), full(2))
    np.testing.assert_allclose(found, [1.5 * np.log(2)])


def test_sar_weighs_its_terms_and_each_adds_the_support_of_the_others() -> None:
    # t = 0.5: −¾ log(0.2 + 2 · 0.4 · 0.1) − ¼ log(0.1 + 2 · 0.6 · 0.2)
    S = np.array([[[1.0, 0.4], [0.6, 1.0]]])
    found = semantic_entropy_sar.sar(
        -np.log([[0.2, 0.1]]), S, np.array([[0.75, 0.25]]), full(2), t=0.5
    )
    np.testing.assert_allclose(found, [-0.75 * np.log(0.28) - 0.25 * np.log(0.34)])


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_sar_of_hopeless_candidates_is_finite(level: float) -> None:
    found = semantic_entropy_sar.sar(
        np.full((1, 3), 2000.0), np.full((1, 3, 3), level), np.full((1, 3), 1 / 3), full(3)
    )
    # 2000 − log 1, or 2000 − log(1 + 2/0.001)
    np.testing.assert_allclose(found, [2000.0 - np.log1p(level * 2000.0)])
