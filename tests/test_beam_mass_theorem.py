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
    left_by_size,
    meets_fair_share,
    printed_threshold,
    squared_errors,
)
from beamuq.log_space_sums import Array
from synthetic import random_distributions


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
    outcomes, M = (
        Outcomes(
            np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.9, 0.4]), np.array([True, True, False])
        ),
        5,
    )
    drawn = (
        np.random.default_rng(1)
        .choice(outcomes.dissimilarity, p=outcomes.probability, size=(200_000, M))
        .mean(axis=1)
    )
    assert np.mean((drawn - outcomes.mean) ** 2) == pytest.approx(
        squared_errors(outcomes, M)[1], rel=0.02
    )


def test_covered_mass_adds_the_candidates_and_not_the_padding() -> None:
    logprob = np.log([[0.5, 0.25, 0.9], [0.6, 0.5, 0.1]])
    mask = np.array([[True, True, False], [True, True, True]])
    np.testing.assert_allclose(covered_mass(logprob, mask), [0.75, 1.0])
    assert covered_mass(
        np.array([[-900.0, -1000.0]]), np.ones((1, 2), dtype=bool)
    ) == pytest.approx(0.0)


def variances(p: Array, d: Array, size: Array, M: int) -> tuple[Array, Array]:
    """Of the stratified estimate with the first ``size`` [N] outcomes and M − size draws, and of M
    samples; by hand.
    """
    outside = np.arange(p.shape[1]) >= size[:, None]
    r = np.where(outside, p, 0).sum(axis=1)
    q = np.where(outside, p, 0) / r[:, None]
    spread = (q * d**2).sum(axis=1) - (q * d).sum(axis=1) ** 2
    sigma2 = (p * d**2).sum(axis=1) - (p * d).sum(axis=1) ** 2
    return r**2 * spread / (M - size), sigma2 / M


def test_a_set_that_covers_its_share_is_never_worse_than_samples() -> None:
    """10⁵ random distributions for each |B|: the ratio is at most r M/n, so at most 1 where m ≥
    B/M.
    """
    M, Y = 6, 12
    p, d = random_distributions(outcomes=Y, seed=2)
    left = left_by_size(np.log(p), np.ones(p.shape, dtype=bool))
    for B in range(M):
        stratified, samples = variances(p, d, np.full(len(p), B), M)
        r = left[:, B]
        assert (stratified <= samples * r * M / (M - B) + 1e-13).all()
        fair = r <= 1 - B / M
        assert fair.sum() > 5_000
        assert (stratified[fair] <= samples[fair] + 1e-13).all()


def test_the_fair_share_is_sharp() -> None:
    """One value of d on B, the mean of the rest: all variance lies outside, and below B/M the set
    is worse.
    """
    M, B = 10, 4
    for mass, worse in ((B / M - 1e-6, True), (B / M + 1e-6, False)):
        p = np.concatenate([np.full(B, mass / B), np.full(20, (1 - mass) / 20)])[None, :]
        d = np.concatenate([np.full(B, 0.5), np.tile([0.0, 1.0], 10)])[None, :]
        stratified, samples = variances(p, d, np.array([B]), M)
        assert stratified[0] / samples[0] == pytest.approx((1 - mass) * M / (M - B))
        assert (stratified[0] > samples[0]) == worse


@pytest.mark.parametrize("M", [1, 2, 5, 10])
def test_the_best_set_is_never_worse_than_samples(M: int) -> None:
    p, d = random_distributions(outcomes=12, seed=2)
    left = left_by_size(np.log(p), np.ones(p.shape, dtype=bool))
    best = (left[:, :M] / (M - np.arange(M))).argmin(axis=1)
    stratified, samples = variances(p, d, best, M)
    assert (stratified <= samples + 1e-13).all()


def test_meeting_the_fair_share_is_some_set_of_that_mass() -> None:
    p, _ = random_distributions(2000, 12, seed=2)
    left = left_by_size(np.log(p), np.ones(p.shape, dtype=bool))
    for M in (1, 2, 5):
        expected = [any(row[:B].sum() >= B / M - 1e-12 for B in range(1, M)) for row in p]
        assert meets_fair_share(left, M).tolist() == expected
