"""Scores of the produced answer alone, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.methods import answer_probability
from beamuq.methods.log_space_sums import entropy_terms


def test_prob_is_the_negative_log_probability() -> None:
    np.testing.assert_allclose(answer_probability.prob(np.log([0.25, 1.0])), [np.log(4), 0.0])


def test_perplexity_is_prob_over_the_length() -> None:
    np.testing.assert_allclose(answer_probability.perplexity(np.log([0.25]), np.array([2])), [np.log(4) / 2])


def test_mean_token_entropy_ignores_padding() -> None:
    # (0.3 + 0.5) / 2, and 0.7 / 1
    entropies, mask = np.array([[0.3, 0.5], [0.7, 9.9]]), np.array([[True, True], [True, False]])
    np.testing.assert_allclose(answer_probability.mean_token_entropy(entropies, mask), [0.4, 0.7])


def test_an_impossible_token_adds_no_entropy() -> None:
    assert entropy_terms(np.array([0.0, 1.0])).sum() == 0.0


def test_p_true_is_the_negative_log_probability_of_true() -> None:
    np.testing.assert_allclose(answer_probability.p_true(np.log([0.2])), [np.log(5)])


def test_ccp_weighs_entailing_against_contradicting_alternatives() -> None:
    # step 1: entail 0.5 + 0.1, contradict 0.2, neutral 0.2 → 0.6/0.8 = 0.75; step 2: entail 0.9, neutral 0.1 → 1
    logprobs = np.log([[[0.5, 0.1, 0.2, 0.2], [0.9, 0.1, 1.0, 1.0]]])
    E, N, C = answer_probability.ENTAIL, answer_probability.NEUTRAL, answer_probability.CONTRADICT
    labels = np.array([[[E, E, C, N], [E, N, C, C]]], dtype=np.int8)
    mask = np.array([[[True] * 4, [True, True, False, False]]])
    np.testing.assert_allclose(answer_probability.claim_conditioned_probability(logprobs, labels, mask), [0.25])


def test_ccp_of_a_step_without_a_claim_says_nothing() -> None:
    labels = np.full((1, 2, 3), answer_probability.NEUTRAL, dtype=np.int8)
    score = answer_probability.claim_conditioned_probability(
        np.full((1, 2, 3), -1.0), labels, np.ones((1, 2, 3), dtype=bool)
    )
    np.testing.assert_array_equal(score, [0.0])


def test_ccp_of_hopeless_alternatives_is_finite() -> None:
    labels = np.array([[[answer_probability.ENTAIL, answer_probability.CONTRADICT]]], dtype=np.int8)
    score = answer_probability.claim_conditioned_probability(np.array([[[-2000.0, -2000.0]]]), labels, labels >= 0)
    np.testing.assert_allclose(score, [0.5])


@pytest.mark.parametrize(
    ("forward", "backward", "combined"),
    [
        ("entail", "entail", "entail"),
        ("entail", "neutral", "entail"),
        ("neutral", "contradict", "contradict"),
        ("contradict", "contradict", "contradict"),
        ("entail", "contradict", "neutral"),
        ("neutral", "neutral", "neutral"),
    ],
)
def test_the_two_directions_of_a_pair_make_one_label(forward: str, backward: str, combined: str) -> None:
    assert (
        answer_probability.combined_label(forward, backward)
        == answer_probability.combined_label(backward, forward)
        == combined
    )
