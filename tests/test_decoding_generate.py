"""transformers' ``generate`` as oracle, in float32, on tiny random models of every supported
class.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from beamuq.decoding import (
    Beam,
    Candidate,
    DiverseBeam,
    Greedy,
    Hybrid,
    Prompt,
    Sample,
    Work,
    decode,
    stop_tokens,
)
from beamuq.decoding.beam_search import BeamState
from small_batch import assert_same, decoded
from tiny import KINDS, WINDOW, forced_logits, forced_logprobs, generated, tiny_model

STEPS = 12
WIDTH = 6
TEXTS = {
    "one": "Q",
    "tree": " tree",
    "who": "Who wrote",
    "play": "the play about a prince",
    "short": "Question: Which river",
    "shots": (
        "Question: Which river runs through Paris?\nAnswer: the Seine.\n\nQuestion: Who wrote a "
        "play\nAnswer:"
    ),
    "longer": (
        "Question: Which river runs through Paris?\nAnswer: the Seine.\n\nQuestion: Who wrote a "
        "play\nAnswer: a"
    ),
}
BEAMS = [
    Beam(WIDTH, length_penalty, stopping)  # type: ignore[arg-type]
    for length_penalty in (0.0, 1.0, 2.0)
    for stopping in ("never", False, True)
]
# Narrow searches fill their pool early, so that how they stop decides what they return.
BEAMS += [Beam(width, 1.0, stopping) for width in (2, 3) for stopping in ("never", False)]  # type: ignore[arg-type]
BEAMS += [Beam(3, -1.0)]
# How a search stops is no matter of the model: one class has all of them, the others the engine's
# and that of generate.
SEARCHED = [("llama", beam) for beam in BEAMS]
SEARCHED += [(kind, beam) for kind in KINDS if kind != "llama" for beam in (BEAMS[0], BEAMS[4])]


@cache
def _prompts(kind: str) -> list[Prompt]:
    _, tokenizer = tiny_model(kind)
    return [Prompt(name, tuple(tokenizer(text)["input_ids"])) for name, text in TEXTS.items()]


@cache
def _stops(kind: str) -> frozenset[int]:
    # Enough of the vocabulary for hypotheses of random models to end at all lengths, pad id 0 among
    # the rest.
    model, tokenizer = tiny_model(kind)
    extra = np.random.default_rng(0).choice(np.arange(8, len(tokenizer)), 24, replace=False)
    return stop_tokens(tokenizer, model) | {int(token) for token in extra}


@cache
def _decoded(kind: str) -> list[Candidate]:
    model, _ = tiny_model(kind)
    beams = [beam for searched, beam in SEARCHED if searched == kind]
    policies = [
        Greedy(),
        Sample(5),
        Sample(3, 0.7),
        DiverseBeam(6, 2, 0.5),
        Hybrid(8, 3),
        Hybrid(6, 5),
        *beams,
    ]
    return decode(
        model, _prompts(kind), policies, stop_ids=_stops(kind), seed=3, max_new_tokens=STEPS
    )


def _of(kind: str, strategy: str, prompt: str) -> list[Candidate]:
    return [c for c in _decoded(kind) if c.strategy == strategy and c.prompt_id == prompt]


def _generate(kind: str, prompt: Prompt, **options: object) -> list[tuple[tuple[int, ...], float]]:
    """The sequences of ``generate`` with the sums of their raw log-probabilities."""
    model, _ = tiny_model(kind)
    found = generated(model, prompt.token_ids, _stops(kind), STEPS, **options)
    return [(tokens, float(_rescored(kind, prompt, tokens).sum())) for tokens in found]


def _rescored(kind: str, prompt: Prompt, tokens: tuple[int, ...], **options: Any) -> np.ndarray:
    return forced_logprobs(tiny_model(kind)[0], prompt.token_ids, tokens, **options)


def test_prompts_outgrow_the_sliding_window_and_hypotheses_end_at_many_lengths() -> None:
    lengths = {len(c.token_ids) for c in _decoded("gemma3") if c.terminated}
    assert sum(len(prompt.token_ids) > WINDOW for prompt in _prompts("gemma3")) >= 2
    assert len(lengths) >= 5
    assert any(not c.terminated for c in _decoded("gemma3"))


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_identical_to_generate(kind: str) -> None:
    for prompt in _prompts(kind):
        (ours,) = _of(kind, "greedy", prompt.id)
        ((tokens, logprob),) = _generate(kind, prompt)
        assert ours.token_ids == tokens
        assert ours.logprob == pytest.approx(logprob, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "beam"), SEARCHED, ids=lambda each: getattr(each, "strategy", each)
)
def test_beams_are_identical_to_generate_in_order(kind: str, beam: Beam) -> None:
    options = {"num_beams": beam.width, "num_return_sequences": beam.width}
    for prompt in _prompts(kind):
        expected = _generate(
            kind,
            prompt,
            **options,
            length_penalty=beam.length_penalty,
            early_stopping=beam.early_stopping,
        )
        ours = _of(kind, beam.strategy, prompt.id)
        assert [c.token_ids for c in ours] == [tokens for tokens, _ in expected]
        assert [c.logprob for c in ours] == pytest.approx(
            [logprob for _, logprob in expected], abs=1e-4
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_candidate_rescores_under_teacher_forcing(kind: str) -> None:
    prompts = {prompt.id: prompt for prompt in _prompts(kind)}
    for candidate in {(c.prompt_id, c.token_ids): c for c in _decoded(kind)}.values():
        alone = _rescored(kind, prompts[candidate.prompt_id], candidate.token_ids)
        assert candidate.token_logprobs == pytest.approx(alone, abs=1e-4)
        assert candidate.logprob == pytest.approx(candidate.token_logprobs.sum(), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_rescores_when_the_oracle_is_padded_and_samples_when_it_is_sharpened(
    kind: str,
) -> None:
    for prompt in _prompts(kind):
        (greedy,) = _of(kind, "greedy", prompt.id)
        assert greedy.token_logprobs == pytest.approx(
            _rescored(kind, prompt, greedy.token_ids, padding=7), abs=1e-4
        )
        for sample in _of(kind, "sample T=0.7", prompt.id):
            sharpened = _rescored(kind, prompt, sample.token_ids, temperature=0.7).sum()
            assert sample.policy_logprob == pytest.approx(sharpened, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_entropies_and_alternatives_are_those_of_the_full_distribution(kind: str) -> None:
    for prompt in _prompts(kind):
        for candidate in (
            _of(kind, "greedy", prompt.id)[0],
            _of(kind, BEAMS[0].strategy, prompt.id)[0],
        ):
            logprobs = torch.log_softmax(
                forced_logits(tiny_model(kind)[0], prompt.token_ids, candidate.token_ids), dim=-1
            )
            assert candidate.entropies == pytest.approx(
                -(logprobs.exp() * logprobs).sum(-1).numpy(), abs=1e-4
            )
            assert candidate.top_ids is not None
            assert candidate.top_logprobs is not None
            for step, token in enumerate(candidate.token_ids):
                ten = logprobs[step].topk(10)
                assert list(candidate.top_ids[step][:10]) == ten.indices.tolist()
                assert list(candidate.top_logprobs[step][:10]) == pytest.approx(
                    ten.values.tolist(), abs=1e-4
                )
                assert token in candidate.top_ids[step]
                assert len(candidate.top_ids[step]) == (10 if token in ten.indices.tolist() else 11)


def test_how_a_search_stops_decides_what_it_returns() -> None:
    patient, hasty = (
        {(c.prompt_id, c.token_ids) for c in _decoded("llama") if c.strategy == b.strategy}
        for b in BEAMS[9:11]
    )
    assert patient != hasty


def test_only_the_greedy_answer_and_first_beams_carry_statistics() -> None:
    for candidate in _decoded("llama"):
        first = candidate.strategy.startswith(("greedy", "beam")) and candidate.rank == 0
        assert (candidate.entropies is not None) == first
        assert (candidate.top_ids is not None) == first


def test_the_model_is_left_as_it_was() -> None:
    model, _ = tiny_model("gemma3_multimodal")
    _decoded("gemma3_multimodal")
    assert model.get_decoder().config._attn_implementation == "sdpa"


@pytest.mark.parametrize("beam", [Beam(4), Beam(2, 0.5), Beam(4, -1.0)])
def test_a_beam_that_cannot_enter_is_not_run(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned, whole = Work(), Work()
    found = decoded("llama", policies=[beam], work=pruned, max_new_tokens=STEPS)
    monkeypatch.setattr(BeamState, "_drop_hopeless", lambda _: None)
    assert_same(found, decoded("llama", policies=[beam], work=whole, max_new_tokens=STEPS))
    assert pruned.decoded_rows < whole.decoded_rows
