"""Stochastic beams: outcomes drawn without replacement by the Gumbel top-k trick, top down.

The method is that of Kool et al., 2019. Every outcome's log-probability is perturbed by a Gumbel
number of its own; the ``size`` largest are the draws, and the next one is the threshold κ. The
largest below a prefix is Gumbel about the prefix's log-probability, whichever outcome it belongs
to; once it is given to the continuation that has it, the largest among all others is a Gumbel
number about their mass, truncated there. So only prefixes on the way to the largest are run, and no
outcome is perturbed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from beamuq import strategy_names
from beamuq.decoding.next_token_distributions import DistributionQuery, ProbabilityEdits
from beamuq.decoding.random_numbers import draw_keys, uniforms
from beamuq.decoding.search_state import SearchContext, at_least_one


@dataclass(frozen=True)
class Stochastic:
    """``size`` distinct outcomes, the k-th drawn from the distribution without those before it.

    The ``policy_logprob`` of each is the log of its probability of being among them, given κ: 1 -
    exp(-exp(log p - κ)). A model that has no more outcomes gives all of them, each surely.
    """

    size: int

    def __post_init__(self) -> None:
        at_least_one("size", self.size)

    @property
    def strategy(self) -> str:
        return strategy_names.of_size("stochastic", self.size)

    def start(self, context: SearchContext) -> StochasticState:
        return StochasticState(self, context)


@dataclass
class _Part:
    """Outcomes of a question below ``node``, without those of its ``split_off`` continuations.

    ``largest`` is the largest of their perturbed log-probabilities; until their mass is known
    (``has_mass``) it is that of the part they were split from, an upper bound. The continuation
    ``token`` has it, with ``logprob``.
    """

    node: int
    largest: float
    split_off: list[int] = field(default_factory=list)
    has_mass: bool = True
    complete: bool = False
    token: int = -1
    logprob: float = 0.0


class StochasticState:
    """Parts of each question's outcomes, of which the ``size`` + 1 largest are split further."""

    def __init__(self, policy: Stochastic, context: SearchContext) -> None:
        self.policy = policy
        self._context = context
        self._keys = [self._keys_of(prompt.id) for prompt in context.prompts]
        self._parts = [
            [_Part(question, self._gumbel(question))] for question in range(len(context.prompts))
        ]
        self._queried: list[tuple[int, _Part]] = []
        self._ask()

    def _keys_of(self, question: str) -> Iterator[np.int64]:
        """The keys of a question, one after the other."""
        used = 0
        while True:
            strategy = self.policy.strategy
            keys = draw_keys(self._context.seed, question, strategy, 1, 2 * used + 64)[0]
            yield from keys[used:]
            used = len(keys)

    def _gumbel(self, question: int, location: float = 0.0, below: float = np.inf) -> float:
        """A Gumbel number about ``location``, truncated at ``below``."""
        uniform = 1.0 - float(uniforms(np.array([next(self._keys[question])]))[0])
        exponential = -np.log(uniform) + np.exp(location - below)
        return float(location - np.log(exponential)) if exponential > 0 else below

    def query(self) -> DistributionQuery:
        parts = [part for _, part in self._queried]
        query = DistributionQuery(np.array([part.node for part in parts], dtype=np.int64))
        if parts:
            pairs = [(part.node, token) for part in parts for token in part.split_off]
            nodes, tokens = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
            query.edits = ProbabilityEdits(nodes, tokens, np.zeros(len(pairs)))
            query.keys = self._query_keys
            query.masses = np.zeros(len(parts))
        return query

    def advance(self, query: DistributionQuery) -> None:
        masses = np.zeros(0) if query.masses is None else query.masses
        for row, (question, part) in enumerate(self._queried):
            part.token = int(query.tokens[row])
            part.logprob = float(query.logprobs[row])
            if not part.has_mass:
                part.has_mass = True
                part.largest = self._largest(question, part, float(masses[row]))
        self._ask()

    def _largest(self, question: int, part: _Part, mass: float) -> float:
        """The largest perturbed log-probability of a part of ``mass``, relative to its node."""
        if mass <= 0:
            return -np.inf
        location = float(self._context.trie.total[part.node]) + np.log(mass)
        return self._gumbel(question, location, part.largest)

    def _ask(self) -> None:
        """Split the largest parts as far as their continuations are known; ask about the others."""
        self._queried = []
        for question in range(len(self._parts)):
            parts = [part for part in self._parts[question] if part.largest > -np.inf]
            self._parts[question] = parts
            self._split_known(parts)
            first = self._first(parts)
            threshold = first[-1].largest if len(first) > self.policy.size else -np.inf
            for part in parts:
                if not part.has_mass and part.largest > threshold:
                    self._queried.append((question, part))
            self._queried += [(question, part) for part in first if not part.complete]
        next_keys = [next(self._keys[question]) for question, _ in self._queried]
        self._query_keys = np.array(next_keys, dtype=np.int64)

    def _split_known(self, parts: list[_Part]) -> None:
        """Split the largest parts until each of them is complete or must be asked about."""
        while True:
            chosen = [part for part in self._first(parts) if not part.complete and part.token >= 0]
            if not chosen:
                return
            for part in chosen:
                parts.append(self._grown(part))
                part.split_off.append(part.token)
                part.has_mass = False
                part.token = -1

    def _first(self, parts: list[_Part]) -> list[_Part]:
        """The ``size`` + 1 parts of the largest known values, largest first."""
        with_mass = [part for part in parts if part.has_mass]
        with_mass.sort(key=lambda part: (-part.largest, part.node))
        return with_mass[: self.policy.size + 1]

    def _grown(self, part: _Part) -> _Part:
        """The outcomes below a part's continuation that has its largest value."""
        trie = self._context.trie
        parents = np.array([part.node])
        node = int(trie.grow(parents, np.array([part.token]), np.array([part.logprob]))[0])
        is_cut = int(trie.depth[node]) == self._context.steps
        is_complete = bool(self._context.stops[part.token]) or is_cut
        return _Part(node, part.largest, complete=is_complete)

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        first = self._first(self._parts[question])
        if len(first) <= self.policy.size:
            return [(part.node, 0.0) for part in first]
        threshold = first[-1].largest
        drawn: list[tuple[int, float | None]] = []
        for part in first[:-1]:
            above = self._context.trie.total[part.node] - threshold
            drawn.append((part.node, float(np.log(-np.expm1(-np.exp(above))))))
        return drawn
