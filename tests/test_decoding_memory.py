"""Memory that runs out, padded passes, bf16: the ways the same wave is run on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
    Policy,
    Prompt,
    Sample,
    Work,
    decode,
    runner,
    stop_tokens,
)
from beamuq.decoding.distributions import Laws
from beamuq.errors import BeamUQError
from tiny import KINDS, tiny_model

SHOTS = "Question: Which river runs through Paris?\nAnswer: the Seine.\n\n"
TEXTS = [SHOTS + "Question: Who", SHOTS + "Question: What\nAnswer:", "Q", "Question: Who\nAnswer: a spider"]
POLICIES: list[Policy] = [Greedy(), Sample(4), Beam(4), DiverseBeam(4, 2, 0.5), Hybrid(6, 3)]


def _decode(kind: str, **options: Any) -> list[Candidate]:
    model, tokenizer = tiny_model(kind)
    stops = stop_tokens(tokenizer, model) | set(range(100, 120))
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in TEXTS]
    return decode(model, prompts, POLICIES, stop_ids=stops, seed=5, max_new_tokens=10, **options)


def _same(first: list[Candidate], second: list[Candidate], tolerance: float = 1e-4) -> None:
    assert [(c.prompt_id, c.strategy, c.rank, c.token_ids) for c in first] == [
        (c.prompt_id, c.strategy, c.rank, c.token_ids) for c in second
    ]
    assert [c.logprob for c in first] == pytest.approx([c.logprob for c in second], abs=tolerance)


@contextmanager
def _room_for(kind: str, rows: int) -> Iterator[None]:
    """A decoder that runs out of memory beyond so many rows."""
    decoder = tiny_model(kind)[0].get_decoder()

    def check(_: Any, __: Any, inputs: dict[str, Any]) -> None:
        if inputs["input_ids"].shape[1] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

    handle = decoder.register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("room", [1, 5, 30])
def test_running_out_of_memory_halves_the_rows_and_changes_no_token(room: int) -> None:
    free, tight = Work(), Work()
    expected = _decode("gemma3", work=free)
    with _room_for("gemma3", room):
        found = _decode("gemma3", work=tight)
    _same(found, expected)
    assert free.rows_at_once == runner.ROWS
    assert room / 2 < tight.rows_at_once <= room
    assert (tight.prompt_rows, tight.decoded_rows) == (free.prompt_rows, free.decoded_rows)


def test_running_out_of_memory_after_the_prompts_runs_no_node_twice_and_forgets_none() -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt("a", (40,)), Prompt("b", (50,))]
    options: dict[str, Any] = {"stop_ids": frozenset({1}), "seed": 0, "max_new_tokens": 6}
    expected, work = decode(model, prompts, [Sample(9)], **options), Work()
    with _room_for("llama", 4):
        _same(decode(model, prompts, [Sample(9)], work=work, **options), expected)
    assert work.rows_at_once in (3, 4)


def test_memory_too_small_for_one_row_is_told_in_one_line() -> None:
    with _room_for("llama", 0), pytest.raises(BeamUQError, match="out of memory with 4 questions a wave"):
        _decode("llama")


def test_running_out_of_memory_for_logits_halves_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _decode("llama")
    whole = Laws._logits

    def tight(self: Laws, states: torch.Tensor) -> torch.Tensor:
        if len(states) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, states)

    monkeypatch.setattr(Laws, "_logits", tight)
    work = Work()
    _same(_decode("llama", work=work), expected)
    assert work.rows_at_once in (2, 3)


def test_other_errors_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> torch.Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Laws, "_logits", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        _decode("llama")


@pytest.mark.parametrize("kind", KINDS)
def test_padded_passes_equal_span_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _decode(kind)
    monkeypatch.setattr(runner, "pads", lambda _: True)
    _same(_decode(kind), expected)
    _same(_decode(kind, rows=7), expected)


@pytest.mark.parametrize("padded", [False, True])
def test_a_wave_that_outgrows_its_buffers_moves_them(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _decode("qwen3")
    monkeypatch.setattr(runner, "pads", lambda _: padded)
    monkeypatch.setattr(runner, "_FIRST_CAPACITY", 1)
    _same(_decode("qwen3"), expected)


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_bfloat16_rescores_with_float32_logits(kind: str) -> None:
    model, tokenizer = tiny_model(kind)
    prompt = Prompt("q", tuple(tokenizer(SHOTS)["input_ids"]))
    try:
        model.to(torch.bfloat16)
        found = decode(model, [prompt], [Greedy(), Beam(3)], stop_ids=frozenset({1}), seed=0, max_new_tokens=6)
        for c in found:
            ids = torch.tensor([[*prompt.token_ids, *c.token_ids]])
            with torch.inference_mode():
                states = model.get_decoder()(ids).last_hidden_state[0, -len(c.token_ids) - 1 : -1]
            law = torch.log_softmax(states.float() @ model.lm_head.weight.detach().float().T, dim=-1)
            expected = law.gather(1, torch.tensor(c.token_ids)[:, None])[:, 0].double().numpy()
            assert np.abs(c.token_logprobs - expected).max() < 0.15
    finally:
        model.to(torch.float32)
