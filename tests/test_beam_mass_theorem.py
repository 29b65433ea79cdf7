"""When the beam estimator beats Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.beam_mass_theorem import (
    COUNTEREXAMPLE,
    COUNTEREXAMPLE_M,
    Outcomes,
    corrected_threshold,
    covered_mass,
    general_condition,
    printed_threshold,
    squared_errors,
)


def random_outcomes(count: int) -> list[tuple[Outcomes, int]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        M = int(rng.integers(1, 8))
        Y = int(rng.integers(M + 1, 3 * M + 2))
        p = np.sort(rng.dirichlet(np.full(Y, rng.choice([0.1, 0.5, 2.0]))))[::-1]
        dissimilarity = rng.random(Y) if rng.random() < 0.5 else rng.integers(0, 2, Y).astype(float)
        found.append((Outcomes(p, dissimilarity, np.arange(Y) < M), M))
    return found


def test_the_printed_threshold_of_ten_candidates_is_that_of_the_paper() -> None:
    assert printed_threshold(10) == pytest.approx(0.842, abs=5e-4)
    assert corrected_threshold(10) == pytest.approx(10 / 11)


def test_the_counterexample_s_beam_set_is_the_theorem_s() -> None:
    p, inside = COUNTEREXAMPLE.probability, COUNTEREXAMPLE.inside
    assert p.sum() == pytest.approx(1.0)
    assert inside.sum() == COUNTEREXAMPLE_M
    assert p[inside].min() > p[~inside].max()


def test_the_counterexample_passes_the_printed_condition_and_loses() -> None:
    beam, monte_carlo = squared_errors(COUNTEREXAMPLE, COUNTEREXAMPLE_M)
    assert COUNTEREXAMPLE.mass > printed_threshold(COUNTEREXAMPLE_M)
    assert COUNTEREXAMPLE.mass < corrected_threshold(COUNTEREXAMPLE_M)
    # (1 − 0.86)² · 1 = 0.0196; 0.86 · 0.14 / 10 = 0.01204
    assert (beam, monte_carlo) == pytest.approx((0.0196, 0.01204))


def test_the_general_condition_tells_which_estimator_errs_less() -> None:
    for outcomes, M in random_outcomes(2000):
        beam, monte_carlo = squared_errors(outcomes, M)
        if abs(beam - monte_carlo) > 1e-12:
            assert general_condition(outcomes, M) == (beam < monte_carlo)


def test_mass_above_the_corrected_threshold_suffices() -> None:
    met = [
        (outcomes, M)
        for outcomes, M in random_outcomes(5000)
        if outcomes.mass > corrected_threshold(M) and outcomes.variance > 1e-12
    ]
    assert len(met) > 500
    assert all(general_condition(outcomes, M) for outcomes, M in met)


def test_no_smaller_threshold_suffices() -> None:
    for M in (2, 10):
        mass = corrected_threshold(M) - 1e-6
        p = np.repeat([mass, 1 - mass], M) / M
        assert not general_condition(Outcomes(p, np.repeat([0.0, 1.0], M), np.arange(2 * M) < M), M)


def test_the_squared_error_of_monte_carlo_is_what_drawing_shows() -> None:
    outcomes, M = Outcomes(np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.9, 0.4]), np.array([True, True, False])), 5
    drawn = (
        np.random.default_rng(1).choice(outcomes.dissimilarity, p=outcomes.probability, size=(200_000, M)).mean(axis=1)
    )
    assert np.mean((drawn - outcomes.mean) ** 2) == pytest.approx(squared_errors(outcomes, M)[1], rel=0.02)


def test_covered_mass_adds_the_candidates_and_not_the_padding() -> None:
    logprob = np.log([[0.5, 0.25, 0.9], [0.6, 0.5, 0.1]])
    mask = np.array([[True, True, False], [True, True, True]])
    np.testing.assert_allclose(covered_mass(logprob, mask), [0.75, 1.0])


def test_covered_mass_of_hopeless_candidates_is_zero() -> None:
    assert covered_mass(np.array([[-900.0, -1000.0]]), np.ones((1, 2), dtype=bool)) == pytest.approx(0.0)
