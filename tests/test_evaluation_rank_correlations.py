"""Rank correlations in resamples, against scipy's of the resampled questions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from beamuq.evaluation.rank_correlations import partial_spearman, spearman


@pytest.mark.parametrize("seed", range(3))
def test_spearman_in_a_resample_is_scipys_of_its_questions(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 4, 9).astype(float), random.normal(size=9)
    counts = random.multinomial(9, [1 / 9] * 9, size=5).T
    expected = [spearmanr(np.repeat(a, drawn), np.repeat(b, drawn)).statistic for drawn in counts.T]
    np.testing.assert_allclose(spearman(a, b, counts), expected)


def test_a_constant_has_no_rank_correlation() -> None:
    assert np.isnan(spearman(np.zeros(3), np.arange(3.0), np.ones((3, 1), dtype=np.int64))).all()


def test_partial_spearman_is_the_correlation_of_residual_ranks_in_every_resample() -> None:
    random = np.random.default_rng(1)
    score, quality, third = random.integers(0, 5, size=(3, 30)).astype(float)  # many ties
    counts = random.multinomial(30, np.full(30, 1 / 30), size=8).T
    for column, value in zip(counts.T, partial_spearman(score, quality, third, counts), strict=True):
        ranks = [rankdata(np.repeat(values, column)) for values in (score, quality, third)]
        basis = np.column_stack([ranks[2], np.ones(30)])
        left = [values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0] for values in ranks[:2]]
        assert value == pytest.approx(np.corrcoef(*left)[0, 1])


def test_a_score_that_is_constant_or_in_the_order_of_the_third_has_no_partial_correlation() -> None:
    third, every = np.arange(6.0), np.ones((6, 1), dtype=np.int64)
    quality = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    for score in (np.zeros(6), third**2):
        assert np.isnan(partial_spearman(score, quality, third, every)).all()
