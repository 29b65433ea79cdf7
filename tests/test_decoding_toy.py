"""A model of six tokens, all of whose answers can be listed: what the policies return against the truth."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beamuq.decoding import Beam, Candidate, Greedy, Policy, Prompt, Sample, decode
from tiny import toy_model

VOCABULARY = 6
STOPS = frozenset({0, 3})
STEPS = 3
PROMPT = Prompt("q", (1, 4, 2))


def _outcomes(prompt: Prompt = PROMPT, temperature: float = 1.0) -> dict[tuple[int, ...], float]:
    """Every answer and its log-probability, from plain forward passes of the untouched model."""
    answers = []
    for length in range(1, STEPS + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            stopped = [token in STOPS for token in tokens]
            if not any(stopped[:-1]) and (stopped[-1] or length == STEPS):
                answers.append(tokens)
    found = {}
    with torch.inference_mode():
        for tokens in answers:
            logits = toy_model()(torch.tensor([[*prompt.token_ids, *tokens]])).logits[0].double()
            law = torch.log_softmax(logits[len(prompt.token_ids) - 1 : -1] / temperature, dim=-1)
            found[tokens] = law.gather(1, torch.tensor(tokens)[:, None]).sum().item()
    return found


def _decode(*policies: Policy, seed: int = 0) -> list[Candidate]:
    return decode(toy_model(), [PROMPT], policies, stop_ids=STOPS, seed=seed, max_new_tokens=STEPS)


def test_a_search_wider_than_the_support_returns_every_outcome_once_in_order() -> None:
    truth = _outcomes()
    beams = _decode(Beam(200))
    assert len(beams) == len(truth) < 200
    assert {beam.token_ids for beam in beams} == set(truth)
    assert [beam.logprob for beam in beams] == pytest.approx(sorted(truth.values(), reverse=True), abs=1e-5)
    assert all(beam.logprob == pytest.approx(truth[beam.token_ids], abs=1e-5) for beam in beams)


def test_masses_of_all_outcomes_sum_to_one() -> None:
    assert sum(np.exp(beam.logprob) for beam in _decode(Beam(200))) == pytest.approx(1, abs=1e-6)


def test_outcomes_without_their_terminator_would_not_sum_to_one() -> None:
    short = sum(np.exp(beam.token_logprobs[: -1 if beam.terminated else None].sum()) for beam in _decode(Beam(200)))
    assert short > 1.1


def test_only_cut_outcomes_are_not_terminated() -> None:
    for beam in _decode(Beam(200)):
        assert beam.terminated == (beam.token_ids[-1] in STOPS)
        assert beam.terminated or len(beam.token_ids) == STEPS


def test_beam_of_width_one_is_greedy() -> None:
    greedy, beam = _decode(Greedy(), Beam(1))
    assert greedy.token_ids == beam.token_ids
    assert greedy.logprob == beam.logprob


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.5])
def test_sampling_frequencies_pass_a_chi_square_test(temperature: float) -> None:
    truth = _outcomes(temperature=temperature)
    size = 4000
    drawn = Counter(sample.token_ids for sample in _decode(Sample(size, temperature)))
    expected = {tokens: size * np.exp(logprob) for tokens, logprob in truth.items()}
    common = [tokens for tokens in truth if expected[tokens] >= 8]
    observed = [drawn[tokens] for tokens in common]
    wanted = [expected[tokens] for tokens in common]
    rest = chisquare([*observed, size - sum(observed)], [*wanted, size - sum(wanted)])
    assert len(common) >= 8
    assert rest.pvalue > 1e-3


def test_samples_carry_the_log_probability_of_their_own_law() -> None:
    plain, sharpened = _outcomes(), _outcomes(temperature=0.6)
    for sample in _decode(Sample(50), Sample(50, 0.6)):
        law = plain if sample.strategy == "sample T=1.0" else sharpened
        assert sample.policy_logprob == pytest.approx(law[sample.token_ids], abs=1e-5)
        assert sample.logprob == pytest.approx(plain[sample.token_ids], abs=1e-5)


def test_samples_of_a_smaller_budget_are_the_first_ones() -> None:
    assert [s.token_ids for s in _decode(Sample(10))] == [s.token_ids for s in _decode(Sample(15))][:10]


def test_merged_endings_carry_the_sum_of_their_probabilities() -> None:
    truth = _outcomes()
    merged: dict[tuple[int, ...], float] = {}
    for tokens, logprob in truth.items():
        key = (*tokens[:-1], 0) if tokens[-1] in STOPS else tokens
        merged[key] = np.logaddexp(merged.get(key, -np.inf), logprob)
    beams = decode(
        toy_model(),
        [PROMPT],
        [Beam(200), Greedy()],
        stop_ids=STOPS,
        seed=0,
        max_new_tokens=STEPS,
        merge_stop_tokens=STOPS,
    )
    assert {beam.token_ids for beam in beams} == set(merged)
    assert all(beam.logprob == pytest.approx(merged[beam.token_ids], abs=1e-5) for beam in beams)
    assert all(np.isfinite(beam.entropies).all() for beam in beams if beam.entropies is not None)


def test_merged_endings_are_drawn_as_often_as_all_of_them_together() -> None:
    def ended(samples: list[Candidate]) -> int:
        return sum(sample.token_ids[0] in STOPS for sample in samples)

    options = {"stop_ids": STOPS, "seed": 0, "max_new_tokens": STEPS}
    apart = decode(toy_model(), [PROMPT], [Sample(4000)], **options)  # type: ignore[arg-type]
    together = decode(toy_model(), [PROMPT], [Sample(4000)], merge_stop_tokens=STOPS, **options)  # type: ignore[arg-type]
    assert {s.token_ids[-1] for s in together if s.terminated} == {0}
    mass = sum(np.exp(logprob) for tokens, logprob in _outcomes().items() if len(tokens) == 1)
    assert ended(together) / 4000 == pytest.approx(mass, abs=0.03)
    assert ended(apart) / 4000 == pytest.approx(mass, abs=0.03)
