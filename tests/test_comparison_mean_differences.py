"""The joint spread of the mean of numbers that share questions."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq_study.comparison.mean_differences import std_of_mean


def test_numbers_that_move_together_have_a_mean_that_moves_as_they_do() -> None:
    drawn = np.random.default_rng(0).normal(size=2000)
    replicates = np.stack([drawn, 0.5 * drawn + 1, drawn - 2])
    assert std_of_mean(replicates, np.array([0.1, 0.2, 0.3])) == pytest.approx(0.2)


def test_the_mean_of_independent_numbers_spreads_less_by_the_root_of_their_count() -> None:
    replicates = np.random.default_rng(0).normal(size=(16, 20000))
    assert std_of_mean(replicates, np.full(16, 0.2)) == pytest.approx(0.05, rel=0.02)


def test_a_number_that_no_resample_moves_counts_as_independent() -> None:
    replicates = np.stack([np.random.default_rng(0).normal(size=2000), np.full(2000, 0.1)])
    assert std_of_mean(replicates, np.array([0.3, 0.4])) == pytest.approx(0.25)


def test_an_undefined_resample_is_no_move() -> None:
    replicates = np.random.default_rng(0).normal(size=(1, 2000))
    replicates[0, :10] = np.nan
    assert std_of_mean(replicates, np.array([0.3])) == pytest.approx(0.3, rel=0.01)


def test_of_runs_of_one_truth_five_percent_differ() -> None:
    """Two runs, each of 12 numbers of the same questions: the z of their mean difference."""
    generator = np.random.default_rng(0)
    loadings = generator.uniform(0.2, 1.0, size=(12, 3))
    std = np.linalg.norm(np.hstack([loadings, np.ones((12, 1))]), axis=1)

    def run(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        shared = loadings @ generator.normal(size=(3, count))
        return np.asarray(shared + generator.normal(size=(12, count)))

    spread = np.hypot(std_of_mean(run(4000), std), std_of_mean(run(4000), std))
    z = (run(4000) - run(4000)).mean(axis=0) / spread
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.05, abs=0.012)
