"""Attention over a tree: keys are a question's prompt and the nodes generated behind it.

A mask says which node descends from which.

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
from collections.abc import Iterator, Mapping, Sequence
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
"""The most rows times keys, padding included, of a call for spans of prompts: they fill a GPU."""
_FILLED = 0.85
"""The share of a card's free memory for keys and values; logits and hidden states need the rest."""


class TooManyQuestionsError(torch.OutOfMemoryError):
    """A batch's keys and values would not fit beside its passes."""


@dataclass(frozen=True)
class Window:
    """How far back rows see: ``size`` positions, their own included, or their chunk of ``size``."""

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
        """What torch's function does with a ``bias``, for other rules: (lanes, heads, rows, d)."""
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
    """Rows ``first`` … ``last`` - 1 of a pass, of one question; they see some of its ``keys``.

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
        """The tokens ``start`` … ``end`` - 1 of a question's prompt, in rows from ``first`` on."""
        positions = np.arange(start, end)
        return cls(
            question,
            first,
            first + end - start,
            end,
            positions,
            prompts=positions + 1,
            visible=positions[:, None],
        )

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
        """Attention of this piece's rows of query (1, heads, rows, d): (its rows, heads, d)."""
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
            beyond = window is not None and len(self.positions) > window.size
            if causal_by_name and self.positions[0] == 0 and not beyond:
                mask: tuple[int, Tensor | None] = 0, None
            else:
                mask = self._written_mask(window, like)
            self._masks[window, causal_by_name] = mask
        return self._masks[window, causal_by_name]

    def _written_mask(self, window: Window | None, like: Tensor) -> tuple[int, Tensor]:
        """The first key worth reading, and the mask of the keys from there on."""
        low = 0 if window is None else max(0, int(window.start(self.positions).min()))
        # Nodes lie behind the prompt in the order they were run, whatever their positions.
        low = min(low, int(self.prompts.min()))
        is_seen = seen_by_rows(self.keys, self.prompts, self.positions, self.visible, window)
        bias = np.where(is_seen[:, low:], np.float32(0), np.float32(-np.inf))
        return low, torch.from_numpy(bias).to(like.device, like.dtype)


def seen_by_rows(
    keys: int, prompts: Ints, positions: Ints, visible: Ints, window: Window | None
) -> Bools:
    """Which of ``keys`` keys each row sees of its prompt and path, within ``window``: (rows, keys).

    A row has a position, the length of its prompt, and the ``visible`` nodes of its path.
    """
    places = np.arange(keys)
    is_seen = places < prompts[:, None]
    if window is not None:
        start = window.start(positions)[:, None]
        is_seen &= places >= start
        # Even a row's own first tokens may fall out of sight; itself it always sees.
        above = positions[:, None] - np.arange(visible.shape[1])[::-1]
        visible = np.where(above >= start, visible, visible[:, -1:])
    np.put_along_axis(is_seen, visible, True, axis=1)
    return is_seen


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
            self._elsewhere[device] = ForwardPass(
                self.cache,
                self.target.to(device),
                None if self.source is None else self.source.to(device),
                [piece.to(device) for piece in self.pieces],
            )
        return self._elsewhere[device]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        """Attention of query (1, heads, rows, d) to the buffers of a layer: (rows, heads, d)."""
        _, heads, count, _ = query.shape
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
    """Several spans in one kernel call, padded to the most rows and keys of one: for a GPU.

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
        low = int(questions[0])
        lanes = int(questions[-1] - questions[0]) + 1
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
        other.rows = self.rows.to(device)
        other._masks = {}
        other._where = tuple(index.to(device) for index in self._where)
        other._questions = (
            self._questions if isinstance(self._questions, slice) else self._questions.to(device)
        )
        return other

    def holds_in_order(self, count: int) -> bool:
        """Whether these are all ``count`` rows of the pass, in their order."""
        return self._ordered and len(self.rows) == count

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        """Attention of this piece's rows of query (1, heads, rows, d): (its rows, heads, d)."""
        padded = self._padded(query)
        key = self._keys_of_lanes(keys)
        value = self._keys_of_lanes(values)
        if not rule.plain:
            result = rule.attend(padded, key, value, self._mask(rule.window, query, 1))
        elif self._causal and (rule.window is None or self._height <= rule.window.size):
            result = functional.scaled_dot_product_attention(
                padded,
                key,
                value,
                is_causal=True,
                scale=rule.scaling,
                enable_gqa=padded.shape[1] != key.shape[1],
            )
        else:
            result = self._attend_masked(padded, key, value, rule)
        lane, rank = self._where
        return result[lane, :, rank]

    def _padded(self, query: Tensor) -> Tensor:
        """This piece's rows of query (1, heads, rows, d), in lanes: (lanes, heads, height, d)."""
        if self.holds_in_order(query.shape[2]):
            rows = query[0]
        else:
            rows = query[0].index_select(1, self.rows)
        padded = query.new_zeros(self._lanes, query.shape[1], self._height, query.shape[3])
        lane, rank = self._where
        padded[lane, :, rank] = rows.transpose(0, 1)
        return padded

    def _keys_of_lanes(self, buffer: Tensor) -> Tensor:
        """The keys or values in ``buffer`` that each lane reads: (lanes, key heads, keys, d)."""
        return buffer[:, : self._keys][self._questions].transpose(1, 2)

    def _attend_masked(
        self, padded: Tensor, key: Tensor, value: Tensor, rule: AttentionRule
    ) -> Tensor:
        """Attention of padded rows under this piece's mask, by torch's function.

        The fused kernel that takes masks does not share key heads among query heads. But query
        heads of one key head lie side by side, so that they are also rows of one head.
        """
        shared = key.shape[1]
        group = padded.shape[1] // shared
        joined = functional.scaled_dot_product_attention(
            padded.view(self._lanes, shared, group * self._height, -1),
            key,
            value,
            attn_mask=self._mask(rule.window, padded, group),
            scale=rule.scaling,
        )
        return joined.reshape(self._lanes, padded.shape[1], self._height, -1)

    def _mask(self, window: Window | None, like: Tensor, group: int) -> Tensor:
        """What to add to the scores: (lanes, 1, group x rows, keys); for padded rows anything."""
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
    return PaddedRows(
        np.arange(len(questions)),
        spans,
        present,
        lengths[questions],
        positions,
        visible,
        causal=False,
        device=device,
    )


def padded_prompts(spans: Sequence[RowSpan], device: torch.device) -> list[PaddedRows]:
    """Spans of prompts in few pieces, with padding below the real work and masks within bounds."""
    beginnings = [span for span in spans if span.positions[0] == 0]
    continuations = [span for span in spans if span.positions[0] != 0]
    return [
        *(_padded_together(alike, True, device) for alike in _alike(beginnings)),
        *(_padded_together(alike, False, device) for alike in _alike(continuations)),
    ]


def _padded_together(spans: Sequence[RowSpan], causal: bool, device: torch.device) -> PaddedRows:
    """Spans in one piece; ``causal``: each of them is the beginning of a prompt."""
    spans = sorted(spans, key=lambda span: span.question)
    lengths = [span.last - span.first for span in spans]
    return PaddedRows(
        np.concatenate([np.arange(span.first, span.last) for span in spans]),
        np.repeat(np.arange(len(spans)), lengths),
        np.array([span.question for span in spans]),
        np.concatenate([span.prompts for span in spans]),
        np.concatenate([span.positions for span in spans]),
        np.concatenate([span.visible for span in spans]),
        causal=causal,
        device=device,
    )


def _alike(spans: Sequence[RowSpan]) -> Iterator[list[RowSpan]]:
    """Groups of spans, longest first, of whose padded rows times keys at least half are real."""
    alike: list[RowSpan] = []
    real = 0
    height = 0
    keys = 0
    for span in sorted(spans, key=lambda span: span.first - span.last):
        # A kernel takes sixteen rows at once, whether they are there or not.
        rows = max(span.last - span.first, 16)
        widest = max(keys, span.keys)
        cells = (len(alike) + 1) * max(height, rows) * widest
        if alike and (cells > _CELLS or cells > 2 * (real + rows * span.keys)):
            yield alike
            alike = []
            real = 0
            height = 0
            widest = span.keys
        alike.append(span)
        real += rows * span.keys
        height = max(height, rows)
        keys = widest
    if alike:
        yield alike


def pads(device: torch.device) -> bool:
    """Whether rows are better run as `PaddedRows` there: few large kernels, not many small ones."""
    return device.type != "cpu"


def node_spans(questions: Ints, positions: Ints, lengths: Ints, visible: Ints) -> list[RowSpan]:
    """One span per question, of rows sorted by question; a row sees its ``visible`` nodes.

    ``questions``, ``positions`` (rows,) and ``visible`` (rows, depth) are of the rows, ``lengths``
    of all questions' prompts.
    """
    present, firsts = np.unique(questions, return_index=True)
    lasts = np.append(firsts[1:], len(questions))
    spans = []
    for question, first, last in zip(
        present.tolist(), firsts.tolist(), lasts.tolist(), strict=True
    ):
        prompt = int(lengths[question])
        keys, nodes, places = _keys_to_read(prompt, visible[first:last])
        spans.append(
            RowSpan(
                question,
                first,
                last,
                keys,
                positions[first:last],
                prompts=np.full(last - first, prompt),
                visible=nodes,
                places=places,
            )
        )
    return spans


def _keys_to_read(prompt: int, visible: Ints) -> tuple[int, Ints, Tensor | None]:
    """How many keys of a question to read, its ``visible`` nodes among them, and where these lie.

    Most nodes of a large trie are on the path of no row: where no more than half of a question's
    keys are seen, these alone are read. Else no places are given: all are read in their order.
    """
    keys = int(visible.max()) + 1
    nodes, rank = np.unique(visible, return_inverse=True)
    if 2 * (prompt + len(nodes)) > keys:
        return keys, visible, None
    places = torch.from_numpy(np.concatenate([np.arange(prompt), nodes]))
    return prompt + len(nodes), prompt + rank.reshape(visible.shape), places


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
        self._layers = layers
        self._cards = cards
        self.used = lengths.copy()
        self.capacity = capacity
        self._keys: dict[tuple[int, int], Tensor] = {}
        self._values: dict[tuple[int, int], Tensor] = {}

    @property
    def attended(self) -> bool:
        """Whether any layer has stored keys: one whose class does its own attention never does."""
        return bool(self._keys)

    def reserve(self, questions: Ints) -> Ints:
        """New places in the rows of ``questions`` (sorted), one each: indices within the row."""
        first = np.searchsorted(questions, questions, side="left")
        places: Ints = self.used[questions] + np.arange(len(questions)) - first
        np.maximum.at(self.used, questions, places + 1)
        if self.used.max() > self.capacity:
            # On a card unused room takes memory all the same: half of what the nodes had, no more.
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
        """Write key and value (1, key heads, rows, d) of a layer's n-th call; gives its buffers."""
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
        """Refuse a ``capacity`` of places, like a row of keys, that leaves passes no room.

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
        """Give every question's row so many places."""
        used = np.minimum(self.used, self.capacity).tolist()
        more = capacity - self.capacity
        for buffer in [*self._keys.values()][:1]:
            self._check_room(buffer[:1, :1], capacity)
        self.capacity = capacity
        for buffers in (self._keys, self._values):
            for layer, narrow in buffers.items():
                if self.padded:
                    buffers[layer] = functional.pad(narrow, (0, 0, 0, 0, 0, more))
                    continue
                buffers[layer] = self._buffer(narrow, narrow.shape[2:])
                # No more than is used, so that pages that nobody needs are not touched.
                for question, count in enumerate(used):
                    buffers[layer][question, :count] = narrow[question, :count]

    def _buffer(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        """A buffer of the ``shape`` of a place's keys, of the type and device of ``like``."""
        whole = (len(self.lengths), self.capacity, *shape)
        if self.padded:
            # These passes read places that were never written, masked: they must be finite.
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
    """Within the block, attention is that of this pass.

    It is no argument: not every layer hands on what its model was given for its attention.
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
    **unread: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of an attention of its own."""
    if is_causal is False:
        unread["is_causal=False"] = True
    _check_harmless(unread)
    run = _running.get().to(query.device)
    layer = int(module.layer_idx)
    rule = AttentionRule(scaling, _window(module, sliding_window), softcap, s_aux)
    keys, values = run.cache.store((layer, run.calls[layer]), key, value, run.target, run.source)
    run.calls[layer] += 1
    return run.attend(query, keys, values, rule)[None], None


def _check_harmless(unread: Mapping[str, Any]) -> None:
    """Refuse what a model hands to its attention if it asks for something unknown."""
    unknown = {
        name for name, value in unread.items() if value is not None and value is not False
    } - _HARMLESS
    if unknown:
        raise BeamUQError(
            f"its attention is handed {', '.join(sorted(unknown))}, of which tree attention knows "
            "nothing"
        )


def _window(module: Any, sliding_window: int | None) -> Window | None:
    """How far back a layer sees: by the window it hands over, or that of its config's masks."""
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
    """Within the block ``decoder`` has the attention that transformers knows by ``name``."""
    config: Any = decoder.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _kernels(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, attention without cuDNN, which plans on the host for every new shape."""
    without_cudnn = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(without_cudnn) if device.type == "cuda" else nullcontext()
