"""Attention over a tree: keys are a question's prompt and the generated nodes, a mask says who
descends from whom.

Keys and values of a question lie in one row of a buffer: first its prompt, then its nodes in the
order they were run. Rows of a forward pass are packed without padding, sorted by question; a row
attends to the prompt and to its own ancestors, so a beam that changes its parent copies nothing.
One masked softmax over prompt and nodes equals a prefix part and a suffix part merged by
log-sum-exp, with one call of torch's public attention function per question.

The function is registered with transformers under ``NAME``; models are not modified, and keys and
values never pass through a transformers cache.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, PreTrainedModel

from beamuq.array_types import Bools, Ints
from beamuq.decoding.device_copies import to_device
from beamuq.decoding.output_layer import text_decoder
from beamuq.errors import BeamUQError

NAME = "beamuq_tree"
_CELLS = 1 << 22
"""Rows times keys, padding included, that one call for spans of prompts may have: enough to fill a
GPU.
"""
_FILLED = 0.85
"""The share of a card's free memory that keys and values may take; logits and hidden states need
the rest.
"""


class TooManyQuestionsError(torch.OutOfMemoryError):
    """A batch's keys and values would not fit beside its passes."""


@dataclass(frozen=True)
class Window:
    """How far back rows see: ``size`` positions, their own among them, or to the start of their
    chunk of ``size``.
    """

    size: int
    chunked: bool = False

    def start(self, positions: Ints) -> Ints:
        """The first position that each of ``positions`` sees; may be negative."""
        return positions // self.size * self.size if self.chunked else positions - self.size + 1


@dataclass(frozen=True, eq=False)
class AttentionRule:
    """How a layer makes weights of the products of queries and keys.

    They are multiplied by ``scaling`` (None: 1/√d), squeezed into ± ``cap``, and seen as far back
    as ``window``. The scores ``sinks`` (heads,), one per head, take a share of the weight and have
    no value.
    """

    scaling: float | None = None
    window: Window | None = None
    cap: float | None = None
    sinks: Tensor | None = None

    @property
    def plain(self) -> bool:
        """Whether torch's own function can do it."""
        return self.cap is None and self.sinks is None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        """What torch's function does with this ``bias``, for what it cannot do: (lanes, heads,
        rows, d).
        """
        lanes, heads, rows, width = query.shape
        shared, keys = key.shape[1:3]
        scaling = width**-0.5 if self.scaling is None else self.scaling
        scores = (query.reshape(lanes, shared, -1, width) @ key.transpose(-1, -2)).view(
            lanes, heads, rows, keys
        )
        scores = scores * scaling
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        scores = (scores + bias).float()
        if self.sinks is not None:
            sinks = self.sinks.float().view(1, -1, 1, 1).expand(lanes, -1, rows, -1)
            scores = torch.cat([scores, sinks], dim=-1)
        weights = scores.softmax(dim=-1)[..., :keys].to(value.dtype)
        return (weights.reshape(lanes, shared, -1, keys) @ value).view(lanes, heads, rows, -1)


@dataclass
class RowSpan:
    """Rows ``first`` … ``last`` - 1 of a pass, all of one question, that see some of the first
    ``keys`` keys.

    ``positions`` (rows,) are the rows' positions in their text. A row sees its ``prompts`` (rows,)
    first keys and those of its own path, ``visible`` (rows, depth). Where only few of the
    question's keys are seen by any row, ``places`` says where those ``keys`` lie, and ``visible``
    counts in them.
    """

    question: int
    first: int
    last: int
    keys: int
    positions: Ints
    prompts: Ints
    visible: Ints
    places: Tensor | None = None
    _masks: dict[tuple[Window | None, bool], tuple[int, Tensor | None]] = field(
        default_factory=dict, kw_only=True
    )

    @classmethod
    def of_prompt(cls, question: int, first: int, start: int, end: int) -> RowSpan:
        """The tokens ``start`` … ``end`` - 1 of a question's prompt, in the rows from ``first``
        on.
        """
        own = np.arange(start, end)
        return cls(question, first, first + end - start, end, own, own + 1, own[:, None])

    @property
    def rows(self) -> slice:
        return slice(self.first, self.last)

    def holds_in_order(self, count: int) -> bool:
        """Whether these are all ``count`` rows of the pass, in their order."""
        return self.last - self.first == count

    def to(self, _: torch.device) -> RowSpan:
        """The same rows with masks of their own, which lie where the layer does."""
        return replace(self, _masks={})

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        """Attention of this piece's rows of query (1, heads, rows of the pass, d): (rows, heads,
        d).
        """
        low, mask = self._mask(rule.window, query, causal_by_name=rule.plain)
        key, value = (
            self._seen(buffer[self.question], low).transpose(0, 1)[None]
            for buffer in (keys, values)
        )
        if mask is not None and not rule.plain:
            return rule.attend(query[:, :, self.rows], key, value, mask)[0].transpose(0, 1)
        result = functional.scaled_dot_product_attention(
            query[:, :, self.rows],
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=rule.scaling,
            enable_gqa=key.shape[1] != query.shape[1],
        )
        return result[0].transpose(0, 1)

    def _seen(self, buffer: Tensor, low: int) -> Tensor:
        """The keys or values of the question, in its ``buffer``, from ``low`` on."""
        if self.places is None:
            return buffer[low : self.keys]
        return buffer.index_select(0, self.places[low:].to(buffer.device))

    def _mask(
        self, window: Window | None, like: Tensor, *, causal_by_name: bool
    ) -> tuple[int, Tensor | None]:
        """The first key worth reading, and what to add to the scores of the keys from there on.

        With ``causal_by_name`` that may be None: each row sees all up to itself.
        """
        if (window, causal_by_name) not in self._masks:
            low, bias = 0, None
            beyond = window is not None and len(self.positions) > window.size
            if self.positions[0] > 0 or beyond or not causal_by_name:
                low = 0 if window is None else max(0, int(window.start(self.positions).min()))
                low = min(
                    low, int(self.prompts.min())
                )  # nodes lie behind the prompt in the order they were run
                seen = seen_by_rows(self.keys, self.prompts, self.positions, self.visible, window)[
                    :, low:
                ]
                bias = torch.from_numpy(np.where(seen, np.float32(0), np.float32(-np.inf))).to(
                    like.device, like.dtype
                )
            self._masks[window, causal_by_name] = low, bias
        return self._masks[window, causal_by_name]


def seen_by_rows(
    keys: int, prompts: Ints, positions: Ints, visible: Ints, window: Window | None
) -> Bools:
    """Which of ``keys`` keys each row sees: its prompt's and its path's, as far back as it reaches:
    (rows, keys).
    """
    places = np.arange(keys)
    seen = places < prompts[:, None]
    if window is not None:
        start = window.start(positions)[:, None]
        seen &= places >= start
        # Even a row's own first tokens may fall out of sight; itself it always sees.
        above = positions[:, None] - np.arange(visible.shape[1])[::-1]
        visible = np.where(above >= start, visible, visible[:, -1:])
    np.put_along_axis(seen, visible, True, axis=1)
    return seen


@dataclass
class ForwardPass:
    """One forward pass over rows, and where their keys and values go.

    Row ``source[i]`` is written to flat position ``target[i]`` of the buffers; ``source`` None
    means row i. ``calls`` counts how often each layer has attended: one that does so twice has
    other values the second time.
    """

    cache: TreeCache
    target: Tensor
    source: Tensor | None
    pieces: Sequence[RowSpan | PaddedRows]
    calls: Counter[int] = field(default_factory=Counter)
    _elsewhere: dict[torch.device, ForwardPass] = field(default_factory=dict, repr=False)

    def to(self, device: torch.device) -> ForwardPass:
        """The pass with its indices on ``device``, made once: for layers on another card."""
        if device == self.target.device:
            return self
        if device not in self._elsewhere:
            target, source = (
                self.target.to(device),
                None if self.source is None else self.source.to(device),
            )
            self._elsewhere[device] = ForwardPass(
                self.cache, target, source, [piece.to(device) for piece in self.pieces]
            )
        return self._elsewhere[device]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        """Attention of query (1, heads, rows, d) to the buffers of a layer: (rows, heads, d)."""
        count, heads = query.shape[2], query.shape[1]
        if len(self.pieces) == 1 and self.pieces[0].holds_in_order(count):
            return self.pieces[0].attend(query, keys, values, rule)
        out = query.new_empty(count, heads, values.shape[3])
        for piece in self.pieces:
            out[piece.rows] = piece.attend(query, keys, values, rule)
        return out


def _free_memory(card: torch.device) -> int:
    """Bytes of ``card`` that tensors do not hold, those that torch keeps for later among them."""
    return (
        torch.cuda.mem_get_info(card)[0]
        + torch.cuda.memory_reserved(card)
        - torch.cuda.memory_allocated(card)
    )


class PaddedRows:
    """Several spans in one kernel call, padded to the most rows and keys that one of them has: on a
    GPU.

    ``rows`` are those of the pass, all of a span together, ``spans`` which span each belongs to (0,
    0, 1, 1, 1, 2 …), ``questions`` whose keys each span reads. A row sees the ``prompts`` first
    keys and ``visible`` (rows, depth), from ``positions`` backwards. ``causal``: each span is the
    beginning of a prompt. ``size``: spans, rows and keys of the call, padding included.
    """

    def __init__(
        self,
        rows: Ints,
        spans: Ints,
        questions: Ints,
        prompts: Ints,
        positions: Ints,
        visible: Ints,
        *,
        causal: bool,
        device: torch.device,
    ) -> None:
        rank = np.arange(len(spans)) - np.searchsorted(spans, spans, side="left")
        self._height = int(rank.max()) + 1
        self._keys = int(visible.max()) + 1
        self._seen = prompts, positions, visible
        self._causal = causal
        low, lanes = int(questions[0]), int(questions[-1] - questions[0]) + 1
        # Reading a few questions that have no rows is cheaper than a copy of the others' keys.
        dense = bool((np.diff(questions) > 0).all()) and lanes <= 2 * len(questions)
        self._lanes = lanes if dense else len(questions)
        self.size = self._lanes, self._height, self._keys
        self._questions = slice(low, low + lanes) if dense else to_device(questions, device)
        self._lane = questions[spans] - low if dense else spans
        self._rank = rank
        self._ordered = np.array_equal(rows, np.arange(len(rows)))
        self.rows = to_device(rows, device)
        self._where = tuple(to_device(index, device) for index in (self._lane, rank))
        self._masks: dict[tuple[Window | None, int], Tensor] = {}

    def to(self, device: torch.device) -> PaddedRows:
        """The same spans with their indices and masks on ``device``."""
        other = copy(self)
        other.rows, other._masks = self.rows.to(device), {}
        other._where = tuple(index.to(device) for index in self._where)
        other._questions = (
            self._questions if isinstance(self._questions, slice) else self._questions.to(device)
        )
        return other

    def holds_in_order(self, count: int) -> bool:
        """Whether these are all ``count`` rows of the pass, in their order."""
        return self._ordered and len(self.rows) == count

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        """Attention of this piece's rows of query (1, heads, rows of the pass, d): (rows, heads,
        d).
        """
        heads, shared, window = query.shape[1], keys.shape[2], rule.window
        lane, rank = self._where
        own = (
            query[0] if self.holds_in_order(query.shape[2]) else query[0].index_select(1, self.rows)
        )
        # Query heads of one key head lie side by side, so that they are also rows of one head.
        padded = query.new_zeros(self._lanes, heads, self._height, query.shape[3])
        padded[lane, :, rank] = own.transpose(0, 1)
        key, value = (
            buffer[:, : self._keys][self._questions].transpose(1, 2) for buffer in (keys, values)
        )
        if not rule.plain:
            result = rule.attend(padded, key, value, self._mask(window, query, 1))
        elif self._causal and (window is None or self._height <= window.size):
            result = functional.scaled_dot_product_attention(
                padded, key, value, is_causal=True, scale=rule.scaling, enable_gqa=heads != shared
            )
        else:
            # The fused kernel that takes masks does not share key heads among query heads.
            group = heads // shared
            joined = functional.scaled_dot_product_attention(
                padded.view(self._lanes, shared, group * self._height, -1),
                key,
                value,
                attn_mask=self._mask(window, query, group),
                scale=rule.scaling,
            )
            result = joined.reshape(self._lanes, heads, self._height, -1)
        return result[lane, :, rank]

    def _mask(self, window: Window | None, like: Tensor, group: int) -> Tensor:
        """What to add to the scores: (lanes, 1, group x rows, keys). What padded rows see does not
        matter.
        """
        if (window, group) in self._masks:
            return self._masks[window, group]
        prompts, positions, visible = self._seen
        # The kernel copies masks whose rows do not begin at multiples of eight.
        spread = np.zeros((self._lanes, self._height, -(-self._keys // 8) * 8), dtype=bool)
        spread[self._lane, self._rank, : self._keys] = seen_by_rows(
            self._keys, prompts, positions, visible, window
        )
        bias = torch.zeros(spread.shape, dtype=like.dtype, device=like.device)
        bias.masked_fill_(~to_device(spread, like.device), -torch.inf)
        self._masks[window, group] = bias[:, None].repeat(1, 1, group, 1)[..., : self._keys]
        return self._masks[window, group]


def padded_nodes(
    questions: Ints, positions: Ints, lengths: Ints, visible: Ints, device: torch.device
) -> PaddedRows:
    """Nodes in one piece; the arguments are those of `node_spans`."""
    present, spans = np.unique(questions, return_inverse=True)
    rows, prompts = np.arange(len(questions)), lengths[questions]
    return PaddedRows(
        rows, spans, present, prompts, positions, visible, causal=False, device=device
    )


def padded_prompts(spans: Sequence[RowSpan], device: torch.device) -> list[PaddedRows]:
    """Spans of prompts in as few pieces as keep padding below the real work and masks within
    bounds.
    """
    pieces = []
    for causal in (True, False):
        for alike in _alike([span for span in spans if (span.positions[0] == 0) == causal]):
            alike.sort(key=lambda span: span.question)
            rows = np.concatenate([np.arange(span.first, span.last) for span in alike])
            numbers = np.repeat(np.arange(len(alike)), [span.last - span.first for span in alike])
            questions = np.array([span.question for span in alike])
            shape = (
                np.concatenate([getattr(span, name) for span in alike])
                for name in ("prompts", "positions", "visible")
            )
            pieces.append(
                PaddedRows(rows, numbers, questions, *shape, causal=causal, device=device)
            )
    return pieces


def _alike(spans: Sequence[RowSpan]) -> Iterator[list[RowSpan]]:
    """Spans put together, longest first, while at least half of their padded rows times keys are
    real.
    """
    alike: list[RowSpan] = []
    real = height = keys = 0
    for span in sorted(spans, key=lambda span: span.first - span.last):
        # A kernel takes sixteen rows at once, whether they are there or not.
        rows = max(span.last - span.first, 16)
        wide = max(keys, span.keys)
        cells = (len(alike) + 1) * max(height, rows) * wide
        if alike and (cells > _CELLS or cells > 2 * (real + rows * span.keys)):
            yield alike
            alike, real, height, wide = [], 0, 0, span.keys
        alike.append(span)
        real, height, keys = real + rows * span.keys, max(height, rows), wide
    if alike:
        yield alike


def pads(device: torch.device) -> bool:
    """Whether rows are better run by `PaddedRows` there: few large kernels rather than many small
    ones.
    """
    return device.type != "cpu"


def node_spans(questions: Ints, positions: Ints, lengths: Ints, visible: Ints) -> list[RowSpan]:
    """One span per question, of rows sorted by question, at ``positions``, that see their
    ``visible`` nodes.

    Most nodes of a large trie are on the path of no row: where no more than half of a question's
    keys are seen, these alone are read.
    """
    present, firsts = np.unique(questions, return_index=True)
    spans = []
    for question, first, last in np.stack(
        [present, firsts, np.append(firsts[1:], len(questions))], axis=1
    ).tolist():
        own, prompt, places = visible[first:last], int(lengths[question]), None
        keys = int(own.max()) + 1
        nodes, rank = np.unique(own, return_inverse=True)
        if 2 * (prompt + len(nodes)) <= keys:
            own, keys = prompt + rank.reshape(own.shape), prompt + len(nodes)
            places = torch.from_numpy(np.concatenate([np.arange(prompt), nodes]))
        prompts = np.full(last - first, prompt)
        spans.append(
            RowSpan(question, first, last, keys, positions[first:last], prompts, own, places)
        )
    return spans


class TreeCache:
    """Keys and values of a batch: per layer a buffer of shape (questions, capacity, key heads, d).

    ``padded`` says that passes are made of `PaddedRows` pieces. The ``layers`` lie on the
    ``cards``; a batch that would fill these is refused before work is wasted on it.
    """

    def __init__(
        self,
        lengths: Ints,
        capacity: int,
        padded: bool,
        layers: int = 1,
        cards: Sequence[torch.device] = (),
    ) -> None:
        self.lengths = lengths
        self.padded = padded
        self._layers, self._cards = layers, cards
        self.used = lengths.copy()
        self.capacity = capacity
        self._keys: dict[tuple[int, int], Tensor] = {}
        self._values: dict[tuple[int, int], Tensor] = {}

    @property
    def attended(self) -> bool:
        """Whether any layer has stored keys: one whose class does its own attention never does."""
        return bool(self._keys)

    def reserve(self, questions: Ints) -> Ints:
        """New places in the rows of ``questions`` (sorted), one each: their indices within the
        row.
        """
        first = np.searchsorted(questions, questions, side="left")
        places: Ints = self.used[questions] + np.arange(len(questions)) - first
        np.maximum.at(self.used, questions, places + 1)
        if self.used.max() > self.capacity:
            # On a card room that nobody uses takes memory all the same: half of what the nodes had,
            # no more.
            room = self.capacity - (int(self.lengths.max()) if self.padded else 0)
            self._widen(int(self.used.max()) + room // 2)
        return places

    def store(
        self,
        layer: tuple[int, int],
        key: Tensor,
        value: Tensor,
        target: Tensor,
        source: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Write rows of key and value (1, key heads, rows, d) of a layer's n-th call; returns its
        two buffers.
        """
        for buffers, fresh in ((self._keys, key), (self._values, value)):
            rows = fresh[0].transpose(0, 1)
            if not self._keys:
                self._check_room(rows[:1], self.capacity)
            if layer not in buffers:
                buffers[layer] = self._buffer(rows, rows.shape[1:])
            rows = rows if source is None else rows.index_select(0, source)
            buffers[layer].view(-1, *rows.shape[1:]).index_copy_(0, target, rows)
        return self._keys[layer], self._values[layer]

    def _check_room(self, like: Tensor, capacity: int) -> None:
        """Refuse a ``capacity`` of places like a row of keys in each layer that would leave passes
        no room.

        Fewer rows at once would not help, fewer questions do.
        """
        if len(self.lengths) > 1 and self._cards:
            held = sum(
                buffer.nbytes
                for buffers in (self._keys, self._values)
                for buffer in buffers.values()
            )
            needed = 2 * self._layers * len(self.lengths) * capacity * like.nbytes
            if needed > _FILLED * (held + sum(map(_free_memory, self._cards))):
                raise TooManyQuestionsError(
                    f"out of memory: keys and values of {len(self.lengths)} questions"
                )

    def _widen(self, capacity: int) -> None:
        used, wider = np.minimum(self.used, self.capacity).tolist(), capacity - self.capacity
        for old in [*self._keys.values()][:1]:
            self._check_room(old[:1, :1], capacity)
        self.capacity = capacity
        for buffers in (self._keys, self._values):
            for layer, old in buffers.items():
                if self.padded:
                    buffers[layer] = functional.pad(old, (0, 0, 0, 0, 0, wider))
                    continue
                buffers[layer] = self._buffer(old, old.shape[2:])
                for question, count in enumerate(
                    used
                ):  # no more, so that pages that nobody needs are not touched
                    buffers[layer][question, :count] = old[question, :count]

    def _buffer(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        whole = (len(self.lengths), self.capacity, *shape)
        if (
            self.padded
        ):  # these passes read places that were never written, masked: they must be finite
            return like.new_zeros(whole)
        if like.device.type != "cpu":
            return like.new_empty(whole)
        # Pages of its own, given back when the buffer is: those that nobody touches take no memory.
        pages = mmap.mmap(-1, math.prod(whole) * like.element_size())
        return torch.frombuffer(pages, dtype=like.dtype).view(whole)


_HARMLESS = frozenset({"dropout", "position_ids"})
"""What models hand to their attention that asks nothing of it: no weight is dropped in evaluation
mode, and keys carry their positions."""
_running: ContextVar[ForwardPass] = ContextVar("_running")


@contextmanager
def running(run: ForwardPass) -> Iterator[None]:
    """Within the block, attention is that of this pass. Not every layer hands on what its model was
    given for it.
    """
    token = _running.set(run)
    try:
        yield
    finally:
        _running.reset(token)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    if is_causal is False:
        others["is_causal=False"] = True
    asked = {name for name, value in others.items() if value is not None and value is not False}
    if unknown := sorted(asked - _HARMLESS):
        raise BeamUQError(
            f"its attention is handed {', '.join(unknown)}, of which tree attention knows nothing"
        )
    run, layer = _running.get().to(query.device), int(module.layer_idx)
    rule = AttentionRule(scaling, _window(module, sliding_window), softcap, s_aux)
    keys, values = run.cache.store((layer, run.calls[layer]), key, value, run.target, run.source)
    run.calls[layer] += 1
    return run.attend(query, keys, values, rule)[None], None


def _window(module: Any, sliding_window: int | None) -> Window | None:
    """How far back a layer sees: the window it hands over, or, where only its mask shows it, that
    of its config.
    """
    config = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    kind = kinds[module.layer_idx] if kinds else None
    if kind == "chunked_attention":
        return Window(int(config.attention_chunk_size), chunked=True)  # type: ignore[union-attr]
    if sliding_window is None and kind == "sliding_attention":
        sliding_window = config.sliding_window  # type: ignore[union-attr]
    return None if sliding_window is None else Window(int(sliding_window))


AttentionInterface.register(NAME, _attention)


@contextmanager
def tree_attention(model: PreTrainedModel) -> Iterator[torch.nn.Module]:
    """The text decoder of ``model``, with tree attention in place for the time of the block."""
    decoder = text_decoder(model)
    with attention(decoder, NAME), _kernels(next(decoder.parameters()).device):
        yield decoder


@contextmanager
def attention(decoder: torch.nn.Module, name: str) -> Iterator[None]:
    """``decoder`` with the attention that transformers knows by ``name``, for the time of the
    block.
    """
    config: Any = decoder.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _kernels(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, attention without cuDNN: it plans anew, on the host, for every shape, and decoding
    changes shapes.
    """
    others = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(others) if device.type == "cuda" else nullcontext()
