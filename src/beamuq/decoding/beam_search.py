"""Beam search and diverse beam search, all questions of a batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import SearchContext, at_least_one


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
    """Diverse beam search: ``size`` beams in ``groups``, each a search of width size / groups
    (``lambda`` = penalty).

    At every step the groups choose in turn; a token loses ``penalty`` from its log-probability for
    each time that earlier groups have just continued a beam with it. The groups' searches rank and
    stop by these lowered scores; the answers are all groups', ordered by their own log p. Two
    groups may find the same answer.
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


class BeamState:
    """``width`` running hypotheses per question, and a pool of the ``width`` best finished ones.

    The semantics are those of transformers' ``generate``: a candidate that stops enters the pool
    only if it is among the ``width`` best candidates of its step; the running beams of the next
    step are the ``width`` best that do not stop; at the largest length every candidate stops.
    ``only`` are the questions that are searched at all (bool).
    """

    def __init__(self, policy: Beam, context: SearchContext, only: Bools | None = None) -> None:
        self.policy = policy
        self._context = context
        shape = (len(context.prompts), policy.width)
        self._running: Ints = np.full(shape, -1)
        self._running[:, 0] = (
            np.arange(shape[0]) if only is None else np.where(only, np.arange(shape[0]), -1)
        )
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
        self._running[hopeless], self._scores[hopeless] = -1, -np.inf

    def choose(self, query: DistributionQuery, penalties: Floats) -> Ints:
        """One step; ``penalties`` (questions, tokens, 2) are pairs of a token and the loss of its
        score.

        Returns the tokens of the ``width`` best that do not stop, at the largest length too, as in
        group beam search: (questions, width), -1 where there is none.
        """
        self._length += 1
        tokens, logprobs, parents, scores = self._candidates(query, penalties)
        width = self.policy.width
        last = self._length == self._context.steps
        possible = scores > -np.inf
        onward = possible & ~self._context.stops[tokens]
        onward &= onward.cumsum(axis=1) <= width
        finishing = (
            possible & (self._context.stops[tokens] | last) & (np.arange(scores.shape[1]) < width)
        )
        going = onward & (not last)
        grown = np.full(tokens.shape, -1)
        chosen = finishing | going
        grown[chosen] = self._context.trie.grow(parents[chosen], tokens[chosen], logprobs[chosen])

        fresh = np.where(finishing, scores / self._length**self.policy.length_penalty, -np.inf)
        pool_scores = np.concatenate([self._pool_scores, fresh], axis=1)
        best = np.argsort(-pool_scores, axis=1, kind="stable")[:, :width]
        self._pool_scores = np.take_along_axis(pool_scores, best, axis=1)
        self._pool = np.take_along_axis(np.concatenate([self._pool, grown], axis=1), best, axis=1)

        going &= ~self._done(np.where(going, scores, -np.inf).max(axis=1, initial=-np.inf))[:, None]
        best = np.argsort(~onward, axis=1, kind="stable")[:, :width]
        best = np.pad(best, ((0, 0), (0, width - best.shape[1])), mode="edge")
        first = np.arange(width) < onward.sum(axis=1, keepdims=True)
        alive = first & np.take_along_axis(going, best, axis=1)
        self._running = np.where(alive, np.take_along_axis(grown, best, axis=1), -1)
        self._scores = np.where(alive, np.take_along_axis(scores, best, axis=1), -np.inf)
        return np.where(first, np.take_along_axis(tokens, best, axis=1), -1)

    def _candidates(
        self, query: DistributionQuery, penalties: Floats
    ) -> tuple[Ints, Floats, Ints, Floats]:
        """Tokens, log-probs, parents and scores of all continuations, best first: (questions, beams
        x list).

        Equal scores are ordered by token id, then by the rank of the beam.
        """
        questions, beams = np.nonzero(self._running >= 0)
        shape = (*self._running.shape, query.tokens.shape[1])
        tokens, logprobs = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
        tokens[questions, beams], logprobs[questions, beams] = query.tokens, query.logprobs
        lost = (tokens[..., None] == penalties[:, None, None, :, 0]) @ penalties[:, None, :, 1:]
        scores = self._scores[:, :, None] + logprobs - lost[..., 0]
        parents = np.broadcast_to(self._running[:, :, None], shape)
        flat = [array.reshape(shape[0], -1) for array in (tokens, logprobs, parents, scores)]
        order = np.lexsort((flat[0], -flat[3]), axis=1)  # stable: in the order of beams beyond that
        tokens, logprobs, parents, scores = (
            np.take_along_axis(array, order, axis=1) for array in flat
        )
        return tokens, logprobs, parents, scores

    def _done(self, best: Floats) -> Bools:
        """Questions whose pool is full and which, by ``early_stopping``, score ``best`` cannot
        improve.
        """
        penalty, stopping = self.policy.length_penalty, self.policy.early_stopping
        worst = self._pool_scores[:, -1]
        best_length = self._context.steps if stopping == "never" and penalty > 0 else self._length
        hopeless: Bools = ~(best / best_length**penalty > worst)
        return (worst > -np.inf) & (hopeless | (stopping is True))

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        return [(node, None) for node in self._pool[question].tolist() if node >= 0]


class DiverseBeamState:
    """Groups of beams that choose in turn, each shunning the tokens just chosen by those before
    it.
    """

    def __init__(self, policy: DiverseBeam, context: SearchContext) -> None:
        self.policy = policy
        self._context = context
        self._groups = [
            BeamState(Beam(policy.size // policy.groups), context) for _ in range(policy.groups)
        ]

    def query(self) -> DistributionQuery:
        queries = [group.query() for group in self._groups]
        # The best of a group after the penalty are among the best before it and the tokens that it
        # can strike.
        return DistributionQuery(
            np.concatenate([query.nodes for query in queries]), top=self.policy.size
        )

    def advance(self, query: DistributionQuery) -> None:
        chosen = np.zeros((len(self._context.prompts), 0), dtype=np.int64)
        first = 0
        for group in self._groups:
            last = first + len(group.query().nodes)
            part = DistributionQuery(query.nodes[first:last])
            part.tokens, part.logprobs = query.tokens[first:last], query.logprobs[first:last]
            loss = np.full(chosen.shape, self.policy.penalty)
            chosen = np.concatenate(
                [chosen, group.choose(part, np.stack([chosen, loss], axis=-1))], axis=1
            )
            first = last

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        nodes = [node for group in self._groups for node, _ in group.answers(question)]
        trie = self._context.trie
        return [
            (node, None)
            for node in sorted(nodes, key=lambda node: (-trie.total[node], trie.tokens(node)))
        ]
