"""Attention over a tree: keys are a question's prompt and the generated nodes, a mask says who descends from whom.

Keys and values of a question lie in one row of a buffer: first its prompt, then its nodes in the order they were run.
Rows of a forward pass are packed without padding, sorted by question; a row attends to the prompt and to its own
ancestors, so a beam that changes its parent copies nothing. One masked softmax over prompt and nodes together is the
same number as a prefix part and a suffix part merged by log-sum-exp; it needs one kernel call a question instead of
two and a gather, and only torch's public attention function.

The function is registered with transformers under ``NAME``; models are not modified, and keys and values never pass
through a transformers cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel

NAME = "beamuq_tree"
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass
class Span(ABC):
    """Rows ``first`` … ``last`` - 1 of a pass, all of one question, that see some of the first ``keys`` keys.

    ``positions`` (rows,) are the rows' positions in their text.
    """

    question: int
    first: int
    last: int
    keys: int
    positions: Ints
    _masks: dict[int | None, tuple[int, torch.Tensor | None]] = field(default_factory=dict, kw_only=True)

    def mask(self, window: int | None, like: torch.Tensor) -> tuple[int, torch.Tensor | None]:
        """The first key worth reading, and what to add to the scores of the keys from there on (None: causal)."""
        if window not in self._masks:
            low = 0 if window is None else max(0, int(self.positions.min()) - window + 1)
            low, seen = self.seen(low, window)
            bias = None if seen is None else np.where(seen, np.float32(0), np.float32(-np.inf))
            mask = None if bias is None else torch.from_numpy(bias).to(like.device, like.dtype)
            self._masks[window] = low, mask
        return self._masks[window]

    @abstractmethod
    def seen(self, low: int, window: int | None) -> tuple[int, Bools | None]:
        """The first key to read, at most ``low``, and which keys from there on a row sees (None: plainly causal)."""


@dataclass
class PromptSpan(Span):
    """Consecutive tokens of a prompt; the last one is the last key."""

    def seen(self, low: int, window: int | None) -> tuple[int, Bools | None]:
        if self.positions[0] == 0 and (window is None or len(self.positions) <= window):
            return 0, None
        gap = self.positions[:, None] - np.arange(low, self.keys)
        return low, (gap >= 0) & (gap < (self.keys if window is None else window))


@dataclass
class NodeSpan(Span):
    """Nodes of a trie: they see the ``prompt`` first keys and those of their own paths, ``visible`` (rows, depth)."""

    prompt: int
    visible: Ints

    def seen(self, low: int, window: int | None) -> tuple[int, Bools | None]:
        low = min(low, self.prompt)
        return low, seen_by_nodes(self.keys, self.prompt, self.positions, self.visible, window)[:, low:]


def seen_by_nodes(keys: int, prompt: Ints | int, positions: Ints, visible: Ints, window: int | None) -> Bools:
    """Which of ``keys`` keys each node sees: its prompt's and its path's, as far back as the window: (nodes, keys)."""
    places = np.arange(keys)
    seen = np.broadcast_to(places < np.reshape(prompt, (-1, 1)), (len(positions), keys)).copy()
    if window is not None:
        seen &= places > positions[:, None] - window
        # Within a short window even a row's own first tokens fall out of sight.
        visible = visible[:, max(0, visible.shape[1] - window) :]
    np.put_along_axis(seen, visible, True, axis=1)
    return seen


@dataclass
class Pass(ABC):
    """One forward pass over rows, and where their keys and values go.

    Row ``source[i]`` is written to flat position ``target[i]`` of the buffers; ``source`` None means row i.
    """

    cache: TreeCache
    target: torch.Tensor
    source: torch.Tensor | None

    @abstractmethod
    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None, window: int | None
    ) -> torch.Tensor:
        """Attention of query (1, heads, rows, d) to the buffers of a layer: (rows, heads, d)."""


@dataclass
class SpanPass(Pass):
    """A question at a time, with no padding: prompts everywhere, and nodes on a CPU."""

    spans: Sequence[Span]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None, window: int | None
    ) -> torch.Tensor:
        out = query.new_empty(query.shape[2], query.shape[1], values.shape[3])
        group = query.shape[1] // keys.shape[2]
        for span in self.spans:
            low, mask = span.mask(window, query)
            key, value = (buffer[span.question, low : span.keys].transpose(0, 1)[None] for buffer in (keys, values))
            if mask is not None and query.is_cuda:
                # The fused kernel that takes masks does not share key heads among query heads.
                key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
            result = functional.scaled_dot_product_attention(
                query[:, :, span.first : span.last],
                key,
                value,
                attn_mask=mask,
                is_causal=mask is None,
                scale=scaling,
                enable_gqa=key.shape[1] != query.shape[1],
            )
            out[span.first : span.last] = result[0].transpose(0, 1)
        return out


@dataclass
class PaddedPass(Pass):
    """All questions in one kernel call, padded to the most rows and keys that one of them has: nodes on a GPU.

    Row i is a node of ``questions[i]`` (sorted) at ``positions[i]``; ``visible`` (rows, depth) are the keys of its
    path. Rows that share a key head lie side by side as query rows of that head.
    """

    questions: Ints
    positions: Ints
    visible: Ints
    _masks: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = np.searchsorted(self.questions, self.questions, side="left")
        self._rank = np.arange(len(self.questions)) - first
        self._rows = int(self._rank.max()) + 1
        self._keys = int(self.cache.used.max())
        self._where = tuple(torch.from_numpy(i).to(self.target.device) for i in (self.questions, self._rank))

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None, window: int | None
    ) -> torch.Tensor:
        questions, heads, width = keys.shape[0], query.shape[1], query.shape[3]
        shared = keys.shape[2]
        padded = query.new_zeros(questions, self._rows, heads, width)
        padded[self._where] = query[0].transpose(0, 1)
        split = padded.view(questions, self._rows, shared, heads // shared, width).permute(0, 2, 3, 1, 4)
        if window not in self._masks:
            self._masks[window] = self._mask(window, query).repeat(1, 1, heads // shared, 1)
        result = functional.scaled_dot_product_attention(
            split.reshape(questions, shared, -1, width),
            keys[:, : self._keys].transpose(1, 2),
            values[:, : self._keys].transpose(1, 2),
            attn_mask=self._masks[window],
            scale=scaling,
        )
        joined = result.view(questions, shared, heads // shared, self._rows, -1).permute(0, 3, 1, 2, 4)
        return joined.reshape(questions, self._rows, heads, -1)[self._where]

    def _mask(self, window: int | None, like: torch.Tensor) -> torch.Tensor:
        """What to add to the scores: (questions, 1, rows, keys). What padded rows see does not matter."""
        spread = np.zeros((len(self.cache.lengths), self._rows, self._keys), dtype=bool)
        spread[self.questions, self._rank] = seen_by_nodes(
            self._keys, self.cache.lengths[self.questions], self.positions, self.visible, window
        )
        bias = torch.zeros(spread.shape, dtype=like.dtype, device=like.device)
        return bias.masked_fill_(~torch.from_numpy(spread).to(like.device), -torch.inf)[:, None]


def pads(device: torch.device) -> bool:
    """Whether nodes are better run by `PaddedPass` there: few large kernels rather than many small ones."""
    return device.type != "cpu"


def node_spans(questions: Ints, positions: Ints, lengths: Ints, visible: Ints) -> list[Span]:
    """A span a question, of rows sorted by question, at ``positions``, that see their ``visible`` nodes."""
    found, firsts = np.unique(questions, return_index=True)
    lasts = [*firsts[1:].tolist(), len(questions)]
    return [
        NodeSpan(
            question,
            first,
            last,
            int(visible[first:last].max()) + 1,
            positions[first:last],
            int(lengths[question]),
            visible[first:last],
        )
        for question, first, last in zip(found.tolist(), firsts.tolist(), lasts, strict=True)
    ]


class TreeCache:
    """Keys and values of a wave: per layer a buffer of shape (questions, capacity, key heads, d).

    ``padded`` says that nodes are run by `PaddedPass`.
    """

    def __init__(self, lengths: Ints, capacity: int, padded: bool) -> None:
        self.lengths = lengths
        self.padded = padded
        self.used = lengths.copy()
        self.capacity = capacity
        self._keys: dict[int, torch.Tensor] = {}
        self._values: dict[int, torch.Tensor] = {}

    def reserve(self, questions: Ints) -> Ints:
        """New places in the rows of ``questions`` (sorted), one each: their indices within the row."""
        first = np.searchsorted(questions, questions, side="left")
        places: Ints = self.used[questions] + np.arange(len(questions)) - first
        np.maximum.at(self.used, questions, places + 1)
        if self.used.max() > self.capacity:
            self._widen(int(self.used.max()) + self.capacity // 2)
        return places

    def store(
        self, layer: int, key: torch.Tensor, value: torch.Tensor, target: torch.Tensor, source: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write rows of key and value (1, key heads, rows, d); returns the layer's two buffers."""
        for buffers, fresh in ((self._keys, key), (self._values, value)):
            rows = fresh[0].transpose(0, 1)
            if layer not in buffers:
                buffers[layer] = self._room(rows, rows.shape[1:])
            rows = rows if source is None else rows.index_select(0, source)
            buffers[layer].view(-1, *rows.shape[1:]).index_copy_(0, target, rows)
        return self._keys[layer], self._values[layer]

    def _widen(self, capacity: int) -> None:
        self.capacity = capacity
        for buffers in (self._keys, self._values):
            for layer, old in buffers.items():
                buffers[layer] = self._room(old, old.shape[2:])
                buffers[layer][:, : old.shape[1]] = old

    def _room(self, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        # Padded passes read places that were never written, masked: those must be finite. Span passes do not, and
        # on a CPU a page that is never touched takes no memory.
        make = like.new_zeros if self.padded else like.new_empty
        return make((len(self.lengths), self.capacity, *shape))


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    beamuq_pass: Pass,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    run = beamuq_pass
    keys, values = run.cache.store(int(module.layer_idx), key, value, run.target, run.source)
    return run.attend(query, keys, values, scaling, sliding_window)[None], None


AttentionInterface.register(NAME, _attention)


@contextmanager
def hooked(model: PreTrainedModel) -> Iterator[torch.nn.Module]:
    """The text decoder of ``model``, with tree attention in place for the time of the block."""
    known: Any = model
    decoder: torch.nn.Module = known.get_decoder()
    config: Any = decoder.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield decoder
    finally:
        config._attn_implementation = before
