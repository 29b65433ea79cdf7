"""Forward passes of one batch: its prompts once, then every node of its trie once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedModel

from beamuq.array_types import Floats, Ints
from beamuq.decoding.device_copies import to_device
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import (
    FIX_OF_LOGITS,
    DistributionQuery,
    NextTokenDistributions,
    UndefinedDistributionError,
)
from beamuq.decoding.prompt_prefix_tree import Edge, cut_into_passes, radix_edges
from beamuq.decoding.search_state import Prompt, SearchState
from beamuq.decoding.tree_attention import (
    ForwardPass,
    PaddedRows,
    RowSpan,
    TooManyQuestionsError,
    TreeCache,
    node_spans,
    padded_nodes,
    padded_prompts,
    pads,
    running,
    tree_attention,
)
from beamuq.errors import BeamUQError

_Integers = Sequence[int] | Ints
ROWS = 4096
_FIRST_CAPACITY = 128


@dataclass
class Work:
    """The work of decoding, added up over batches; rows are forward passes of one token.

    ``pieces`` are the questions and the rows at once of each piece that the last batch was run in:
    one, of all its questions and all rows, unless memory ran out.
    """

    prompts: int = 0
    prompt_tokens: int = 0
    prompt_rows: int = 0
    decoded_rows: int = 0
    decoded_rows_unmerged: int = 0
    rows_at_once: int = ROWS
    pieces: list[tuple[int, int]] = field(default_factory=list)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


class StepStatistics(dict[int, tuple[int, Floats, Ints, Floats]]):
    """Entropies and alternatives by node whose distribution a search has read."""

    def add(self, query: DistributionQuery) -> None:
        nodes = query.nodes.tolist()
        # Most nodes were read by another search before.
        fresh = [row for row, node in enumerate(nodes) if node not in self]
        if fresh:
            read = query.entropies[fresh], query.top_tokens[fresh], query.top_logprobs[fresh]
            self.update({nodes[row]: (place, *read) for place, row in enumerate(fresh)})

    def at(self, node: int) -> tuple[float, tuple[int, ...], tuple[float, ...]]:
        """The entropy after ``node`` in nats, and the best tokens with their log-probabilities."""
        place, entropies, tokens, logprobs = self[node]
        real = int((logprobs[place] > -np.inf).sum())
        real_tokens = tuple(tokens[place, :real].tolist())
        return float(entropies[place]), real_tokens, tuple(logprobs[place, :real].tolist())


class Efforts:
    """Rows and passes that each of several searches alone would have taken for each question."""

    def __init__(self, searches: int, trie: TokenTrie) -> None:
        self._trie = trie
        self._queried = [np.zeros(0, dtype=bool) for _ in range(searches)]
        questions = int((trie.depth == 0).sum())
        self.rows: Ints = np.zeros((searches, questions), dtype=np.int64)
        self.passes: Ints = np.zeros((searches, questions), dtype=np.int64)

    def add(self, search: int, nodes: Ints) -> None:
        """Count those of ``nodes`` below a prompt that this search has not asked about before."""
        queried = np.zeros(len(self._trie), dtype=bool)
        queried[nodes] = self._trie.depth[nodes] > 0
        before = self._queried[search]
        queried[: len(before)] |= before
        rows = np.bincount(self._trie.question[queried], minlength=self.rows.shape[1])
        fresh = rows - self.rows[search]
        self.rows[search] += fresh
        self.passes[search] += fresh > 0
        self._queried[search] = queried


def follow_searches(
    searches: Sequence[SearchState],
    trie: TokenTrie,
    work: Work,
    answer: Callable[[Ints, Sequence[DistributionQuery]], None],
) -> tuple[StepStatistics, Efforts]:
    """Let searches choose tokens, in lockstep, until all are done.

    ``answer`` answers the queries of a step, about these nodes (sorted, each once).
    """
    started = time.perf_counter()
    statistics = StepStatistics()
    efforts = Efforts(len(searches), trie)
    while True:
        queries = [search.query() for search in searches]
        nodes = np.unique(np.concatenate([query.nodes for query in queries]))
        if not len(nodes):
            work.decode_seconds += time.perf_counter() - started
            return statistics, efforts
        work.decoded_rows_unmerged += _rows_if_unmerged(trie, queries)
        answer(nodes, queries)
        for number, (search, query) in enumerate(zip(searches, queries, strict=True)):
            if len(query.nodes):
                efforts.add(number, query.nodes)
                search.advance(query)
                if query.statistics:
                    statistics.add(query)


def _rows_if_unmerged(trie: TokenTrie, queries: Sequence[DistributionQuery]) -> int:
    """The rows of a step if every search ran its own nodes, without those it only weighs."""
    rows = 0
    for query in queries:
        if query.masses is None or query.draws:
            rows += int((trie.depth[query.nodes] > 0).sum())
    return rows


class BatchRunner(ABC):
    """One batch on the device: its trie, and the last hidden state of each queried node."""

    def __init__(
        self, decoder: torch.nn.Module, prompts: Sequence[Prompt], trie: TokenTrie, work: Work
    ) -> None:
        self._decoder = decoder
        self._prompts = [prompt.token_ids for prompt in prompts]
        self._prompt_ids = [prompt.id for prompt in prompts]
        self._work = work
        self._device = next(decoder.parameters()).device
        self._states: torch.Tensor | None = None
        self._state: Ints = np.full(len(prompts), -1)
        self._trie = trie

    @staticmethod
    @abstractmethod
    def opened(model: PreTrainedModel) -> AbstractContextManager[torch.nn.Module]:
        """The decoder of ``model``, fit to be run for the time of the block."""

    @abstractmethod
    def _run_prompts(self) -> None:
        """Give hidden states to the roots of the trie."""

    @abstractmethod
    def _run_nodes(self, nodes: Ints) -> None:
        """Give hidden states to ``nodes``, sorted by question, of any depths."""

    def prefill(self) -> None:
        """Run the prompts; the roots of the trie get their hidden states."""
        started = time.perf_counter()
        self._run_prompts()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._work.prefill_seconds += time.perf_counter() - started

    def follow(
        self, searches: Sequence[SearchState], distributions: NextTokenDistributions
    ) -> tuple[StepStatistics, Efforts]:
        """Let the searches choose tokens until all are done, running every node once."""

        def answer(nodes: Ints, queries: Sequence[DistributionQuery]) -> None:
            with self.naming_prompts():
                self._read(distributions, nodes, self.run(nodes), queries)

        return follow_searches(searches, self._trie, self._work, answer)

    @contextmanager
    def naming_prompts(self) -> Iterator[None]:
        """Let an error about nodes name the first one's prompt and step instead."""
        try:
            yield
        except UndefinedDistributionError as error:
            node = int(error.nodes[0])
            prompt = self._prompt_ids[self._trie.question[node]]
            step = int(self._trie.depth[node]) + 1
            more = f" (and {len(error.nodes) - 1} more)" if len(error.nodes) > 1 else ""
            raise BeamUQError(
                f"{error.model}: prompt {prompt!r}: its logits {error.fault} at step {step} of the "
                f"answer{more}; {FIX_OF_LOGITS}"
            ) from error

    def _read(
        self,
        distributions: NextTokenDistributions,
        nodes: Ints,
        states: torch.Tensor,
        queries: Sequence[DistributionQuery],
    ) -> None:
        """Let the distributions after ``nodes`` answer the queries, in as many rows as fit."""
        while True:
            rows = min(distributions.most_rows, self._work.rows_at_once)
            try:
                return distributions.read(states, nodes, queries, rows)
            except RuntimeError as error:
                if not out_of_memory(error) or rows == 1:
                    raise
            self._halve(min(rows, len(nodes)))

    def run(self, nodes: Ints) -> torch.Tensor:
        """The hidden states of ``nodes`` (nodes, width); those that have none yet are run."""
        self._state = np.concatenate([self._state, np.full(len(self._trie) - len(self._state), -1)])
        fresh = nodes[self._state[nodes] < 0]
        fresh = fresh[np.argsort(self._trie.question[fresh], kind="stable")]
        self._work.decoded_rows += len(fresh)
        self._run_nodes(fresh)
        assert self._states is not None
        return self._states[self._tensor(self._state[nodes])]

    def _halve(self, rows: int) -> None:
        """From now on run no more than half of ``rows`` at once, which did not fit into memory."""
        self._work.rows_at_once = max(1, min(self._work.rows_at_once, rows) // 2)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _keep(self, nodes: Ints, states: torch.Tensor) -> None:
        """Remember the last hidden states of ``nodes``."""
        count = int(self._state.max()) + 1
        if self._states is None or count + len(nodes) > len(self._states):
            wider = states.new_empty((2 * (count + len(nodes)), states.shape[1]))
            if self._states is not None:
                wider[:count] = self._states[:count]
            self._states = wider
        self._states[count : count + len(nodes)] = states
        self._state[nodes] = np.arange(count, count + len(nodes))

    def _tensor(self, values: _Integers) -> torch.Tensor:
        return to_device(np.asarray(values, dtype=np.int64), self._device)


class TreeRunner(BatchRunner):
    """All rows in one pass, with attention over the tree: each prompt token is run once a batch."""

    def __init__(
        self, decoder: torch.nn.Module, prompts: Sequence[Prompt], trie: TokenTrie, work: Work
    ) -> None:
        super().__init__(decoder, prompts, trie, work)
        self._lengths = np.array([len(tokens) for tokens in self._prompts])
        cards = {weight.device for weight in decoder.parameters() if weight.is_cuda}
        layers = int(getattr(decoder.config, "num_hidden_layers", 1))
        capacity = int(self._lengths.max()) + _FIRST_CAPACITY
        self._cache = TreeCache(
            self._lengths, capacity, pads(self._device), layers, sorted(cards, key=str)
        )
        self._place: Ints = np.full(len(prompts), -1)

    opened = staticmethod(tree_attention)

    def _run_prompts(self) -> None:
        edges = radix_edges(self._prompts)
        self._work.prompt_rows += sum(len(edge.tokens) for edge in edges)
        self._prefill(edges)
        if not self._cache.attended:
            raise BeamUQError("its attention does not go through transformers' interface")

    def _prefill(self, edges: list[Edge]) -> None:
        """Run the tokens of ``edges``, and keep the hidden states at the ends of prompts.

        An edge is a run of tokens that several prompts may share: it is run once for all of them.
        All edges go through one forward pass, one row a token. If these are more rows than may be
        run at once, the edges are cut into smaller passes.
        """
        if sum(len(edge.tokens) for edge in edges) > self._work.rows_at_once:
            for edges_of_pass in cut_into_passes(edges, self._work.rows_at_once):
                self._prefill(edges_of_pass)
            return
        tokens = [token for edge in edges for token in edge.tokens]
        spans = _spans_of_edges(edges)
        positions = np.concatenate([span.positions for span in spans])
        states = self._forward(tokens, positions, self._pass_over_edges(edges, spans))
        if states is None:
            # Memory ran out, and `_forward` halved the rows at once: now the edges are cut.
            self._prefill(edges)
        else:
            self._keep_roots(edges, spans, states)

    def _pass_over_edges(self, edges: Sequence[Edge], spans: Sequence[RowSpan]) -> ForwardPass:
        """One pass over the rows of all edges; ``spans`` says which rows each edge has."""
        cache_positions, rows = self._rows_to_store(edges, spans)
        pieces = padded_prompts(spans, self._device) if self._cache.padded else spans
        return ForwardPass(self._cache, self._tensor(cache_positions), self._tensor(rows), pieces)

    def _rows_to_store(
        self, edges: Sequence[Edge], spans: Sequence[RowSpan]
    ) -> tuple[list[int], list[int]]:
        """Flat positions in the cache to be written, and the row that is written to each.

        Each prompt has a part of the cache of its own. So the rows of an edge are written once for
        every prompt that shares them.
        """
        cache_positions: list[int] = []
        rows: list[int] = []
        for edge, span in zip(edges, spans, strict=True):
            for prompt in edge.members:
                start = prompt * self._cache.capacity + edge.start
                cache_positions.extend(range(start, start + len(edge.tokens)))
                rows.extend(range(span.first, span.last))
        return cache_positions, rows

    def _keep_roots(
        self, edges: Sequence[Edge], spans: Sequence[RowSpan], states: torch.Tensor
    ) -> None:
        """Remember the hidden states at the ends of prompts, which are the roots of the trie.

        A prompt that ends with an edge has its state in the last row of that edge.
        """
        roots = [prompt for edge in edges for prompt in edge.ends]
        rows = [span.last - 1 for edge, span in zip(edges, spans, strict=True) for _ in edge.ends]
        if roots:
            self._keep(np.array(roots), states[self._tensor(rows)])

    def _run_nodes(self, nodes: Ints) -> None:
        self._place = np.concatenate([self._place, np.full(len(self._trie) - len(self._place), -1)])
        self._place[nodes] = self._cache.reserve(self._trie.question[nodes])
        done = 0
        while done < len(nodes):
            chunk = nodes[done : done + self._work.rows_at_once]
            done += len(chunk) if self._decode(chunk) else 0

    def _decode(self, nodes: Ints) -> bool:
        """Run ``nodes``, sorted by question, of any depths; False: they did not fit into memory."""
        questions = self._trie.question[nodes]
        positions = self._lengths[questions] + self._trie.depth[nodes] - 1
        visible = self._place[self._trie.ancestors(nodes)]
        target = self._tensor(questions * self._cache.capacity + self._place[nodes])
        pieces: Sequence[RowSpan | PaddedRows]
        if self._cache.padded:
            pieces = [padded_nodes(questions, positions, self._lengths, visible, self._device)]
        else:
            pieces = node_spans(questions, positions, self._lengths, visible)
        run = ForwardPass(self._cache, target, None, pieces)
        states = self._forward(self._trie.token[nodes], positions, run)
        if states is not None:
            self._keep(nodes, states)
        return states is not None

    def _forward(
        self, tokens: _Integers, positions: _Integers, run: ForwardPass
    ) -> torch.Tensor | None:
        """The last hidden states (rows, width) of one pass over ``tokens`` (rows,).

        ``run`` says what each row sees and where its keys and values are stored. None: the pass did
        not fit into memory, and from now on half the rows are run at once.
        """
        try:
            token_ids = self._tensor(tokens)[None]
            position_ids = self._tensor(positions)[None]
            with running(run):
                output = self._decoder(
                    input_ids=token_ids, position_ids=position_ids, use_cache=False
                )
        except RuntimeError as error:
            too_many_questions = isinstance(error, TooManyQuestionsError)
            if not out_of_memory(error) or too_many_questions or len(tokens) == 1:
                raise
        else:
            # The last layers may lie on another card than the first.
            states: torch.Tensor = output.last_hidden_state[0].to(self._device)
            return states
        self._halve(len(tokens))
        return None


def _spans_of_edges(edges: Sequence[Edge]) -> list[RowSpan]:
    """The rows of each edge in a pass over all of them, one behind the other.

    The prompts that share an edge agree up to its end. So its rows may see the keys of any of them:
    here the first.
    """
    spans = []
    first_row = 0
    for edge in edges:
        end = edge.start + len(edge.tokens)
        span = RowSpan.of_prompt(edge.members[0], first_row, edge.start, end)
        spans.append(span)
        first_row = span.last
    return spans


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an error of torch says that memory ran out, on a GPU or on the CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
