"""Beams, then draws from the exact conditional law that excludes them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from beamuq.decoding.beams import BeamWalk
from beamuq.decoding.distributions import Ask, Edits
from beamuq.decoding.policies import Beam, Hybrid
from beamuq.decoding.walks import Setting

LEAST_RESIDUAL = 1e-9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class HybridWalk:
    """A beam search, a look at the mass it leaves at every node on its beams' paths, then draws.

    Let R(n) be the mass that the beams leave below node n, relative to n: 0 at a beam's own end, 1 off their paths,
    and elsewhere R(n) = Σ_v p(v | n) R(nv). A draw at n takes v with probability p(v | n) R(nv) / R(n), so a beam
    can't be drawn, and an answer y has probability p(y) / R(root). Off-path mass is summed, not subtracted from 1, so
    a small R is as exact as a large one.
    """

    def __init__(self, policy: Hybrid, setting: Setting) -> None:
        self.policy = policy
        self._setting = setting
        self._search = BeamWalk(Beam(policy.beams), setting)
        self._uniforms = setting.uniforms(policy.strategy, policy.size - policy.beams)
        self._nodes: Ints = np.repeat(np.arange(len(setting.prompts))[:, None], self._uniforms.shape[1], axis=1)
        self._alive = np.ones(self._nodes.shape, dtype=bool)
        self._depth = 0
        self._left: dict[int, float] | None = None
        self._paths: dict[int, list[int]] = {}

    def ask(self) -> Ask:
        searching = self._search.ask()
        if len(searching.nodes):
            searching.statistics = False
            return searching
        nodes = self._nodes[self._alive]
        if not len(nodes):
            return Ask(nodes)
        if self._left is None:
            return self._ask_masses()
        uniforms = self._uniforms[:, :, self._depth][self._alive]
        return Ask(nodes, uniforms=uniforms, edits=self._edits(nodes.tolist(), self._left))

    def step(self, asked: Ask) -> None:
        if asked.top:
            self._search.step(asked)
            if not len(self._search.ask().nodes):
                self._note_paths()
        elif asked.masses is not None:
            self._left = self._leftover(asked.nodes.tolist(), asked.masses.tolist())
            residuals = np.array([self._left[question] for question in range(len(self._nodes))])
            self._alive[residuals < LEAST_RESIDUAL] = False
        else:
            self._nodes[self._alive] = self._setting.trie.grow(asked.nodes, asked.tokens, asked.logprobs)
            self._depth += 1
            self._alive[self._alive] = ~self._setting.stops[asked.tokens] & (self._depth < self._setting.steps)

    def _note_paths(self) -> None:
        """Remember, for every node on a beam's path, its children on such paths, and those children's tokens."""
        children: dict[int, set[int]] = defaultdict(set)
        for question in range(len(self._nodes)):
            for end, _ in self._search.found(question):
                for node in self._setting.trie.path(end):
                    children[int(self._setting.trie.parent[node])].add(node)
        self._paths = {node: sorted(below) for node, below in children.items()}
        self._tokens = {
            child: int(self._setting.trie.token[child]) for below in self._paths.values() for child in below
        }

    def _ask_masses(self) -> Ask:
        """The mass off the beams' paths at every inner node of them."""
        nodes = list(self._paths)
        gone = {child: 0.0 for below in self._paths.values() for child in below}
        return Ask(np.array(nodes), edits=self._edits(nodes, gone), masses=np.zeros(len(nodes)))

    def _edits(self, nodes: list[int], left: dict[int, float]) -> Edits:
        pairs = [(row, child) for row, node in enumerate(nodes) for child in self._paths.get(node, [])]
        return Edits(
            np.array([row for row, _ in pairs], dtype=np.int64),
            np.array([self._tokens[child] for _, child in pairs], dtype=np.int64),
            np.array([left[child] for _, child in pairs], dtype=np.float64),
        )

    def _leftover(self, nodes: list[int], off_paths: list[float]) -> dict[int, float]:
        """R of every node on a beam's path, deepest first."""
        trie = self._setting.trie
        left = dict.fromkeys(self._tokens, 0.0)
        for node, mass in sorted(zip(nodes, off_paths, strict=True), key=lambda pair: -int(trie.depth[pair[0]])):
            left[node] = mass + sum(float(np.exp(trie.logprob[c])) * left[c] for c in self._paths[node])
        return left

    def found(self, question: int) -> list[tuple[int, float | None]]:
        beams = self._search.found(question)
        if self._left is None or self._left[question] < LEAST_RESIDUAL:
            return beams
        log_residual = np.log(self._left[question])
        draws = self._nodes[question].tolist()
        return beams + [(node, float(self._setting.trie.total[node] - log_residual)) for node in draws]
