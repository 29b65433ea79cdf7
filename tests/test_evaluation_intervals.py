"""Intervals of means and proportions over questions in groups."""

from __future__ import annotations

import math

import numpy as np
import pytest

from beamuq.evaluation import intervals


def test_independent_questions_have_wilson_s_interval() -> None:
    # 7 of 10: center (0.7 + 3.8415/20) / 1.38415 = 0.64450, half-width 0.24772 (z = 1.95996)
    low, high = intervals.proportion_interval(
        np.array([True] * 7 + [False] * 3), [str(n) for n in range(10)], 0.95
    )
    assert (low, high) == pytest.approx((0.39678, 0.89221), abs=1e-5)


def test_questions_that_agree_within_stories_count_as_one_a_story() -> None:
    answers, stories = np.repeat([True, False, True, False], 5), np.repeat(list("abcd"), 5)
    low, high = intervals.proportion_interval(answers, list(stories), 0.95)
    by_story = intervals.proportion_interval(answers[::5], list("abcd"), 0.95)
    assert high - low == pytest.approx(by_story[1] - by_story[0], rel=0.2)


def test_proportion_of_all_right_within_stories_counts_stories() -> None:
    stories = [str(n // 5) for n in range(20)]
    found = intervals.proportion_interval(np.ones(20, dtype=bool), stories, 0.95)
    assert found == intervals.proportion_interval(np.ones(4, dtype=bool), list("abcd"), 0.95)


def test_design_effect_is_the_cluster_robust_variance_over_the_binomial_one() -> None:
    # Stories of 3, 2 and 1 questions, residuals summing to 1, -1/3 and -2/3: 3/2 · 14/9 / 36 over
    # 2/9 / 6 is d = 1.75.
    low, high = intervals.proportion_interval(
        np.array([1, 1, 1, 1, 0, 0], dtype=bool), list("aaabbc"), 0.95
    )
    n, p, z = 6 / 1.75, 4 / 6, 1.959964
    center, half = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)),
    )
    assert (low, high) == pytest.approx(
        (center - z * half / (1 + z**2 / n), center + z * half / (1 + z**2 / n))
    )


def test_mean_of_few_questions_has_student_s_interval() -> None:
    # mean 0.5, s² = 0.1 / 4, t = 2.776445 with 4 degrees of freedom: 0.5 ± 2.776445 · √(0.025 / 5)
    values = np.array([0.3, 0.4, 0.5, 0.6, 0.7])
    assert intervals.mean_interval(values, list("abcde"), 0.95) == pytest.approx(
        (0.303676, 0.696324), abs=1e-6
    )


def test_interval_of_few_questions_holds_the_mean_as_often_as_it_says() -> None:
    """A percentile bootstrap of five holds it in 83 of 100."""
    drawn = np.random.default_rng(5).normal(0.5, 0.05, size=(4000, 5))
    found = [intervals.mean_interval(values, list("abcde"), 0.95) for values in drawn]
    assert np.mean([low < 0.5 < high for low, high in filter(None, found)]) == pytest.approx(
        0.95, abs=0.012
    )


def test_mean_interval_takes_whole_stories_as_one() -> None:
    values, stories = np.repeat([0.1, 0.6, 0.2, 0.7, 0.4], 20), [str(n // 20) for n in range(100)]
    assert intervals.mean_interval(values, stories, 0.95) == pytest.approx(
        intervals.mean_interval(values[::20], list("abcde"), 0.95)
    )


def test_interval_of_shares_stays_within_them() -> None:
    found = intervals.mean_interval(np.array([0.0, 0.0, 0.0, 0.0, 0.9]), list("abcde"), 0.95)
    assert found == (0.0, pytest.approx(0.18 + 2.776445 * 0.18))


def test_equal_values_have_the_exact_interval_of_their_number() -> None:
    # 0.7 ** 5 is the chance of five zeros where three in ten are ones: about as likely as one minus
    # the confidence
    assert intervals.interval_of_equal_values(0.0, list("abcde"), 1 - 0.7**5) == (
        0.0,
        pytest.approx(0.3),
    )
    assert intervals.interval_of_equal_values(1.0, list("abcde"), 1 - 0.7**5) == (
        pytest.approx(0.7),
        1.0,
    )
    assert intervals.interval_of_equal_values(0.5, list("aabbcde"), 1 - 0.7**5) == pytest.approx(
        (0.35, 0.65)
    )
    assert intervals.interval_of_equal_values(0.0, list("aabbcd"), 0.95) is None


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([0.1, 0.2, 0.3, 0.4], "abcd"),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "aabbcd"),
        ([0.3] * 6, "abcdef"),
        ([0.3], "a"),
    ],
)
def test_few_groups_or_equal_values_have_no_interval(values: list[float], groups: str) -> None:
    assert intervals.mean_interval(np.array(values), list(groups), 0.95) is None
