"""The trie of generated tokens: one node per distinct prefix of a question, for all policies."""

from __future__ import annotations

import numpy as np

from beamuq.array_types import Floats, Ints


class TokenTrie:
    """Nodes of all questions of a batch; node q is the root of question q, its prompt's end.

    ``parent``, ``token``, ``question``, ``depth`` (0 at a root), ``logprob`` (of the node's own
    token) and ``total`` (of the path from the root, float64) are arrays over nodes.
    """

    def __init__(self, questions: int) -> None:
        self.parent: Ints = np.full(questions, -1, dtype=np.int64)
        self.token: Ints = np.full(questions, -1, dtype=np.int64)
        self.question: Ints = np.arange(questions, dtype=np.int64)
        self.depth: Ints = np.zeros(questions, dtype=np.int64)
        self.logprob: Floats = np.zeros(questions)
        self.total: Floats = np.zeros(questions)
        self._child: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.parent)

    def grow(self, parents: Ints, tokens: Ints, logprobs: Floats) -> Ints:
        """The children of ``parents`` by ``tokens`` (1-d arrays), made where there are none yet."""
        nodes = np.empty(len(parents), dtype=np.int64)
        fresh: list[int] = []
        for index, key in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
            node = self._child.get(key)
            if node is None:
                node = len(self) + len(fresh)
                self._child[key] = node
                fresh.append(index)
            nodes[index] = node
        if fresh:
            above = parents[fresh]
            self.parent = np.concatenate([self.parent, above], dtype=np.int64)
            self.token = np.concatenate([self.token, tokens[fresh]], dtype=np.int64)
            self.question = np.concatenate([self.question, self.question[above]])
            self.depth = np.concatenate([self.depth, self.depth[above] + 1])
            self.logprob = np.concatenate([self.logprob, logprobs[fresh]])
            self.total = np.concatenate([self.total, self.total[above] + logprobs[fresh]])
            # All searches read them, those of plug-ins too.
            for name in ("parent", "token", "question", "depth", "logprob", "total"):
                getattr(self, name).setflags(write=False)
        return nodes

    def path(self, node: int) -> list[int]:
        """The nodes from the first generated token down to ``node``."""
        nodes = []
        while self.parent[node] >= 0:
            nodes.append(node)
            node = int(self.parent[node])
        return nodes[::-1]

    def tokens(self, node: int) -> tuple[int, ...]:
        """The tokens from the first generated one down to ``node``."""
        return tuple(int(self.token[above]) for above in self.path(node))

    def ancestors(self, nodes: Ints) -> Ints:
        """The nodes of each node's path, itself last: shape (len(nodes), greatest depth).

        The path of a shallower node is filled up in front with repetitions of its first node.
        """
        levels = [nodes]
        for _ in range(int(self.depth[nodes].max()) - 1):
            above = self.parent[levels[-1]]
            levels.append(np.where(self.depth[above] > 0, above, levels[-1]))
        return np.stack(levels[::-1], axis=1)
