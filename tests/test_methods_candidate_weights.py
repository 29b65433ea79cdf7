"""What each candidate counts for."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.log_space_sums import Array
from beamuq.methods.candidate_weights import (
    hybrid,
    importance,
    power,
    restricted_mass,
    temperature,
    uniform,
)

ALL = np.ones((1, 3), dtype=bool)
DRAWN = np.array([[False, True, True]])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        # 0.4, 0.1 and 0.3 of 0.8
        (restricted_mass(np.log([[0.4, 0.1, 0.3]]), ALL), [0.5, 0.125, 0.375]),
        # e⁻²⁰⁰⁰ : e⁻²⁰⁰¹ = 1 : e⁻¹ though both are 0 in double precision
        (
            restricted_mass(np.array([[-2000.0, -2001.0, -9000.0]]), ALL),
            [1 / (1 + 1 / np.e), 1 / (1 + np.e), 0.0],
        ),
        # floor 0.2: 0.4, 0.2, 0.4 of 1.0; floor 1: uniform
        (restricted_mass(np.log([[0.4, 0.01, 0.4]]), ALL, 0.2), [0.4, 0.2, 0.4]),
        (restricted_mass(np.log([[0.4, 0.01, 0.4]]), ALL, 1.0), [1 / 3, 1 / 3, 1 / 3]),
        # T = 2: p^(1/2): 0.2, 0.3, 0.5 of 1
        (temperature(np.log([[0.04, 0.09, 0.25]]), ALL, 2.0), [0.2, 0.3, 0.5]),
        # p/p_T: 0.2/0.4, 0.3/0.3, 0.5/0.2 = 0.5, 1, 2.5 of 4
        (
            importance(np.log([[0.2, 0.3, 0.5]]), np.log([[0.4, 0.3, 0.2]]), ALL),
            [0.125, 0.25, 0.625],
        ),
        # the beam 0.6; two draws share 0.4, whatever their own probabilities
        (hybrid(np.log([[0.6, 0.3, 0.01]]), DRAWN, ALL), [0.6, 0.2, 0.2]),
        # without draws the beams are renormalised
        (
            hybrid(np.log([[0.3, 0.1, 0.5]]), ~ALL, np.array([[True, True, False]])),
            [0.75, 0.25, 0.0],
        ),
    ],
)
def test_weights_by_hand(weights: Array, expected: list[float]) -> None:
    np.testing.assert_allclose(weights, [expected], rtol=1e-12)


def test_samples_at_temperature_one_weigh_exactly_the_same() -> None:
    w = temperature(np.array([[-1.0, -700.0, -3.0]]), ALL, 1.0)
    assert (w == uniform(ALL)).all()


@pytest.mark.parametrize("beams", [[0.7, 0.3 - 1e-10], [0.7, 0.3 + 1e-12]])
def test_a_hybrid_whose_beams_cover_everything_has_nothing_to_draw(beams: list[float]) -> None:
    w = hybrid(np.log([[*beams, 0.2]]), np.array([[False, False, True]]), ALL)
    np.testing.assert_allclose(w, [[0.7, 0.3, 0.0]], atol=1e-9)
    assert w[0, 2] == 0.0


def test_weights_of_a_probability_that_is_not_known_are_not_known() -> None:
    assert np.isnan(restricted_mass(np.array([[np.nan, -1.0]]), np.ones((1, 2), dtype=bool))).all()


def test_padding_weighs_nothing_and_weights_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    logprob, mask = rng.uniform(-800, 0, (50, 6)), rng.random((50, 6)) < 0.6
    mask[:, 0] = True
    drawn = rng.random((50, 6)) < 0.5
    for w in (
        uniform(mask),
        restricted_mass(logprob, mask, 0.01),
        temperature(logprob, mask, 0.7),
        importance(logprob, rng.uniform(-800, 0, (50, 6)), mask),
        hybrid(logprob, drawn, mask),
    ):
        assert (w[~mask] == 0).all()
        assert (w >= 0).all()
        np.testing.assert_allclose(w.sum(axis=1), 1.0)


def test_a_power_of_probabilities_lies_between_all_alike_and_the_most_probable_alone() -> None:
    logprob = np.array([[np.log(0.4), np.log(0.1), -np.inf, np.log(0.3)]])
    mask = np.array([[True, True, True, False]])
    by_power = {gamma: power(logprob, mask, gamma)[0] for gamma in (0.0, 0.5, 1.0)}
    np.testing.assert_allclose(by_power[0.0], [0.5, 0.5, 0, 0])  # what is impossible has no weight
    np.testing.assert_allclose(by_power[0.5], [2 / 3, 1 / 3, 0, 0])
    np.testing.assert_allclose(by_power[1.0], restricted_mass(logprob, mask)[0])
    far = power(np.array([[-2000.0, -2001.0]]), mask[:, :2], 2.0)
    np.testing.assert_allclose(far, [[1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))]])
