"""PRR, ROC-AUC and PR-AUC against plain definitions and scikit-learn, on data and on resamples."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_counts
from beamuq.evaluation.prr_and_auc import (
    METRICS,
    Evaluator,
    Judged,
    QualitiesEvaluator,
    area_under_generalised_risk,
    rejection_bands,
    rejection_curves,
    why_undefined,
)
from one_metric import measure


def area(order: Floats, k: int) -> float:
    """Mean quality of the first n, averaged over n = N, …, N − k + 1: quality already in rejection
    order.
    """
    N = len(order)
    return float(np.mean([order[:n].mean() for n in range(N, N - k, -1)]))


def plain_prr(uncertainty: Floats, quality: Floats, max_rejection: float = 0.5) -> float:
    """By definition; the order of equal scores averaged by giving each its group's mean quality."""
    k = int(max_rejection * len(quality))
    levelled = np.array([quality[uncertainty == u].mean() for u in uncertainty])
    unc = area(levelled[np.argsort(uncertainty, kind="stable")], k)
    oracle, random = area(np.sort(quality)[::-1], k), quality.mean()
    return (unc - random) / (oracle - random)


def plain_average_precision(uncertainty: Floats, quality: Floats) -> float:
    """Its expectation over the orders of equal scores, position by position, most uncertain
    first.
    """
    incorrect, called, right, total = quality <= 0.5, 0, 0, 0.0
    for value in np.unique(uncertainty)[::-1]:
        n, p = int((uncertainty == value).sum()), int(incorrect[uncertainty == value].sum())
        for j in range(1, n + 1):
            total += p / n * (right + 1 + (j - 1) * (p - 1) / max(n - 1, 1)) / (called + j)
        called, right = called + n, right + p
    return total / right


def test_no_metric_exceeds_1_by_rounding() -> None:
    """An area, and the oracle's, are sums in two orders: of the best order either may be larger."""
    random = np.random.default_rng(0)
    for number in range(300):
        n = int(random.integers(4, 30))
        quality = random.random(n).round(2) if number % 2 else random.integers(0, 2, n) * 1.0
        if np.ptp(quality) == 0 or (quality > 0.5).all():
            continue
        best = -quality if number % 3 else -quality + 1e-4 * random.random(n)
        measured = Evaluator(quality, np.ones((n, 1), dtype=np.int64)).measure(best)
        assert measured["PRR"][0] == pytest.approx(1)
        assert max(measured[metric][0] for metric in ("PRR", "PR-AUC")) <= 1


def test_prr_by_hand() -> None:
    # N = 4, k = 2. By score: quality 1, 0, 1, 0 → (2/4 + 2/3)/2 = 7/12; oracle 1, 1, 0, 0: the same
    # 2/4, 2/3
    assert measure("PRR", np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 1.0, 0.0]))[
        0
    ] == pytest.approx(1.0)
    # the last two swapped: (2/4 + 1/3)/2 = 5/12; (5/12 − 1/2)/(7/12 − 1/2) = −1
    assert measure("PRR", np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 0.0, 1.0, 0.0]))[
        0
    ] == pytest.approx(-1.0)


@pytest.mark.parametrize("percent", [28, 29, 50, 57, 58, 100])
def test_a_share_of_a_hundred_answers_is_as_many_as_it_says(percent: int) -> None:
    random = np.random.default_rng(percent)
    quality = random.random(100)
    uncertainty = random.permutation(100) * 1.0
    order = np.argsort(uncertainty)
    oracle = area(np.sort(quality)[::-1], percent)
    prr = (area(quality[order], percent) - quality.mean()) / (oracle - quality.mean())
    measured = measure("PRR", uncertainty, quality, max_rejection=percent / 100)[0]
    assert measured == pytest.approx(prr)


def test_no_share_is_rounded_up_to_a_further_answer() -> None:
    quality = np.array([1.0, 0.0, 1.0])
    assert "fewer than two sizes" in why_undefined("PRR", quality, 0.666666)
    assert not why_undefined("PRR", quality, 2 / 3)


def test_the_oracles_order_has_prr_one_and_a_constant_score_zero() -> None:
    quality = np.random.default_rng(0).random(51)
    assert measure("PRR", -quality, quality)[0] == pytest.approx(1.0)
    assert measure("PRR", np.zeros(51), quality)[0] == pytest.approx(0.0, abs=1e-12)


def test_ties_count_what_is_expected_over_their_orders() -> None:
    uncertainty, quality = np.array([0, 0, 0, 1, 1, 2.0]), np.array([0.9, 0.1, 0.4, 0.8, 0.2, 0.3])
    values = []
    for top in permutations(range(3)):
        for middle in permutations((3, 4)):
            values.append(area(quality[[*top, *middle, 5]], 3))
    oracle = area(np.sort(quality)[::-1], 3)
    expected = (np.mean(values) - quality.mean()) / (oracle - quality.mean())
    assert measure("PRR", uncertainty, quality)[0] == pytest.approx(expected)


@pytest.mark.parametrize("levels", [None, 3, 20])
@pytest.mark.parametrize("max_rejection", [0.5, 1.0, 0.3])
@pytest.mark.parametrize("per_group", [1, 7])
def test_every_resample_is_measured_as_if_it_were_written_out(
    levels: int | None, max_rejection: float, per_group: int
) -> None:
    rng = np.random.default_rng(levels)
    N, R = 83, 900  # more than are measured at a time
    uncertainty, quality = rng.normal(size=N), rng.random(N).round(1)
    if levels:
        uncertainty = rng.integers(0, levels, N).astype(float)
    counts = resample_counts([str(n // per_group) for n in range(N)], R, 0, "test")
    evaluator = Evaluator(quality, counts, max_rejection=max_rejection)
    found = evaluator.measure(uncertainty)
    of_two = evaluator.area(uncertainty, np.stack([rng.random(N), quality]))
    np.testing.assert_allclose(evaluator.prr(of_two[1]), found["PRR"], atol=1e-12)
    for r in range(0, R, 69):
        u, q = np.repeat(uncertainty, counts[:, r]), np.repeat(quality, counts[:, r])
        assert found["PRR"][r] == pytest.approx(plain_prr(u, q, max_rejection))
        assert found["ROC-AUC"][r] == pytest.approx(roc_auc_score(q <= 0.5, u))
        assert found["PR-AUC"][r] == pytest.approx(plain_average_precision(u, q))


@pytest.mark.parametrize("levels", [None, 3, 20])
def test_several_qualities_and_rejections_are_measured_as_each_alone(levels: int | None) -> None:
    rng = np.random.default_rng(2)
    N, R = 83, 900
    uncertainty = rng.normal(size=N)
    if levels:
        uncertainty = rng.integers(0, levels, N).astype(float)
    counts = resample_counts([str(n // 4) for n in range(N)], R, 0, "test")
    judged = [
        Judged(rng.random(N)),
        Judged(rng.random(N).round(), 0.5),
        Judged(rng.random(N), 0.9),
        Judged(np.ones(N)),
    ]
    together = QualitiesEvaluator(judged, counts, [0.5, 1.0]).measure(uncertainty)
    assert [list(of_quality) for of_quality in together] == [
        ["PRR", "PRR@1", "ROC-AUC", "PR-AUC"]
    ] * 4
    for one, found in zip(judged, together, strict=True):
        for name, max_rejection in (("PRR", 0.5), ("PRR@1", 1.0)):
            alone = Evaluator(
                one.quality, counts, max_rejection=max_rejection, threshold=one.threshold
            )
            np.testing.assert_allclose(found[name], alone.measure(uncertainty)["PRR"], atol=1e-12)
        for metric in METRICS[1:]:
            np.testing.assert_allclose(
                found[metric], alone.measure(uncertainty)[metric], atol=1e-12
            )


def test_draws_are_sorted_by_a_score_once_for_all_qualities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    evaluator = QualitiesEvaluator(
        [Judged(rng.random(20)) for _ in range(4)], np.ones((20, 5), dtype=int), [0.5, 1.0]
    )
    evaluator.measure(rng.random(20))  # what all scores share is there from now on
    sorts = []
    draws = QualitiesEvaluator._draws
    monkeypatch.setattr(
        QualitiesEvaluator, "_draws", lambda *told: sorts.append(told) or draws(*told)
    )
    evaluator.measure(rng.random(20))
    assert len(sorts) == 1


def test_a_quality_of_exactly_one_half_is_incorrect() -> None:
    quality = np.array([0.5, 0.9, 0.8, 0.5])
    assert measure("ROC-AUC", np.array([1.0, 0.0, 0.0, 1.0]), quality)[0] == 1.0


def test_tied_pairs_count_one_half() -> None:
    # incorrect at 1 and 2, correct at 1 and 0: (½ + 1 + 1 + 1)/4
    assert (
        measure("ROC-AUC", np.array([1.0, 2.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]))[0]
        == 0.875
    )


@pytest.mark.parametrize("seed", range(16))
def test_average_precision_of_ties_is_the_mean_over_all_their_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    uncertainty, quality = rng.integers(0, 1 + seed % 4, 5).astype(float), rng.random(5)
    quality[0] = 0.1
    orders = [
        np.array(order)
        for order in permutations(range(5))
        if (np.diff(uncertainty[[*order]]) <= 0).all()
    ]
    expected = np.mean(
        [average_precision_score(quality[order] <= 0.5, np.arange(5)[::-1]) for order in orders]
    )
    assert measure("PR-AUC", uncertainty, quality)[0] == pytest.approx(expected, abs=1e-12)
    assert plain_average_precision(uncertainty, quality) == pytest.approx(expected, abs=1e-12)


def test_average_precision_is_scikit_learns_where_no_scores_are_equal() -> None:
    rng = np.random.default_rng(1)
    uncertainty, quality = rng.normal(size=200), rng.random(200)
    expected = average_precision_score(quality <= 0.5, uncertainty)
    assert measure("PR-AUC", uncertainty, quality)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("quality", "undefined"),
    [
        ([0.1, 0.9, 0.4], {"PRR": "fewer than two sizes"}),
        (
            [0.7] * 6,
            {
                "PRR": "same quality",
                "ROC-AUC": "every answer is correct",
                "PR-AUC": "every answer is correct",
            },
        ),
        ([0.2] * 6, {"PRR": "same quality", "ROC-AUC": "every answer is incorrect"}),
        ([0.2, 0.3, 0.4, 0.5], {"ROC-AUC": "every answer is incorrect"}),
        ([0.2, 0.3, 0.4, 0.6], {}),
    ],
)
def test_an_undefined_metric_is_nan_and_says_why(
    quality: list[float], undefined: dict[str, str]
) -> None:
    uncertainty = np.arange(len(quality), dtype=float)
    for metric in METRICS:
        value, why = (
            measure(metric, uncertainty, np.array(quality))[0],
            why_undefined(metric, np.array(quality)),
        )
        assert np.isnan(value) == bool(why) == (metric in undefined)
        assert undefined.get(metric, "") in why


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(BeamUQError, match="uncertainty"):
        measure("PRR", np.array([0.0, 1.0, bad, 2.0]), np.array([0.1, 0.2, 0.3, 0.4]))


def test_a_quality_that_is_not_finite_is_refused() -> None:
    with pytest.raises(BeamUQError, match="quality"):
        measure("PRR", np.arange(4.0), np.array([0.1, np.nan, 0.3, 0.4]))


@pytest.mark.parametrize("levels", [None, 4])
def test_prr_is_the_ratio_of_the_areas_under_the_curves(levels: int | None) -> None:
    rng = np.random.default_rng(5)
    quality, uncertainty = rng.random(31), rng.normal(size=31)
    if levels:
        uncertainty = rng.integers(0, levels, 31).astype(float)
    curves = rejection_curves(uncertainty, quality)
    areas = [curve[:15].mean() for curve in (curves["quality"], curves["oracle"], curves["random"])]
    expected = (areas[0] - areas[2]) / (areas[1] - areas[2])
    assert measure("PRR", uncertainty, quality)[0] == pytest.approx(expected)


def test_curves_start_at_the_mean_quality_and_end_at_the_best() -> None:
    quality = np.array([0.2, 0.9, 0.4])
    curves = rejection_curves(np.array([2.0, 1.0, 3.0]), quality)
    np.testing.assert_allclose(curves["rejected"], [0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(curves["quality"], [0.5, 0.55, 0.9])
    np.testing.assert_allclose(curves["oracle"], [0.5, 0.65, 0.9])
    np.testing.assert_allclose(curves["random"], 0.5)


@pytest.mark.parametrize(
    ("right", "by_hand"),  # shown and wrong of 0, 1/4, … 1 shown, most certain first
    [
        ([1, 0, 1, 1], (0 + 1 / 8 + 1 / 4 + 1 / 4) / 4),  # 0, 0, 1/4, 1/4, 1/4
        ([1, 1, 1, 0], (0 + 0 + 0 + 1 / 8) / 4),  # 0, 0, 0, 0, 1/4
        ([0, 1, 0, 1], (1 / 8 + 1 / 4 + 3 / 8 + 1 / 2) / 4),  # 0, 1/4, 1/4, 1/2, 1/2
        ([1, 1, 1, 1], 0),
        ([0, 0, 0, 0], (1 / 8 + 3 / 8 + 5 / 8 + 7 / 8) / 4),
    ],
)
def test_augrc_of_four_answers(right: list[int], by_hand: float) -> None:
    auc = measure("ROC-AUC", np.arange(4.0), np.array(right, dtype=float))[0]
    assert area_under_generalised_risk(np.mean(right), auc) == pytest.approx(by_hand)


def by_definition(uncertainty: Floats, right: Floats) -> float:
    """Of Traub et al. (2024), trapezoids over the expected order of equal scores:
    docs/what_scores_mean.md.
    """
    curves = rejection_curves(uncertainty, right)
    shown = np.append(1 - curves["rejected"], 0.0)
    return float(-np.trapezoid(shown * (1 - np.append(curves["quality"], 1.0)), shown))


@pytest.mark.parametrize("levels", [None, 3])
def test_augrc_is_a_function_of_accuracy_and_roc_auc(levels: int | None) -> None:
    rng = np.random.default_rng(5)
    uncertainty = rng.random(40) if levels is None else rng.integers(0, levels, 40).astype(float)
    right = (rng.random(40) > 0.3 * uncertainty).astype(float)
    found = area_under_generalised_risk(right.mean(), measure("ROC-AUC", uncertainty, right)[0])
    assert found == pytest.approx(by_definition(uncertainty, right))


def test_the_band_of_a_rejection_curve_is_of_the_questions_that_each_resample_draws() -> None:
    uncertainty, quality = np.array([0.3, 0.1, 0.2]), np.array([0.0, 1.0, 0.5])
    once = rejection_bands(uncertainty, quality, np.ones((3, 4), dtype=np.int64))
    assert once["quality"].tolist() == pytest.approx([0.5, 0.75, 1.0])
    assert once["low"].tolist() == once["high"].tolist() == pytest.approx(once["quality"].tolist())
    surest = rejection_bands(uncertainty, quality, np.array([[0, 0], [3, 3], [0, 0]]))
    assert surest["low"].tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_the_curve_of_several_draws_is_the_mean_of_their_curves_on_each_resample() -> None:
    quality = np.array([1.0, 0.0, 0.5, 0.0])
    draws = np.array([[0.1, 0.9, 0.3, 0.2], [0.8, 0.1, 0.7, 0.6]])
    times = np.array([[2, 1], [0, 1], [1, 1], [1, 1]])
    together = rejection_bands(draws, quality, times, confidence=1.0)
    alone = [rejection_bands(draw, quality, times[:, :1]) for draw in draws]
    first_resample = (alone[0]["low"] + alone[1]["low"]) / 2
    plain = np.mean([rejection_curves(draw, quality)["quality"] for draw in draws], axis=0)
    assert together["quality"].tolist() == plain.tolist()
    assert together["low"].tolist() == np.minimum(first_resample, plain).tolist()
    assert together["high"].tolist() == np.maximum(first_resample, plain).tolist()
