"""Estimators of U: the mean of each that claims to be unbiased by enumeration, errors and intervals
as proven.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from beamuq.decoding import (
    AllAbove,
    Hybrid,
    OptimalStratified,
    Policy,
    Sample,
    Stochastic,
    Systematic,
)
from beamuq.errors import BeamUQError
from beamuq.log_space_sums import Array, Index
from beamuq.methods.dissimilarity_estimators import (
    WEIGHTINGS,
    CandidateArrays,
    certified_interval,
    certified_pair_interval,
    check_kind,
    estimate,
    lacks,
    standard_error,
)
from listed_model import trigram
from synthetic import random_distributions

P = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
D = np.array([0.0, 0.3, 1.0, 0.55, 0.9])
U = float(P @ D)
Draws = tuple[Index, Array]  # every possible draw [K, n] of outcomes, and its probability [K]


def found(drawn: Index, size: int = 0, p: Array = P, d: Array = D) -> CandidateArrays:
    """A set of the first ``size`` outcomes, and draws [K, n]: K possible findings."""
    members = np.concatenate([np.tile(np.arange(size), (len(drawn), 1)), drawn], axis=1)
    repeated = (members[:, :, None] == members[:, None, :]) & np.tri(
        members.shape[1], k=-1, dtype=bool
    )
    return CandidateArrays(
        logprob=np.log(p[members]),
        dissimilarity=d[members],
        mask=np.ones(members.shape, dtype=bool),
        drawn=np.broadcast_to(np.arange(members.shape[1]) >= size, members.shape),
        repeated=repeated.any(axis=2),
        differs=members != 0,
    )


def independent(n: int, size: int = 0) -> Draws:
    """Every n draws outside the first ``size`` outcomes."""
    drawn = np.array(list(itertools.product(range(size, len(P)), repeat=n)))
    return drawn, np.prod(P[drawn] / P[size:].sum(), axis=1)


def lattice(n: int, size: int = 0) -> Draws:
    """Every n points (i + u)/n of a lattice outside the first ``size`` outcomes; the shift u is
    uniform in [0, 1].
    """
    cumulative = np.cumsum(P[size:]) / P[size:].sum()
    ends = np.unique(np.concatenate([[0.0, 1.0], (n * cumulative) % 1.0]))
    shifts = (ends[1:] + ends[:-1]) / 2
    points = (np.arange(n) + shifts[:, None]) / n
    return size + np.searchsorted(cumulative, points).clip(max=len(P) - size - 1), np.diff(ends)


def several(one: Draws, lattices: int) -> Draws:
    """Independent lattices, one behind the other."""
    chosen = np.array(list(itertools.product(range(len(one[1])), repeat=lattices)))
    return one[0][chosen].reshape(len(chosen), -1), np.prod(one[1][chosen], axis=1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_samples_and_lattices_of_the_model_s_distribution_have_no_bias(n: int) -> None:
    for drawn, probability in (independent(n), lattice(n)):
        assert probability.sum() == pytest.approx(1.0, abs=1e-12)
        assert probability @ estimate("uniform", found(drawn)) == pytest.approx(U, abs=1e-12)


@pytest.mark.parametrize("size", [0, 1, 2, 4])
@pytest.mark.parametrize("n", [1, 3])
def test_a_set_with_draws_outside_it_has_no_bias(size: int, n: int) -> None:
    for drawn, probability in (
        independent(n, size),
        lattice(n, size),
        several(lattice(n, size), 2),
    ):
        assert probability @ estimate("stratified", found(drawn, size)) == pytest.approx(
            U, abs=1e-12
        )


def test_the_paper_s_hybrid_weights_are_the_stratified_ones() -> None:
    # eq. hybrid_weights: p of a beam, and (1 − 0.65)/3 for each of three draws
    one = found(np.array([[2, 2, 4]]), 2)
    assert estimate("stratified", one)[0] == pytest.approx(
        0.25 * 0.3 + 0.35 * (1.0 + 1.0 + 0.9) / 3
    )


def stochastic(k: int, nodes: int = 200) -> Iterator[tuple[CandidateArrays, Array]]:
    """Every Gumbel top-k with its threshold κ on a grid: what was found, and the quadrature's
    weights.

    With x = exp(−κ), outcomes stand in the top k with density Π_S (1 − exp(−p x)) · r_S exp(−r_S
    x), r_S = 1 − Σ_S p; v = exp(−x/20) makes that a polynomial, since all p are multiples of 1/20,
    and Gauss–Legendre sums it exactly.
    """
    points, weights = np.polynomial.legendre.leggauss(nodes)
    x = -20.0 * np.log((points + 1) / 2)
    for members in map(np.array, itertools.combinations(range(len(P)), k)):
        q = -np.expm1(-P[members] * x[:, None])
        left = 1.0 - P[members].sum()
        density = q.prod(axis=1) * left * np.exp(-left * x)
        plain = found(np.tile(members, (nodes, 1)))
        yield (
            CandidateArrays(**{**vars(plain), "log_inclusion": np.log(q)}),
            density * weights / 2 * 20.0 / ((points + 1) / 2),
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_stochastic_beams_weighted_by_inclusion_have_no_bias_and_normalised_they_have(
    k: int,
) -> None:
    cases = list(stochastic(k))
    assert sum(weights.sum() for _, weights in cases) == pytest.approx(1.0, abs=1e-12)
    assert sum(w @ estimate("inclusion", f) for f, w in cases) == pytest.approx(U, abs=1e-12)
    bias = sum(w @ estimate("normalised", f) for f, w in cases) - U
    assert (abs(bias) > 1e-3) == (k > 1)  # the first alone is a sample


def test_estimators_that_claim_nothing_are_biased_where_the_rest_differs() -> None:
    drawn, probability = independent(3)
    assert abs(probability @ estimate("distinct", found(drawn)) - U) > 1e-3
    beams = found(np.empty((1, 0), dtype=np.int64), 3)
    values = {
        name: float(estimate(name, beams)[0])
        for name in ("normalised", "unnormalised", "lower", "uniform")
    }
    # Σ p d = 0.075 + 0.2; of mass 0.85
    assert values == pytest.approx(
        {
            "normalised": 0.275 / 0.85,
            "unnormalised": 0.275 + 0.15,
            "lower": 0.275,
            "uniform": 1.3 / 3,
        }
    )
    assert all(abs(value - U) > 1e-3 for value in values.values())


def test_distinct_samples_count_once_by_token_sequence() -> None:
    # outcomes 0, 0, 2: p 0.4 and 0.2
    assert estimate("distinct", found(np.array([[0, 0, 2]])))[0] == pytest.approx(0.2 / 0.6)


def test_exact_match_is_the_mass_of_other_texts() -> None:
    beams = found(np.empty((1, 0), dtype=np.int64), 3)
    assert estimate("match", beams)[0] == pytest.approx(0.45 / 0.85)
    assert estimate("match", found(np.array([[0, 0, 3, 4]])))[0] == pytest.approx(0.5)


@pytest.mark.parametrize("size", [0, 2])
def test_the_squared_standard_error_is_the_variance_on_average(size: int) -> None:
    for (drawn, probability), lattices in (
        (independent(3, size), 0),
        (several(lattice(2, size), 3), 3),
    ):
        case = found(drawn, size)
        variance = probability @ (estimate("stratified", case) - U) ** 2
        assert probability @ standard_error(case, lattices) ** 2 == pytest.approx(
            variance, abs=1e-12
        )


def test_there_is_no_standard_error_of_one_lattice_or_one_draw() -> None:
    assert np.isnan(standard_error(found(np.array([[1, 2]])), lattices=1)).all()
    assert np.isnan(standard_error(found(np.array([[3]]), 2))).all()
    nothing = np.empty((1, 0), dtype=np.int64)
    assert np.isnan(standard_error(found(nothing, 3))).all()
    assert standard_error(found(nothing, len(P))).tolist() == [0.0]


def test_what_is_not_valid_names_what_it_needs() -> None:
    with pytest.raises(
        BeamUQError, match=r"'unnormalized': unknown weighting; did you mean 'unnormalised'"
    ):
        check_kind("unnormalized", "beam")
    with pytest.raises(BeamUQError, match=r"stratified 'beam': .* hybrid, optimal_stratified"):
        check_kind("stratified", "beam")
    check_kind("unnormalised", "wide")  # a search of one's own
    assert lacks("uniform", "sample T=1.0") is None
    assert "T = 1" in str(lacks("uniform", "sample T=0.7"))
    assert "draws" in str(lacks("stratified", "all_above p=0.01"))


@pytest.mark.parametrize("size", [0, 1, 4, 8])
def test_the_certified_interval_always_holds_u(size: int) -> None:
    p, d = random_distributions()
    lower, upper = certified_interval(
        np.log(p), d, np.broadcast_to(np.arange(p.shape[1]) < size, p.shape)
    )
    exact = (p * d).sum(axis=1)
    assert (lower <= exact + 1e-12).all()
    assert (exact <= upper + 1e-12).all()
    np.testing.assert_allclose(upper - lower, p[:, size:].sum(axis=1), atol=1e-12)


def test_the_certified_pair_interval_holds_the_sum_over_all_pairs() -> None:
    p, _ = random_distributions(5000)
    values = np.random.default_rng(1).random((*p.shape, p.shape[1]))
    inside = np.broadcast_to(np.arange(p.shape[1]) < 3, p.shape)
    lower, upper = certified_pair_interval(np.log(p), values, inside)
    exact = np.einsum("ni,nij,nj->n", p, values, p)
    assert (lower <= exact + 1e-12).all()
    assert (exact <= upper + 1e-12).all()
    np.testing.assert_allclose(upper - lower, 1 - p[:, :3].sum(axis=1) ** 2, atol=1e-12)
    all_ones = certified_pair_interval(np.log(p), np.ones_like(values), inside)[1]
    np.testing.assert_allclose(all_ones, 1.0)  # the upper end is reached


def test_every_weighting_sums_to_one_or_says_that_it_does_not() -> None:
    one = found(np.array([[2, 3, 3]]), 2)
    for name, weighting in WEIGHTINGS.items():
        if name not in ("unnormalised", "lower", "inclusion"):
            assert weighting.weights(one).sum() == pytest.approx(1.0), name


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Sample(4), "uniform"),
        (Systematic(4), "uniform"),
        (Hybrid(4, 2), "stratified"),
        (OptimalStratified(4), "stratified"),
        (OptimalStratified(4, systematic=True), "stratified"),
        (AllAbove(0.05, draws=4, lattices=2), "stratified"),
        (Stochastic(4), "inclusion"),
    ],
    ids=lambda value: getattr(value, "strategy", value),
)
def test_what_the_engine_draws_gives_unbiased_estimates(policy: Policy, name: str) -> None:
    model = trigram(3, vocabulary=4, steps=3)
    outcomes = model.outcomes()
    d = dict(zip(outcomes, np.random.default_rng(5).random(len(outcomes)), strict=True))
    exact = sum(np.exp(logprob) * d[tokens] for tokens, logprob in outcomes.items())
    decoded = [
        each.answers for each in model.decoded(policy, [f"q{n}" for n in range(600)]).values()
    ]
    M = max(map(len, decoded))
    padded = [[*answers, *[None] * (M - len(answers))] for answers in decoded]
    drawn_as = [
        [None if answer is None else answer.policy_logprob for answer in answers]
        for answers in padded
    ]
    policies = np.array(drawn_as, dtype=np.float64)
    case = CandidateArrays(
        logprob=np.array(
            [[-np.inf if a is None else a.logprob for a in answers] for answers in padded]
        ),
        dissimilarity=np.array(
            [[0.0 if a is None else d[a.tokens] for a in answers] for answers in padded]
        ),
        mask=np.array([[a is not None for a in answers] for answers in padded]),
        drawn=~np.isnan(policies),
        log_inclusion=policies if name == "inclusion" else None,
    )
    estimates = estimate(name, case)
    assert abs(estimates.mean() - exact) < 4 * estimates.std() / np.sqrt(len(estimates))
    if policy.strategy.startswith(("sample", "hybrid", "optimal_stratified", "all_above")):
        errors = standard_error(case, 2 if policy.strategy.startswith("all_above") else 0)
        assert np.sqrt((errors**2).mean()) == pytest.approx(estimates.std(), rel=0.15)
