"""Reduce a step's next-token distributions to the few numbers that policies query.

Logits are made a chunk of rows at a time, in float32, and never leave the device: only token lists,
draws, masses and entropies do.

A logit of -inf is a probability of 0, a legal one: models mask entries that pad their vocabulary.
So is a finite logit so low that its probability is below the least float64 (log p < -744.4), as the
least number of a dtype, another usual mask. Such a token is in no list, is never drawn, and adds
nothing to an entropy or a mass. NaN, +inf and rows of nothing but -inf are faults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.device_copies import to_device
from beamuq.decoding.output_layer import OutputLayer
from beamuq.decoding.random_numbers import gumbel_max
from beamuq.errors import BeamUQError

ALTERNATIVES = 10
_BLOCK = 256
_LOGITS_ON_CPU = 1 << 25
_LOGITS_ON_CARD = 1 << 28  # each pass over the output layer costs round trips of the host
_CACHED = 1 << 19
_NEVER = torch.finfo(torch.float32).min
"""Stands for a log-probability of -inf: times a probability of 0 it is 0, and not NaN."""
LEAST = math.log(5e-324)
"""Log-probabilities below it have a probability of 0, also in float64."""


@dataclass(frozen=True)
class ProbabilityEdits:
    """Factors on probabilities: ``factors[i]`` on that of ``tokens[i]`` after ``nodes[i]``."""

    nodes: Ints
    tokens: Ints
    factors: Floats


@dataclass
class DistributionQuery:
    """A policy's question about nodes of the trie; `NextTokenDistributions.read` answers it.

    With ``top`` = k > 0, ``tokens`` and ``logprobs`` become lists, shape (nodes, k'), that hold at
    least the k most probable tokens and the k most probable ones that do not stop, most probable
    first, ties by token id, -inf beyond the end of a short list. With ``keys`` or ``uniforms``, one
    per node, they become draws, shape (nodes,), from the distribution sharpened to
    1/``temperature``, cut to ``top_k`` and ``top_p``, and edited; ``policy_logprobs`` is before the
    edits. Keys draw independently, by Gumbel numbers hashed of key and token (`random_numbers`).
    Uniforms invert the distribution function in the order of token ids, and ``positions``, in [0,
    1), say where in its token's interval each fell. ``masses`` asks for the sums of the edited
    probabilities (nodes,), ``statistics`` for entropies (nodes,) in nats and for the most probable
    tokens (nodes, ALTERNATIVES).
    """

    nodes: Ints
    top: int = 0
    statistics: bool = False
    keys: Ints | None = None
    uniforms: Floats | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    edits: ProbabilityEdits | None = None
    masses: Floats | None = None
    tokens: Ints = field(init=False)
    logprobs: Floats = field(init=False)
    policy_logprobs: Floats = field(init=False)
    positions: Floats = field(init=False)
    entropies: Floats = field(init=False)
    top_tokens: Ints = field(init=False)
    top_logprobs: Floats = field(init=False)

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn."""
        return self.keys is not None or self.uniforms is not None


class UndefinedDistributionError(BeamUQError):
    """Logits after some ``nodes`` that make no distribution; ``fault`` says what they hold."""

    def __init__(self, model: str, nodes: Ints, fault: str) -> None:
        self.model = model
        self.nodes = nodes
        self.fault = fault
        super().__init__(
            f"{model}: its logits {fault} after {len(nodes)} prefixes; {FIX_OF_LOGITS}"
        )


FIX_OF_LOGITS = "use dtype float32, or mend the weights"


def fault_of_logits(logits: torch.Tensor) -> str:
    """What makes ``logits`` (…, vocabulary) no distribution, as a verb and its object; "": none.

    A logit of -inf is legal, as long as its row has one that is finite.
    """
    if logits.isnan().any():
        return "are NaN"
    if logits.isposinf().any():
        return "hold +inf"
    if logits.isneginf().all(dim=-1).any():
        return "are nothing but -inf"
    return ""


def log_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of float32 ``logits`` (…, vocabulary); a probability of 0 is -inf."""
    distribution = functional.log_softmax(logits, dim=-1)
    return distribution.masked_fill(distribution < LEAST, -torch.inf)


class HostTransfers:
    """Numbers on their way from the device to the host, which waits for all of them once."""

    def __init__(self) -> None:
        self._waiting: list[tuple[NDArray[Any], Any, torch.Tensor]] = []

    def add(self, array: NDArray[Any], place: Ints | slice, numbers: torch.Tensor) -> None:
        """Let ``array[place]``, of 64 bits, become ``numbers``: both integers or both floats."""
        wide = numbers.double() if numbers.is_floating_point() else numbers.long()
        self._waiting.append((array, place, wide))

    def fetch(self) -> None:
        """Fill the arrays, at least one."""
        flat = [numbers.reshape(-1).view(torch.int64) for _, _, numbers in self._waiting]
        bits = torch.cat(flat).cpu().numpy()
        end = 0
        for array, place, numbers in self._waiting:
            start = end
            end += numbers.numel()
            array[place] = bits[start:end].view(array.dtype).reshape(numbers.shape)
        self._waiting = []


@dataclass(eq=False)
class _Chunk:
    """The distributions of consecutive ``nodes``, of which the first is number ``start`` of all.

    ``logprobs`` and ``logits`` are (nodes, vocabulary), ``probabilities`` the same with zeros up to
    a whole number of blocks. ``undefined`` (nodes,) says where the log-probabilities are NaN in a
    whole row, as log_softmax makes of a NaN, of +inf, or of -inf alone.
    """

    nodes: Ints
    start: int
    logprobs: torch.Tensor
    logits: torch.Tensor
    undefined: torch.Tensor
    probabilities: torch.Tensor = field(init=False)

    @property
    def end(self) -> int:
        return self.start + len(self.logprobs)

    @property
    def rows(self) -> slice:
        return slice(self.start, self.end)


@dataclass
class _NumbersOfNodes:
    """What is read of a step's distributions, on the host: arrays over all its nodes.

    Queries ask for a list or an entropy of some (``with_list``, ``with_entropy``). Lists ``tokens``
    and ``logprobs`` (nodes, width) serve queries of at most ``top`` tokens; a list may be
    ``doubtful``, a distribution ``undefined``. ``entropies`` are in nats.
    """

    top: int
    with_list: Bools
    with_entropy: Bools
    tokens: Ints
    logprobs: Floats
    entropies: Floats
    doubtful: Ints
    undefined: Ints

    @property
    def width(self) -> int:
        return int(self.tokens.shape[1])

    def ask_for(self, query: DistributionQuery, rows: Ints) -> None:
        """Note what a query wants of its nodes, these ``rows``, and make room for its draws."""
        self.with_list[rows] |= query.top > 0 or query.statistics
        self.with_entropy[rows] |= query.statistics
        if query.draws:
            query.tokens = np.zeros(len(rows), dtype=np.int64)
            query.logprobs = np.zeros(len(rows))
            query.policy_logprobs = np.zeros(len(rows))
            query.positions = np.zeros(len(rows))

    def answer(self, query: DistributionQuery, rows: Ints) -> None:
        """Give a query the lists and statistics of its nodes, which are these ``rows``."""
        if query.top:
            query.tokens = self.tokens[rows]
            query.logprobs = self.logprobs[rows]
        if query.statistics:
            query.entropies = self.entropies[rows]
            query.top_tokens = self.tokens[rows, :ALTERNATIVES]
            query.top_logprobs = self.logprobs[rows, :ALTERNATIVES]


class NextTokenDistributions:
    """Turns the logits of a model's output layer into the distribution that policies see.

    ``stops`` says which tokens of the vocabulary are ``stop_ids``. ``merge_stop_tokens`` are tokens
    that count as one: the first of them carries the sum of their probabilities.
    """

    def __init__(
        self, output: OutputLayer, stop_ids: frozenset[int], merge_stop_tokens: frozenset[int]
    ) -> None:
        self._output = output
        self.vocabulary = output.vocabulary
        if stop_ids and not 0 <= min(stop_ids) <= max(stop_ids) < self.vocabulary:
            raise BeamUQError(
                f"a stop token lies outside the model's 0 … {self.vocabulary - 1}: "
                f"{sorted(stop_ids)[-1]}"
            )
        device = output.device
        logits_at_once = _LOGITS_ON_CPU if device.type == "cpu" else _LOGITS_ON_CARD
        self.most_rows = max(1, logits_at_once // self.vocabulary)
        self.stops: Bools = np.zeros(self.vocabulary, dtype=bool)
        self.stops[list(stop_ids)] = True
        self._stop_count = len(stop_ids)
        self._stopping = to_device(self.stops, device)
        self._merged = to_device(np.array(sorted(merge_stop_tokens), dtype=np.int64), device)

    def read(
        self,
        states: torch.Tensor,
        nodes: Ints,
        queries: Sequence[DistributionQuery],
        rows_at_once: int,
    ) -> None:
        """Answer ``queries`` about ``nodes`` (sorted) by their last hidden states (nodes, width).

        Raises UndefinedDistributionError if the model gives no distribution after some node: logits
        that are NaN, +inf, or nothing but -inf.
        """
        rows_of_queries = [np.searchsorted(nodes, query.nodes) for query in queries]
        numbers = self._room_for(nodes, queries)
        for query, rows in zip(queries, rows_of_queries, strict=True):
            numbers.ask_for(query, rows)
        for chunk in self._distributions(states, nodes, rows_at_once):
            transfers = HostTransfers()
            transfers.add(numbers.undefined, chunk.rows, chunk.undefined)
            self._add_lists(numbers, chunk, transfers)
            chunk.probabilities = self._weights(chunk.logprobs)
            if numbers.with_entropy[chunk.rows].any():
                transfers.add(numbers.entropies, chunk.rows, self._entropies(chunk))
            for query, rows in zip(queries, rows_of_queries, strict=True):
                inside = np.flatnonzero((rows >= chunk.start) & (rows < chunk.end))
                if len(inside) and (query.draws or query.masses is not None):
                    self._draw_or_weigh(query, inside, rows[inside] - chunk.start, chunk, transfers)
            transfers.fetch()
            self._check_defined(numbers.undefined, chunk)
            self._replace_doubtful_lists(numbers, chunk)
        numbers.logprobs[numbers.logprobs <= _NEVER] = -np.inf
        for query, rows in zip(queries, rows_of_queries, strict=True):
            numbers.answer(query, rows)

    def _room_for(self, nodes: Ints, queries: Sequence[DistributionQuery]) -> _NumbersOfNodes:
        """Arrays for what ``queries`` want to know about ``nodes``."""
        tops = [max(query.top, ALTERNATIVES if query.statistics else 0) for query in queries]
        top = min(max(tops, default=0), self.vocabulary)
        width = min(self.vocabulary, top + min(top, self._stop_count))
        return _NumbersOfNodes(
            top=top,
            with_list=np.zeros(len(nodes), dtype=bool),
            with_entropy=np.zeros(len(nodes), dtype=bool),
            tokens=np.zeros((len(nodes), width), dtype=np.int64),
            logprobs=np.full((len(nodes), width), -np.inf),
            entropies=np.zeros(len(nodes)),
            doubtful=np.zeros(len(nodes), dtype=np.int64),
            undefined=np.zeros(len(nodes), dtype=np.int64),
        )

    def _add_lists(self, numbers: _NumbersOfNodes, chunk: _Chunk, transfers: HostTransfers) -> None:
        """Send the lists of a chunk's nodes to the host, and which of them are doubtful."""
        rows = np.flatnonzero(numbers.with_list[chunk.rows])
        if len(rows):
            tokens, logprobs, doubtful = self._top(
                _rows(chunk.logprobs, rows), numbers.top, numbers.width
            )
            transfers.add(numbers.tokens, chunk.start + rows, tokens)
            transfers.add(numbers.logprobs, chunk.start + rows, logprobs)
            transfers.add(numbers.doubtful, chunk.start + rows, doubtful)

    def _entropies(self, chunk: _Chunk) -> torch.Tensor:
        """The entropies of a chunk's distributions, in nats."""
        possible = chunk.probabilities[:, : self.vocabulary]
        entropies: torch.Tensor = -torch.linalg.vecdot(possible, chunk.logprobs)
        return entropies

    def _replace_doubtful_lists(self, numbers: _NumbersOfNodes, chunk: _Chunk) -> None:
        """Make those lists of a chunk anew that `_top` could not promise to be right."""
        doubtful = np.flatnonzero(numbers.doubtful[chunk.rows])
        if not len(doubtful):
            return
        tokens, logprobs = self._sorted(_rows(chunk.logprobs, doubtful), numbers.top, numbers.width)
        transfers = HostTransfers()
        transfers.add(numbers.tokens, chunk.start + doubtful, tokens)
        transfers.add(numbers.logprobs, chunk.start + doubtful, logprobs)
        transfers.fetch()

    def lookup(self, states: torch.Tensor, tokens: Sequence[int], rows_at_once: int) -> Floats:
        """Log-probabilities of ``tokens`` after ``states`` (nodes, width): (nodes, tokens).

        A probability of 0 is -inf. Raises as `read`, with the rows of ``states`` as nodes.
        """
        columns = torch.tensor(tokens, dtype=torch.long, device=self._output.device)
        logprobs = np.zeros((len(states), len(tokens)))
        undefined = np.zeros(len(states), dtype=np.int64)
        for chunk in self._distributions(states, np.arange(len(states)), rows_at_once):
            transfers = HostTransfers()
            transfers.add(undefined, chunk.rows, chunk.undefined)
            transfers.add(logprobs, chunk.rows, chunk.logprobs[:, columns])
            transfers.fetch()
            self._check_defined(undefined, chunk)
        logprobs[logprobs <= _NEVER] = -np.inf
        return logprobs

    def _check_defined(self, undefined: Ints, chunk: _Chunk) -> None:
        """Refuse a chunk where ``undefined`` (all nodes,) names some of its nodes."""
        bad = np.flatnonzero(undefined[chunk.rows])
        if len(bad):
            fault = fault_of_logits(_rows(chunk.logits, bad))
            raise UndefinedDistributionError(self._output.name, chunk.nodes[bad], fault)

    def _draw_or_weigh(
        self,
        query: DistributionQuery,
        inside: Ints,
        rows: Ints,
        chunk: _Chunk,
        transfers: HostTransfers,
    ) -> None:
        """Draws or masses for the queried nodes number ``inside``, the ``rows`` of a chunk."""
        distinct, row = np.unique(rows, return_inverse=True)
        place = to_device(row.astype(np.int64), chunk.logprobs.device)
        plain = _rows(chunk.logprobs, distinct)
        is_shaped = query.temperature != 1.0 or query.top_k > 0 or query.top_p < 1.0
        shaped = plain
        if is_shaped:
            shaped = _shaped(plain, query.temperature, query.top_k, query.top_p)
        if query.keys is None or query.masses is not None:
            weights = self._weights(shaped) if is_shaped else _rows(chunk.probabilities, distinct)
            weights = _edited(weights, query.edits, chunk.nodes[distinct], logarithms=False)
        if query.masses is not None:
            transfers.add(query.masses, inside, weights.sum(dim=-1, dtype=torch.float64)[place])
        if query.keys is not None:
            edited = _edited(shaped, query.edits, chunk.nodes[distinct], logarithms=True)
            token = gumbel_max(edited, row.astype(np.int64), query.keys[inside])
        elif query.uniforms is not None:
            token, position = _inverse(
                weights, place, to_device(query.uniforms[inside], weights.device)
            )
            # Beyond it lies only what an undefined distribution gives; it is refused afterwards.
            token = token.clamp_max(self.vocabulary - 1)
            transfers.add(query.positions, inside, position)
        else:
            return
        transfers.add(query.tokens, inside, token)
        transfers.add(query.logprobs, inside, plain[place, token])
        transfers.add(query.policy_logprobs, inside, shaped[place, token])

    def _distributions(self, states: torch.Tensor, nodes: Ints, most_rows: int) -> Iterator[_Chunk]:
        """The distributions after ``states``, few enough at a time to stay in a CPU's cache."""
        most_rows = min(most_rows, self.most_rows)
        few = most_rows if states.is_cuda else max(1, _CACHED // self.vocabulary)
        for first in range(0, len(states), most_rows):
            logits = self._output.logits(states[first : first + most_rows])
            for start in range(0, len(logits), few):
                few_logits = logits[start : start + few]
                logprobs = functional.log_softmax(few_logits, dim=-1)
                undefined = logprobs[:, 0].isnan()
                torch.threshold_(logprobs, LEAST, _NEVER)
                if len(self._merged):
                    together = logprobs[:, self._merged].logsumexp(dim=-1, keepdim=True)
                    logprobs[:, self._merged] = _NEVER
                    logprobs[:, self._merged[:1]] = together
                at_once = nodes[first + start :][: len(logprobs)]
                yield _Chunk(at_once, first + start, logprobs, few_logits, undefined)

    def _weights(self, distribution: torch.Tensor) -> torch.Tensor:
        """Probabilities, with zeros up to a whole number of blocks."""
        beyond = -self.vocabulary % _BLOCK
        return functional.pad(distribution.exp(), (0, beyond)) if beyond else distribution.exp()

    def _top(
        self, distribution: torch.Tensor, top: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Lists of ``width`` tokens, their log-probabilities, and which lists are doubtful.

        They are by falling probability, then by id. `_sorted` must replace a doubtful one: which of
        several equal tokens topk lets in at the edge is unspecified, and stops may crowd out the
        others.
        """
        values, tokens = distribution.topk(min(width + 1, self.vocabulary))
        tokens, order = tokens.sort(dim=-1)
        values, order = values.gather(1, order).sort(dim=-1, descending=True, stable=True)
        tokens = tokens.gather(1, order)
        doubtful = torch.zeros(len(distribution), dtype=torch.bool, device=distribution.device)
        if values.shape[1] > width:
            doubtful |= (values[:, -1] == values[:, -2]) & (values[:, -1] > _NEVER)
            if self._stop_count > top:
                doubtful |= (~self._stopping[tokens[:, :width]]).sum(dim=-1) < top
        return tokens[:, :width], values[:, :width], doubtful

    def _sorted(
        self, distribution: torch.Tensor, top: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Lists as `DistributionQuery` promises them, from the whole distributions."""
        ordered, ids = distribution.sort(dim=-1, descending=True, stable=True)
        going = ~self._stopping[ids]
        among_top = torch.arange(ids.shape[1], device=ids.device) < top
        in_list = among_top | (going & (going.cumsum(dim=-1) <= top))
        first = in_list.sort(dim=-1, descending=True, stable=True).indices[:, :width]
        beyond = ~in_list.gather(1, first)
        tokens = ids.gather(1, first).masked_fill(beyond, 0)
        return tokens, ordered.gather(1, first).masked_fill(beyond, _NEVER)


def _rows(table: torch.Tensor, rows: Ints) -> torch.Tensor:
    if np.array_equal(rows, np.arange(len(table))):
        return table
    return table.index_select(0, to_device(rows, table.device))


def _shaped(
    distribution: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> torch.Tensor:
    """Log-probabilities sharpened, cut to the ``top_k`` best tokens and to ``top_p``'s nucleus."""
    shaped = functional.log_softmax(distribution / temperature, dim=-1)
    if top_k:
        edge = shaped.topk(min(top_k, shaped.shape[1])).values[:, -1:]
        shaped = functional.log_softmax(shaped.masked_fill(shaped < edge, _NEVER), dim=-1)
    if top_p < 1.0:
        values, order = shaped.sort(dim=-1, descending=True, stable=True)
        before = values.double().exp().cumsum(dim=-1) - values.double().exp()
        outside = torch.zeros_like(shaped, dtype=torch.bool).scatter(1, order, before >= top_p)
        shaped = functional.log_softmax(shaped.masked_fill(outside, _NEVER), dim=-1)
    return shaped


def _edited(
    table: torch.Tensor, edits: ProbabilityEdits | None, nodes: Ints, logarithms: bool
) -> torch.Tensor:
    """``table``, weights of ``nodes`` (sorted) or their ``logarithms``; edited in a copy."""
    if edits is None:
        return table
    row = np.searchsorted(nodes, edits.nodes)
    in_table = (row < len(nodes)) & (nodes[np.minimum(row, len(nodes) - 1)] == edits.nodes)
    rows = to_device(row[in_table], table.device)
    tokens = to_device(edits.tokens[in_table], table.device)
    place = rows, tokens
    factors = to_device(edits.factors[in_table], table.device).to(table)
    edited = table.clone()
    edited[place] = edited[place] + factors.log() if logarithms else edited[place] * factors
    return edited


def _inverse(
    weights: torch.Tensor, rows: torch.Tensor, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens at ``uniforms`` of the inverse distribution functions of ``weights``' ``rows``.

    Tokens are in the order of their ids. Also where in their tokens' intervals the uniforms fell,
    from 0 to below 1. Sums are float64. Blocks of tokens are summed first, so that only one block
    per draw is accumulated token by token.
    """
    blocks = weights.view(len(weights), -1, _BLOCK)
    sums = blocks.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)[rows]
    target = uniforms[:, None] * sums[:, -1:]
    block = _first_above(sums, target)
    below = torch.where(block > 0, sums.gather(1, (block - 1).clamp_min(0)), 0.0)
    inside = blocks[rows, block[:, 0]].double().cumsum(dim=-1)
    token = _first_above(inside, target - below)
    before = torch.where(token > 0, inside.gather(1, (token - 1).clamp_min(0)), 0.0)
    position = (target - below - before) / (inside.gather(1, token) - before)
    return (block * _BLOCK + token)[:, 0], position.clamp(0.0, 1.0 - 2.0**-53)[:, 0]


def _first_above(sums: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Index of the first running sum above ``target``.

    Where rounding left none it is that of the last that still grew.
    """
    last = torch.searchsorted(sums, sums[:, -1:].contiguous(), right=False)
    last = last.clamp_max(sums.shape[1] - 1)  # NaN is beyond
    return torch.minimum(torch.searchsorted(sums, target, right=True), last)
