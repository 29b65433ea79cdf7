"""The world of a known distribution against brute force: sharpened, a truth with κ, draws, splits
and estimates.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import synthetic
from beamuq.decoding.most_probable import BestSplit
from beamuq.evaluation import known_distribution as known


def distributions(N: int = 5, A: int = 12, seed: int = 0) -> Any:
    """Probabilities [N, A] in falling order, and dissimilarities, without ties."""
    rng = np.random.default_rng(seed)
    p = -np.sort(-rng.dirichlet(np.full(A, 0.4), N) - 1e-6)
    return p / p.sum(axis=1, keepdims=True), rng.random((N, A))


P, D = distributions()
ALL, NONE = np.ones_like(P, dtype=bool), np.zeros_like(P, dtype=bool)


@pytest.mark.parametrize("power", [1.0, 1.5, 3.0])
def test_a_whole_distribution_is_sharpened_exactly(power: float) -> None:
    probability, log_total = known.sharpened(np.log(P), ALL, NONE, power)
    total = (P**power).sum(axis=1)
    np.testing.assert_allclose(probability, P**power / total[:, None], rtol=1e-9)
    np.testing.assert_allclose(log_total, np.log(total), atol=1e-9)


@pytest.mark.parametrize("power", [1.0, 1.5, 3.0])
def test_the_sum_estimated_from_draws_outside_the_set_is_right_in_the_mean(power: float) -> None:
    p, head, times = P[0], 3, 20_000
    rest = p[head:] / p[head:].sum()
    drawn = head + np.random.default_rng(1).choice(len(rest), size=(times, 6), p=rest)
    logprob = np.log(np.column_stack([np.tile(p[:head], (times, 1)), p[drawn]]))
    in_set = np.arange(head + 6) < np.full((times, 1), head)
    probability, log_total = known.sharpened(logprob, in_set, ~in_set, power)
    totals = np.exp(log_total)
    error = totals.std() / np.sqrt(times) + 1e-12
    assert abs(totals.mean() - (p**power).sum()) < 4 * error
    inside = probability[:, :head].sum(axis=1) * totals
    np.testing.assert_allclose(inside, (p[:head] ** power).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("logprob", "in_set", "drawn", "expected"),
    [
        (
            np.log([0.5, 0.2, 0.1]),
            [1, 1, 0],
            [0, 0, 0],
            [25 / 29, 4 / 29, 0],
        ),  # without draws: of the set alone
        (
            np.log([0.5, 0.5, 0.2]),
            [0, 0, 0],
            [1, 1, 1],
            [5 / 12, 5 / 12, 2 / 12],
        ),  # without a set: weights p^(g − 1)
        (np.log([0.75, 0.25 + 1e-16, 0.1]), [1, 1, 0], [0, 0, 1], [0.9, 0.1, 0]),  # nothing is left
        ([np.log(0.5), -np.inf, np.nan], [1, 0, 0], [0, 0, 0], [1, 0, 0]),  # padding
    ],
    ids=["no draws", "no set", "full set", "padding"],
)
def test_sharpened_at_its_edges(
    logprob: Any, in_set: Any, drawn: Any, expected: list[float]
) -> None:
    masks = (np.array([of], dtype=bool) for of in (in_set, drawn))
    probability, _ = known.sharpened(np.array([logprob]), *masks, 2.0)
    np.testing.assert_allclose(probability[0], expected, atol=1e-8)


def test_a_power_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 1, not 0\.9"):
        known.sharpened(np.log(P), ALL, NONE, 0.9)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0, 2.0])
def test_a_truth_is_the_head_raised_to_kappa_with_its_mass_and_the_tail(kappa: float) -> None:
    head = np.arange(P.shape[1]) < np.array([0, 1, 3, 5, 12])[:, None]
    truth = known.truth_distribution(P, head, kappa)
    for n, size in enumerate(head.sum(axis=1)):
        raised = P[n, :size] ** kappa
        np.testing.assert_allclose(
            truth[n, :size], raised / (raised.sum() or 1) * P[n, :size].sum()
        )
        np.testing.assert_array_equal(truth[n, size:], P[n, size:])


def test_the_expected_similarity_of_a_calibrated_answer_is_certainty() -> None:
    truth = known.truth_distribution(P, P > 0.05, 1.0)
    np.testing.assert_allclose(known.expected_quality(truth, 1 - D), 1 - (P * D).sum(axis=1))


def gold(kappa: float, N: int = 400) -> tuple[Any, Any]:
    """Log-probabilities of ten outcomes, and which is right, drawn at κ."""
    p, _ = distributions(N, 10, seed=2)
    truth = known.truth_distribution(p, np.ones_like(p, dtype=bool), kappa)
    drawn = known.draws(truth, np.random.default_rng(3).random((N, 1)))
    return np.log(p), np.arange(10) == drawn


@pytest.mark.parametrize("kappa", [0.5, 1.0, 1.5])
def test_kappa_is_found_again_within_its_interval(kappa: float) -> None:
    logprob, right = gold(kappa)
    counts = (
        np.random.default_rng(4)
        .multinomial(len(right), np.full(len(right), 1 / len(right)), size=300)
        .T
    )
    found = known.estimate_kappa(logprob, np.ones_like(right), right, counts)
    low, high = np.quantile(found, [0.005, 0.995])
    assert low <= kappa <= high < low + 0.6


def test_kappa_is_that_of_the_likelihood_summed_over_outcomes_of_the_right_text() -> None:
    logprob, right = gold(1.0, N=30)
    right[:, 3] = True
    one = np.ones((30, 1), dtype=np.int64)
    raised = np.exp(logprob)[:, :, None] ** known.KAPPAS
    likelihood = np.log((raised * right[:, :, None]).sum(axis=1) / raised.sum(axis=1)).sum(axis=0)
    assert (
        known.estimate_kappa(logprob, np.ones_like(right), right, one)[0]
        == known.KAPPAS[likelihood.argmax()]
    )


def test_fewer_than_ten_telling_questions_of_a_resample_estimate_no_kappa() -> None:
    logprob, right = gold(1.0, N=12)
    right[0], right[1] = False, True  # the head is all wrong, or all right: both tell nothing
    counts = np.ones((12, 3), dtype=np.int64)
    counts[2, 1] = 0
    counts[:2, 2] = 9
    counts[2, 2] = 0
    found = known.estimate_kappa(logprob, np.ones_like(right), right, counts)
    assert np.isnan(found).tolist() == [False, True, True]
    assert np.isnan(known.estimate_kappa(logprob, np.zeros_like(right), right, counts)).all()


def test_questions_whose_whole_head_is_right_or_wrong_change_no_kappa() -> None:
    logprob, right = gold(1.0, N=40)
    more = np.concatenate([right, np.ones((5, 10), dtype=bool), np.zeros((5, 10), dtype=bool)])
    of_more = np.concatenate([logprob, logprob[:10]])
    ones = np.ones((50, 1), dtype=np.int64)
    alone = known.estimate_kappa(logprob, np.ones_like(right), right, ones[:40])
    assert known.estimate_kappa(of_more, np.ones_like(more), more, ones) == alone


def test_kappa_of_long_answers_whose_powers_underflow() -> None:
    """p^κ is below the least float at log p = −600; only ratios count."""
    logprob, right = gold(1.0, N=40)
    ones = np.ones((40, 1), dtype=np.int64)
    every = np.ones_like(right)
    expected = known.estimate_kappa(logprob, every, right, ones)
    assert known.estimate_kappa(logprob - 600, every, right, ones) == expected


def test_an_impossible_outcome_is_not_a_right_one_that_was_found() -> None:
    logprob, right = gold(1.0, N=40)
    ones = np.ones((40, 1), dtype=np.int64)
    padded = np.column_stack([logprob, np.full(40, -np.inf)])
    more = np.column_stack([right, np.ones(40, dtype=bool)])
    alone = known.estimate_kappa(logprob, np.ones_like(right), right, ones)
    assert known.estimate_kappa(padded, np.ones_like(more), more, ones) == alone


def test_draws_have_the_frequencies_of_the_distribution() -> None:
    n = 20_000
    places = known.draws(3 * P, np.random.default_rng(5).random((len(P), n)))
    for row, p in zip(places, P, strict=True):
        counts = np.bincount(row, minlength=len(p))
        assert (((counts - n * p) ** 2) / (n * p)).sum() < 40  # 11 degrees of freedom: p < .0001


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 1e-16])
def test_what_has_no_probability_is_not_drawn(uniform: float) -> None:
    p = np.array([[0, 0.5, 0, 0.5, 0], [0, 0, 1, 0, 0], [1e-30, 0, 1, 0, 0]])
    places = known.draws(p, np.full((3, 1), uniform))
    assert (np.take_along_axis(p, places, axis=1) > 0).all()


def test_a_lattice_holds_each_outcome_as_often_as_its_probability_says_but_for_one() -> None:
    n = 50
    counts = np.array(
        [
            np.bincount(row, minlength=12)
            for row in known.draws(P, np.tile((np.arange(n) + 0.3) / n, (5, 1)))
        ]
    )
    assert (np.abs(counts - n * P) < 1).all()


def random_set() -> Any:
    """Many distributions, some flat and some steep, with sets of 0 to 8 first outcomes."""
    p, d = synthetic.random_distributions(200, seed=6)
    return p, d, np.arange(8) < np.random.default_rng(7).integers(0, 9, (200, 1))


@pytest.mark.parametrize("size", [1, 3, 5, 20])
def test_the_best_split_is_that_of_brute_force_and_of_the_engine(size: int) -> None:
    p, _, _ = random_set()
    found = known.best_split(p, np.ones_like(p, dtype=bool), size)
    for row, B in zip(p, found, strict=True):
        ratio = [max(1 - row[:b].sum(), 0) / (size - b) for b in range(min(size, 9))]
        assert ratio[B] == pytest.approx(min(ratio), abs=1e-12)
        outcomes: Any = [SimpleNamespace(cost=-np.log(value)) for value in row]
        engine = len(BestSplit(size).chosen(outcomes))
        assert engine == B or ratio[engine] == pytest.approx(min(ratio), abs=1e-9)


def repeated(size: int, times: int = 6000) -> tuple[dict[str, Any], Any]:
    """Each estimate of U from draws again and again, [N, times], and U."""
    p, d, in_set = (of[:12] for of in random_set())
    uniforms = np.random.default_rng(8).random((12, times, size))
    return known.estimates(p, d, in_set, size, uniforms), (p * d).sum(axis=1)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_every_estimate_with_draws_is_unbiased(size: int) -> None:
    found, U = repeated(size)
    assert len(found) == 3
    for values in found.values():
        error = np.maximum(values.std(axis=1), 1e-3) / np.sqrt(
            values.shape[1]
        )  # rare outcomes may not be drawn at all
        assert (np.abs(values.mean(axis=1) - U) <= 4.5 * error).all()


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_stratified_estimate_has_at_most_the_variance_of_samples(size: int) -> None:
    found, _ = repeated(size)
    assert (
        found["stratified optimal_stratified"].var(axis=1)
        <= 1.08 * found["uniform sample"].var(axis=1) + 1e-12
    ).all()


def test_a_set_that_holds_everything_needs_no_draw() -> None:
    p, d, _ = random_set()
    p, d = p[:, :3] / p[:, :3].sum(axis=1, keepdims=True), d[:, :3]
    in_set = np.ones_like(p, dtype=bool)
    found = known.estimates(p, d, in_set, 9, np.random.default_rng(9).random((len(p), 2, 9)))
    for name in ("stratified optimal_stratified", "stratified adaptive"):
        np.testing.assert_allclose(
            found[name], (p * d).sum(axis=1, keepdims=True).repeat(2, axis=1), atol=1e-8
        )


@pytest.mark.parametrize("size", [1, 3, 20])
def test_beams_are_the_most_probable_of_the_set_normalised(size: int) -> None:
    p, d, in_set = random_set()
    order = np.random.default_rng(10).permutation(8)  # their place among the columns does not count
    found = known.beam_estimate(p[:, order], d[:, order], in_set[:, order], size)
    for value, row, of, held in zip(found, p, d, in_set.sum(axis=1), strict=True):
        k = min(size, held)
        assert value == pytest.approx(row[:k] @ of[:k] / row[:k].sum() if k else 1.0)


NAN = float("nan")


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ([1, 1, 1, 1], 0.1),
        ([-1, -1, -1, -1], NAN),
        ([-1, 1, 1, 1], 0.2),
        ([1, -1, 1, 1], 0.4),
        ([-1, 1, -1, 3], 0.55),
        ([-1, 1, 1, 0], NAN),
        ([0, 1, 1, 1], 0.1),
        ([NAN, -1, 1, 1], 0.4),
        ([-1, NAN, 1, 1], NAN),
        ([-1, 1, 1, NAN], NAN),
    ],
)
def test_the_crossing_is_the_mass_from_which_a_difference_stays_above_0(
    difference: Any, expected: float
) -> None:
    mass = np.array([0.1, 0.3, 0.5, 0.7])
    order = [2, 0, 3, 1]
    found = known.crossing(mass[order], np.array(difference, dtype=np.float64)[order])
    assert found == pytest.approx(expected, nan_ok=True)


def test_coordinates_are_of_the_most_probable_found() -> None:
    logprob = np.log([[0.1, 0.6, 0.2], [0.3, np.nan, 0.3]])
    found = known.coordinates(logprob, np.zeros((2, 3), dtype=bool), np.array([[1, 2], [1, 0]]), 2)
    np.testing.assert_allclose(found["mass"], [0.7, 0.8])
    np.testing.assert_allclose(found["fair share"], [0.5, 1.0])
    assert np.isnan(found["kappa"]).all()


def test_a_right_answer_is_held_if_it_is_among_the_most_probable_found() -> None:
    logprob = np.log([[0.1, 0.6, 0.2], [0.3, np.nan, 0.2], [0.5, 0.2, 0.1]])
    right = np.array([[True, False, False], [True, True, False], [False, False, False]])
    counts = np.array([[1, 3], [1, 0], [1, 0]])
    np.testing.assert_allclose(known.coordinates(logprob, right, counts, 2)["held"], [1 / 3, 0.0])
    np.testing.assert_allclose(known.coordinates(logprob, right, counts, 3)["held"], [2 / 3, 1.0])


@pytest.mark.parametrize(
    ("mass_low", "held_high", "claims_more"),
    [(0.5, 0.4, True), (0.5, 0.5, False), (0.5, NAN, False), (NAN, 0.1, False)],
)
def test_beams_claim_more_than_they_hold_if_the_intervals_are_apart(
    mass_low: float, held_high: float, claims_more: bool
) -> None:
    assert known.claims_more_than_held(mass_low, held_high) is claims_more


@pytest.mark.parametrize("kappa", [0.5, 1.0])
def test_the_interval_of_kappa_covers_it_with_sixty_questions(kappa: float) -> None:
    rng = np.random.default_rng(0)
    worlds = 600
    covered = 0
    for _ in range(worlds):
        logprob, right = beams_of(rng, N=60, kappa=kappa)
        own_groups = [str(n) for n in range(60)]
        low, high = known.kappa_interval(logprob, np.isfinite(logprob), right, own_groups)
        covered += low <= kappa <= high
    assert covered / worlds == pytest.approx(0.95, abs=0.03)  # 3.4 standard errors


def test_the_interval_of_kappa_is_wider_where_questions_of_a_group_are_alike() -> None:
    logprob, right = beams_of(np.random.default_rng(1), N=100, kappa=1.0)
    copies = [np.tile(of_question, (4, 1)) for of_question in (logprob, right)]
    arrays = (copies[0], np.isfinite(copies[0]), copies[1])
    once = known.kappa_interval(logprob, np.isfinite(logprob), right, [str(n) for n in range(100)])
    as_groups = known.kappa_interval(*arrays, [str(n % 100) for n in range(400)])
    as_questions = known.kappa_interval(*arrays, [str(n) for n in range(400)])
    assert as_groups == pytest.approx(once)
    assert np.diff(as_questions) == pytest.approx(np.diff(once) / 2, rel=0.1)


def test_kappa_has_no_interval_of_few_questions() -> None:
    logprob = np.log([[0.6, 0.3]] * 9)
    right = np.array([[True, False]] * 9)
    ends = known.kappa_interval(logprob, np.isfinite(logprob), right, list("abcdefghi"))
    assert np.isnan(ends).all()


def beams_of(rng: np.random.Generator, N: int, kappa: float) -> tuple[Any, Any]:
    """log p of ten beams of some questions, and which is the right answer, drawn at κ, if any."""
    mass = rng.beta(1.2, 1.8, (N, 1)).clip(0.02, 0.98)
    p = rng.dirichlet(np.full(10, 0.3), N).clip(1e-9) * mass
    raised = p**kappa
    truth = raised / raised.sum(axis=1, keepdims=True) * p.sum(axis=1, keepdims=True)
    place = (np.cumsum(truth, axis=1) < rng.random((N, 1))).sum(axis=1)
    return np.log(p), np.arange(10) == place[:, None]
