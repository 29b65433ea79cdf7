"""Kendall's τ-b against SciPy and by hand, in every resample at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.rank_correlations import kendall_tau, order_agreement


@pytest.mark.parametrize("seed", range(4))
def test_kendalls_tau_is_scipys_with_ties(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 4, (2, 5, 8)).astype(float)
    expected = [kendalltau(*pair).statistic for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall_tau(a, b), expected)


def test_an_order_with_an_undefined_value_or_nothing_but_ties_is_undefined() -> None:
    assert np.isnan(kendall_tau(np.array([[1.0, np.nan, 3.0], [1.0, 1.0, 1.0]]), np.array([1.0, 2.0, 3.0]))).all()


def scores(*values: float, drawn: list[list[float]], note: str = "") -> Estimates:
    rows = [{"model": "m", "dataset": "d", "method": str(k), "value": v, "n": 24} for k, v in enumerate(values)]
    return Estimates.made([row | {"note": note} for row in rows], drawn)


def test_orders_agree_as_they_do_by_hand_in_the_data_and_in_each_resample() -> None:
    first = scores(0.1, 0.2, 0.3, drawn=[[0.1, 0.0], [0.2, 0.1], [0.4, 0.2]])
    second = scores(0.1, 0.4, 0.2, drawn=[[0.1, 0.5], [0.4, 0.4], [0.2, 0.3]])
    found = order_agreement(first, second)
    assert found.frame[["model", "dataset", "metric", "n"]].to_numpy().tolist() == [["m", "d", "Kendall tau", 24]]
    assert found.frame["value"].tolist() == pytest.approx([1 / 3])  # of three pairs, one is turned round
    assert found.replicates[0] == pytest.approx([1 / 3, -1])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (scores(np.nan, 0.1, drawn=[[np.nan], [0.1]], note="all wrong"), "all wrong"),
        (scores(0.1, 0.1, drawn=[[0.1], [0.1]]), "undefined: the value is the same for every method"),
    ],
)
def test_an_order_that_is_undefined_says_why(second: Estimates, why: str) -> None:
    found = order_agreement(scores(0.1, 0.2, drawn=[[0.1], [0.2]]), second)
    assert found.frame["value"].isna().all()
    assert found.frame["note"].tolist() == [why]
