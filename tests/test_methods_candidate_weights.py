"""What each candidate counts for."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.methods import candidate_weights

ALL = np.ones((1, 3), dtype=bool)


def test_restricted_mass_renormalises_over_the_candidates() -> None:
    # 0.4, 0.1 and 0.3 of 0.8
    np.testing.assert_allclose(candidate_weights.restricted_mass(np.log([[0.4, 0.1, 0.3]]), ALL), [[0.5, 0.125, 0.375]])


def test_restricted_mass_survives_underflow() -> None:
    # e⁻²⁰⁰⁰ : e⁻²⁰⁰¹ = 1 : e⁻¹ though both are 0 in double precision
    w = candidate_weights.restricted_mass(np.array([[-2000.0, -2001.0, -9000.0]]), ALL)
    np.testing.assert_allclose(w, [[1 / (1 + np.exp(-1)), np.exp(-1) / (1 + np.exp(-1)), 0.0]])


@pytest.mark.parametrize(("epsilon", "expected"), [(0.2, [0.4, 0.2, 0.4]), (1.0, [1 / 3, 1 / 3, 1 / 3])])
def test_a_floor_lifts_small_masses_before_normalising(epsilon: float, expected: list[float]) -> None:
    # floor 0.2: 0.4, 0.2, 0.4 of 1.0; floor 1: uniform
    np.testing.assert_allclose(
        candidate_weights.restricted_mass(np.log([[0.4, 0.01, 0.4]]), ALL, epsilon), [np.array(expected)], rtol=1e-12
    )


def test_temperature_weights_are_the_printed_powers() -> None:
    # T = 2: p^(1/2): 0.2, 0.3, 0.5 of 1
    np.testing.assert_allclose(candidate_weights.temperature(np.log([[0.04, 0.09, 0.25]]), ALL, 2.0), [[0.2, 0.3, 0.5]])


def test_samples_at_temperature_one_weigh_exactly_the_same() -> None:
    w = candidate_weights.temperature(np.array([[-1.0, -700.0, -3.0]]), ALL, 1.0)
    assert (w == candidate_weights.uniform(ALL)).all()


def test_importance_weights_use_the_distribution_of_the_draw() -> None:
    # p/p_T: 0.2/0.4, 0.3/0.3, 0.5/0.2 = 0.5, 1, 2.5 of 4
    w = candidate_weights.importance(np.log([[0.2, 0.3, 0.5]]), np.log([[0.4, 0.3, 0.2]]), ALL)
    np.testing.assert_allclose(w, [[0.125, 0.25, 0.625]])


def test_hybrid_draws_share_the_mass_that_the_beams_leave() -> None:
    # the beam 0.6; two draws share 0.4, whatever their own probabilities
    w = candidate_weights.hybrid(np.log([[0.6, 0.3, 0.01]]), np.array([[False, True, True]]), ALL)
    np.testing.assert_allclose(w, [[0.6, 0.2, 0.2]])


@pytest.mark.parametrize("beams", [[0.7, 0.3 - 1e-10], [0.7, 0.3 + 1e-12]])
def test_a_hybrid_whose_beams_cover_everything_has_nothing_to_draw(beams: list[float]) -> None:
    w = candidate_weights.hybrid(np.log([[*beams, 0.2]]), np.array([[False, False, True]]), ALL)
    np.testing.assert_allclose(w, [[0.7, 0.3, 0.0]], atol=1e-9)
    assert w[0, 2] == 0.0


def test_a_hybrid_without_draws_renormalises_its_beams() -> None:
    w = candidate_weights.hybrid(
        np.log([[0.3, 0.1, 0.5]]), np.zeros((1, 3), dtype=bool), np.array([[True, True, False]])
    )
    np.testing.assert_allclose(w, [[0.75, 0.25, 0.0]])


def test_padding_weighs_nothing_and_weights_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    logprob, mask = rng.uniform(-800, 0, (50, 6)), rng.random((50, 6)) < 0.6
    mask[:, 0] = True
    drawn = rng.random((50, 6)) < 0.5
    for w in (
        candidate_weights.uniform(mask),
        candidate_weights.restricted_mass(logprob, mask, 0.01),
        candidate_weights.temperature(logprob, mask, 0.7),
        candidate_weights.importance(logprob, rng.uniform(-800, 0, (50, 6)), mask),
        candidate_weights.hybrid(logprob, drawn, mask),
    ):
        assert (w[~mask] == 0).all()
        assert (w >= 0).all()
        np.testing.assert_allclose(w.sum(axis=1), 1.0)
