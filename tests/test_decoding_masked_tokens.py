"""Tokens of probability 0, as of a model that masks some, in every strategy, against the list of
all answers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beamuq.decoding import (
    AllAbove,
    Beam,
    DiverseBeam,
    Exact,
    Greedy,
    Hybrid,
    OptimalStratified,
    Policy,
    Prompt,
    Sample,
    Shipped,
    Stochastic,
    Systematic,
    checked,
    decode,
    next_token_logprobs,
)
from beamuq.errors import BeamUQError
from listed_model import ListedModel, Tokens, trigram
from test_decoding_brute_force import diverse_twin
from tiny import plain_logits, toy_model

SEEDS = range(30)
POLICIES: tuple[Policy, ...] = (
    Greedy(),
    Beam(8),
    Sample(20),
    Sample(20, 0.5),
    Shipped(0.7, 3, 0.9),
    DiverseBeam(8, 4, 0.5),
    Hybrid(12, 4),
    Exact(8),
    AllAbove(0.05),
    AllAbove(0.05, 6),
    AllAbove(0.05, 6, 2),
    OptimalStratified(8),
    OptimalStratified(8, True),
    Systematic(8),
    Stochastic(8),
)
"""Wider than what many of these models have outcomes for."""


def masked_models() -> Iterator[ListedModel]:
    """From nearly all tokens of probability 0 to few of them."""
    for seed in SEEDS:
        yield trigram(seed, possible=(0.1, 0.3, 0.6)[seed % 3])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.strategy)
def test_no_strategy_finds_an_answer_of_probability_nought(policy: Policy) -> None:
    for model in masked_models():
        truth = model.outcomes()
        for found in model.decoded(policy, ["q", "another"]).values():
            assert found.answers
            for answer in found.answers:
                assert answer.logprob == pytest.approx(truth[answer.tokens], abs=1e-5)
                assert answer.policy_logprob is None or np.isfinite(answer.policy_logprob)


@pytest.mark.parametrize("size", [1, 4, 300])
def test_beams_and_the_proven_search_find_what_there_is_and_no_more(size: int) -> None:
    for model in masked_models():
        truth = list(model.outcomes())
        proven = model.decoded(Exact(size))["q"]
        assert proven.tokens == truth[:size]
        assert proven.proof == (True, None)
        if size > len(truth):
            assert sorted(model.decoded(Beam(size))["q"].tokens) == sorted(truth)


@pytest.mark.parametrize("penalty", [0.0, 0.5, 100.0])
def test_diverse_beams_are_those_of_the_obvious_implementation(penalty: float) -> None:
    policy = DiverseBeam(6, 3, penalty)
    for model in masked_models():

        def logprobs(tokens: Tokens, model: ListedModel = model) -> list[float]:
            return [float(logprob) for logprob in model.logprobs(tokens)]

        twin = diverse_twin(policy, frozenset({0}), model.steps, logprobs)
        possible = [tokens for tokens in twin if tokens in model.outcomes()]
        assert sorted(model.decoded(policy)["q"].tokens) == sorted(possible)


def test_a_set_that_holds_all_possible_answers_leaves_nothing_to_draw() -> None:
    for model in masked_models():
        size = len(model.outcomes())
        for policy in (Hybrid(size + 5, size), AllAbove(1e-12, 5), AllAbove(1e-12, 6, 2)):
            assert sorted(model.decoded(policy)["q"].tokens) == sorted(model.outcomes())
        drawn = model.decoded(Stochastic(size + 5))["q"]
        assert sorted(drawn.tokens) == sorted(model.outcomes())
        assert [answer.policy_logprob for answer in drawn.answers] == [0.0] * size


@pytest.mark.parametrize(
    "policy",
    [
        Sample(3000),
        Systematic(3000),
        Hybrid(3003, 3),
        AllAbove(0.1, 3000),
        AllAbove(0.1, 3000, 300),
    ],
)
def test_draws_follow_the_distribution_of_what_is_possible(policy: Policy) -> None:
    model = trigram(5, possible=0.6)
    answers = model.decoded(policy)["q"].answers
    found = {
        answer.tokens
        for answer in answers
        if answer.policy_logprob is None and not isinstance(policy, Sample)
    }
    drawn = [answer for answer in answers if answer.tokens not in found]
    left = {tokens: np.exp(p) for tokens, p in model.outcomes().items() if tokens not in found}
    expected = np.array([p / sum(left.values()) for p in left.values()]) * len(drawn)
    counts = np.array([sum(answer.tokens == tokens for answer in drawn) for tokens in left])
    assert len(left) >= 5
    common = expected >= 5
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*expected[common], expected[~common].sum()]
    if wanted[-1] < 1:
        observed = observed[:-1]
        wanted = list(np.array(wanted[:-1]) / sum(wanted[:-1]) * sum(observed))
    assert chisquare(observed, wanted).pvalue > 1e-3


# -- a real model that masks part of its vocabulary ------------------------------------------------

ALIVE = (1, 4, 7)
PROMPTS = [Prompt("one", (2, 3, 5)), Prompt("two", (2, 3, 6, 8))]


def masking_model(masked: float, vocabulary: int = 20) -> Any:
    """A Llama whose forward pass gives ``masked`` for all logits but those of `ALIVE`."""
    model: Any = copy.deepcopy(toy_model(vocabulary))
    plain = model.forward

    def forward(*arguments: Any, **options: Any) -> Any:
        output = plain(*arguments, **options)
        dead = torch.ones(vocabulary, dtype=torch.bool, device=output.logits.device)
        dead[list(ALIVE)] = False
        output.logits = output.logits.masked_fill(dead, masked)
        return output

    model.forward = forward
    return model


@pytest.mark.parametrize("masked", [-torch.inf, torch.finfo(torch.float32).min])
def test_a_model_that_masks_its_vocabulary_is_decoded_over_what_is_left(masked: float) -> None:
    model = masking_model(masked)
    assert checked(model).path == "tree"
    found = decode(
        model,
        PROMPTS,
        [Greedy(), Beam(50), Sample(30)],
        stop_ids=frozenset({4}),
        seed=0,
        max_new_tokens=3,
    )
    for prompt in PROMPTS:
        beams = [c for c in found if c.prompt_id == prompt.id and c.strategy.startswith("beam")]
        assert len(beams) == 1 + 2 * (1 + 2 * 3)  # token 4 ends, 1 and 7 go on, three steps
        assert np.exp([beam.logprob for beam in beams]).sum() == pytest.approx(1, abs=1e-6)
    tokens = {prompt.id: prompt.token_ids for prompt in PROMPTS}
    for candidate in found:
        assert set(candidate.token_ids) <= set(ALIVE)
        ids = (*tokens[candidate.prompt_id], *candidate.token_ids)
        logits = plain_logits(model, ids, use_cache=False)[
            -len(candidate.token_ids) - 1 : -1
        ].double()
        plain = torch.log_softmax(logits[:, list(ALIVE)], dim=-1)
        own = [
            float(plain[step, ALIVE.index(token)]) for step, token in enumerate(candidate.token_ids)
        ]
        assert candidate.token_logprobs == pytest.approx(own, abs=1e-5)
        if candidate.entropies is not None:
            assert candidate.entropies == pytest.approx(
                -(plain.exp() * plain).sum(dim=-1).numpy(), abs=1e-5
            )
        for ids_of_step, logprobs in zip(
            candidate.top_ids or (), candidate.top_logprobs or (), strict=True
        ):
            assert set(ids_of_step) == set(ALIVE)
            assert np.isfinite(logprobs).all()


def test_the_log_probability_of_a_masked_token_is_minus_infinity() -> None:
    found = next_token_logprobs(masking_model(-torch.inf), PROMPTS, [0, 1, 4, 7])
    assert (found[:, 0] == -np.inf).all()
    assert np.exp(found[:, 1:]).sum(axis=1) == pytest.approx([1, 1])


def test_masked_places_do_not_hide_that_a_path_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five thousand tokens all but three are masked: over all of them, the mean difference would
    be nothing.
    """
    from beamuq.decoding import tree_attention

    plain = tree_attention.AttentionRule
    monkeypatch.setattr(
        tree_attention,
        "AttentionRule",
        lambda scaling, *rest: plain(1.5 * (scaling or 8**-0.5), *rest),
    )
    assert checked(masking_model(-torch.inf, 5000)).path == "cached"


def test_a_model_whose_logits_leave_out_padded_entries_has_none_of_them_in_an_answer() -> None:
    model: Any = copy.deepcopy(toy_model(20))
    plain = model.forward

    def forward(*arguments: Any, **options: Any) -> Any:
        output = plain(*arguments, **options)
        output.logits = output.logits[..., :13]
        return output

    model.forward = forward
    found = decode(
        model, PROMPTS, [Beam(30), Sample(30)], stop_ids=frozenset({4}), seed=0, max_new_tokens=2
    )
    for candidate in found:
        assert max(candidate.token_ids) < 13
    ids = PROMPTS[0].token_ids
    logprobs = torch.log_softmax(plain_logits(model, ids)[-1], dim=-1).double().numpy()
    assert next_token_logprobs(model, PROMPTS[:1], range(13))[0] == pytest.approx(
        logprobs, abs=1e-5
    )


# -- faults ----------------------------------------------------------------------------------------


def model_of_nan_behind(token: int) -> Any:
    """A Llama whose logits are NaN behind ``token``, which the check does not try: it is a special
    one.
    """
    model: Any = copy.deepcopy(toy_model(20))
    model.config.bos_token_id = token
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = torch.nan
    return model


@pytest.mark.parametrize(
    ("prompts", "policy", "place"),
    [
        ([Prompt("fine", (5, 6)), Prompt("bad", (5, 3))], Greedy(), "prompt 'bad'.*at step 1 "),
        ([Prompt("wide", (5, 6))], Beam(20), "prompt 'wide'.*at step 2 "),
    ],
)
def test_nan_names_the_prompt_the_step_and_the_fix(
    prompts: list[Prompt], policy: Policy, place: str
) -> None:
    with pytest.raises(BeamUQError, match=f"{place}.*use dtype float32") as raised:
        decode(
            model_of_nan_behind(3),
            prompts,
            [policy],
            stop_ids=frozenset({19}),
            seed=0,
            max_new_tokens=3,
        )
    assert "are NaN" in str(raised.value)


def test_nan_where_a_token_is_looked_up_names_the_prompt() -> None:
    with pytest.raises(BeamUQError, match=r"prompt 'bad'.*are NaN"):
        next_token_logprobs(
            model_of_nan_behind(3), [Prompt("fine", (5, 6)), Prompt("bad", (5, 3))], [1]
        )


@pytest.mark.parametrize(
    ("bad", "fault"),
    [(torch.nan, "are NaN"), (torch.inf, "hold +inf"), (-torch.inf, "are nothing but -inf")],
)
def test_a_model_with_a_fault_everywhere_is_refused_by_its_name(bad: float, fault: str) -> None:
    model = masking_model(-torch.inf)
    masking = model.forward

    def forward(*arguments: Any, **options: Any) -> Any:
        output = masking(*arguments, **options)
        output.logits[..., list(ALIVE)] = bad
        return output

    model.forward = forward
    with pytest.raises(BeamUQError, match="cannot be decoded") as raised:
        checked(model)
    assert fault in str(raised.value)
