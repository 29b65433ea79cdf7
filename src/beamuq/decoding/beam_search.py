"""Beam search and diverse beam search, all questions of a batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import SearchContext, at_least_one
from beamuq.machine_memory import check_fits

BYTES_OF_A_CONTINUATION = 80
"""The least that choosing takes for each continuation of each beam (86 measured)."""


@dataclass(frozen=True)
class Beam:
    """Beam search of ``width``, with the semantics of transformers' ``generate``.

    The defaults rank by log p and stop exactly, when no running beam can enter the best ``width``.
    ``length_penalty`` divides a finished hypothesis' log p by its length to that power, terminator
    included; ``early_stopping`` is ``generate``'s: ``True`` stops at ``width`` finished hypotheses,
    ``False`` compares the best running one at its present length, ``"never"`` at the length that
    flatters it most. A width of 1 is greedy decoding as long as ``length_penalty`` is 0;
    ``generate`` ignores the penalty there.
    """

    width: int
    length_penalty: float = 0.0
    early_stopping: strategy_names.EarlyStopping = "never"

    def __post_init__(self) -> None:
        at_least_one("width", self.width)
        if self.early_stopping != "never" and type(self.early_stopping) is not bool:
            raise ValueError(
                f"early_stopping must be 'never', True or False, not {self.early_stopping!r}"
            )

    @property
    def strategy(self) -> str:
        return strategy_names.beam(self.width, self.length_penalty, self.early_stopping)

    def start(self, context: SearchContext) -> BeamState:
        return BeamState(self, context)


@dataclass(frozen=True)
class DiverseBeam:
    """Diverse beam search: ``size`` beams in ``groups``, each a search of width size / groups.

    At every step the groups choose in turn; a token loses ``penalty`` (``lambda`` in its name) from
    its log-probability for each time that earlier groups have just continued a beam with it. The
    groups' searches rank and stop by these lowered scores; the answers are all groups', ordered by
    their own log p. Two groups may find the same answer.
    """

    size: int
    groups: int
    penalty: float

    def __post_init__(self) -> None:
        at_least_one("groups", self.groups)
        at_least_one("size", self.size)
        if self.size % self.groups:
            raise ValueError(f"groups must be a divisor of size {self.size}, not {self.groups}")
        if self.penalty < 0:
            raise ValueError(f"penalty must be at least 0, not {self.penalty}")

    @property
    def strategy(self) -> str:
        return strategy_names.diverse(self.groups, self.penalty)

    def start(self, context: SearchContext) -> DiverseBeamState:
        return DiverseBeamState(self, context)


@dataclass(frozen=True)
class _Continuations:
    """Continuations of the running beams of each question: arrays (questions, beams x list)."""

    tokens: Ints
    logprobs: Floats
    parents: Ints
    scores: Floats


class BeamState:
    """``width`` running hypotheses per question, and a pool of the ``width`` best finished ones.

    The semantics are those of transformers' ``generate``: a candidate that stops enters the pool
    only if it is among the ``width`` best candidates of its step; the running beams of the next
    step are the ``width`` best that do not stop; at the largest length every candidate stops.
    ``only`` are the questions that are searched at all (bool).
    """

    def __init__(self, policy: Beam, context: SearchContext, only: Bools | None = None) -> None:
        _check_memory(policy.strategy, policy.width, context)
        self.policy = policy
        self._context = context
        shape = (len(context.prompts), policy.width)
        roots = np.arange(len(context.prompts))
        self._running: Ints = np.full(shape, -1)
        self._running[:, 0] = roots if only is None else np.where(only, roots, -1)
        self._scores: Floats = np.full(shape, -np.inf)
        self._scores[:, 0] = 0.0
        self._pool: Ints = np.full(shape, -1)
        self._pool_scores: Floats = np.full(shape, -np.inf)
        self._length = 0

    def query(self) -> DistributionQuery:
        return DistributionQuery(
            self._running[self._running >= 0], top=self.policy.width, statistics=True
        )

    def advance(self, query: DistributionQuery) -> None:
        self.choose(query, np.zeros((len(self._running), 0, 2)))
        self._drop_hopeless()

    def _drop_hopeless(self) -> None:
        """Stop running beams that cannot enter a full pool at any length.

        What takes their places scores no more, so it cannot enter either. Needs scores that never
        rise.
        """
        penalty = self.policy.length_penalty
        best_length = self._context.steps if penalty > 0 else self._length
        hopeless = self._scores / best_length**penalty <= self._pool_scores[:, -1:]
        self._running[hopeless] = -1
        self._scores[hopeless] = -np.inf

    def choose(self, query: DistributionQuery, penalties: Floats) -> Ints:
        """One step, with ``penalties`` (questions, tokens, 2): pairs of a token and what it loses.

        Returns the tokens of the ``width`` best that do not stop, at the largest length too, as in
        group beam search: (questions, width), -1 where there is none.
        """
        self._length += 1
        candidates = self._candidates(query, penalties)
        scores = candidates.scores
        width = self.policy.width
        is_last_step = self._length == self._context.steps
        is_possible = scores > -np.inf
        stops = self._context.stops[candidates.tokens]
        onward = is_possible & ~stops
        onward &= onward.cumsum(axis=1) <= width
        among_best = np.arange(scores.shape[1]) < width
        finishing = is_possible & (stops | is_last_step) & among_best
        going = onward & (not is_last_step)
        nodes = self._grown(candidates, finishing | going)
        self._pool_finished(nodes, np.where(finishing, scores, -np.inf))
        best_going = np.where(going, scores, -np.inf).max(axis=1, initial=-np.inf)
        going &= ~self._done(best_going)[:, None]
        return self._go_on(candidates, nodes, onward, going)

    def _grown(self, candidates: _Continuations, chosen: Bools) -> Ints:
        """The nodes of the ``chosen`` candidates (questions, beams x list), -1 elsewhere."""
        nodes = np.full(chosen.shape, -1)
        nodes[chosen] = self._context.trie.grow(
            candidates.parents[chosen], candidates.tokens[chosen], candidates.logprobs[chosen]
        )
        return nodes

    def _pool_finished(self, nodes: Ints, scores: Floats) -> None:
        """Put finished ``nodes`` of these ``scores`` (-inf: not finished) into the pools."""
        scores = scores / self._length**self.policy.length_penalty
        pool_scores = np.concatenate([self._pool_scores, scores], axis=1)
        pool = np.concatenate([self._pool, nodes], axis=1)
        best = np.argsort(-pool_scores, axis=1, kind="stable")[:, : self.policy.width]
        self._pool_scores = np.take_along_axis(pool_scores, best, axis=1)
        self._pool = np.take_along_axis(pool, best, axis=1)

    def _go_on(self, candidates: _Continuations, nodes: Ints, onward: Bools, going: Bools) -> Ints:
        """Let those of the ``onward`` candidates run that are ``going``; returns all their tokens.

        Shape (questions, width), -1 where there are fewer.
        """
        width = self.policy.width
        best = np.argsort(~onward, axis=1, kind="stable")[:, :width]
        best = np.pad(best, ((0, 0), (0, width - best.shape[1])), mode="edge")
        is_there = np.arange(width) < onward.sum(axis=1, keepdims=True)
        runs = is_there & np.take_along_axis(going, best, axis=1)
        self._running = np.where(runs, np.take_along_axis(nodes, best, axis=1), -1)
        self._scores = np.where(runs, np.take_along_axis(candidates.scores, best, axis=1), -np.inf)
        return np.where(is_there, np.take_along_axis(candidates.tokens, best, axis=1), -1)

    def _candidates(self, query: DistributionQuery, penalties: Floats) -> _Continuations:
        """All continuations of the running beams, best first.

        Equal scores are ordered by token id, then by the rank of the beam.
        """
        questions, beams = np.nonzero(self._running >= 0)
        shape = (*self._running.shape, query.tokens.shape[1])
        tokens = np.zeros(shape, dtype=np.int64)
        tokens[questions, beams] = query.tokens
        logprobs = np.full(shape, -np.inf)
        logprobs[questions, beams] = query.logprobs
        lost = (tokens[..., None] == penalties[:, None, None, :, 0]) @ penalties[:, None, :, 1:]
        scores = self._scores[:, :, None] + logprobs - lost[..., 0]
        parents = np.broadcast_to(self._running[:, :, None], shape)
        flat = [array.reshape(shape[0], -1) for array in (tokens, logprobs, parents, scores)]
        order = np.lexsort((flat[0], -flat[3]), axis=1)  # stable: in the order of beams beyond that
        return _Continuations(*(np.take_along_axis(array, order, axis=1) for array in flat))

    def _done(self, best: Floats) -> Bools:
        """Questions with a full pool that, by ``early_stopping``, score ``best`` cannot improve."""
        penalty = self.policy.length_penalty
        stopping = self.policy.early_stopping
        worst = self._pool_scores[:, -1]
        best_length = self._context.steps if stopping == "never" and penalty > 0 else self._length
        hopeless: Bools = ~(best / best_length**penalty > worst)
        return (worst > -np.inf) & (hopeless | (stopping is True))

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        return [(node, None) for node in self._pool[question].tolist() if node >= 0]


def _check_memory(strategy: str, width: int, context: SearchContext) -> None:
    """Refuse beams whose continuations of one step the machine cannot hold."""
    questions = len(context.prompts)
    listed = min(width, len(context.stops))
    at_once = "" if questions == 1 else f" for {questions} questions at once"
    fewer = "" if questions == 1 else ", or decode fewer questions at once"
    check_fits(
        f"{strategy}: choosing among the continuations of {width:,} beams{at_once}",
        questions * width * listed * BYTES_OF_A_CONTINUATION,
        f"take fewer beams (they take memory by the square of their number){fewer}",
    )


class DiverseBeamState:
    """Groups of beams that choose in turn, each shunning the tokens that the earlier ones chose."""

    def __init__(self, policy: DiverseBeam, context: SearchContext) -> None:
        self.policy = policy
        self._context = context
        self._groups = [
            BeamState(Beam(policy.size // policy.groups), context) for _ in range(policy.groups)
        ]

    def query(self) -> DistributionQuery:
        queries = [group.query() for group in self._groups]
        nodes = np.concatenate([query.nodes for query in queries])
        # Penalties may strike as many tokens as all groups have beams; the next ones are read too.
        return DistributionQuery(nodes, top=self.policy.size)

    def advance(self, query: DistributionQuery) -> None:
        chosen = np.zeros((len(self._context.prompts), 0), dtype=np.int64)
        first = 0
        for group in self._groups:
            last = first + len(group.query().nodes)
            part = DistributionQuery(query.nodes[first:last])
            part.tokens = query.tokens[first:last]
            part.logprobs = query.logprobs[first:last]
            losses = np.full(chosen.shape, self.policy.penalty)
            tokens = group.choose(part, np.stack([chosen, losses], axis=-1))
            chosen = np.concatenate([chosen, tokens], axis=1)
            first = last

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        trie = self._context.trie
        nodes = [node for group in self._groups for node, _ in group.answers(question)]
        nodes.sort(key=lambda node: (-trie.total[node], trie.tokens(node)))
        return [(node, None) for node in nodes]
