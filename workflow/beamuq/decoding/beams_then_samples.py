"""Beams, then draws from the exact conditional distribution that excludes them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from beamuq import strategy_names
from beamuq.decoding.beam_search import Beam, BeamState
from beamuq.decoding.next_token_distributions import DistributionQuery, ProbabilityEdits
from beamuq.decoding.search_state import GrowingAnswers, SearchContext, positive

LEAST_RESIDUAL = 1e-9


@dataclass(frozen=True)
class Hybrid:
    """A beam search of width ``beams``, then ``size`` - ``beams`` draws from the distribution without its answers.

    The draws follow the model's distribution conditioned on being none of the beams' token sequences; they may repeat.
    There are none where the beams leave less than 1e-9 of the mass.
    """

    size: int
    beams: int

    def __post_init__(self) -> None:
        positive("beams", self.beams)
        if self.beams > self.size:
            raise ValueError(f"beams must be at most size {self.size}, not {self.beams}")

    @property
    def strategy(self) -> str:
        return strategy_names.hybrid(self.beams)

    def start(self, context: SearchContext) -> HybridState:
        return HybridState(self, context)


class HybridState:
    """A beam search, a look at the mass it leaves at every node on its beams' paths, then draws.

    Let R(n) be the mass that the beams leave below node n, relative to n: 0 at a beam's own end, 1 off their paths,
    and elsewhere R(n) = Σ_v p(v | n) R(nv). A draw at n takes v with probability p(v | n) R(nv) / R(n), so a beam
    can't be drawn, and an answer y has probability p(y) / R(root). Off-path mass is summed, not subtracted from 1, so
    a small R is as exact as a large one.
    """

    def __init__(self, policy: Hybrid, context: SearchContext) -> None:
        self.policy = policy
        self._context = context
        self._search = BeamState(Beam(policy.beams), context)
        self._uniforms = context.uniforms(policy.strategy, policy.size - policy.beams)
        self._draws = GrowingAnswers(context, policy.size - policy.beams)
        self._left: dict[int, float] | None = None
        self._paths: dict[int, list[int]] = {}

    def query(self) -> DistributionQuery:
        searching = self._search.query()
        if len(searching.nodes):
            searching.statistics = False
            return searching
        nodes = self._draws.ends
        if not len(nodes):
            return DistributionQuery(nodes)
        if self._left is None:
            return self._mass_query()
        edits = self._excluding(nodes.tolist(), self._left)
        return DistributionQuery(nodes, uniforms=self._draws.uniforms(self._uniforms), edits=edits)

    def advance(self, query: DistributionQuery) -> None:
        if query.top:
            self._search.advance(query)
            if not len(self._search.query().nodes):
                self._note_paths()
        elif query.masses is not None:
            self._left = self._leftover(query.nodes.tolist(), query.masses.tolist())
            residuals = np.array([self._left[question] for question in range(len(self._draws.nodes))])
            self._draws.alive[residuals < LEAST_RESIDUAL] = False
        else:
            self._draws.grow(query.tokens, query.logprobs)

    def _note_paths(self) -> None:
        """Remember, for every node on a beam's path, its children on such paths, and those children's tokens."""
        children: dict[int, set[int]] = defaultdict(set)
        for question in range(len(self._draws.nodes)):
            for end, _ in self._search.found(question):
                for node in self._context.trie.path(end):
                    children[int(self._context.trie.parent[node])].add(node)
        self._paths = {node: sorted(below) for node, below in children.items()}
        self._tokens = {
            child: int(self._context.trie.token[child]) for below in self._paths.values() for child in below
        }

    def _mass_query(self) -> DistributionQuery:
        """The mass off the beams' paths at every inner node of them."""
        nodes = list(self._paths)
        gone = {child: 0.0 for below in self._paths.values() for child in below}
        return DistributionQuery(np.array(nodes), edits=self._excluding(nodes, gone), masses=np.zeros(len(nodes)))

    def _excluding(self, nodes: list[int], left: dict[int, float]) -> ProbabilityEdits:
        pairs = [(row, child) for row, node in enumerate(nodes) for child in self._paths.get(node, [])]
        return ProbabilityEdits(
            np.array([row for row, _ in pairs], dtype=np.int64),
            np.array([self._tokens[child] for _, child in pairs], dtype=np.int64),
            np.array([left[child] for _, child in pairs], dtype=np.float64),
        )

    def _leftover(self, nodes: list[int], off_paths: list[float]) -> dict[int, float]:
        """R of every node on a beam's path, deepest first."""
        trie = self._context.trie
        left = dict.fromkeys(self._tokens, 0.0)
        for node, mass in sorted(zip(nodes, off_paths, strict=True), key=lambda pair: -int(trie.depth[pair[0]])):
            left[node] = mass + sum(float(np.exp(trie.logprob[c])) * left[c] for c in self._paths[node])
        return left

    def found(self, question: int) -> list[tuple[int, float | None]]:
        beams = self._search.found(question)
        if self._left is None or self._left[question] < LEAST_RESIDUAL:
            return beams
        log_residual = np.log(self._left[question])
        draws = self._draws.nodes[question].tolist()
        return beams + [(node, float(self._context.trie.total[node] - log_residual)) for node in draws]
