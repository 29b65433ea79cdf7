"""Sets of outcomes and draws from outside them, and lattices, against the list of all outcomes of a
trigram.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from beamuq.decoding import (
    AllAbove,
    Exact,
    Greedy,
    OptimalStratified,
    Policy,
    Stochastic,
    Systematic,
)
from listed_model import ListedModel, Tokens, trigram
from test_decoding_brute_force import assert_frequencies

SEEDS = range(40)
MANY = [f"q{number}" for number in range(400)]


def probable(model: ListedModel, p: float) -> list[Tokens]:
    return [tokens for tokens, logprob in model.outcomes().items() if logprob >= np.log(p)]


@pytest.mark.parametrize("p", [0.3, 0.02, 1e-4])
def test_above_finds_every_outcome_so_probable_and_runs_no_prefix_less_probable(p: float) -> None:
    for seed in SEEDS:
        model = trigram(seed)
        found = model.decoded(AllAbove(p))["q"]
        greedy = model.decoded(Greedy())["q"].tokens
        assert found.tokens == (probable(model, p) or greedy)
        assert found.proof == (True, None)
        if probable(model, p):
            assert all(
                sum(model.logprobs(tokens[:at])[tokens[at]] for at in range(len(tokens)))
                >= np.log(p)
                for tokens in found.asked
            )


def test_above_that_is_stopped_says_what_it_can_have_missed() -> None:
    model = trigram(1)
    found = model.decoded(AllAbove(0.001, rows=3))["q"]
    assert found.rows == 3
    assert found.proof is not None
    proven, missed = found.proof
    assert not proven
    assert missed is not None
    outside = [p for tokens, p in model.outcomes().items() if tokens not in found.tokens]
    assert np.log(0.001) < max(outside) <= missed
    assert set(found.tokens) < set(probable(model, 0.001))


@pytest.mark.parametrize(
    ("policy", "set_of"),
    [
        (AllAbove(0.05, 4000), lambda model: probable(model, 0.05)),
        (AllAbove(0.05, 4000, 400), lambda model: probable(model, 0.05)),
        (AllAbove(0.99, 4000), lambda _: []),
        (
            AllAbove(0.05, 4000, rows=1),
            lambda model: model.decoded(AllAbove(0.05, rows=1))["q"].tokens,
        ),
    ],
)
def test_draws_follow_the_distribution_without_the_set(policy: AllAbove, set_of: object) -> None:
    model = trigram(1)
    members = set_of(model)  # type: ignore[operator]
    found = model.decoded(policy)["q"].answers
    assert [answer.tokens for answer in found[: len(members)]] == members
    assert all(answer.policy_logprob is None for answer in found[: len(members)])
    left = {tokens: np.exp(p) for tokens, p in model.outcomes().items() if tokens not in members}
    truth = {tokens: p / sum(left.values()) for tokens, p in left.items()}
    drawn = found[len(members) :]
    assert len(drawn) == 4000
    assert_frequencies([answer.tokens for answer in drawn], truth)
    for answer in drawn[:50]:
        assert answer.policy_logprob == pytest.approx(np.log(truth[answer.tokens]), abs=1e-5)


def test_a_set_that_holds_everything_leaves_no_draws() -> None:
    model = trigram(1, vocabulary=3, steps=2)
    assert model.decoded(AllAbove(1e-6, 10))["q"].tokens == list(model.outcomes())


@pytest.mark.parametrize("systematic", [False, True])
@pytest.mark.parametrize("size", [1, 5, 10])
def test_optimal_stratified_splits_as_the_masses_alone_say(size: int, systematic: bool) -> None:
    sizes = set()
    for seed in SEEDS:
        model = trigram(seed, sharpness=3.0)
        truth = model.outcomes()
        outside = 1 - np.cumsum([0.0, *np.exp(list(truth.values()))[: size - 1]])
        best = int(np.argmin(outside / (size - np.arange(size))))
        found = model.decoded(OptimalStratified(size, systematic))["q"]
        assert found.tokens[:best] == list(truth)[:best]
        assert [answer.policy_logprob is None for answer in found.answers] == [
            rank < best for rank in range(size)
        ]
        assert not set(found.tokens[:best]) & set(found.tokens[best:])
        assert found.proof == (True, None)
        searched = found.asked - {
            tokens[:end] for tokens in found.tokens for end in range(len(tokens))
        }
        assert searched <= model.decoded(Exact(size))["q"].asked
        sizes.add(best)
    assert sizes == {0} if size == 1 else len(sizes) > 1


def test_the_draws_of_optimal_stratified_are_unbiased_and_of_less_variance_than_samples() -> None:
    model = trigram(5, sharpness=4.0)
    truth = model.outcomes()
    chance = np.random.default_rng(0)
    d = {tokens: chance.random() for tokens in truth}
    mean = sum(np.exp(p) * d[tokens] for tokens, p in truth.items())
    variance = sum(np.exp(p) * (d[tokens] - mean) ** 2 for tokens, p in truth.items())
    estimates = []
    for found in model.decoded(OptimalStratified(5), MANY).values():
        members = [answer for answer in found.answers if answer.policy_logprob is None]
        draws = [d[answer.tokens] for answer in found.answers if answer.policy_logprob is not None]
        rest = 1 - sum(np.exp(answer.logprob) for answer in members)
        estimates.append(
            sum(np.exp(answer.logprob) * d[answer.tokens] for answer in members)
            + rest * np.mean(draws)
        )
    assert np.mean(estimates) == pytest.approx(mean, abs=4 * np.std(estimates) / len(MANY) ** 0.5)
    assert np.var(estimates) < variance / 5


# -- lattices --------------------------------------------------------------------------------------


def test_every_point_of_a_lattice_has_the_models_own_distribution() -> None:
    model = trigram(2)
    truth = {tokens: np.exp(p) for tokens, p in model.outcomes().items()}
    decoded = model.decoded(Systematic(10), MANY)
    drawn = [answer for found in decoded.values() for answer in found.answers]
    assert_frequencies([answer.tokens for answer in drawn], truth)
    assert all(answer.policy_logprob == pytest.approx(answer.logprob) for answer in drawn)


def test_the_points_of_a_lattice_spread_as_evenly_as_can_be() -> None:
    model = trigram(2)
    first = np.exp(model.logprobs(()))
    for found in model.decoded(Systematic(10), MANY[:50]).values():
        counts = Counter(tokens[0] for tokens in found.tokens)
        assert all(abs(counts[token] - 10 * p) < 1 for token, p in enumerate(first))
        assert found.tokens == sorted(found.tokens)


@pytest.mark.parametrize("policy", [Systematic(10), AllAbove(0.5, 20, 2)])
def test_long_answers_use_up_no_precision(policy: Policy) -> None:
    flat = ListedModel(lambda _: np.ones(50), 50, set(), 40)
    found = flat.decoded(policy, MANY[:30])
    late = [
        token for answers in found.values() for tokens in answers.tokens for token in tokens[25:]
    ]
    counts = np.bincount(late, minlength=50)
    assert chisquare(counts).pvalue > 1e-3
    assert all(len(set(answers.tokens)) == len(answers.tokens) for answers in found.values())


def test_lattices_of_one_recipe_are_independent_and_in_consecutive_runs() -> None:
    model = trigram(2)
    first = np.exp(model.logprobs(()))
    apart = 0
    for found in model.decoded(AllAbove(0.999, 30, 3), MANY[:30]).values():
        runs = [found.tokens[at : at + 10] for at in (0, 10, 20)]
        for run in runs:
            counts = Counter(tokens[0] for tokens in run)
            assert all(abs(counts[token] - 10 * p) < 1 for token, p in enumerate(first))
        apart += runs[0] != runs[1]
    assert apart > 20


@pytest.mark.parametrize(
    "policy",
    [
        Systematic(10),
        AllAbove(0.05, 20, 2),
        OptimalStratified(10),
        OptimalStratified(10, True),
        Stochastic(5),
    ],
)
def test_company_changes_no_draw(policy: Policy) -> None:
    model = trigram(3)
    together = model.decoded(policy, MANY[:5])
    for question in MANY[:5]:
        assert model.decoded(policy, [question])[question] == together[question]
