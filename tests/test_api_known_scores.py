"""Whether scores are told that were calibrated on, all, all among others or a part; and how often
new ones are taken for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from beamuq.api.calibration import calibrate, decide
from beamuq.api.calibration_file import CalibrationFile
from beamuq.api.decisions import decisions_of
from beamuq.api.known_scores import KnownScores, known_scores
from beamuq.array_types import Floats

Draw = Callable[[np.random.Generator, int], Floats]
ROUNDS = 500


def continuous(generator: np.random.Generator, n: int) -> Floats:
    """Half of the answers are nearly sure."""
    sure = generator.random(n) < 0.5
    return np.where(sure, generator.random(n) / 5, generator.random(n))


def some_alike(generator: np.random.Generator, n: int) -> Floats:
    """A fifth of the answers has one of twelve scores, the others each its own."""
    is_alike = generator.random(n) < 1 / 5
    return np.where(is_alike, generator.integers(12, size=n) / 12, generator.random(n))


def eleven_values(generator: np.random.Generator, n: int) -> Floats:
    """Of how many of ten samples say another thing than the answer."""
    p = np.where(generator.random(n) < 0.5, 0.99, generator.random(n))
    return (10 - generator.binomial(10, p)) / 10


def five_thousandths(generator: np.random.Generator, n: int) -> Floats:
    return np.round(continuous(generator, n) * 5000) / 5000


def looked_for(calibrated: Floats, new_scores: Floats) -> KnownScores:
    values, times = np.unique(calibrated, return_counts=True)
    return known_scores(values, times, new_scores)


@pytest.mark.parametrize("draw", [continuous, some_alike, eleven_values, five_thousandths])
def test_of_new_scores_at_most_one_file_in_a_hundred_is_taken_for_known_ones(draw: Draw) -> None:
    generator = np.random.default_rng(0)
    taken = 0
    for _ in range(ROUNDS):
        calibrated = draw(generator, generator.integers(100, 201))
        new_scores = draw(generator, generator.integers(100, 201))
        taken += looked_for(calibrated, new_scores).count > 0
    assert taken <= ROUNDS / 100


@pytest.mark.parametrize("draw", [continuous, some_alike, eleven_values, five_thousandths])
@pytest.mark.parametrize("beside", [0, 1])
def test_all_scores_calibrated_on_are_told_alone_and_beside_another(
    draw: Draw, beside: int
) -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        calibrated = draw(generator, 140)
        new_scores = generator.permutation(np.append(calibrated, draw(generator, beside)))
        assert looked_for(calibrated, new_scores) == KnownScores(140, all_calibrated=True)


@pytest.mark.parametrize("draw", [continuous, some_alike, five_thousandths])
def test_all_scores_calibrated_on_are_told_beside_many(draw: Draw) -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        calibrated = draw(generator, 140)
        new_scores = np.append(draw(generator, 49), calibrated)
        assert looked_for(calibrated, new_scores).all_calibrated


@pytest.mark.parametrize("draw", [continuous, some_alike, five_thousandths])
def test_a_part_of_the_scores_calibrated_on_is_told_where_most_values_occur_once(
    draw: Draw,
) -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        calibrated = draw(generator, 140)
        part = generator.choice(calibrated, 52, replace=False)
        assert looked_for(calibrated, part) == KnownScores(52)


def of_140_answers() -> tuple[CalibrationFile, list[dict[str, object]]]:
    generator = np.random.default_rng(0)
    scores = some_alike(generator, 140)
    right = generator.random(140) < 1 - scores / 2
    rows = [
        {"id": str(k), "method": "Prob", "value": float(score), "correct": int(is_right)}
        for k, (score, is_right) in enumerate(zip(scores, right, strict=True))
    ]
    return calibrate(rows, method="Prob", risk=0.3), rows


@pytest.mark.parametrize("unlabelled", [1, 49])
def test_decide_promises_nothing_of_what_was_calibrated_on_beside_rows_without_label(
    unlabelled: int,
) -> None:
    made, rows = of_140_answers()
    others = [
        {"id": f"u{k}", "method": "Prob", "value": float(score)}
        for k, score in enumerate(some_alike(np.random.default_rng(1), unlabelled))
    ]
    decisions = decide([*rows, *others], made)
    assert decisions.known == 140
    assert not decisions.guarantee_holds
    (told,) = [line for line in decisions.warnings if line.startswith("all 140 scores")]
    assert f"among these {140 + unlabelled}:" in told


def test_no_score_at_all_is_none_that_was_calibrated_on() -> None:
    made, _ = of_140_answers()
    assert decisions_of(made, [float("nan")], []).known == 0
