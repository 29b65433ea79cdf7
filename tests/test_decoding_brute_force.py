"""Every strategy against the truth: a model of six tokens all of whose answers are listed, and
slow, obvious twins.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from beamuq.decoding import (
    Beam,
    Candidate,
    DiverseBeam,
    Exact,
    Greedy,
    Hybrid,
    Policy,
    Prompt,
    Sample,
    Shipped,
    decode,
    next_token_logprobs,
    stop_tokens,
)
from beamuq.errors import BeamUQError
from beamuq.methods import answer_probability, candidate_weights, dissimilarity_cocoa
from tiny import plain_logits, tiny_model, toy_model

VOCABULARY, STOPS, STEPS = 6, frozenset({0, 3}), 3
PROMPT = Prompt("q", (1, 4, 2))
Tokens = tuple[int, ...]


@cache
def next_logprobs(tokens: Tokens, temperature: float = 1.0) -> tuple[float, ...]:
    """Log-probabilities after the prompt and ``tokens``, from a plain forward pass of the untouched
    model.
    """
    logits = plain_logits(toy_model(), (*PROMPT.token_ids, *tokens))[-1].double()
    return tuple(torch.log_softmax(logits / temperature, dim=-1).tolist())


@cache
def outcomes(temperature: float = 1.0) -> dict[Tokens, float]:
    """Every answer there is and its log-probability."""
    found = {}
    for length in range(1, STEPS + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            stopped = [token in STOPS for token in tokens]
            if not any(stopped[:-1]) and (stopped[-1] or length == STEPS):
                found[tokens] = sum(
                    next_logprobs(tokens[:i], temperature)[t] for i, t in enumerate(tokens)
                )
    return found


def decoded(*policies: Policy, **options: Any) -> list[Candidate]:
    usual: dict[str, Any] = {"stop_ids": STOPS, "seed": 0, "max_new_tokens": STEPS}
    return decode(toy_model(), [PROMPT], policies, **usual | options)


def tokens_of(*policies: Policy, **options: Any) -> list[Tokens]:
    return [candidate.token_ids for candidate in decoded(*policies, **options)]


def assert_frequencies(drawn: Sequence[Tokens], truth: Mapping[Tokens, float]) -> None:
    """A chi-square test of how often each answer was drawn against its probability."""
    counts, size = Counter(drawn), len(drawn)
    common = [tokens for tokens, p in truth.items() if size * p >= 8]
    observed, wanted = (
        [counts[tokens] for tokens in common],
        [size * truth[tokens] for tokens in common],
    )
    assert len(common) >= 8
    assert chisquare([*observed, size - sum(observed)], [*wanted, size - sum(wanted)]).pvalue > 1e-3


# -- greedy, samples, beams ------------------------------------------------------------------------


def test_a_search_wider_than_the_support_returns_every_outcome_once_in_order() -> None:
    beams = decoded(Beam(200))
    assert len(beams) == len(outcomes()) < 200
    assert {beam.token_ids for beam in beams} == set(outcomes())
    assert [beam.logprob for beam in beams] == pytest.approx(
        sorted(outcomes().values(), reverse=True), abs=1e-5
    )
    for beam in beams:
        assert beam.logprob == pytest.approx(outcomes()[beam.token_ids], abs=1e-5)
        assert beam.terminated == (beam.token_ids[-1] in STOPS)
        assert beam.terminated or len(beam.token_ids) == STEPS


def test_masses_of_all_outcomes_sum_to_one_and_without_their_terminators_would_not() -> None:
    beams = decoded(Beam(200))
    assert sum(np.exp(beam.logprob) for beam in beams) == pytest.approx(1, abs=1e-6)
    assert (
        sum(np.exp(beam.token_logprobs[: -1 if beam.terminated else None].sum()) for beam in beams)
        > 1.1
    )


@pytest.mark.parametrize("stops", [frozenset(), STOPS])
@pytest.mark.parametrize("size", [1, 7, 200])
def test_exact_finds_the_most_probable_outcomes_of_a_model(
    size: int, stops: frozenset[int]
) -> None:
    everything = decoded(Beam(200), merge_stop_tokens=stops)
    found = decoded(Exact(size), merge_stop_tokens=stops)
    assert [c.token_ids for c in found] == [c.token_ids for c in everything][:size]
    assert [c.logprob for c in found] == pytest.approx(
        [c.logprob for c in everything][:size], abs=1e-5
    )
    assert found[0].effort is not None
    assert found[0].effort.proven
    assert all(c.effort is None for c in found[1:])


def test_beam_of_width_one_is_greedy() -> None:
    greedy, beam = decoded(Greedy(), Beam(1))
    assert (greedy.token_ids, greedy.logprob) == (beam.token_ids, beam.logprob)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.5])
def test_samples_follow_their_distribution_and_carry_its_log_probability(
    temperature: float,
) -> None:
    truth = outcomes(temperature)
    samples = decoded(Sample(4000, temperature))
    for sample in samples[:50]:
        assert sample.policy_logprob == pytest.approx(truth[sample.token_ids], abs=1e-5)
        assert sample.logprob == pytest.approx(outcomes()[sample.token_ids], abs=1e-5)
    assert_frequencies(
        [sample.token_ids for sample in samples], {t: np.exp(p) for t, p in truth.items()}
    )


def test_samples_of_a_smaller_budget_are_the_first_ones() -> None:
    assert tokens_of(Sample(10)) == tokens_of(Sample(15))[:10]


def test_merged_endings_carry_the_sum_of_their_probabilities() -> None:
    merged: dict[Tokens, float] = {}
    for tokens, logprob in outcomes().items():
        key = (*tokens[:-1], 0) if tokens[-1] in STOPS else tokens
        merged[key] = np.logaddexp(merged.get(key, -np.inf), logprob)
    beams = decoded(Beam(200), Greedy(), merge_stop_tokens=STOPS)
    assert {beam.token_ids for beam in beams} == set(merged)
    assert all(beam.logprob == pytest.approx(merged[beam.token_ids], abs=1e-5) for beam in beams)
    assert all(np.isfinite(beam.entropies).all() for beam in beams if beam.entropies is not None)


@pytest.mark.parametrize("merged", [False, True])
def test_prob_and_cocoa_are_those_of_the_outcomes_that_merging_leaves(merged: bool) -> None:
    """Every outcome is listed, of which the ten most probable are the beams here."""
    truth: dict[Tokens, float] = {}
    for tokens, logprob in outcomes().items():
        key = (*tokens[:-1], 0) if merged and tokens[-1] in STOPS else tokens
        truth[key] = truth.get(key, 0.0) + float(np.exp(logprob))
    greedy, *beams = decoded(Greedy(), Beam(10), merge_stop_tokens=STOPS if merged else frozenset())
    best = sorted(truth, key=truth.__getitem__)[-10:]
    assert {beam.token_ids for beam in beams} == set(best)

    def similarity(a: Tokens, b: Tokens) -> float:
        one, other = ([token for token in tokens if token not in STOPS] for tokens in (a, b))
        return sum(x == y for x, y in zip(one, other, strict=False)) / max(len(one), len(other), 1)

    weights = candidate_weights.restricted_mass(
        np.array([[b.logprob for b in beams]]), np.ones((1, 10), dtype=bool)
    )
    found = np.array([[similarity(b.token_ids, greedy.token_ids) for b in beams]])
    prob = answer_probability.prob(np.array([greedy.logprob]))
    cocoa = dissimilarity_cocoa.cocoa(prob, dissimilarity_cocoa.dissimilarity(found, weights))
    expected = -np.log(truth[greedy.token_ids])
    assert prob == pytest.approx([expected], abs=1e-5)
    unlike = sum(truth[tokens] * (1 - similarity(tokens, greedy.token_ids)) for tokens in best)
    assert cocoa == pytest.approx(
        [expected * unlike / sum(truth[tokens] for tokens in best)], abs=1e-5
    )


def test_merged_endings_are_drawn_as_often_as_all_of_them_together() -> None:
    apart, together = tokens_of(Sample(4000)), tokens_of(Sample(4000), merge_stop_tokens=STOPS)
    assert {tokens[-1] for tokens in together if tokens[-1] in STOPS} == {0}
    mass = sum(np.exp(logprob) for tokens, logprob in outcomes().items() if len(tokens) == 1)
    for drawn in (apart, together):
        assert sum(tokens[0] in STOPS for tokens in drawn) / 4000 == pytest.approx(mass, abs=0.03)


def test_the_pad_token_is_a_token_like_any_other() -> None:
    assert sorted(tokens_of(Beam(6), max_new_tokens=1)) == [(token,) for token in range(6)]


def test_ties_break_by_token_id() -> None:
    model = toy_model(seed=4)
    with torch.no_grad():
        model.lm_head.weight[[1, 3, 5]] = model.lm_head.weight[[0, 2, 4]]
    options: dict[str, Any] = {"stop_ids": frozenset({0, 1}), "seed": 0, "max_new_tokens": 1}
    greedy, *beams = decode(model, [Prompt("q", (1,))], [Greedy(), Beam(3)], **options)
    assert greedy.token_ids[0] % 2 == 0
    first, second, third = (beam.token_ids[0] for beam in beams)
    assert (first % 2, second, third % 2) == (0, first + 1, 0)


# -- diverse beams ---------------------------------------------------------------------------------


def diverse_twin(
    policy: DiverseBeam,
    stops: frozenset[int],
    steps: int,
    logprobs: Callable[[Tokens], Sequence[float]],
) -> list[Tokens]:
    """Group beam search over plain lists, one candidate at a time."""
    width = policy.size // policy.groups
    running: list[list[tuple[Tokens, float]]] = [[((), 0.0)] for _ in range(policy.groups)]
    pools: list[list[tuple[float, Tokens]]] = [[] for _ in range(policy.groups)]
    for step in range(1, steps + 1):
        used: Counter[int] = Counter()
        for group in range(policy.groups):
            candidates = []
            for tokens, score in running[group]:
                for token, logprob in enumerate(logprobs(tokens)):
                    candidates.append(
                        (score + logprob - policy.penalty * used[token], (*tokens, token))
                    )
            candidates.sort(key=lambda candidate: (-candidate[0], candidate[1][-1]))
            ends = [c for c in candidates[:width] if c[1][-1] in stops or step == steps]
            goes_on = [c for c in candidates if c[1][-1] not in stops][:width]
            used.update(tokens[-1] for _, tokens in goes_on)
            pools[group] = sorted(pools[group] + ends, key=lambda c: -c[0])[:width]
            full = len(pools[group]) == width
            if full and goes_on and goes_on[0][0] <= pools[group][-1][0]:
                goes_on = []
            running[group] = [(tokens, score) for score, tokens in goes_on]
    return [tokens for pool in pools for _, tokens in pool]


@pytest.mark.parametrize("penalty", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("kind", "groups"), [("llama", 2), ("gemma3", 5)])
def test_diverse_beams_are_those_of_the_obvious_implementation(
    kind: str, groups: int, penalty: float
) -> None:
    model, tokenizer = tiny_model(kind)
    stops = stop_tokens(tokenizer, model) | set(range(100, 130))
    prompts = [
        Prompt(text, tuple(tokenizer(text)["input_ids"]))
        for text in ("Question: Which river runs", "A")
    ]
    policy = DiverseBeam(10, groups, penalty)
    found = decode(model, prompts, [policy], stop_ids=stops, seed=0, max_new_tokens=5)
    for prompt in prompts:

        @cache
        def logprobs(tokens: Tokens, prompt: Prompt = prompt) -> list[float]:
            logits = plain_logits(model, (*prompt.token_ids, *tokens))[-1]
            return torch.log_softmax(logits, dim=-1).double().tolist()

        ours = [c for c in found if c.prompt_id == prompt.id]
        assert sorted(c.token_ids for c in ours) == sorted(diverse_twin(policy, stops, 5, logprobs))
        assert [c.logprob for c in ours] == sorted((c.logprob for c in ours), reverse=True)
        for c in ours:
            raw = sum(logprobs(c.token_ids[:i])[token] for i, token in enumerate(c.token_ids))
            assert c.logprob == pytest.approx(raw, abs=1e-4)
            assert c.policy_logprob is None


def test_one_group_is_plain_beam_search_and_no_penalty_repeats_it() -> None:
    assert tokens_of(DiverseBeam(6, 1, 0.7)) == tokens_of(Beam(6))
    assert sorted(tokens_of(DiverseBeam(6, 2, 0.0))) == sorted(tokens_of(Beam(3)) * 2)


def test_a_strong_penalty_makes_groups_begin_differently_and_reaches_the_last_token() -> None:
    first = [tokens[0] for tokens in tokens_of(DiverseBeam(4, 4, 100.0)) if tokens[0] not in STOPS]
    assert len(first) == len(set(first)) >= 3
    assert (
        len(set(tokens_of(DiverseBeam(4, 4, 100.0), stop_ids=frozenset(), max_new_tokens=1))) == 4
    )


# -- beams, then samples that exclude them ---------------------------------------------------------


@pytest.mark.parametrize("beams", [1, 4, 9])
def test_hybrid_begins_with_the_beams_and_draws_from_what_they_leave(beams: int) -> None:
    size = 4000
    found = decoded(Hybrid(size + beams, beams))
    assert [c.rank for c in found] == list(range(size + beams))
    search, drawn = found[:beams], found[beams:]
    assert [c.token_ids for c in search] == tokens_of(Beam(beams))
    assert all(c.policy_logprob is None for c in search)
    excluded = {c.token_ids for c in search}
    left = {
        tokens: np.exp(logprob) for tokens, logprob in outcomes().items() if tokens not in excluded
    }
    truth = {tokens: p / sum(left.values()) for tokens, p in left.items()}
    for c in drawn:
        assert c.policy_logprob == pytest.approx(np.log(truth[c.token_ids]), abs=1e-5)
    assert_frequencies([c.token_ids for c in drawn], truth)


def test_hybrid_draws_nothing_where_the_beams_hold_everything() -> None:
    support = len(outcomes())
    assert len(decoded(Hybrid(support + 20, support))) == support
    assert len(decoded(Hybrid(support + 20, support - 1))) == support + 20


# -- the shipped generation config, and the next token ---------------------------------------------


@pytest.mark.parametrize(
    "policy", [Shipped(0.6, 20, 0.9), Shipped(1.0, 64, 0.95), Shipped(0.7, 5), Shipped(1.3, 300)]
)
def test_shipped_draws_from_what_the_warpers_of_generate_leave(policy: Shipped) -> None:
    model, tokenizer = tiny_model("qwen3")
    prompts = [
        Prompt(str(i), tuple(tokenizer("Question: Who" + " a" * i)["input_ids"])) for i in range(6)
    ]
    warpers = LogitsProcessorList(
        [TemperatureLogitsWarper(policy.temperature), TopKLogitsWarper(policy.top_k)]
    )
    if policy.top_p < 1:
        warpers.append(TopPLogitsWarper(policy.top_p))
    for c in decode(model, prompts, [policy], stop_ids=frozenset({1}), seed=0, max_new_tokens=4):
        ids = torch.tensor([[*prompts[int(c.prompt_id)].token_ids, *c.token_ids]])
        logits = plain_logits(model, ids[0].tolist())[-len(c.token_ids) - 1 : -1]
        logprobs = torch.log_softmax(warpers(ids, logits), dim=-1)
        expected = logprobs.gather(1, torch.tensor(c.token_ids)[:, None]).sum().item()
        assert np.isfinite(expected)
        assert c.policy_logprob == pytest.approx(expected, abs=1e-4)
        assert (c.entropies is not None, c.strategy) == (True, "shipped")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, Shipped(1.0, 1, 1.0)),
        ({"do_sample": True}, Shipped(1.0, 50, 1.0)),
        (
            {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.0},
            Shipped(0.6, 50, 0.9),
        ),
        ({"do_sample": True, "top_k": 0, "min_p": 0.0}, Shipped(1.0, 0, 1.0)),
    ],
)
def test_shipped_settings_are_read_from_the_generation_config(
    config: dict[str, Any], expected: Shipped
) -> None:
    assert Shipped.from_config(GenerationConfig(**config)) == expected
    with pytest.raises(BeamUQError, match=r"repetition_penalty = 1\.1 is not supported"):
        Shipped.from_config(GenerationConfig(**config | {"repetition_penalty": 1.1}))


def test_shipped_with_one_token_to_choose_from_is_greedy() -> None:
    greedy, shipped = decoded(Greedy(), Shipped(0.6, 1))
    assert shipped.token_ids == greedy.token_ids
    assert shipped.policy_logprob == pytest.approx(0)


@pytest.mark.parametrize("kind", ["llama", "gemma3_multimodal"])
def test_next_token_log_probabilities_are_those_of_the_model(kind: str) -> None:
    model, tokenizer = tiny_model(kind)
    texts = ["Question: Who is it? True or false:", "Question: Who", "A"]
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in texts]
    found = next_token_logprobs(model, prompts, [40, 7, 300], rows=11)
    assert found.shape == (3, 3)
    for row, prompt in zip(found, prompts, strict=True):
        logprobs = torch.log_softmax(plain_logits(model, prompt.token_ids)[-1], dim=-1)
        assert row == pytest.approx(logprobs[[40, 7, 300]].double().numpy(), abs=1e-5)
