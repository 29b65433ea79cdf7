"""Diverse beams, hybrids, shipped sampling and P(True)'s look-up, each against a slow and obvious twin."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
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
from tiny import tiny_model, toy_model

STOPS = frozenset({0, 3})
STEPS = 3
PROMPT = Prompt("q", (1, 4, 2))
Tokens = tuple[int, ...]


@cache
def _law(tokens: Tokens) -> tuple[float, ...]:
    with torch.inference_mode():
        logits = toy_model()(torch.tensor([[*PROMPT.token_ids, *tokens]])).logits[0, -1].double()
    return tuple(torch.log_softmax(logits, dim=-1).tolist())


@cache
def _outcomes() -> dict[Tokens, float]:
    found = {}
    for length in range(1, STEPS + 1):
        for tokens in itertools.product(range(6), repeat=length):
            stopped = [token in STOPS for token in tokens]
            if not any(stopped[:-1]) and (stopped[-1] or length == STEPS):
                found[tokens] = sum(_law(tokens[:i])[token] for i, token in enumerate(tokens))
    return found


def _toy(*policies: Policy, seed: int = 0) -> list[Candidate]:
    return decode(toy_model(), [PROMPT], policies, stop_ids=STOPS, seed=seed, max_new_tokens=STEPS)


def _diverse_twin(
    policy: DiverseBeam, stops: frozenset[int], steps: int, law: Callable[[Tokens], Sequence[float]]
) -> list[Tokens]:
    """Group beam search over plain lists, one candidate at a time."""
    width = policy.size // policy.groups
    running = [[((), 0.0)] for _ in range(policy.groups)]
    pools: list[list[tuple[float, Tokens]]] = [[] for _ in range(policy.groups)]
    for step in range(1, steps + 1):
        used: Counter[int] = Counter()
        for group in range(policy.groups):
            candidates = []
            for tokens, score in running[group]:
                for token, logprob in enumerate(law(tokens)):
                    candidates.append((score + logprob - policy.penalty * used[token], (*tokens, token)))
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


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize("penalty", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_diverse_beams_are_those_of_the_obvious_implementation(kind: str, groups: int, penalty: float) -> None:
    model, tokenizer = tiny_model(kind)
    stops = stop_tokens(tokenizer, model) | set(range(100, 130))
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in ("Question: Which river runs", "A")]
    policy = DiverseBeam(10, groups, penalty)
    found = decode(model, prompts, [policy], stop_ids=stops, seed=0, max_new_tokens=5)
    for prompt in prompts:

        @cache
        def law(tokens: Tokens, prompt: Prompt = prompt) -> list[float]:
            with torch.inference_mode():
                logits = model(torch.tensor([[*prompt.token_ids, *tokens]])).logits[0, -1]
            return torch.log_softmax(logits, dim=-1).double().tolist()

        ours = [c for c in found if c.prompt_id == prompt.id]
        assert sorted(c.token_ids for c in ours) == sorted(_diverse_twin(policy, stops, 5, law))
        assert [c.logprob for c in ours] == sorted((c.logprob for c in ours), reverse=True)
        for c in ours:
            raw = sum(law(c.token_ids[:i])[token] for i, token in enumerate(c.token_ids))
            assert c.logprob == pytest.approx(raw, abs=1e-4)
            assert c.policy_logprob is None


def test_one_group_is_plain_beam_search_and_no_penalty_repeats_it() -> None:
    beams = [c.token_ids for c in _toy(Beam(6))]
    assert [c.token_ids for c in _toy(DiverseBeam(6, 1, 0.7))] == beams
    halves = [c.token_ids for c in _toy(Beam(3))]
    assert sorted(c.token_ids for c in _toy(DiverseBeam(6, 2, 0.0))) == sorted(halves * 2)


def test_tokens_of_another_model_are_refused_by_name() -> None:
    options: dict[str, Any] = {"seed": 0, "max_new_tokens": 1}
    with pytest.raises(BeamUQError, match=r"prompt 'far': holds a token id outside the model's 0 … 5"):
        decode(toy_model(), [Prompt("far", (1, 6))], [Greedy()], stop_ids=frozenset(), **options)
    with pytest.raises(BeamUQError, match=r"stop token lies outside the model's 0 … 5: 6"):
        decode(toy_model(), [PROMPT], [Greedy()], stop_ids=frozenset({0, 6}), **options)


def test_the_last_token_is_penalised_too() -> None:
    options: dict[str, Any] = {"stop_ids": frozenset[int](), "seed": 0, "max_new_tokens": 1}
    found = decode(toy_model(), [PROMPT], [DiverseBeam(4, 4, 100.0)], **options)
    assert len({c.token_ids for c in found}) == 4


def test_a_strong_penalty_makes_groups_begin_differently() -> None:
    first = [c.token_ids[0] for c in _toy(DiverseBeam(4, 4, 100.0)) if c.token_ids[0] not in STOPS]
    assert len(first) == len(set(first)) >= 3


@pytest.mark.parametrize("beams", [1, 4, 9])
def test_hybrid_begins_with_the_beams_and_draws_none_of_them(beams: int) -> None:
    size = 400
    found = _toy(Hybrid(size, beams))
    search = [c.token_ids for c in _toy(Beam(beams))]
    assert [c.token_ids for c in found[:beams]] == search
    assert all(c.policy_logprob is None for c in found[:beams])
    assert len(found) == size
    assert [c.rank for c in found] == list(range(size))
    assert not {c.token_ids for c in found[beams:]} & set(search)


@pytest.mark.parametrize("beams", [1, 4, 9])
def test_hybrid_draws_follow_the_exact_conditional_law(beams: int) -> None:
    size = 4000
    found = _toy(Hybrid(size + beams, beams))
    excluded = {c.token_ids for c in found[:beams]}
    residual = sum(np.exp(logprob) for tokens, logprob in _outcomes().items() if tokens not in excluded)
    expected = {t: size * np.exp(logprob) / residual for t, logprob in _outcomes().items() if t not in excluded}
    for c in found[beams:]:
        assert c.policy_logprob == pytest.approx(np.log(expected[c.token_ids] / size), abs=1e-5)
    drawn = Counter(c.token_ids for c in found[beams:])
    common = [tokens for tokens in expected if expected[tokens] >= 8]
    observed, wanted = [drawn[t] for t in common], [expected[t] for t in common]
    assert len(common) >= 8
    assert chisquare([*observed, size - sum(observed)], [*wanted, size - sum(wanted)]).pvalue > 1e-3


def test_hybrid_draws_nothing_where_the_beams_hold_everything() -> None:
    support = len(_outcomes())
    assert len(_toy(Hybrid(support + 20, support))) == support
    assert len(_toy(Hybrid(support + 20, support - 1))) == support + 20


def test_hybrid_of_many_questions_equals_each_alone() -> None:
    model, tokenizer = tiny_model("llama")
    stops = stop_tokens(tokenizer, model) | set(range(100, 130))
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in ("Question: Which", "A", "Question: Who")]
    policies: list[Policy] = [Hybrid(8, 3), Hybrid(8, 5), Greedy(), Beam(3), Sample(4)]
    options = {"stop_ids": stops, "seed": 2, "max_new_tokens": 6}
    together = decode(model, prompts, policies, **options)  # type: ignore[arg-type]
    alone = [c for p in prompts for policy in policies for c in decode(model, [p], [policy], **options)]  # type: ignore[arg-type]
    assert [(c.prompt_id, c.strategy, c.rank, c.token_ids) for c in together] == [
        (c.prompt_id, c.strategy, c.rank, c.token_ids) for c in alone
    ]
    assert [c.logprob for c in together] == pytest.approx([c.logprob for c in alone], abs=1e-4)


@pytest.mark.parametrize("policy", [Shipped(0.6, 20, 0.9), Shipped(1.0, 64, 0.95), Shipped(0.7, 5), Shipped(1.3, 300)])
def test_shipped_law_is_that_of_the_warpers_of_generate(policy: Shipped) -> None:
    model, tokenizer = tiny_model("qwen3")
    prompts = [Prompt(str(i), tuple(tokenizer("Question: Who" + " a" * i)["input_ids"])) for i in range(6)]
    warpers = LogitsProcessorList([TemperatureLogitsWarper(policy.temperature), TopKLogitsWarper(policy.top_k)])
    if policy.top_p < 1:
        warpers.append(TopPLogitsWarper(policy.top_p))
    for c in decode(model, prompts, [policy], stop_ids=frozenset({1}), seed=0, max_new_tokens=4):
        ids = torch.tensor([[*prompts[int(c.prompt_id)].token_ids, *c.token_ids]])
        with torch.inference_mode():
            logits = model(ids).logits[0, -len(c.token_ids) - 1 : -1]
        law = torch.log_softmax(warpers(ids, logits), dim=-1)
        expected = law.gather(1, torch.tensor(c.token_ids)[:, None]).sum().item()
        assert np.isfinite(expected)
        assert c.policy_logprob == pytest.approx(expected, abs=1e-4)
        assert c.entropies is not None
        assert c.strategy == "shipped"


def test_shipped_settings_are_read_from_the_generation_config() -> None:
    read = [
        Shipped.of(GenerationConfig()),
        Shipped.of(GenerationConfig(do_sample=True)),
        Shipped.of(GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9, repetition_penalty=1.0)),
        Shipped.of(GenerationConfig(do_sample=True, top_k=0, min_p=0.0)),
    ]
    assert read == [Shipped(1.0, 1, 1.0), Shipped(1.0, 50, 1.0), Shipped(0.6, 50, 0.9), Shipped(1.0, 0, 1.0)]
    with pytest.raises(BeamUQError, match=r"repetition_penalty = 1\.1 is not supported"):
        Shipped.of(GenerationConfig(do_sample=True, repetition_penalty=1.1))


def test_shipped_with_one_token_to_choose_from_is_greedy() -> None:
    greedy, shipped = _toy(Greedy(), Shipped(0.6, 1))
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
        with torch.inference_mode():
            law = torch.log_softmax(model(torch.tensor([prompt.token_ids])).logits[0, -1], dim=-1)
        assert row == pytest.approx(law[[40, 7, 300]].double().numpy(), abs=1e-5)


def test_new_strategies_follow_the_grammar_and_refuse_the_impossible() -> None:
    policies = [DiverseBeam(10, 2, 0.5), Hybrid(10, 3)]
    assert [policy.strategy for policy in policies] == ["diverse G=2 lambda=0.5", "hybrid B=3"]
    for make in (lambda: DiverseBeam(10, 3, 0.5), lambda: DiverseBeam(10, 2, -1.0), lambda: Hybrid(3, 4)):
        with pytest.raises(ValueError, match="must be"):
            make()
