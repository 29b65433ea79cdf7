"""How numbers are printed and ranked, and the intervals of means and proportions."""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.exhibits import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5432, ".543"), (-0.0961, "-.096"), (1.0, "1.000"), (-1.25, "-1.250"), (0.0, ".000"), (-0.0001, ".000")],
)
def test_decimals_have_no_zero_before_the_point_and_no_negative_zero(value: float, text: str) -> None:
    assert numbers.decimal(value) == text


def test_equal_values_share_first_place_and_the_next_value_is_second() -> None:
    assert numbers.marks([0.5, 0.7, 0.7, 0.6, 0.6, 0.1]) == ["", "best", "best", "second", "second", ""]


def test_ranks_use_unrounded_values() -> None:
    assert numbers.marks([0.50004, 0.50003, 0.50002]) == ["best", "second", ""]


def test_difference_of_summation_order_is_a_tie() -> None:
    assert numbers.marks([0.1 + 0.2, 0.3, 0.2]) == ["best", "best", "second"]


def test_undefined_values_have_no_rank() -> None:
    assert numbers.marks([None, 0.2, None]) == ["", "best", ""]
    assert numbers.marks([None, None]) == ["", ""]


def test_arrow_needs_a_strict_improvement_of_two_defined_values() -> None:
    assert numbers.better(0.46101, 0.46099)
    assert not numbers.better(0.461, 0.461)
    assert not numbers.better(0.1 + 0.2, 0.3)
    assert not numbers.better(None, 0.3)
    assert not numbers.better(0.3, None)


def test_independent_questions_have_wilson_s_interval() -> None:
    # 7 of 10: center (0.7 + 3.8415/20) / 1.38415 = 0.64450, half-width 0.24772 (z = 1.95996)
    low, high = numbers.proportion_interval(np.array([True] * 7 + [False] * 3), [str(n) for n in range(10)], 0.95)
    assert (low, high) == pytest.approx((0.39678, 0.89221), abs=1e-5)


def test_questions_that_agree_within_stories_count_as_one_a_story() -> None:
    answers, stories = np.repeat([True, False, True, False], 5), np.repeat(list("abcd"), 5)
    low, high = numbers.proportion_interval(answers, list(stories), 0.95)
    by_story = numbers.proportion_interval(answers[::5], list("abcd"), 0.95)
    assert high - low == pytest.approx(by_story[1] - by_story[0], rel=0.2)


def test_proportion_of_all_right_within_stories_counts_stories() -> None:
    stories = [str(n // 5) for n in range(20)]
    found = numbers.proportion_interval(np.ones(20, dtype=bool), stories, 0.95)
    assert found == numbers.proportion_interval(np.ones(4, dtype=bool), list("abcd"), 0.95)


def test_mean_interval_resamples_whole_groups() -> None:
    values = np.repeat([0.0, 1.0, 0.0, 1.0], 25)
    questions = numbers.mean_interval(values, [str(n) for n in range(100)], 0.95, seed=1, resamples=2000)
    stories = numbers.mean_interval(values, [str(n // 25) for n in range(100)], 0.95, seed=1, resamples=2000)
    assert questions is not None
    assert stories is not None
    assert questions[1] - questions[0] == pytest.approx(2 * 1.96 * 0.05, rel=0.1)
    assert stories == (0.0, 1.0)


def test_one_group_has_no_interval() -> None:
    assert numbers.mean_interval(np.array([0.2, 0.4]), ["a", "a"], 0.95, seed=1, resamples=200) is None


def test_percentages_keep_the_digits_asked_for() -> None:
    assert numbers.percent(0.63) == "63%"
    assert numbers.percent(0.227, 1) == "22.7%"
