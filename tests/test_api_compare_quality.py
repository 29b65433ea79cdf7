"""One answer to each question against another one: difference of means, and how many are better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import beamuq
from beamuq.errors import BeamUQError

RANDOM = np.random.default_rng(0)
IDS = pd.Index([f"q{number}" for number in range(120)], name="id")
QUALITY = pd.Series(RANDOM.random(120), index=IDS, name="answer_f1")
OTHER = (QUALITY + RANDOM.normal(0.1, 0.2, 120)).where(RANDOM.random(120) > 0.5, QUALITY)


def test_the_difference_is_that_of_the_means_with_the_counts_of_questions() -> None:
    comparison = beamuq.compare_quality(OTHER, QUALITY)
    assert comparison.value == pytest.approx((OTHER - QUALITY).mean())
    assert comparison.better == (OTHER > QUALITY).sum()
    assert comparison.worse == (OTHER < QUALITY).sum()
    assert comparison.better + comparison.worse + comparison.equal == comparison.n == 120


def test_the_interval_is_that_of_the_paired_differences() -> None:
    comparison = beamuq.compare_quality(OTHER, QUALITY)
    of_mean = (OTHER - QUALITY).std() / np.sqrt(120)
    assert comparison.std == pytest.approx(of_mean, rel=0.05)
    assert comparison.low is not None
    assert comparison.value is not None
    assert comparison.value - comparison.low == pytest.approx(1.96 * of_mean, rel=0.15)


def test_groups_are_drawn_as_wholes() -> None:
    groups = [number // 30 for number in range(120)]
    comparison = beamuq.compare_quality(OTHER, QUALITY, groups=groups)
    assert comparison.groups == 4
    assert "n = 120 in 4 groups" in repr(comparison)


def test_what_choose_picked_is_called_chosen() -> None:
    rows = [
        {"answer": "Rome", "samples": ["Bari", "Bari"]},
        {"answer": "Pisa", "samples": ["Pisa", "Pisa"]},
    ]
    best = beamuq.choose(rows, similarity="lexical")
    right = ["Rome", "Pisa"]
    comparison = beamuq.compare_quality(beamuq.quality(best, right), beamuq.quality(rows, right))
    assert (comparison.better, comparison.worse, comparison.equal) == (0, 1, 1)
    assert repr(comparison).startswith("chosen − answers in mean answer_f1: -.500")
    assert "chosen: 0 better, 1 worse, 1 equal" in repr(comparison)
    labels = [label.get_text() for label in comparison.plot().get_yticklabels()]
    assert labels == ["chosen", "answers", "chosen − answers"]


def test_equal_answers_have_no_interval() -> None:
    comparison = beamuq.compare_quality(QUALITY, QUALITY)
    assert (comparison.value, comparison.low, comparison.p) == (0, None, None)


@pytest.mark.parametrize(
    ("against", "told"),
    [
        (QUALITY.rename("exact_match"), "by answer_f1, against by exact_match"),
        (QUALITY[::-1], "two orders"),
        (QUALITY.mask(QUALITY.index == "q3"), "against: row 4: missing"),
        ([0.5], "quality: 120, against: 1"),
        (QUALITY.to_frame(), r"against: a frame; give one column of it: what beamuq\.quality"),
    ],
)
def test_what_is_no_quality_of_the_same_questions_is_refused(against: Any, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.compare_quality(QUALITY, against)


@pytest.mark.parametrize("swapped", [False, True])
def test_one_judge_beside_an_unnamed_one_is_refused(swapped: bool) -> None:
    columns: list[Any] = [QUALITY, (QUALITY > 0.5).astype(float).tolist()]
    first, second = reversed(columns) if swapped else columns
    with pytest.raises(BeamUQError, match=r"is by answer_f1, \w+ names no judge; give both by one"):
        beamuq.compare_quality(first, second)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"resamples": 0}, "^resamples: 0: "),
        ({"confidence": -1}, "^confidence: -1: "),
        ({"seed": "a"}, '^seed: "a": '),
    ],
)
def test_a_setting_outside_its_range_is_refused(setting: dict[str, Any], told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.compare_quality(OTHER, QUALITY, **setting)
