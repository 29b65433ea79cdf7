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
    """A complete answer: −log p, its tokens, the node above the last, and the last's log p."""

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
    """Which outcomes a search is after, given the ``outcomes`` so far, most probable first."""

    def floor(self, outcomes: Sequence[_Outcome], /) -> float:
        """The log-probability below which no outcome can ever matter."""

    def needs(self, cost: float, outcomes: Sequence[_Outcome], before: Sequence[float], /) -> bool:
        """Whether the search must look at the open prefix of ``cost``.

        ``before`` holds the log masses of the more probable open ones. A no means not yet, and,
        where ``before`` is empty, never.
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
    """The B most probable, where B minimises r_B / (``size`` - B) over 0 ≤ B < ``size``.

    r_B is the mass outside them. A further outcome is a gain as long as its probability is above
    that ratio, and the first that is none is the last to be looked at: the ratio then grows and the
    probabilities fall.
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
        outside = 1.0
        size = 0
        while size < min(len(outcomes), self._size - 1):
            p = float(np.exp(-outcomes[size].cost))
            if p <= outside / (self._size - size):
                break
            outside, size = outside - p, size + 1
        return size, outside / (self._size - size)


class MostProbableState:
    """Uniform-cost search, for all questions of a batch at once.

    Each step looks at every prefix that is known to be needed. At most ``rows`` prefixes are run
    for a question, that of the prompt not counted. A beam search of ``width`` (0: none) helps with
    a question of which nothing is found, or not all before it is stopped; what it finds counts as
    found, and its best answer is the least that a question gets.
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
        if self._beams is None:
            return DistributionQuery(np.zeros(0, dtype=np.int64))
        query = self._beams.query()
        query.statistics = False
        return query

    def advance(self, query: DistributionQuery) -> None:
        if self._beams is not None:
            self._beams.advance(query)
            return
        for row, (question, item) in enumerate(self._queried):
            node = int(query.nodes[row])
            self._read(question, item, node, query.tokens[row], query.logprobs[row])
        self._ask()

    def _length(self, item: _Open) -> int:
        """How many continuations of a prefix to read."""
        return min(4 * item.listed or _LIST, len(self._context.stops))

    def _read(self, question: int, item: _Open, node: int, tokens: Ints, logprobs: Floats) -> None:
        """Take up the new continuations of a prefix, as far as its list is asked for."""
        outcomes = self._outcomes[question]
        length = self._length(item)
        above = float(self._context.trie.total[node])
        is_last_step = len(item.tokens) + 1 == self._context.steps
        floor = self._goal.floor(outcomes)
        logprobs = logprobs[:length]
        new_tokens = tokens[item.listed : length].tolist()
        for token, logprob in zip(new_tokens, logprobs[item.listed :].tolist(), strict=True):
            total = above + logprob
            if logprob == -np.inf or total < floor:
                return
            longer = (*item.tokens, token)
            if is_last_step or self._context.stops[token]:
                insort(outcomes, _Outcome(-total, longer, node, logprob))
                floor = self._goal.floor(outcomes)
            else:
                heappush(self._open[question], _Open(-total, longer, 0, node, logprob, total))
        if length < len(self._context.stops):
            heappush(self._open[question], _rest(item, node, above, logprobs))

    def _ask(self) -> None:
        """Choose what to look at next; where nothing is left, put the answers into the trie."""
        self._queried = []
        for question in range(len(self._open)):
            self._queried += [(question, item) for item in self._next_needed(question)]
        if self._queried:
            self._nodes = self._nodes_of([item for _, item in self._queried])
            return
        self._ends = [self._grown(self._goal.chosen(outcomes)) for outcomes in self._outcomes]
        need_help = [
            not ends or not self.proof(question)[0] for question, ends in enumerate(self._ends)
        ]
        if self._width and any(need_help):
            self._beams = BeamState(Beam(self._width), self._context, np.array(need_help))

    def _next_needed(self, question: int) -> list[_Open]:
        """Take the prefixes of a question that must be looked at, as far as its rows allow."""
        waiting = self._open[question]
        needed: list[_Open] = []
        log_masses: list[float] = []
        while self._is_needed(question, log_masses):
            if _must_be_run(waiting[0]):
                if not self._rows[question]:
                    break
                self._rows[question] -= 1
            needed.append(heappop(waiting))
            log_masses.append(needed[-1].log_mass)
        return needed

    def _nodes_of(self, items: Sequence[_Open]) -> list[int]:
        """The nodes of prefixes, made where they have not been run."""
        grown = iter(self._grown([item for item in items if _must_be_run(item)]))
        return [next(grown) if _must_be_run(item) else item.node for item in items]

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
        """Whether a question's outcomes are proven; if not, the most log p of a missing one."""
        if self._is_needed(question, []):
            return False, -self._open[question][0].cost
        return True, None

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        nodes = self._ends[question]
        if self._beams is not None:
            of_beams = [node for node, _ in self._beams.answers(question)]
            if of_beams:
                nodes = self._best_of_both(question, of_beams)
        return [(node, None) for node in nodes]

    def _best_of_both(self, question: int, of_beams: Sequence[int]) -> list[int]:
        """The wanted ones among a question's outcomes and the answers of the beam search."""
        trie = self._context.trie
        outcomes = {outcome.tokens: outcome for outcome in self._outcomes[question]}
        for node in of_beams:
            tokens = trie.tokens(node)
            parent = int(trie.parent[node])
            cost = -float(trie.total[node])
            outcomes[tokens] = _Outcome(cost, tokens, parent, float(trie.logprob[node]))
        best_first = sorted(outcomes.values())
        return self._grown(self._goal.chosen(best_first) or best_first[:1])


def _must_be_run(item: _Open) -> bool:
    """Whether a prefix has not been run; that of the prompt has."""
    return item.listed == 0 and len(item.tokens) > 0


def _rest(item: _Open, node: int, above: float, logprobs: Floats) -> _Open:
    """What is left of a prefix, of log p ``above``, behind its first continuations."""
    mass = max(1.0 - float(np.exp(logprobs).sum()), _ROUNDING)
    cost = -(above + float(logprobs[-1]))
    return _Open(cost, item.tokens, len(logprobs), node, 0.0, float(above + np.log(mass)))
