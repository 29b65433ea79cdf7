"""Scores of the probabilities of beams, worked by hand; what changes them and what does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from beamuq.errors import BeamUQError
from beamuq.log_space_sums import Array, Mask
from beamuq.methods import METHODS, Answer, Evidence, Pairs, beam_probabilities, compute

Score = Callable[[Array, Mask], Array]
SCORES = (
    beam_probabilities.pro,
    beam_probabilities.beam_entropy,
    beam_probabilities.probability_margin,
    beam_probabilities.g_nll,
)
of_each_score = pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)


def of_probabilities(score: Score, *probabilities: float) -> float:
    """The score of one question; a probability of 0 has a logarithm of −∞."""
    with np.errstate(divide="ignore"):
        logprob = np.log(np.array([probabilities]))
    return score(logprob, np.ones(logprob.shape, dtype=bool)).item()


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        # log 8 − (1/2 · log 4 + 1/4 · log 2) = 3 log 2 − log 2 − 1/4 log 2
        ((1 / 2, 1 / 4, 1 / 8), 1.75 * np.log(2)),
        ((1 / 4, 1 / 4), np.log(4)),  # a tie: all as probable as the least
        ((1 / 4,), np.log(4)),  # one beam: −log p
        ((1.0,), 0.0),
        ((1 / 2, 1 / 4, 0.0), np.log(4) - np.log(2) / 2),  # p = 0 is no outcome
    ],
)
def test_pro_by_hand(probabilities: tuple[float, ...], expected: float) -> None:
    assert of_probabilities(beam_probabilities.pro, *probabilities) == pytest.approx(expected)


def test_pro_of_all_outcomes_is_the_entropy_and_of_the_most_probable_ones_no_more() -> None:
    whole = np.array([0.4, 0.3, 0.2, 0.1])
    entropy = -(whole * np.log(whole)).sum()
    assert of_probabilities(beam_probabilities.pro, *whole) == pytest.approx(entropy)
    by_size = [of_probabilities(beam_probabilities.pro, *whole[:size]) for size in (1, 2, 3, 4)]
    assert by_size == sorted(by_size)
    assert by_size[2] < entropy


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ((0.2, 0.2), np.log(2)),  # whatever mass lies outside
        ((0.3, 0.1), 0.75 * np.log(4 / 3) + 0.25 * np.log(4)),
        ((0.3, 0.1, 0.0), 0.75 * np.log(4 / 3) + 0.25 * np.log(4)),
        ((0.3,), 0.0),
    ],
)
def test_entropy_of_beams_by_hand(probabilities: tuple[float, ...], expected: float) -> None:
    found = of_probabilities(beam_probabilities.beam_entropy, *probabilities)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ((0.5, 0.3, 0.1), 0.8),
        ((0.3, 0.3, 0.1), 1.0),
        ((0.5,), 0.5),
        ((0.5, 0.0), 0.5),
        ((1.0,), 0.0),
    ],
)
def test_margin_by_hand(probabilities: tuple[float, ...], expected: float) -> None:
    found = of_probabilities(beam_probabilities.probability_margin, *probabilities)
    assert found == pytest.approx(expected)


def test_g_nll_is_that_of_the_most_probable_wherever_it_stands() -> None:
    assert of_probabilities(beam_probabilities.g_nll, 0.1, 0.25, 0.2) == pytest.approx(np.log(4))


@of_each_score
def test_order_and_padding_change_nothing(score: Score) -> None:
    logprob = np.log(np.random.default_rng(0).dirichlet(np.ones(8), 20)[:, :6])
    mask = np.ones(logprob.shape, dtype=bool)
    expected = score(logprob, mask)
    np.testing.assert_allclose(score(logprob[:, [3, 0, 5, 1, 4, 2]], mask), expected)
    padded = np.pad(logprob, ((0, 0), (0, 2)), constant_values=-0.5)
    np.testing.assert_allclose(score(padded, np.pad(mask, ((0, 0), (0, 2)))), expected)


@of_each_score
def test_a_less_certain_distribution_is_more_uncertain(score: Score) -> None:
    sharp = of_probabilities(score, 0.9, 0.05, 0.01)
    flat = of_probabilities(score, 0.2, 0.19, 0.18)
    assert flat > sharp


@pytest.mark.filterwarnings("error")
@of_each_score
def test_probabilities_below_the_least_float_are_told_apart_by_their_logarithms(
    score: Score,
) -> None:
    logprob = np.array([[-2000.0, -2001.0, -2002.0]])
    found = score(logprob, np.ones(logprob.shape, dtype=bool)).item()
    shares = np.exp([0.0, -1.0, -2.0])
    shares /= shares.sum()
    expected = {
        "pro": 2002.0,
        "beam_entropy": -(shares * np.log(shares)).sum(),
        "probability_margin": 1.0,
        "g_nll": 2000.0,
    }
    assert found == pytest.approx(expected[score.__name__])


@pytest.mark.parametrize("name", ["PRO", "BeamEntropy", "ProbMargin", "GNLL"])
def test_a_question_without_a_possible_outcome_is_refused_not_ranked(name: str) -> None:
    logprob = np.array([[-1.0, -2.0], [-np.inf, -np.inf]])
    mask = np.ones((2, 2), dtype=bool)
    nodes = np.ones((2, 3), dtype=bool)
    evidence = Evidence(
        answer=Answer(logprob=np.zeros(2), length=np.ones(2, dtype=np.int64)),
        logprob=logprob,
        mask=mask,
        weights=np.full((2, 2), 0.5),
        pairs=Pairs(np.ones((2, 3, 3)), nodes),
    )
    with pytest.raises(BeamUQError, match=f"method '{name}': gave inf"):
        compute(METHODS[name], evidence)
