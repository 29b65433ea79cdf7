"""Samples that the server draws: one request a question, and other samples than the race's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Ints
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.random_numbers import draw_keys
from beamuq.decoding.search_state import SearchContext, at_least_one
from beamuq.decoding.served.served_model import Drawn, ServedModel

KEYED_BY = "server"


@dataclass(frozen=True)
class ServerSample:
    """``size`` independent draws at temperature 1, by the server.

    The server's own random numbers decide them: the same seed gives the same draws at most of one
    server at one time. Endings that ``merged`` counts as one become that one, with the sum of their
    probabilities.
    """

    size: int
    server: ServedModel = field(repr=False)
    stop_ids: frozenset[int] = field(repr=False)
    merged: frozenset[int] = field(repr=False)

    def __post_init__(self) -> None:
        at_least_one("size", self.size)

    @property
    def strategy(self) -> str:
        return strategy_names.sample(1.0)

    def start(self, context: SearchContext) -> ServerDrawsState:
        return ServerDrawsState(self, context)


class ServerDrawsState:
    """Draws that are whole before the first step; it asks nothing."""

    def __init__(self, policy: ServerSample, context: SearchContext) -> None:
        self.policy = policy
        self._context = context
        self._nodes = [self._drawn(question) for question in range(len(context.prompts))]

    def _drawn(self, question: int) -> list[int]:
        """The ends of a question's draws in the trie."""
        policy = self.policy
        prompt = self._context.prompts[question]
        key = int(draw_keys(self._context.seed, prompt.id, KEYED_BY, 1, 1)[0, 0])
        answers = policy.server.draw(
            prompt.token_ids,
            policy.size,
            seed=key,
            steps=self._context.steps,
            stop_ids=policy.stop_ids,
        )
        endings = self._merged_endings(prompt.token_ids, answers)
        return [self._grown(question, answer, endings) for answer in answers]

    def _merged_endings(
        self, prompt: Sequence[int], answers: Sequence[Drawn]
    ) -> dict[tuple[int, ...], float]:
        """The log p of the merged ending after the tokens before it, of answers that have one."""
        server = self.policy.server
        merged = sorted(self.policy.merged)
        ended = {answer.token_ids[:-1] for answer in answers if answer.token_ids[-1] in merged}
        befores = sorted(ended)
        if not befores:
            return {}
        prefixes = [(*prompt, *before) for before in befores]
        masses = np.zeros(len(befores))
        for first in range(0, len(merged), server.most_named):
            names = merged[first : first + server.most_named]
            masses += np.exp(server.named(prefixes, names)).sum(axis=1)
        return dict(zip(befores, np.log(masses).tolist(), strict=True))

    def _grown(self, question: int, answer: Drawn, endings: dict[tuple[int, ...], float]) -> int:
        tokens = list(answer.token_ids)
        logprobs = list(answer.token_logprobs)
        if tokens[-1] in self.policy.merged:
            logprobs[-1] = endings[answer.token_ids[:-1]]
            tokens[-1] = min(self.policy.merged)
        node = question
        for token, logprob in zip(tokens, logprobs, strict=True):
            parents: Ints = np.array([node])
            node = int(self._context.trie.grow(parents, np.array([token]), np.array([logprob]))[0])
        return node

    def query(self) -> DistributionQuery:
        return DistributionQuery(np.zeros(0, dtype=np.int64))

    def advance(self, query: DistributionQuery) -> None:
        """Nothing is left to choose."""

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        total = self._context.trie.total
        return [(node, float(total[node])) for node in self._nodes[question]]
