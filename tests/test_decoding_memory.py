"""Memory that runs out and bf16: the ways the same batch is run on other machines."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from beamuq import machine_memory
from beamuq.decoding import (
    ROWS,
    Beam,
    DiverseBeam,
    Greedy,
    Hybrid,
    Policy,
    Prompt,
    Sample,
    Systematic,
    Work,
    decode,
    forward_passes,
    next_token_logprobs,
)
from beamuq.decoding.beam_search import BYTES_OF_A_CONTINUATION
from beamuq.decoding.forward_passes import BatchRunner
from beamuq.decoding.output_layer import OutputLayer
from beamuq.decoding.self_check import checked, remember
from beamuq.decoding.tree_attention import TreeCache
from beamuq.errors import BeamUQError
from small_batch import FEW, SHOTS, assert_same, batch_of, decoded, expected
from tiny import tiny_model

NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory")


@contextmanager
def room_for(kind: str, rows: int) -> Iterator[None]:
    """A decoder that runs out of memory beyond so many rows."""

    def check(_: Any, __: Any, inputs: dict[str, Any]) -> None:
        if inputs["input_ids"].shape[1] > rows:
            raise NO_MEMORY

    model = tiny_model(kind)[0]
    result = checked(model)
    handle = model.get_decoder().register_forward_pre_hook(check, with_kwargs=True)  # type: ignore[operator]
    remember(model, result)  # or the hook would be a reason to check again
    try:
        yield
    finally:
        handle.remove()


def tight(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, too_much: Any) -> None:
    """Let a method run out of memory where ``too_much`` of its arguments is true."""
    whole = getattr(owner, name)

    def called(*arguments: Any) -> Any:
        if too_much(*arguments):
            raise NO_MEMORY
        return whole(*arguments)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("room", [1, 5, 30])
def test_running_out_of_memory_halves_the_rows_and_changes_no_token(room: int) -> None:
    free, cramped = Work(), Work()
    decoded("gemma3", policies=FEW, work=free)
    with room_for("gemma3", room):
        found = decoded("gemma3", policies=FEW, work=cramped)
    assert_same(found, expected("gemma3", FEW))
    assert free.rows_at_once == ROWS
    assert room / 2 < cramped.rows_at_once <= room
    assert (cramped.prompt_rows, cramped.decoded_rows) == (free.prompt_rows, free.decoded_rows)


def test_running_out_of_memory_after_the_prompts_runs_no_node_twice_and_forgets_none() -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt("a", (40,)), Prompt("b", (50,))]
    options: dict[str, Any] = {"stop_ids": frozenset({1}), "seed": 0, "max_new_tokens": 6}
    free, work = decode(model, prompts, [Sample(9)], **options), Work()
    with room_for("llama", 4):
        assert_same(decode(model, prompts, [Sample(9)], work=work, **options), free)
    assert work.rows_at_once in (3, 4)


def test_memory_too_small_for_one_row_is_told_in_one_line() -> None:
    with (
        room_for("llama", 0),
        pytest.raises(BeamUQError, match="Question: Who': out of memory even alone and at 1"),
    ):
        decoded("llama")


@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_whose_buffers_do_not_fit_is_decoded_in_pieces(
    padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, work = expected("gemma3", FEW), Work()
    monkeypatch.setattr(forward_passes, "pads", lambda _: padded)
    monkeypatch.setattr(forward_passes, "_FIRST_CAPACITY", 1)
    tight(monkeypatch, TreeCache, "_widen", lambda cache, _: len(cache.lengths) > 2)
    assert_same(decoded("gemma3", policies=FEW, work=work), free)
    assert work.pieces == [(2, ROWS), (2, ROWS)]
    assert work.prompts == 4


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            Beam(10**9),
            r"beam M=1000000000: choosing among the continuations of 1,000,000,000 beams",
        ),
        (DiverseBeam(2 * 10**9, 2, 0.5), "continuations of 1,000,000,000 beams"),
        (Hybrid(10**9 + 1, 10**9), "continuations of 1,000,000,000 beams"),
        (Sample(10**11), r"sample: the random numbers of 100,000,000,000 draws for each of"),
        (Systematic(10**11), "the random numbers of 100,000,000,000 draws"),
    ],
)
def test_more_candidates_than_memory_holds_are_refused_before_anything_is_run(
    policy: Policy, told: str
) -> None:
    work = Work()
    with pytest.raises(BeamUQError, match=f"{told}.* takes at least .* GB, memory is .* GB; "):
        decoded("llama", policies=[policy], work=work)
    assert work.prompt_rows == 0


def test_beams_that_just_fit_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt("a", (40,)), Prompt("b", (50,))]
    options: dict[str, Any] = {"stop_ids": frozenset({1}), "seed": 0, "max_new_tokens": 2}
    needed = 2 * 6 * 6 * BYTES_OF_A_CONTINUATION
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: needed)
    assert len(decode(model, prompts, [Beam(6)], **options)) == 12
    with pytest.raises(BeamUQError, match=r"take fewer beams .*, or decode fewer"):
        decode(model, prompts, [Beam(7)], **options)


def test_states_that_do_not_fit_cut_the_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    free, looked_up = expected("llama", FEW), next_token_logprobs(model, batch_of("llama"), [5, 6])
    tight(monkeypatch, BatchRunner, "_keep", lambda runner, *_: len(runner._prompts) > 1)
    work = Work()
    assert_same(decoded("llama", policies=FEW, work=work), free)
    assert work.pieces == [(1, ROWS)] * 4
    assert next_token_logprobs(model, batch_of("llama"), [5, 6]) == pytest.approx(
        looked_up, abs=1e-5
    )


def test_running_out_of_memory_for_logits_halves_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    free, work = expected("llama", FEW), Work()
    tight(monkeypatch, OutputLayer, "logits", lambda _, states: len(states) > 3)
    assert_same(decoded("llama", policies=FEW, work=work), free)
    assert work.rows_at_once in (2, 3)


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_bfloat16_rescores_with_float32_logits(kind: str) -> None:
    usual, tokenizer = tiny_model(kind)
    model = copy.deepcopy(usual).to(torch.bfloat16)
    prompt = Prompt("q", tuple(tokenizer(SHOTS)["input_ids"]))
    for c in decode(
        model, [prompt], [Greedy(), Beam(3)], stop_ids=frozenset({1}), seed=0, max_new_tokens=6
    ):
        ids = torch.tensor([[*prompt.token_ids, *c.token_ids]], device=model.device)
        with torch.inference_mode():
            states = model.get_decoder()(ids).last_hidden_state[0, -len(c.token_ids) - 1 : -1]
        logprobs = torch.log_softmax(
            states.float() @ model.lm_head.weight.detach().float().T, dim=-1
        ).cpu()
        rescored = logprobs.gather(1, torch.tensor(c.token_ids)[:, None])[:, 0].double().numpy()
        assert np.abs(c.token_logprobs - rescored).max() < 0.15
