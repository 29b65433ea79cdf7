"""Search the optimal set of outcomes, then draw outside it, independently or on lattices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Floats, Ints
from beamuq.decoding.beam_search import Beam, BeamState
from beamuq.decoding.most_probable import (
    LEAST_RESIDUAL,
    ROWS_A_QUESTION,
    AtLeast,
    BestSplit,
    MostProbableState,
)
from beamuq.decoding.next_token_distributions import DistributionQuery, ProbabilityEdits
from beamuq.decoding.random_numbers import uniforms
from beamuq.decoding.search_state import (
    GrowingAnswers,
    Policy,
    ProvenState,
    SearchContext,
    SearchState,
    at_least_one,
)


@dataclass(frozen=True)
class Hybrid:
    """A beam search of width ``beams``, then ``size`` - ``beams`` draws outside its answers.

    The draws follow the model's distribution conditioned on being none of the beams' token
    sequences; they may repeat. There are none where the beams leave less than 1e-9 of the mass.
    """

    size: int
    beams: int

    def __post_init__(self) -> None:
        at_least_one("beams", self.beams)
        if self.beams > self.size:
            raise ValueError(f"beams must be at most size {self.size}, not {self.beams}")

    @property
    def strategy(self) -> str:
        return strategy_names.hybrid(self.beams)

    def start(self, context: SearchContext) -> SetThenDrawsState:
        search = BeamState(Beam(self.beams), context)
        return SetThenDrawsState(self, context, search, lambda _: self.size - self.beams)


@dataclass(frozen=True)
class AllAbove:
    """Every outcome whose probability is at least ``p``, then ``draws`` outside these.

    The draws are independent, or the points of so many independent ``lattices`` of equal size.
    There are none where the set leaves less than 1e-9 of the mass. A question is stopped after
    ``rows`` prefixes, with the outcomes found until then. Without draws, a question that has no
    outcome so probable gets the answer of greedy decoding alone.
    """

    p: float
    draws: int = 0
    lattices: int = 0
    rows: int = ROWS_A_QUESTION

    def __post_init__(self) -> None:
        at_least_one("rows", self.rows)
        if not 0 < self.p < 1:
            raise ValueError(f"p must be between 0 and 1, not {self.p}")
        if (
            self.draws < 0
            or self.lattices < 0
            or (self.lattices and (not self.draws or self.draws % self.lattices))
        ):
            raise ValueError(f"lattices must divide draws {self.draws}, not be {self.lattices}")

    @property
    def strategy(self) -> str:
        return strategy_names.all_above(self.p, self.draws, self.lattices)

    def start(self, context: SearchContext) -> SearchState:
        width = 0 if self.draws else 1
        search = MostProbableState(self, context, AtLeast(self.p), self.rows, width)
        if not self.draws:
            return search
        return SetThenDrawsState(self, context, search, lambda _: self.draws, self.lattices)


@dataclass(frozen=True)
class OptimalStratified:
    """The B most probable outcomes, then ``size`` - B draws from the distribution without them.

    B minimises r_B / (size - B) over 0 ≤ B < size, where r_B is the mass outside the B most
    probable outcomes: it is chosen from the masses alone. The draws are independent or,
    ``systematic``-ally, the points of one lattice; only with independent ones is the variance of an
    estimated mean never above that of ``size`` samples. A question is stopped after ``rows``
    prefixes, with the best B of the outcomes found until then.
    """

    size: int
    systematic: bool = False
    rows: int = ROWS_A_QUESTION

    def __post_init__(self) -> None:
        at_least_one("size", self.size)
        at_least_one("rows", self.rows)

    @property
    def strategy(self) -> str:
        kind = "adaptive" if self.systematic else "optimal_stratified"
        return strategy_names.of_size(kind, self.size)

    def start(self, context: SearchContext) -> SetThenDrawsState:
        search = MostProbableState(self, context, BestSplit(self.size), self.rows, 0)
        return SetThenDrawsState(
            self, context, search, lambda set_size: self.size - set_size, int(self.systematic)
        )


@dataclass(frozen=True)
class Systematic:
    """The ``size`` points of one randomly shifted lattice through the cumulative distribution.

    This is arithmetic sampling (Vilnis et al., 2023). Each is a draw from the model's distribution;
    together they spread over it.
    """

    size: int

    def __post_init__(self) -> None:
        at_least_one("size", self.size)

    @property
    def strategy(self) -> str:
        return strategy_names.of_size("systematic", self.size)

    def start(self, context: SearchContext) -> SetThenDrawsState:
        return SetThenDrawsState(self, context, None, lambda _: self.size, 1)


class SetThenDrawsState:
    """Searches a set, reads the mass it leaves at every node on its outcomes' paths, then draws.

    Let R(n) be the mass that the set leaves below node n, relative to n: 0 at an outcome's own end,
    1 off their paths, and elsewhere R(n) = Σ_v p(v | n) R(nv). A draw at n takes v with probability
    p(v | n) R(nv) / R(n), so an outcome of the set can't be drawn, and an answer y has probability
    p(y) / R(root). Off-path mass is summed, not subtracted from 1, so a small R is as exact as a
    large one.

    A point of a lattice goes down by its position: where in the interval of the last token it fell
    decides the next. Each step costs it as many bits as the token is improbable. But once a node's
    share of the mass is below the lattice's spacing, no other point is there and this one is
    uniform inside it; from then on fresh uniform numbers serve as well, and the position has never
    lost more bits than the spacing has.

    ``search`` finds the set; None: it is empty. A question has ``draws`` by the size of its set,
    the most of an empty one; they make up ``lattices``, one after the other; 0: they are
    independent.
    """

    def __init__(
        self,
        policy: Policy,
        context: SearchContext,
        search: SearchState | None,
        draws: Callable[[int], int],
        lattices: int = 0,
    ) -> None:
        self.policy = policy
        self._context = context
        self._search = search
        self._number_of_draws = draws
        self._lattices = lattices
        self._keys = context.draw_keys(policy.strategy, draws(0))
        self._draws = GrowingAnswers(context, draws(0))
        self._positions: Floats = np.zeros(self._draws.nodes.shape)
        self._sets: list[list[int]] = []
        self._left: dict[int, float] = {}

    def query(self) -> DistributionQuery:
        searching = None if self._search is None else self._search.query()
        if searching is not None and len(searching.nodes):
            searching.statistics = False
            return searching
        if not self._sets:
            self._prepare_draws()
        nodes = self._draws.ends
        if not len(nodes):
            return DistributionQuery(nodes)
        if not self._paths.keys() <= self._left.keys():
            inner = np.array(list(self._paths))
            masses = np.zeros(len(inner))
            return DistributionQuery(inner, edits=self._excluding(inner), masses=masses)
        edits = self._excluding(np.unique(nodes))
        keys = self._draws.next_keys(self._keys)
        if self._lattices:
            points = self._next_uniforms(nodes, uniforms(keys))
            return DistributionQuery(nodes, uniforms=points, edits=edits)
        return DistributionQuery(nodes, keys=keys, edits=edits)

    def advance(self, query: DistributionQuery) -> None:
        if query.masses is not None:
            self._add_masses(query.nodes.tolist(), query.masses.tolist())
            roots = np.arange(len(self._draws.nodes))
            self._draws.alive[self._residuals(roots) < LEAST_RESIDUAL] = False
        elif query.draws:
            self._positions[self._draws.alive] = query.positions
            self._draws.grow(query.tokens, query.logprobs)
        elif self._search is not None:
            self._search.advance(query)

    def _prepare_draws(self) -> None:
        """Take up the set: its outcomes' paths, and how many draws there are.

        Nothing counts as left below the nodes of these paths until the masses off them are read.
        """
        self._sets = [self._found(question) for question in range(len(self._draws.nodes))]
        self._paths = self._children_on_paths()
        self._left = {child: 0.0 for below in self._paths.values() for child in below}
        self._counts = np.array([self._number_of_draws(len(ends)) for ends in self._sets])
        draws = np.arange(self._draws.nodes.shape[1])
        self._draws.alive &= draws < self._counts[:, None]
        self._place_lattices(draws)

    def _found(self, question: int) -> list[int]:
        """The nodes of the set that the search has found for a question."""
        if self._search is None:
            return []
        return [node for node, _ in self._search.answers(question)]

    def _children_on_paths(self) -> dict[int, list[int]]:
        """Of every node on a path to an outcome of the sets its children on such paths."""
        trie = self._context.trie
        children: dict[int, set[int]] = defaultdict(set)
        for ends in self._sets:
            for end in ends:
                for node in trie.path(end):
                    children[int(trie.parent[node])].add(node)
        return {node: sorted(below) for node, below in children.items()}

    def _place_lattices(self, draws: Ints) -> None:
        """Where the points of the lattices begin, for ``draws`` numbered from 0 on.

        The first point of a lattice decides the shift of all its points.
        """
        sizes = np.maximum(self._counts[:, None] // max(self._lattices, 1), 1)
        self._lattice_sizes = np.broadcast_to(sizes, self._draws.nodes.shape)
        if self._lattices:
            point = draws % self._lattice_sizes
            first = np.minimum(draws - point, len(draws) - 1)
            shifts = np.take_along_axis(uniforms(self._keys[:, :, 0].copy()), first, axis=1)
            self._positions = (point + shifts) / self._lattice_sizes

    def _next_uniforms(self, nodes: Ints, fresh: Floats) -> Floats:
        """What decides the next token of each live draw: ``fresh`` numbers or lattice positions."""
        trie = self._context.trie
        alive = self._draws.alive
        left = np.exp(trie.total[nodes]) * self._residuals(nodes)
        shares = left / self._residuals(trie.question[nodes])
        return np.where(shares * self._lattice_sizes[alive] >= 1, self._positions[alive], fresh)

    def _residuals(self, nodes: Ints) -> Floats:
        """R of each node; node q is the root of question q."""
        return np.array([self._left.get(node, 1.0) for node in nodes.tolist()])

    def _excluding(self, nodes: Ints) -> ProbabilityEdits | None:
        pairs = [(node, child) for node in nodes.tolist() for child in self._paths.get(node, [])]
        if not pairs:
            return None
        above, below = np.array(pairs).T
        return ProbabilityEdits(above, self._context.trie.token[below], self._residuals(below))

    def _add_masses(self, nodes: list[int], off_paths: list[float]) -> None:
        """R of every inner node of the set's paths, deepest first, from the mass off the paths."""
        trie = self._context.trie
        off_path = dict(zip(nodes, off_paths, strict=True))
        for node in sorted(nodes, key=lambda node: -int(trie.depth[node])):
            self._left[node] = off_path[node] + sum(
                float(np.exp(trie.logprob[child])) * self._left[child]
                for child in self._paths[node]
            )

    def proof(self, question: int) -> tuple[bool | None, float | None]:
        """The proof of the search for the set."""
        search = self._search
        return search.proof(question) if isinstance(search, ProvenState) else (None, None)

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        chosen: list[tuple[int, float | None]] = [(node, None) for node in self._sets[question]]
        residual = float(self._residuals(np.array([question]))[0])
        if residual < LEAST_RESIDUAL:
            return chosen
        draws = self._draws.nodes[question, : self._counts[question]].tolist()
        total = self._context.trie.total
        return chosen + [(node, float(total[node] - np.log(residual))) for node in draws]
