"""Greedy and multinomial decoding as walks over the trie, all questions of a wave at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from beamuq.decoding.distributions import Ask
from beamuq.decoding.policies import CustomPolicy, Greedy, Policy, Prompt, Sample, Shipped
from beamuq.decoding.trie import Trie
from beamuq.decoding.uniforms import uniforms
from beamuq.errors import BeamUQError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """What all walks of a wave share: its prompts, which tokens stop, how long an answer may be, the seed, the trie."""

    prompts: Sequence[Prompt]
    stops: Bools
    steps: int
    seed: int
    trie: Trie

    def uniforms(self, strategy: str, size: int) -> Floats:
        """Uniforms of shape (questions, size, steps)."""
        return np.stack([uniforms(self.seed, prompt.id, strategy, size, self.steps) for prompt in self.prompts])


class Walk(Protocol):
    """A policy under way: again and again it asks about nodes, then chooses tokens from the answer."""

    @property
    def policy(self) -> Policy: ...

    def ask(self) -> Ask:
        """What the policy must know to go on; about no node when it is done."""

    def step(self, asked: Ask) -> None:
        """Choose: make children in the trie. Only called when something was asked."""

    def found(self, question: int) -> list[tuple[int, float | None]]:
        """The final nodes of one question in order of rank, with the log-probability under the policy's law."""


class CustomWalk:
    """A walk from outside the package, held to being a search: its candidates are weighed by their probability.

    Raises
    ------
    BeamUQError
        If it draws, or finds the same tokens twice for a question.
    """

    def __init__(self, policy: CustomPolicy, setting: Setting) -> None:
        self.policy = policy
        self._walk = policy.walk(setting)
        self._prompts = setting.prompts

    def ask(self) -> Ask:
        asked = self._walk.ask()
        if asked.uniforms is not None:
            raise self._refused("asks for draws")
        return asked

    def step(self, asked: Ask) -> None:
        self._walk.step(asked)

    def found(self, question: int) -> list[tuple[int, float | None]]:
        found = self._walk.found(question)
        if any(law is not None for _, law in found):
            raise self._refused("gives candidates a law that they were drawn from")
        if len({node for node, _ in found}) < len(found):
            raise self._refused(f"finds the same tokens twice for {self._prompts[question].id!r}")
        return found

    def _refused(self, what: str) -> BeamUQError:
        return BeamUQError(
            f"strategy {self.policy.strategy!r}: {what}; a strategy of your own must be a search, each outcome once "
            "(weights by probability would count a draw twice)"
        )


class GreedyWalk:
    """The most probable token at every step."""

    def __init__(self, policy: Greedy, setting: Setting) -> None:
        self.policy = policy
        self._setting = setting
        self._nodes: Ints = np.arange(len(setting.prompts))
        self._alive: Bools = np.ones(len(setting.prompts), dtype=bool)
        self._depth = 0

    def ask(self) -> Ask:
        return Ask(self._nodes[self._alive], top=1, statistics=True)

    def step(self, asked: Ask) -> None:
        tokens = asked.tokens[:, 0]
        self._nodes[self._alive] = self._setting.trie.grow(asked.nodes, tokens, asked.logprobs[:, 0])
        self._depth += 1
        self._alive[self._alive] = ~self._setting.stops[tokens] & (self._depth < self._setting.steps)

    def found(self, question: int) -> list[tuple[int, float | None]]:
        return [(int(self._nodes[question]), None)]


class SampleWalk:
    """Independent draws; the uniform of (question, strategy, sample, step) decides each token (D7)."""

    def __init__(self, policy: Sample | Shipped, setting: Setting) -> None:
        self.policy = policy
        size = policy.size if isinstance(policy, Sample) else 1
        self._setting = setting
        self._uniforms = setting.uniforms(policy.strategy, size)
        self._nodes: Ints = np.repeat(np.arange(len(setting.prompts))[:, None], size, axis=1)
        self._alive: Bools = np.ones(self._nodes.shape, dtype=bool)
        self._logprobs: Floats = np.zeros(self._nodes.shape)
        self._depth = 0

    def ask(self) -> Ask:
        asked = Ask(self._nodes[self._alive], temperature=self.policy.temperature)
        if len(asked.nodes):
            asked.uniforms = self._uniforms[:, :, self._depth][self._alive]
        if isinstance(self.policy, Shipped):
            asked.top_k, asked.top_p, asked.statistics = self.policy.top_k, self.policy.top_p, True
        return asked

    def step(self, asked: Ask) -> None:
        self._nodes[self._alive] = self._setting.trie.grow(asked.nodes, asked.tokens, asked.logprobs)
        self._logprobs[self._alive] += asked.policy_logprobs
        self._depth += 1
        self._alive[self._alive] = ~self._setting.stops[asked.tokens] & (self._depth < self._setting.steps)

    def found(self, question: int) -> list[tuple[int, float | None]]:
        return list(zip(self._nodes[question].tolist(), self._logprobs[question].tolist(), strict=True))
