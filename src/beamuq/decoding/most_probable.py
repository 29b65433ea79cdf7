"""The most probable outcomes of each question, proven to be so: uniform-cost search over its trie.

A longer prefix is never more probable, so whatever is below a prefix is at most as probable as the
prefix itself, and a prefix below the least probable outcome that is wanted need not be run.
Continuations are read in falling probability, a list at a time, and a list goes on as long as what
it has not shown yet can matter; to keep as many of a prefix as outcomes are wanted would miss an
ending that comes behind a token spread over many.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Floats, Ints
from beamuq.decoding.beam_search import Beam, BeamState
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import Policy, SearchContext, at_least_one

ROWS_A_QUESTION = 2000
# continuations that are read of a prefix at first; a list that goes on is read four times as long
_LIST = 64
_ROUNDING = 1e-9
LEAST_RESIDUAL = 1e-9  # mass outside a set below which there is nothing to draw


@dataclass(frozen=True)
class Exact:
    """The ``size`` most probable outcomes, ties by token ids.

    A question whose proof would need more than ``rows`` prefixes is stopped there; it gets the most
    probable of what was found and of the answers of a beam search of width ``size``.
    """

    size: int
    rows: int = ROWS_A_QUESTION

    def __post_init__(self) -> None:
        at_least_one("size", self.size)
        at_least_one("rows", self.rows)

    @property
    def strategy(self) -> str:
        return strategy_names.of_size("exact", self.size)

    def start(self, context: SearchContext) -> MostProbableState:
        return MostProbableState(self, context, _Best(self.size), self.rows, self.size)


class _Outcome(NamedTuple):
    """A complete answer: its −log p, all its tokens, the node above its last one, and that one's
    log-probability.
    """

    cost: float
    tokens: tuple[int, ...]
    node: int
    logprob: float


class _Open(NamedTuple):
    """The unexplored outcomes below a prefix.

    ``cost`` is −log of the most that one of its outcomes can have, ``log_mass`` what all of them
    have at most together. Where ``listed`` is 0 the prefix has not been run: ``node`` is the one
    above its last token. Else its first ``listed`` continuations are known, ``node`` is its own,
    and the rest of them is what is meant.
    """

    cost: float
    tokens: tuple[int, ...]
    listed: int
    node: int
    logprob: float
    log_mass: float


class SearchGoal(Protocol):
    """Which outcomes a search is after, given the ``outcomes`` found so far, most probable
    first.
    """

    def floor(self, outcomes: Sequence[_Outcome], /) -> float:
        """The log-probability below which no outcome can ever matter."""

    def needs(self, cost: float, outcomes: Sequence[_Outcome], before: Sequence[float], /) -> bool:
        """Whether the search must look at the open prefix of ``cost``, after the more probable open
        ones ``before``.

        ``before`` holds their log masses. A no means not yet, and, where ``before`` is empty,
        never.
        """

    def chosen(self, outcomes: Sequence[_Outcome], /) -> Sequence[_Outcome]:
        """The wanted ones among ``outcomes``."""


class _Best:
    """The ``size`` most probable."""

    def __init__(self, size: int) -> None:
        self._size = size

    def floor(self, outcomes: Sequence[_Outcome]) -> float:
        return -outcomes[self._size - 1].cost if len(outcomes) >= self._size else -np.inf

    def needs(self, cost: float, outcomes: Sequence[_Outcome], before: Sequence[float]) -> bool:
        # As many outcomes as could be more probable than this: those found, and what the masses
        # before it have room for. Where these are fewer than wanted, the last one wanted is no more
        # probable, and the proof needs this.
        if -cost < self.floor(outcomes):
            return False
        better = bisect_left(outcomes, cost, key=lambda outcome: outcome.cost)
        for log_mass in before:
            better += int(np.exp(min(log_mass + cost, 30.0)) * (1 - _ROUNDING))
        return better < self._size

    def chosen(self, outcomes: Sequence[_Outcome]) -> Sequence[_Outcome]:
        return outcomes[: self._size]


class AtLeast:
    """Every outcome of probability ``p`` or more."""

    def __init__(self, p: float) -> None:
        self._floor = float(np.log(p))

    def floor(self, _outcomes: Sequence[_Outcome]) -> float:
        return self._floor

    def needs(self, cost: float, _outcomes: Sequence[_Outcome], _before: Sequence[float]) -> bool:
        return -cost >= self._floor

    def chosen(self, outcomes: Sequence[_Outcome]) -> Sequence[_Outcome]:
        return [outcome for outcome in outcomes if -outcome.cost >= self._floor]


class BestSplit:
    """The B most probable, where B minimises r_B / (``size`` - B) over 0 ≤ B < ``size``; r_B: the
    mass outside them.

    A further outcome is a gain as long as its probability is above that ratio, and the first that
    is none is the last to be looked at: the ratio then grows and the probabilities fall.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._floor = float(np.log(LEAST_RESIDUAL / size))

    def floor(self, _outcomes: Sequence[_Outcome]) -> float:
        return self._floor

    def needs(self, cost: float, outcomes: Sequence[_Outcome], _before: Sequence[float]) -> bool:
        ratio = self._split(outcomes)[1]
        return -cost >= max(self._floor, np.log(ratio) if ratio > 0 else -np.inf)

    def chosen(self, outcomes: Sequence[_Outcome]) -> Sequence[_Outcome]:
        return outcomes[: self._split(outcomes)[0]]

    def _split(self, outcomes: Sequence[_Outcome]) -> tuple[int, float]:
        """B and its ratio, from the ``outcomes`` found so far."""
        outside, size = 1.0, 0
        while size < min(len(outcomes), self._size - 1):
            p = float(np.exp(-outcomes[size].cost))
            if p <= outside / (self._size - size):
                break
            outside, size = outside - p, size + 1
        return size, outside / (self._size - size)


class MostProbableState:
    """Uniform-cost search, all questions of a batch at once, each with every prefix that is known
    to be needed.

    At most ``rows`` prefixes are run for a question, that of the prompt not counted. A beam search
    of ``width`` (0: none) helps with a question of which nothing is found, or not all before it is
    stopped; what it finds counts as found, and its best answer is the least that a question gets.
    """

    def __init__(
        self, policy: Policy, context: SearchContext, goal: SearchGoal, rows: int, width: int
    ) -> None:
        self.policy = policy
        self._context = context
        self._goal = goal
        self._rows = np.full(len(context.prompts), rows)
        self._width = width
        self._open = [
            [_Open(0.0, (), 0, question, 0.0, 0.0)] for question in range(len(context.prompts))
        ]
        self._outcomes: list[list[_Outcome]] = [[] for _ in context.prompts]
        self._beams: BeamState | None = None
        self._queried: list[tuple[int, _Open]] = []
        self._nodes: list[int] = []
        self._ask()

    def query(self) -> DistributionQuery:
        if self._queried:
            top = max(self._length(item) for _, item in self._queried)
            return DistributionQuery(np.array(self._nodes), top=top)
        query = (
            DistributionQuery(np.zeros(0, dtype=np.int64))
            if self._beams is None
            else self._beams.query()
        )
        query.statistics = False
        return query

    def advance(self, query: DistributionQuery) -> None:
        if self._beams is not None:
            self._beams.advance(query)
            return
        for row, (question, item) in enumerate(self._queried):
            self._read(
                question, item, int(query.nodes[row]), query.tokens[row], query.logprobs[row]
            )
        self._ask()

    def _length(self, item: _Open) -> int:
        return min(4 * item.listed or _LIST, len(self._context.stops))

    def _read(self, question: int, item: _Open, node: int, tokens: Ints, logprobs: Floats) -> None:
        """Take up the continuations of a prefix that are not known yet, as far as its list is asked
        for.
        """
        length, above = self._length(item), float(self._context.trie.total[node])
        ends = len(item.tokens) + 1 == self._context.steps
        outcomes, waiting = self._outcomes[question], self._open[question]
        floor = self._goal.floor(outcomes)
        logprobs = logprobs[:length]
        for token, logprob in zip(
            tokens[item.listed : length].tolist(), logprobs[item.listed :].tolist(), strict=True
        ):
            if logprob == -np.inf or above + logprob < floor:
                return
            cost, longer = -(above + logprob), (*item.tokens, token)
            if ends or self._context.stops[token]:
                insort(outcomes, _Outcome(cost, longer, node, logprob))
                floor = self._goal.floor(outcomes)
            else:
                heappush(waiting, _Open(cost, longer, 0, node, logprob, -cost))
        if length < len(self._context.stops):
            unlisted = above + np.log(max(1.0 - float(np.exp(logprobs).sum()), _ROUNDING))
            heappush(
                waiting,
                _Open(
                    -(above + float(logprobs[-1])), item.tokens, length, node, 0.0, float(unlisted)
                ),
            )

    def _ask(self) -> None:
        """Choose what to look at next; where nothing is left, put the answers into the trie."""
        self._queried = []
        for question, waiting in enumerate(self._open):
            before: list[float] = []
            while self._is_needed(question, before):
                new = not waiting[0].listed and len(waiting[0].tokens) > 0
                if new and not self._rows[question]:
                    break
                self._rows[question] -= new
                self._queried.append((question, heappop(waiting)))
                before.append(self._queried[-1][1].log_mass)
        if self._queried:
            self._nodes = [item.node for _, item in self._queried]
            new_ones = [
                at for at, (_, item) in enumerate(self._queried) if not item.listed and item.tokens
            ]
            for at, node in zip(
                new_ones, self._grown([self._queried[at][1] for at in new_ones]), strict=True
            ):
                self._nodes[at] = node
            return
        self._ends = [self._grown(self._goal.chosen(outcomes)) for outcomes in self._outcomes]
        helped = [
            not ends or not self.proof(question)[0] for question, ends in enumerate(self._ends)
        ]
        if self._width and any(helped):
            self._beams = BeamState(Beam(self._width), self._context, np.array(helped))

    def _is_needed(self, question: int, before: Sequence[float]) -> bool:
        waiting = self._open[question]
        return bool(waiting) and self._goal.needs(waiting[0].cost, self._outcomes[question], before)

    def _grown(self, items: Sequence[_Outcome | _Open]) -> list[int]:
        """The nodes of answers, or of prefixes that have not been run."""
        nodes = self._context.trie.grow(
            np.array([item.node for item in items], dtype=np.int64),
            np.array([item.tokens[-1] for item in items], dtype=np.int64),
            np.array([item.logprob for item in items], dtype=np.float64),
        )
        grown: list[int] = nodes.tolist()
        return grown

    def proof(self, question: int) -> tuple[bool | None, float | None]:
        """Whether a question's outcomes are proven; if not, the most log-probability of a missing
        one.
        """
        return (
            (False, -self._open[question][0].cost)
            if self._is_needed(question, [])
            else (True, None)
        )

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        nodes, trie = self._ends[question], self._context.trie
        if self._beams is not None and (
            more := [node for node, _ in self._beams.answers(question)]
        ):
            outcomes = {outcome.tokens: outcome for outcome in self._outcomes[question]}
            for node in more:
                cost, above = -float(trie.total[node]), int(trie.parent[node])
                outcomes[trie.tokens(node)] = _Outcome(
                    cost, trie.tokens(node), above, float(trie.logprob[node])
                )
            merged = sorted(outcomes.values())
            nodes = self._grown(self._goal.chosen(merged) or merged[:1])
        return [(node, None) for node in nodes]
