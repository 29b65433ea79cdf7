"""Attention over a tree: padded pieces equal single spans, padding is bounded, kernels plan nothing
for a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from beamuq.decoding import Prompt, Sample, decode, forward_passes, tree_attention
from beamuq.decoding.tree_attention import (
    AttentionRule,
    ForwardPass,
    PaddedRows,
    RowSpan,
    TreeCache,
    Window,
    node_spans,
    padded_nodes,
    padded_prompts,
)
from small_batch import FEW, POLICIES, assert_same, decoded, expected
from tiny import KINDS, tiny_model

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_padded_passes_equal_span_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = POLICIES if kind == "llama" else FEW
    alone = expected(kind, policies)
    monkeypatch.setattr(forward_passes, "pads", lambda _: True)
    assert_same(decoded(kind, policies=policies), alone)
    assert_same(decoded(kind, policies=policies, rows=7), alone)


@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_that_outgrows_its_buffers_moves_them(
    padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = expected("qwen3", FEW)
    monkeypatch.setattr(forward_passes, "pads", lambda _: padded)
    monkeypatch.setattr(forward_passes, "_FIRST_CAPACITY", 1)
    assert_same(decoded("qwen3", policies=FEW), roomy)


@pytest.mark.parametrize("padded", [False, True])
def test_a_widened_cache_holds_what_it_held(padded: bool) -> None:
    cache, target = TreeCache(np.array([2, 3]), 4, padded), torch.tensor([0, 1, 4, 5, 6])
    rows = torch.arange(1.0, 11).view(1, 1, 5, 2)
    cache.store((0, 0), rows, -rows, target, None)
    assert cache.reserve(np.array([1, 1])).tolist() == [3, 4]
    for kept, sign in zip(
        cache.store((0, 0), rows[:, :, :0], rows[:, :, :0], target[:0], None), (1, -1), strict=True
    ):
        assert torch.equal(torch.cat([kept[0, :2], kept[1, :3]]).flatten(), sign * rows.flatten())


def attended(
    pieces: Sequence[Any], cache: TreeCache, rows: int, window: int | None
) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, rows, 8, generator=draw)
    keys, values = (
        torch.randn(len(cache.lengths), cache.capacity, 2, 8, generator=draw) for _ in range(2)
    )
    return ForwardPass(cache, torch.empty(0), None, pieces).attend(
        query, keys, values, AttentionRule(window=None if window is None else Window(window))
    )


def spans_of(ranges: Sequence[tuple[int, int, int]]) -> list[RowSpan]:
    """Spans of prompts from (question, start, end), one behind the other."""
    firsts = np.cumsum([0, *(end - start for _, start, end in ranges)]).tolist()
    return [
        RowSpan.of_prompt(question, first, start, end)
        for first, (question, start, end) in zip(firsts, ranges, strict=False)
    ]


@pytest.mark.parametrize("window", [None, 3, 20])
def test_padded_prompts_attend_like_unpadded_ones(window: int | None) -> None:
    beginnings = [(0, 0, 12), (3, 0, 30), (7, 0, 2)]
    spans = spans_of(
        [*beginnings, (1, 4, 40), (1, 12, 14), (1, 12, 14), (5, 9, 11), (0, 12, 15), (6, 2, 3)],
    )
    cache = TreeCache(np.full(8, 40), 48, True)
    padded = padded_prompts(spans, CPU)
    assert len(padded) < len(spans)
    rows = spans[-1].last
    assert (
        attended(padded, cache, rows, window) - attended(spans, cache, rows, window)
    ).abs().max() < 1e-5


@pytest.mark.parametrize("questions", [[0, 0, 7], [2, 3, 3, 5], [4]])
def test_padded_nodes_attend_like_unpadded_ones_and_skip_questions_without_rows(
    questions: list[int],
) -> None:
    lengths = np.arange(10, 18)
    own = np.array(questions)
    visible = lengths[own][:, None] + np.arange(len(own))[:, None] * [1, 1] + [0, 1]
    shape = own, lengths[own] + 1, lengths, visible
    cache = TreeCache(lengths, 30, True)
    padded = padded_nodes(*shape, CPU)
    assert padded.size[0] <= 2 * len(set(questions))
    for window in (None, 1, 5):
        alone = attended(node_spans(*shape), cache, len(own), window)
        assert (attended([padded], cache, len(own), window) - alone).abs().max() < 1e-5


@pytest.mark.parametrize("window", [None, 1, 5, 14])
def test_a_row_reads_no_more_than_half_of_many_keys_and_attends_alike(window: int | None) -> None:
    """Question 1 has forty nodes behind its twelve tokens, of which few are on a path; question 0
    has two.
    """
    lengths = np.array([10, 12])
    own = np.array([0, 1, 1])
    visible = np.array([[10, 11], [14, 40], [30, 51]])
    shape = own, lengths[own] + 1, lengths, visible
    spans = node_spans(*shape)
    assert [span.keys for span in spans] == [12, 16]
    whole = [
        RowSpan(s.question, s.first, s.last, 52, s.positions, s.prompts, visible[s.rows])
        for s in spans
    ]
    cache = TreeCache(lengths, 60, True)
    difference = attended(spans, cache, len(own), window) - attended(whole, cache, len(own), window)
    assert difference.abs().max() < 1e-5


def test_fewer_rows_at_once_pad_to_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    prompts = [Prompt(str(i), (40, i + 8)) for i in range(32)]
    monkeypatch.setattr(forward_passes, "pads", lambda _: True)
    most: list[int] = []

    def noted(*arguments: Any) -> PaddedRows:
        piece = padded_nodes(*arguments)
        most[-1] = max(most[-1], piece.size[0] * piece.size[1])
        return piece

    monkeypatch.setattr(forward_passes, "padded_nodes", noted)
    for rows in (4096, 64, 8):
        most.append(0)
        decode(
            model,
            prompts,
            [Sample(20)],
            stop_ids=frozenset({1}),
            seed=0,
            max_new_tokens=3,
            rows=rows,
        )
    whole, few, fewest = most
    assert whole > 4 * few > 16 * fewest
    assert fewest <= 2 * 8


def test_prompts_that_share_a_beginning_are_attended_to_in_one_call_each_layer() -> None:
    leaves = [(question, 100, 102 if question % 10 else 116) for question in range(60)]
    shared, own = padded_prompts(spans_of([(0, 0, 100), *leaves]), CPU)
    assert shared.size == (1, 100, 100)
    assert own.size == (60, 16, 116)


def test_padding_of_very_unequal_prompts_is_bounded() -> None:
    lengths = [2000, 1900, 300, 290, *range(20, 100), *[20] * 300, *[3] * 200]
    spans = spans_of([(question, 50, 50 + own) for question, own in enumerate(lengths)])
    pieces = padded_prompts(spans, CPU)
    assert len(pieces) < 60
    covered = np.concatenate([np.arange(spans[-1].last)[piece.rows] for piece in pieces])
    assert sorted(covered.tolist()) == list(range(spans[-1].last))
    real = {span.first: max(span.last - span.first, 16) * span.keys for span in spans}
    for piece in pieces:
        cells = int(np.prod(piece.size))
        assert cells <= min(
            tree_attention._CELLS, 2 * sum(real.get(row, 0) for row in piece.rows.tolist())
        )
