"""Corrections for many tests and z scores, against small cases worked by hand and an independent
library.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control

from beamuq.evaluation.holm_and_benjamini_hochberg import benjamini_hochberg, holm
from beamuq.evaluation.significance import differing_by_chance, smallest_detectable, within, z_score


def test_holm_multiplies_by_the_tests_left_and_never_falls() -> None:
    # sorted: .01 · 4 = .04, .02 · 3 = .06, .03 · 2 = .06, .04 · 1 = .04 raised to .06
    assert holm([0.03, 0.01, 0.04, 0.02], 4) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def test_holm_counts_tests_that_were_not_run() -> None:
    assert holm([0.01, 0.5], 30) == pytest.approx([0.30, 1.0])


def test_benjamini_hochberg_is_that_of_the_library() -> None:
    p = np.random.default_rng(3).random(40) ** 3
    assert benjamini_hochberg(p, 40) == pytest.approx(false_discovery_control(p, method="bh"))


def test_benjamini_hochberg_counts_tests_that_were_not_run() -> None:
    p = np.array([0.001, 0.02, 0.03])
    filled = false_discovery_control([*p, *np.ones(7)], method="bh")[:3]
    assert benjamini_hochberg(p, 10) == pytest.approx(filled)


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_an_undefined_test_stays_undefined_and_changes_no_other(correct: object) -> None:
    assert callable(correct)
    found = correct([0.02, np.nan, 0.01], 3)
    assert np.isnan(found[1])
    assert found[[0, 2]] == pytest.approx(correct([0.02, 0.01], 3))


def test_z_uses_both_spreads_and_is_undefined_without_any() -> None:
    assert z_score([0.1, 0.1], [0.03, 0.0], [0.04, 0.0]) == pytest.approx(
        [2.0, np.nan], nan_ok=True
    )


def test_runs_that_share_questions_differ_less_often_and_sooner_if_there_is_something() -> None:
    random = np.random.default_rng(2)
    std, shift = 0.04, smallest_detectable(0.04, 0.04, 2.0, 0.8)
    shared = random.normal(0, std, 200_000) * np.sqrt(0.5)
    ours, printed = (shared + random.normal(0, std, 200_000) * np.sqrt(0.5) for _ in range(2))
    assert (np.abs(z_score(ours - printed, std, std)) >= 2).mean() < differing_by_chance(2) / 5
    assert (np.abs(z_score(ours + shift - printed, std, std)) >= 2).mean() > 0.85


def test_the_smallest_detectable_difference_is_detected_with_the_declared_power() -> None:
    random = np.random.default_rng(1)
    shift = smallest_detectable(0.03, 0.04, 2.0, 0.8)
    difference = random.normal(shift, 0.05, 200_000)
    assert (np.abs(z_score(difference, 0.03, 0.04)) >= 2).mean() == pytest.approx(0.8, abs=0.005)


def test_a_difference_is_within_a_margin_by_its_whole_interval() -> None:
    ends = pd.DataFrame({"low": [-0.01, 0.03, -0.01, np.nan], "high": [0.01, 0.05, 0.03, np.nan]})
    assert within(ends, 0.02) == ["yes", "no", "undecided", "undecided"]
