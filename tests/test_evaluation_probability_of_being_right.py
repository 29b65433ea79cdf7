"""Probabilities of being right: by hand, against their definitions, and calibrated over many
calibrations.
"""

from __future__ import annotations

import tracemalloc
from time import process_time

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from beamuq.evaluation.probability_of_being_right import (
    BIN_NAMES,
    CALIBRATORS,
    Calibrator,
    cross_fitted,
    in_bins,
    labelled_scores,
    merged,
    probabilities,
    reliability,
)

GENERATOR = np.random.default_rng(5)
SCORES = np.round(GENERATOR.random(300), 2)
RIGHT = GENERATOR.random(300) < 1 - SCORES
NAMES = [str(i) for i in range(300)]


def test_venn_abers_by_hand() -> None:
    known = labelled_scores([1, 2, 3, 4], [1, 1, 0, 0])
    low, high = probabilities("venn_abers", known, [0.0, 2.5, 5.0])
    assert low == pytest.approx([2 / 3, 0, 0])
    assert high == pytest.approx([1, 1, 1 / 3])
    tied = probabilities("venn_abers", known, [2.0])
    assert [float(p[0]) for p in tied] == [0.5, 1.0]


@pytest.mark.parametrize("levels", [3, 20, 10**9])
def test_venn_abers_is_isotonic_regression_with_the_answer_among_the_others(levels: int) -> None:
    generator = np.random.default_rng(levels)
    scores = generator.integers(0, levels, 60) / levels
    right = generator.random(60) < 1 - scores
    asked = np.concatenate([[-1.0, 2.0], scores, generator.random(60)])
    found = probabilities("venn_abers", labelled_scores(scores, right), asked)
    for label, values in zip((0.0, 1.0), found, strict=True):
        for score, value in zip(asked, values, strict=True):
            model = IsotonicRegression(increasing=False).fit(
                np.append(scores, score), np.append(right, label)
            )
            assert value == pytest.approx(model.predict([score])[0], abs=1e-12)


def test_isotonic_probabilities_are_interpolated_between_known_scores() -> None:
    asked = np.array([-1.0, 0.105, 0.5, 0.73, 2.0])
    model = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(SCORES, RIGHT)
    assert probabilities("isotonic", labelled_scores(SCORES, RIGHT), asked)[0] == pytest.approx(
        model.predict(asked)
    )


def test_a_hundred_thousand_distinct_scores_take_seconds() -> None:
    """About one; minutes, if each score were looked up by a regression of its own."""
    scores, started = GENERATOR.random(100_000), process_time()
    low, high = probabilities(
        "venn_abers", labelled_scores(scores, GENERATOR.random(100_000) > scores), scores
    )
    assert process_time() - started < 20
    assert (high > low).all()


def test_resamples_of_many_answers_are_not_held_at_once() -> None:
    """320 MB are the counts of all alone."""
    p = GENERATOR.random(20_000)
    tracemalloc.start()
    reliability(p, GENERATOR.random(20_000) < p, [str(k) for k in range(20_000)], resamples=2000)
    assert tracemalloc.get_traced_memory()[1] < 320e6
    tracemalloc.stop()


def test_the_probability_of_the_true_label_is_calibrated_in_each_bin() -> None:
    """Over fresh calibrations, one answer each; the probability of a fixed label is not."""
    generator, trials, n = np.random.default_rng(1), 3000, 40
    p, fixed, y = np.empty(trials), np.empty(trials), np.empty(trials)
    for trial in range(trials):
        u = generator.random(n + 1)
        right = generator.random(n + 1) < 0.9 - 0.8 * u**2
        low, high = probabilities("venn_abers", labelled_scores(u[:n], right[:n]), u[n:])
        y[trial], p[trial], fixed[trial] = right[n], (high if right[n] else low)[0], high[0]

    def worst(of: np.ndarray) -> float:
        """The largest mean of Y − p in a bin, in its standard errors."""
        bins = np.minimum((of * 5).astype(int), 4)
        errors = [(y - of)[bins == b] for b in range(5) if (bins == b).sum() >= 100]
        assert len(errors) >= 4
        return max(abs(each.mean()) / (each.std(ddof=1) / np.sqrt(len(each))) for each in errors)

    assert worst(p) < 3.5
    assert worst(fixed) > 3.5


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_probabilities_fall_as_the_score_rises_and_equal_scores_have_equal_ones(
    calibrator: Calibrator,
) -> None:
    asked = np.repeat(np.linspace(-1, 2, 40), 2)
    low, high = probabilities(calibrator, labelled_scores(SCORES, RIGHT), asked)
    assert (low <= high).all()
    for each in (low, high):
        assert (each[::2] == each[1::2]).all()
        assert (np.diff(each) <= 1e-12).all()
        assert each.min() >= 0
        assert each.max() <= 1


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_no_answer_calibrates_itself_nor_does_one_of_its_group(calibrator: Calibrator) -> None:
    groups = [str(i // 3) for i in range(300)]
    before = cross_fitted(calibrator, SCORES, RIGHT, groups)
    changed = RIGHT.copy()
    changed[:3] = ~changed[:3]
    after = cross_fitted(calibrator, SCORES, changed, groups)
    for a, b in zip(before, after, strict=True):
        assert (a[:3] == b[:3]).all()
        assert (a != b).any()


def test_ece_and_brier_by_hand() -> None:
    found = reliability([0.1, 0.15, 0.9, 1.0], [0, 1, 1, 1], NAMES[:4])
    assert found["ece"].value == pytest.approx(0.5 * abs(0.5 - 0.125) + 0.5 * abs(1 - 0.95))
    assert found["brier"].value == pytest.approx((0.01 + 0.7225 + 0.01 + 0) / 4)
    assert found["uncertainty"].value == pytest.approx(3 / 16)
    assert in_bins(np.array([0.1, 0.15, 0.9, 1.0])).sum(axis=1).tolist() == [
        0,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        2,
    ]
    assert (BIN_NAMES[1], BIN_NAMES[-1]) == ("[0.1, 0.2)", "[0.9, 1]")


def test_the_brier_score_is_the_sum_of_its_parts_and_a_bin_of_one_probability_has_no_within() -> (
    None
):
    p = np.minimum(np.floor(SCORES * 10) / 10 + 0.05, 0.95)
    found = reliability(p, RIGHT, NAMES)
    assert found["within"].value == pytest.approx(0, abs=1e-12)
    finer = reliability(SCORES, RIGHT, NAMES)
    values = {
        name: finer[name].value for name in ("reliability", "resolution", "uncertainty", "within")
    }
    assert finer["brier"].value == pytest.approx(
        values["reliability"] - values["resolution"] + values["uncertainty"] + values["within"]
    )
    assert finer["brier"].value == pytest.approx(np.mean((SCORES - RIGHT) ** 2))


def test_cross_fitted_probabilities_are_reliable_and_their_intervals_hold_the_value() -> None:
    found = reliability(merged(*cross_fitted("venn_abers", SCORES, RIGHT, NAMES)), RIGHT, NAMES)
    reverse = reliability(SCORES, RIGHT, NAMES)
    assert found["brier"].low < found["brier"].value < found["brier"].high
    assert found["ece"].value < reverse["ece"].value / 2
