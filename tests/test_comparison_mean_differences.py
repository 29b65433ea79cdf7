"""The joint spread of the mean of numbers that share questions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beamuq_study.comparison import mean_differences
from beamuq_study.comparison.mean_differences import std_of_mean
from beamuq_study.comparison.number_statuses import DIFFERS, NOT_SHOWN, ComparedNumbers

RULES = SimpleNamespace(limits={"level": 0.05, "power": 0.8})
RESULTS: Any = SimpleNamespace(
    rules=RULES, study=SimpleNamespace(evaluation=SimpleNamespace(confidence=0.95))
)


def one_number_a_table(**differences: float) -> ComparedNumbers:
    """Tables of one number each, with a standard error of .03 of ours and .04 of the paper's."""
    count = len(differences)
    frame = pd.DataFrame({"table": list(differences), "difference": list(differences.values())})
    frame = frame.assign(status=NOT_SHOWN, formulation="", dataset="coqa", n=100, std=0.03)
    replicates = np.random.default_rng(0).normal(size=(count, 2000)).astype(np.float32)
    return ComparedNumbers(frame, np.full(count, 0.04), replicates)


def test_tables_are_tested_with_the_spread_of_both_and_after_holm() -> None:
    # with .05 as the standard error z = 2.2, so p = .028
    tests = mean_differences.tests_of_tables(
        one_number_a_table(a=0.11, b=0.0, c=0.0), RESULTS
    ).set_index("table")
    assert tests["std"]["a"] == pytest.approx(0.05, rel=1e-4)
    assert tests["p"]["a"] == pytest.approx(0.0278, abs=1e-4)
    assert tests["adjusted"]["a"] == pytest.approx(3 * tests["p"]["a"])
    assert tests["adjusted"]["all"] == tests["p"]["all"]
    assert tests["status"]["a"] == NOT_SHOWN
    assert tests["detectable"]["a"] == pytest.approx(2.8 * 0.05, rel=0.01)


def test_a_table_whose_mean_is_far_from_the_paper_s_differs() -> None:
    tests = mean_differences.tests_of_tables(one_number_a_table(a=0.2, b=0.0), RESULTS).set_index(
        "table"
    )
    assert tests["status"].to_dict() == {"all": DIFFERS, "a": DIFFERS, "b": NOT_SHOWN}


def test_numbers_of_further_formulations_or_not_compared_are_in_no_test() -> None:
    compared = one_number_a_table(a=0.2, b=0.2, c=0.0)
    compared.frame["formulation"] = ["printed", "", ""]
    compared.frame["status"] = [NOT_SHOWN, "not comparable", NOT_SHOWN]
    tests = mean_differences.tests_of_tables(compared, RESULTS)
    assert list(tests["table"]) == ["all", "c"]
    assert tests["numbers"].to_list() == [1, 1]


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
