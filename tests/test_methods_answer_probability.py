"""Scores of the produced answer alone, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.log_space_sums import Array, entropy_terms
from beamuq.methods import answer_probability


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (answer_probability.prob(np.log([0.25, 1.0])), [np.log(4), 0.0]),
        (answer_probability.perplexity(np.log([0.25]), np.array([2])), [np.log(4) / 2]),
        (answer_probability.p_true(np.log([0.2])), [np.log(5)]),
        (entropy_terms(np.array([0.0, 1.0])), [0.0, 0.0]),
    ],
)
def test_scores_of_probabilities_by_hand(found: Array, expected: list[float]) -> None:
    np.testing.assert_allclose(found, expected)


def test_mean_token_entropy_ignores_padding() -> None:
    # (0.3 + 0.5) / 2, and 0.7 / 1
    entropies, mask = np.array([[0.3, 0.5], [0.7, 9.9]]), np.array([[True, True], [True, False]])
    np.testing.assert_allclose(answer_probability.mean_token_entropy(entropies, mask), [0.4, 0.7])


E, N, C = answer_probability.ENTAIL, answer_probability.NEUTRAL, answer_probability.CONTRADICT


@pytest.mark.parametrize(
    ("p", "labels", "expected"),
    [
        # step 1: entail 0.5 + 0.1, contradict 0.2, neutral 0.2 → 0.6/0.8 = 0.75; step 2: entail
        # 0.9, neutral 0.1 → 1
        ([[0.5, 0.1, 0.2, 0.2], [0.9, 0.1, 0.0, 0.0]], [[E, E, C, N], [E, N, C, C]], 0.25),
        ([[0.4, 0.3]] * 2, [[N, N]] * 2, 0.0),  # a step without a claim says nothing
        ([[1e-300, 1e-300]], [[E, C]], 0.5),
    ],
)
def test_ccp_weighs_entailing_against_contradicting_alternatives(
    p: list[list[float]], labels: list[list[int]], expected: float
) -> None:
    """A probability of 0 is padding."""
    mask = np.array([p]) > 0
    logprobs = np.log(np.where(mask, p, 1.0))
    found = answer_probability.claim_conditioned_probability(
        logprobs, np.array([labels], dtype=np.int8), mask
    )
    np.testing.assert_allclose(found, [expected])


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
def test_the_two_directions_of_a_pair_make_one_label(
    forward: str, backward: str, combined: str
) -> None:
    assert (
        answer_probability.combined_label(forward, backward)
        == answer_probability.combined_label(backward, forward)
        == combined
    )
