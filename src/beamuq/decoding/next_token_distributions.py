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
_CHUNK = {
    "cpu": 1 << 25,
    "cuda": 1 << 28,
}  # logits at once; on a card each chunk costs host round trips
_CACHED = 1 << 19
_NEVER = torch.finfo(torch.float32).min
"""Stands for a log-probability of -inf: times a probability of 0 it is 0, and not NaN."""
LEAST = math.log(5e-324)
"""Log-probabilities below it have a probability of 0, also in float64."""


@dataclass(frozen=True)
class ProbabilityEdits:
    """Factors on single probabilities: that of ``tokens[i]`` after ``nodes[i]``, by
    ``factors[i]``.
    """

    nodes: Ints
    tokens: Ints
    factors: Floats


@dataclass
class DistributionQuery:
    """A policy's question about nodes of the trie, and the answer, filled in by
    `NextTokenDistributions.read`.

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
    """What makes ``logits`` (…, vocabulary) no distribution, as a verb and its object; "" where all
    of them are one.

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
    """Log-probabilities of float32 ``logits`` (…, vocabulary), -inf for each probability of 0 as
    this module has it.
    """
    distribution = functional.log_softmax(logits, dim=-1)
    return distribution.masked_fill(distribution < LEAST, -torch.inf)


class HostTransfers:
    """Numbers on their way from the device into arrays of the host, which waits for all of them
    once.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[NDArray[Any], Any, torch.Tensor]] = []

    def add(self, array: NDArray[Any], place: Ints | slice, numbers: torch.Tensor) -> None:
        """Let ``array[place]`` become ``numbers``; both hold integers or both floats, the array's
        of 64 bits.
        """
        self._waiting.append(
            (array, place, numbers.double() if numbers.is_floating_point() else numbers.long())
        )

    def fetch(self) -> None:
        """Fill the arrays, at least one."""
        bits = (
            torch.cat([numbers.reshape(-1).view(torch.int64) for _, _, numbers in self._waiting])
            .cpu()
            .numpy()
        )
        ends = np.cumsum([numbers.numel() for _, _, numbers in self._waiting])
        for (array, place, numbers), part in zip(
            self._waiting, np.split(bits, ends[:-1]), strict=True
        ):
            array[place] = part.view(array.dtype).reshape(numbers.shape)
        self._waiting = []


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
        self.most_rows = max(
            1, _CHUNK["cpu" if device.type == "cpu" else "cuda"] // self.vocabulary
        )
        self.stops: Bools = np.zeros(self.vocabulary, dtype=bool)
        self.stops[list(stop_ids)] = True
        self._stop_count, self._stopping = len(stop_ids), to_device(self.stops, device)
        self._merged = to_device(np.array(sorted(merge_stop_tokens), dtype=np.int64), device)

    def read(
        self,
        states: torch.Tensor,
        nodes: Ints,
        queries: Sequence[DistributionQuery],
        rows_at_once: int,
    ) -> None:
        """Answer ``queries`` about ``nodes`` (sorted), whose last hidden states are ``states``
        (nodes, width).

        Raises UndefinedDistributionError if the model gives no distribution after some node: logits
        that are NaN, +inf, or nothing but -inf.
        """
        rows = [np.searchsorted(nodes, query.nodes) for query in queries]
        listed, counted = np.zeros(len(nodes), dtype=bool), np.zeros(len(nodes), dtype=bool)
        for query, own in zip(queries, rows, strict=True):
            listed[own] |= query.top > 0 or query.statistics
            counted[own] |= query.statistics
            if query.draws:
                query.tokens, query.logprobs = (
                    np.zeros(len(own), dtype=np.int64),
                    np.zeros(len(own)),
                )
                query.policy_logprobs, query.positions = np.zeros(len(own)), np.zeros(len(own))
        top = max((max(query.top, ALTERNATIVES * query.statistics) for query in queries), default=0)
        top = min(top, self.vocabulary)
        width = min(self.vocabulary, top + min(top, self._stop_count))
        tokens, logprobs = (
            np.zeros((len(nodes), width), dtype=np.int64),
            np.full((len(nodes), width), -np.inf),
        )
        entropies, doubtful = np.zeros(len(nodes)), np.zeros(len(nodes), dtype=np.int64)
        nowhere = np.zeros(len(nodes), dtype=np.int64)
        for start, distribution, logits, undefined in self._distributions(states, rows_at_once):
            here, transfers = slice(start, start + len(distribution)), HostTransfers()
            transfers.add(nowhere, here, undefined)
            local = np.flatnonzero(listed[here])
            if len(local):
                listing = tokens, logprobs, doubtful
                for array, listed_rows in zip(
                    listing, self._top(_rows(distribution, local), top, width), strict=True
                ):
                    transfers.add(array, start + local, listed_rows)
            probabilities = self._weights(distribution)
            if counted[here].any():
                transfers.add(
                    entropies,
                    here,
                    -torch.linalg.vecdot(probabilities[:, : self.vocabulary], distribution),
                )
            for query, own in zip(queries, rows, strict=True):
                inside = np.flatnonzero((own >= start) & (own < start + len(distribution)))
                if len(inside) and (query.draws or query.masses is not None):
                    self._draw_or_weigh(
                        query,
                        inside,
                        own[inside] - start,
                        nodes[here],
                        distribution,
                        probabilities,
                        transfers,
                    )
            transfers.fetch()
            self._check_defined(nowhere[here], nodes[here], logits)
            local = np.flatnonzero(doubtful[here])
            if len(local):
                for array, listed_rows in zip(
                    (tokens, logprobs),
                    self._sorted(_rows(distribution, local), top, width),
                    strict=True,
                ):
                    transfers.add(array, start + local, listed_rows)
                transfers.fetch()
        logprobs[logprobs <= _NEVER] = -np.inf
        for query, own in zip(queries, rows, strict=True):
            if query.top:
                query.tokens, query.logprobs = tokens[own], logprobs[own]
            if query.statistics:
                query.entropies = entropies[own]
                query.top_tokens, query.top_logprobs = (
                    tokens[own, :ALTERNATIVES],
                    logprobs[own, :ALTERNATIVES],
                )

    def lookup(self, states: torch.Tensor, tokens: Sequence[int], rows_at_once: int) -> Floats:
        """Log-probabilities of ``tokens`` after ``states`` (nodes, width): (nodes, tokens); -inf:
        probability 0.

        Raises as `read`, with the rows of ``states`` as nodes.
        """
        columns = torch.tensor(tokens, dtype=torch.long, device=self._output.device)
        logprobs, nowhere = (
            np.zeros((len(states), len(tokens))),
            np.zeros(len(states), dtype=np.int64),
        )
        nodes = np.arange(len(states))
        for start, distribution, logits, undefined in self._distributions(states, rows_at_once):
            here, transfers = slice(start, start + len(distribution)), HostTransfers()
            transfers.add(nowhere, here, undefined)
            transfers.add(logprobs, here, distribution[:, columns])
            transfers.fetch()
            self._check_defined(nowhere[here], nodes[here], logits)
        logprobs[logprobs <= _NEVER] = -np.inf
        return logprobs

    def _check_defined(self, undefined: NDArray[Any], nodes: Ints, logits: torch.Tensor) -> None:
        bad = np.flatnonzero(undefined)
        if len(bad):
            fault = fault_of_logits(_rows(logits, bad))
            raise UndefinedDistributionError(self._output.name, nodes[bad], fault)

    def _draw_or_weigh(
        self,
        query: DistributionQuery,
        inside: Ints,
        rows: Ints,
        nodes: Ints,
        distribution: torch.Tensor,
        probabilities: torch.Tensor,
        transfers: HostTransfers,
    ) -> None:
        """Draws or masses for the queried nodes ``inside``, the ``rows`` of ``distribution``, that
        of ``nodes``.
        """
        distinct, row = np.unique(rows, return_inverse=True)
        place = to_device(row.astype(np.int64), distribution.device)
        plain = _rows(distribution, distinct)
        shaped = query.temperature != 1.0 or query.top_k > 0 or query.top_p < 1.0
        own = _shaped(plain, query.temperature, query.top_k, query.top_p) if shaped else plain
        if query.keys is None or query.masses is not None:
            weights = self._weights(own) if shaped else _rows(probabilities, distinct)
            weights = _edited(weights, query.edits, nodes[distinct], logarithms=False)
        if query.masses is not None:
            transfers.add(query.masses, inside, weights.sum(dim=-1, dtype=torch.float64)[place])
        if query.keys is not None:
            edited = _edited(own, query.edits, nodes[distinct], logarithms=True)
            token = gumbel_max(edited, row.astype(np.int64), query.keys[inside])
        elif query.uniforms is not None:
            token, position = _inverse(
                weights, place, to_device(query.uniforms[inside], weights.device)
            )
            token = token.clamp_max(
                self.vocabulary - 1
            )  # of an undefined distribution, which is refused afterwards
            transfers.add(query.positions, inside, position)
        else:
            return
        transfers.add(query.tokens, inside, token)
        transfers.add(query.logprobs, inside, plain[place, token])
        transfers.add(query.policy_logprobs, inside, own[place, token])

    def _distributions(
        self, states: torch.Tensor, many: int
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """The first of consecutive rows, few enough at a time to stay in a CPU's cache, their
        log-probabilities, their logits, and whether the log-probabilities are undefined: NaN in a
        whole row, as log_softmax makes of a NaN, of +inf, or of -inf alone.
        """
        many = min(many, self.most_rows)
        few = many if states.is_cuda else max(1, _CACHED // self.vocabulary)
        for first in range(0, len(states), many):
            logits = self._output.logits(states[first : first + many])
            for start in range(0, len(logits), few):
                chunk = logits[start : start + few]
                distribution = functional.log_softmax(chunk, dim=-1)
                undefined = distribution[:, 0].isnan()
                torch.threshold_(distribution, LEAST, _NEVER)
                if len(self._merged):
                    together = distribution[:, self._merged].logsumexp(dim=-1, keepdim=True)
                    distribution[:, self._merged] = _NEVER
                    distribution[:, self._merged[:1]] = together
                yield first + start, distribution, chunk, undefined

    def _weights(self, distribution: torch.Tensor) -> torch.Tensor:
        """Probabilities, with zeros up to a whole number of blocks."""
        beyond = -self.vocabulary % _BLOCK
        return functional.pad(distribution.exp(), (0, beyond)) if beyond else distribution.exp()

    def _top(
        self, distribution: torch.Tensor, top: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Lists of ``width`` tokens, by falling probability and then by id, and which rows of
        `_sorted` must replace.

        Which of several equal tokens topk lets in at the edge is unspecified, and stops may crowd
        out the others.
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
        kept = (torch.arange(ids.shape[1], device=ids.device) < top) | (
            going & (going.cumsum(dim=-1) <= top)
        )
        first = kept.sort(dim=-1, descending=True, stable=True).indices[:, :width]
        beyond = ~kept.gather(1, first)
        return ids.gather(1, first).masked_fill(beyond, 0), ordered.gather(1, first).masked_fill(
            beyond, _NEVER
        )


def _rows(table: torch.Tensor, rows: Ints) -> torch.Tensor:
    if np.array_equal(rows, np.arange(len(table))):
        return table
    return table.index_select(0, to_device(rows, table.device))


def _shaped(
    distribution: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> torch.Tensor:
    """Log-probabilities of the sharpened distribution, cut to the ``top_k`` best tokens and
    ``top_p``'s nucleus.
    """
    own = functional.log_softmax(distribution / temperature, dim=-1)
    if top_k:
        edge = own.topk(min(top_k, own.shape[1])).values[:, -1:]
        own = functional.log_softmax(own.masked_fill(own < edge, _NEVER), dim=-1)
    if top_p < 1.0:
        values, order = own.sort(dim=-1, descending=True, stable=True)
        before = values.double().exp().cumsum(dim=-1) - values.double().exp()
        outside = torch.zeros_like(own, dtype=torch.bool).scatter(1, order, before >= top_p)
        own = functional.log_softmax(own.masked_fill(outside, _NEVER), dim=-1)
    return own


def _edited(
    table: torch.Tensor, edits: ProbabilityEdits | None, nodes: Ints, logarithms: bool
) -> torch.Tensor:
    """``table``, weights of ``nodes`` (sorted) or their ``logarithms``; a copy with the factors
    applied if any are.
    """
    if edits is None:
        return table
    row = np.searchsorted(nodes, edits.nodes)
    own = (row < len(nodes)) & (nodes[np.minimum(row, len(nodes) - 1)] == edits.nodes)
    place = to_device(row[own], table.device), to_device(edits.tokens[own], table.device)
    edited, factors = table.clone(), to_device(edits.factors[own], table.device).to(table)
    edited[place] = edited[place] + factors.log() if logarithms else edited[place] * factors
    return edited


def _inverse(
    weights: torch.Tensor, rows: torch.Tensor, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens at ``uniforms`` of the inverse distribution functions of ``weights``' ``rows``, in
    token-id order.

    And where in their tokens' intervals the uniforms fell, from 0 to below 1. Sums are float64.
    Blocks of tokens are summed first, so that only one block per draw is accumulated token by
    token.
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
    """Index of the first running sum above ``target``, or of the last that still grew where
    rounding left none.
    """
    last = torch.searchsorted(sums, sums[:, -1:].contiguous(), right=False).clamp_max(
        sums.shape[1] - 1
    )  # NaN: beyond
    return torch.minimum(torch.searchsorted(sums, target, right=True), last)
