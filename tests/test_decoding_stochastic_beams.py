"""Stochastic beams against Gumbel top-k over the list of all outcomes, which is sampling without
replacement.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from beamuq.decoding import Stochastic
from listed_model import Decoded, ListedModel, Tokens, trigram
from test_decoding_brute_force import assert_frequencies

MANY = [f"q{number}" for number in range(2000)]
SMALL = trigram(4, vocabulary=3, steps=2)


@pytest.fixture(scope="module")
def drawn() -> dict[str, Decoded]:
    return SMALL.decoded(Stochastic(2), MANY)


def probabilities(model: ListedModel) -> dict[Tokens, float]:
    return {tokens: float(np.exp(logprob)) for tokens, logprob in model.outcomes().items()}


def test_outcomes_come_in_the_order_of_drawing_without_replacement(
    drawn: dict[str, Decoded],
) -> None:
    p = probabilities(SMALL)
    truth = {(a, b): p[a] * p[b] / (1 - p[a]) for a, b in permutations(p, 2)}
    assert_frequencies([tuple(found.tokens) for found in drawn.values()], truth)


def test_weights_by_inclusion_are_unbiased(drawn: dict[str, Decoded]) -> None:
    p = probabilities(SMALL)
    for tokens in p:
        weights = [
            sum(
                np.exp(a.logprob - (a.policy_logprob or 0.0))
                for a in found.answers
                if a.tokens == tokens
            )
            for found in drawn.values()
        ]
        assert np.mean(weights) == pytest.approx(
            p[tokens], abs=4 * np.std(weights) / len(MANY) ** 0.5
        )


def test_the_threshold_is_the_next_gumbel_of_a_plain_top_k(drawn: dict[str, Decoded]) -> None:
    logprobs = np.log(list(probabilities(SMALL).values()))
    gumbels = np.sort(
        logprobs + np.random.default_rng(0).gumbel(size=(len(MANY), len(logprobs))), axis=1
    )[:, -3]
    first = [found.answers[0] for found in drawn.values()]
    thresholds = [a.logprob - np.log(-np.log1p(-np.exp(a.policy_logprob or 0.0))) for a in first]
    assert np.quantile(thresholds, [0.1, 0.5, 0.9]) == pytest.approx(
        np.quantile(gumbels, [0.1, 0.5, 0.9]), abs=0.12
    )


def test_larger_trees_include_each_outcome_as_often_as_they_should() -> None:
    model = trigram(2, steps=3)
    chance, p = np.random.default_rng(1), np.array(list(model.outcomes().values()))
    top = np.argsort(-(p + chance.gumbel(size=(20000, len(p)))), axis=1)[:, :5]
    expected = np.bincount(top.ravel(), minlength=len(p)) / 20000
    found = model.decoded(Stochastic(5), MANY[:1000])
    assert all(len(set(each.tokens)) == 5 for each in found.values())
    counts = Counter(tokens for each in found.values() for tokens in each.tokens)
    share = np.array([counts[tokens] for tokens in model.outcomes()]) / 1000
    assert np.abs(share - expected).max() < 4 * 0.5 / 1000**0.5


def test_a_model_of_fewer_outcomes_gives_all_of_them_surely() -> None:
    found = SMALL.decoded(Stochastic(50))["q"]
    assert sorted(found.tokens) == sorted(SMALL.outcomes())
    assert [answer.policy_logprob for answer in found.answers] == [0.0] * len(found.answers)


def test_rows_are_those_of_a_beam_search_at_most() -> None:
    model = trigram(3)
    for found in model.decoded(Stochastic(4), MANY[:20]).values():
        on_the_way = {tokens[:end] for tokens in found.tokens for end in range(len(tokens))}
        assert on_the_way <= found.asked
        assert found.rows <= 5 * (model.steps - 1)
