"""Memory that runs out, padded passes, bf16: the ways the same batch is run on other machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from beamuq import artifacts
from beamuq.decoding import (
    Beam,
    Greedy,
    Prompt,
    Sample,
    Work,
    decode,
    forward_passes,
    next_token_logprobs,
    tree_attention,
)
from beamuq.decoding.forward_passes import BatchRunner
from beamuq.decoding.next_token_distributions import NextTokenDistributions
from beamuq.decoding.tree_attention import (
    Padded,
    Pass,
    Span,
    TreeCache,
    node_spans,
    padded_nodes,
    padded_prompts,
)
from beamuq.errors import BeamUQError
from run_job import run_job
from small_batch import SHOTS, assert_same, batch_of, decoded
from tiny import KINDS, build_tiny_model, tiny_model


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
    expected = decoded("gemma3", work=free)
    with _room_for("gemma3", room):
        found = decoded("gemma3", work=tight)
    assert_same(found, expected)
    assert free.rows_at_once == forward_passes.ROWS
    assert room / 2 < tight.rows_at_once <= room
    assert (tight.prompt_rows, tight.decoded_rows) == (free.prompt_rows, free.decoded_rows)


def test_running_out_of_memory_after_the_prompts_runs_no_node_twice_and_forgets_none() -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt("a", (40,)), Prompt("b", (50,))]
    options: dict[str, Any] = {"stop_ids": frozenset({1}), "seed": 0, "max_new_tokens": 6}
    expected, work = decode(model, prompts, [Sample(9)], **options), Work()
    with _room_for("llama", 4):
        assert_same(decode(model, prompts, [Sample(9)], work=work, **options), expected)
    assert work.rows_at_once in (3, 4)


def test_memory_too_small_for_one_row_is_told_in_one_line() -> None:
    with (
        _room_for("llama", 0),
        pytest.raises(BeamUQError, match="Question: Who': out of memory even alone and at 1 row"),
    ):
        decoded("llama")


@pytest.mark.parametrize("padded", [False, True])
def test_a_wave_whose_buffers_do_not_fit_is_decoded_in_pieces(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decoded("gemma3")
    monkeypatch.setattr(forward_passes, "pads", lambda _: padded)
    monkeypatch.setattr(forward_passes, "_FIRST_CAPACITY", 1)
    widen = TreeCache._widen

    def tight(self: TreeCache, capacity: int) -> None:
        if len(self.lengths) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        widen(self, capacity)

    monkeypatch.setattr(TreeCache, "_widen", tight)
    work = Work()
    assert_same(decoded("gemma3", work=work), expected)
    assert work.pieces == [(2, forward_passes.ROWS), (2, forward_passes.ROWS)]
    assert work.prompts == 4


def test_states_that_do_not_fit_cut_the_wave_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    prompts = batch_of("llama")
    free, expected = decoded("llama"), next_token_logprobs(model, prompts, [5, 6])
    keep = BatchRunner._keep

    def tight(self: BatchRunner, nodes: NDArray[np.int64], states: torch.Tensor) -> None:
        if len(self._prompts) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        keep(self, nodes, states)

    monkeypatch.setattr(BatchRunner, "_keep", tight)
    work = Work()
    assert_same(decoded("llama", work=work), free)
    assert work.pieces == [(1, forward_passes.ROWS)] * 4
    assert next_token_logprobs(model, prompts, [5, 6]) == pytest.approx(expected, abs=1e-5)


def test_a_wave_that_fits_is_one_piece() -> None:
    work = Work()
    for rows in (None, 7):
        decoded("llama", rows=rows, work=work)
        assert work.pieces == [(4, rows or forward_passes.ROWS)]


def test_candidates_tell_of_waves_that_were_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_tiny_model("llama", tmp_path / "model") / "config.json"
    cell = {"model": "tiny", "dataset": "triviaqa", "recipe": "main"}
    asked = [{"id": f"q{i}", "prompt": f"Question: Who wrote play {i}?\nAnswer:"} for i in range(10)]
    artifacts.write(tmp_path / "prompts.parquet", "prompts", asked, cell={"dataset": "triviaqa", "style": "base"})
    settings = {"cell": cell, "recipe": {"sample": {"size": 2}}, "questions": 10, "max_new_tokens": 4, "seed": 1}
    settings |= {
        "batch_questions": 4,
        "style": "base",
        "enable_thinking": None,
        "newline_stops": True,
        "merge_stop_tokens": False,
        "format": 1,
    }
    job = {"prompts": tmp_path / "prompts.parquet", "model": model, "settings": settings}
    job |= {"device": "cpu", "dtype": "auto"}

    def made(name: str, **shards: Any) -> Path:
        path = tmp_path / f"{name}.parquet"
        run_job("candidates", job | {"candidates": path} | shards)
        return path

    whole = artifacts.read(made("whole"), "candidates")
    reserve = TreeCache.reserve

    def tight(self: TreeCache, questions: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(self.lengths) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return reserve(self, questions)

    monkeypatch.setattr(TreeCache, "reserve", tight)
    path = made("cut")
    cut = artifacts.read(path, "candidates")
    halves = [[2, forward_passes.ROWS], [2, forward_passes.ROWS]]
    assert cut.provenance == whole.provenance | {"memory_cuts": [{"batch": n, "pieces": halves} for n in (0, 1)]}
    assert cut.table.column("token_ids").equals(whole.table.column("token_ids"))
    markers = [made(f"joined.shards/{n}", shard=f"{n}-of-4") for n in (1, 2, 3, 4)]  # the last has no batch
    next(tmp_path.glob("joined.batches/*/batch-00001.parquet")).unlink()  # what is missing is decoded when joined
    assert made("joined", shards=markers).read_bytes() == path.read_bytes()
    assert not list(tmp_path.glob("*.batches"))


def test_running_out_of_memory_for_logits_halves_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decoded("llama")
    whole = NextTokenDistributions._logits

    def tight(self: NextTokenDistributions, states: torch.Tensor) -> torch.Tensor:
        if len(states) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, states)

    monkeypatch.setattr(NextTokenDistributions, "_logits", tight)
    work = Work()
    assert_same(decoded("llama", work=work), expected)
    assert work.rows_at_once in (2, 3)


def test_other_errors_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> torch.Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(NextTokenDistributions, "_logits", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        decoded("llama")


@pytest.mark.parametrize("kind", KINDS)
def test_padded_passes_equal_span_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decoded(kind)
    monkeypatch.setattr(forward_passes, "pads", lambda _: True)
    assert_same(decoded(kind), expected)
    assert_same(decoded(kind, rows=7), expected)


def _attended(pieces: Sequence[Any], cache: TreeCache, rows: int, window: int | None) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, rows, 8, generator=draw)
    keys, values = (torch.randn(len(cache.lengths), cache.capacity, 2, 8, generator=draw) for _ in range(2))
    return Pass(cache, torch.empty(0), None, pieces).attend(query, keys, values, None, window)


@pytest.mark.parametrize("window", [None, 3, 20])
def test_padded_prompts_attend_like_unpadded_ones(window: int | None) -> None:
    spans, rows = [], 0
    starts = [
        (0, 0, 12),
        (3, 0, 30),
        (7, 0, 2),
        (1, 4, 40),
        (1, 12, 14),
        (1, 12, 14),
        (5, 9, 11),
        (0, 12, 15),
        (6, 2, 3),
    ]
    for question, start, end in starts:
        spans.append(Span.of_prompt(question, rows, start, end))
        rows += end - start
    cache = TreeCache(np.full(8, 40), 48, True)
    padded = padded_prompts(spans, torch.device("cpu"))
    assert len(padded) < len(spans)
    expected = _attended(spans, cache, rows, window)
    assert (_attended(padded, cache, rows, window) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("questions", [[0, 0, 7], [2, 3, 3, 5], [4]])
def test_padded_nodes_attend_like_unpadded_ones_and_skip_questions_without_rows(questions: list[int]) -> None:
    lengths = np.arange(10, 18)
    own = np.array(questions)
    visible = lengths[own][:, None] + np.arange(len(own))[:, None] * [1, 1] + [0, 1]
    shape = own, lengths[own] + 1, lengths, visible
    cache = TreeCache(lengths, 30, True)
    padded = padded_nodes(*shape, torch.device("cpu"))
    assert padded.size[0] <= 2 * len(set(questions))
    for window in (None, 1, 5):
        expected = _attended(node_spans(*shape), cache, len(own), window)
        assert (_attended([padded], cache, len(own), window) - expected).abs().max() < 1e-5


def test_fewer_rows_at_once_pad_to_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt(str(i), (40, i + 8)) for i in range(32)]
    monkeypatch.setattr(forward_passes, "pads", lambda _: True)
    most: list[int] = []

    def noted(*arguments: Any) -> Padded:
        piece = padded_nodes(*arguments)
        most[-1] = max(most[-1], piece.size[0] * piece.size[1])
        return piece

    monkeypatch.setattr(forward_passes, "padded_nodes", noted)
    for rows in (4096, 64, 8):
        most.append(0)
        decode(model, prompts, [Sample(20)], stop_ids=frozenset({1}), seed=0, max_new_tokens=4, rows=rows)
    whole, few, fewest = most
    assert whole > 4 * few > 16 * fewest
    assert fewest <= 2 * 8


def test_prompts_that_share_a_beginning_are_attended_to_in_one_call_each_layer() -> None:
    spans = [Span.of_prompt(0, 0, 0, 100)]
    for question in range(60):
        first, own = spans[-1].last, 2 if question % 10 else 16
        spans.append(Span.of_prompt(question, first, 100, 100 + own))
    root, leaves = padded_prompts(spans, torch.device("cpu"))
    assert root.size == (1, 100, 100)
    assert leaves.size == (60, 16, 116)


def test_padding_of_very_unequal_prompts_is_bounded() -> None:
    lengths = [2000, 1900, 300, 290, *range(20, 100), *[20] * 300, *[3] * 200]
    spans, first = [], 0
    for question, own in enumerate(lengths):
        spans.append(Span.of_prompt(question, first, 50, 50 + own))
        first += own
    pieces = padded_prompts(spans, torch.device("cpu"))
    assert len(pieces) < 60
    covered = np.concatenate([np.arange(first)[piece.rows] for piece in pieces])
    assert sorted(covered.tolist()) == list(range(first))
    real = {span.first: max(span.last - span.first, 16) * span.keys for span in spans}
    for piece in pieces:
        cells = int(np.prod(piece.size))
        assert cells <= min(tree_attention._CELLS, 2 * sum(real.get(row, 0) for row in piece.rows.tolist()))


def test_attention_on_a_gpu_plans_nothing_for_each_shape() -> None:
    def installed(device: str) -> AbstractContextManager[Any]:
        parameters = [SimpleNamespace(device=torch.device(device))]
        config = SimpleNamespace(_attn_implementation="sdpa")
        decoder = SimpleNamespace(config=config, parameters=lambda: iter(parameters))
        model: Any = SimpleNamespace(get_decoder=lambda: decoder)
        return tree_attention.tree_attention(model)

    assert torch.backends.cuda.cudnn_sdp_enabled()
    with installed("cuda"):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with installed("cpu"):
        assert torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("padded", [False, True])
def test_a_wave_that_outgrows_its_buffers_moves_them(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decoded("qwen3")
    monkeypatch.setattr(forward_passes, "pads", lambda _: padded)
    monkeypatch.setattr(forward_passes, "_FIRST_CAPACITY", 1)
    assert_same(decoded("qwen3"), expected)


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
