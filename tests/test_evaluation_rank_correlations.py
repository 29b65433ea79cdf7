"""Rank correlations against SciPy and by hand, in every resample at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata, spearmanr

from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.rank_correlations import (
    kendall_tau,
    order_agreement,
    partial_spearman,
    spearman,
)


@pytest.mark.parametrize("seed", range(4))
def test_kendalls_tau_is_scipys_with_ties(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 4, (2, 5, 8)).astype(float)
    expected = [kendalltau(*pair).statistic for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall_tau(a, b), expected)


def scores(*values: float, drawn: list[list[float]], note: str = "") -> Estimates:
    rows = [
        {"model": "m", "dataset": "d", "method": str(k), "value": v, "n": 24}
        for k, v in enumerate(values)
    ]
    return Estimates.from_rows([row | {"note": note} for row in rows], drawn)


def test_orders_agree_as_they_do_by_hand_in_the_data_and_in_each_resample() -> None:
    first = scores(0.1, 0.2, 0.3, drawn=[[0.1, 0.0], [0.2, 0.1], [0.4, 0.2]])
    second = scores(0.1, 0.4, 0.2, drawn=[[0.1, 0.5], [0.4, 0.4], [0.2, 0.3]])
    found = order_agreement(first, second)
    assert found.frame.loc[0, ["model", "dataset", "metric", "n"]].tolist() == [
        "m",
        "d",
        "Kendall tau",
        24,
    ]
    assert found.frame["value"].tolist() == pytest.approx(
        [1 / 3]
    )  # of three pairs, one is turned round
    assert found.replicates[0] == pytest.approx([1 / 3, -1])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (scores(np.nan, 0.1, drawn=[[np.nan], [0.1]], note="all wrong"), "all wrong"),
        (
            scores(0.1, 0.1, drawn=[[0.1], [0.1]]),
            "undefined: the value is the same for every method",
        ),
    ],
)
def test_an_order_that_is_undefined_says_why(second: Estimates, why: str) -> None:
    found = order_agreement(scores(0.1, 0.2, drawn=[[0.1], [0.2]]), second)
    assert np.isnan(found.frame.loc[0, "value"])
    assert found.frame.loc[0, "note"] == why


@pytest.mark.parametrize("seed", range(3))
def test_spearman_in_a_resample_is_scipys_of_its_questions(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 4, 9).astype(float), random.normal(size=9)
    counts = random.multinomial(9, [1 / 9] * 9, size=5).T
    expected = [spearmanr(np.repeat(a, drawn), np.repeat(b, drawn)).statistic for drawn in counts.T]
    np.testing.assert_allclose(spearman(a, b, counts), expected)


def test_a_constant_or_what_is_not_known_has_no_rank_correlation() -> None:
    for a in (np.zeros(3), np.array([np.nan, 1.0, 2.0])):
        assert np.isnan(spearman(a, np.arange(3.0), np.ones((3, 1), dtype=np.int64))).all()


def test_partial_spearman_is_the_correlation_of_residual_ranks_in_every_resample() -> None:
    random = np.random.default_rng(1)
    score, quality, third = random.integers(0, 5, size=(3, 30)).astype(float)  # many ties
    counts = random.multinomial(30, np.full(30, 1 / 30), size=8).T
    for column, value in zip(
        counts.T, partial_spearman(score, quality, third, counts), strict=True
    ):
        ranks = [rankdata(np.repeat(values, column)) for values in (score, quality, third)]
        basis = np.column_stack([ranks[2], np.ones(30)])
        left = [
            values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0] for values in ranks[:2]
        ]
        assert value == pytest.approx(np.corrcoef(*left)[0, 1])


def test_a_score_that_is_constant_or_in_the_order_of_the_third_has_no_partial_correlation() -> None:
    third, every = np.arange(6.0), np.ones((6, 1), dtype=np.int64)
    quality = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    for score in (np.zeros(6), third**2):
        assert np.isnan(partial_spearman(score, quality, third, every)).all()
