"""The most probable outcomes against the list of all of them, on a trigram and on distributions
made to mislead.
"""

from __future__ import annotations

import numpy as np
import pytest

from beamuq.decoding import Beam, Exact
from listed_model import ListedModel, Tokens, trigram

SEEDS = range(60)


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_exact_finds_the_most_probable_outcomes_in_order(size: int) -> None:
    for seed in SEEDS:
        model = trigram(seed)
        truth = model.outcomes()
        found = model.decoded(Exact(size))["q"]
        assert found.tokens == list(truth)[:size], seed
        assert [answer.logprob for answer in found.answers] == list(truth.values())[:size]
        assert found.proof == (True, None)
        assert all(answer.policy_logprob is None for answer in found.answers)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_exact_runs_the_prefixes_that_its_proof_needs_and_no_other(size: int) -> None:
    for seed in SEEDS:
        model = trigram(seed)
        last = list(model.outcomes().values())[size - 1]
        needed: set[Tokens] = {()}
        for tokens in model.outcomes():
            for end in range(1, len(tokens)):
                if sum(model.logprobs(tokens[:at])[tokens[at]] for at in range(end)) >= last:
                    needed.add(tokens[:end])
        found = model.decoded(Exact(size))["q"]
        assert found.asked == needed
        assert found.rows == len(needed) - 1


def ending_behind_a_spread(tokens: Tokens) -> np.ndarray:
    """The ending has .4, one token .6 that is spread over a thousand."""
    p = np.zeros(1002)
    if tokens:
        p[2:] = 1e-3
    else:
        p[[0, 1]] = 0.4, 0.6
    return p


def test_an_ending_behind_a_more_probable_token_is_not_missed() -> None:
    model = ListedModel(ending_behind_a_spread, 1002, {0}, 2)
    assert model.decoded(Beam(1))["q"].tokens == [(1, 2)]
    assert model.decoded(Exact(1))["q"].tokens == [(0,)]


def test_a_list_of_continuations_goes_on_as_long_as_it_matters() -> None:
    model = ListedModel(ending_behind_a_spread, 1002, {0}, 2)
    found = model.decoded(Exact(900))["q"]
    assert found.tokens == [(0,), *((1, token) for token in range(2, 901))]
    assert (found.rows, found.proof) == (1, (True, None))


def test_ties_are_in_the_order_of_their_tokens_whatever_their_lengths() -> None:
    model = ListedModel(
        lambda tokens: [0.5, 0.25, 0.25] if not tokens else [0.5, 0.5, 0.0], 3, {0}, 3
    )
    truth = [(0,), (1, 0), (2, 0), (1, 1, 0), (1, 1, 1), (2, 1, 0), (2, 1, 1)]
    assert list(model.outcomes()) == truth
    for size in range(1, 8):
        assert model.decoded(Exact(size))["q"].tokens == truth[:size]


def test_a_question_stopped_at_the_cap_says_so_and_what_it_can_have_missed() -> None:
    stopped = 0
    for seed in SEEDS:
        model = trigram(seed)
        truth = model.outcomes()
        found = model.decoded(Exact(10, rows=4))["q"]
        assert len(found.answers) == 10
        assert [truth[tokens] for tokens in found.tokens] == sorted(
            (truth[t] for t in found.tokens), reverse=True
        )
        assert found.proof is not None
        proven, missed = found.proof
        stopped += not proven
        if proven:
            assert found.tokens == list(truth)[:10]
        else:
            assert missed is not None
            assert max(p for tokens, p in truth.items() if tokens not in found.tokens) <= missed
            beams = model.decoded(Beam(10))["q"].tokens
            assert sum(truth[tokens] for tokens in found.tokens) >= sum(
                truth[tokens] for tokens in beams
            )
    assert stopped > 10


def test_questions_of_a_batch_do_not_see_each_other() -> None:
    model = trigram(3)
    alone = model.decoded(Exact(10))["q"]
    assert model.decoded(Exact(10), ["a", "q", "b"])["q"] == alone
