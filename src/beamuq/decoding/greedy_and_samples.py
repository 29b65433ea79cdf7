"""Greedy decoding, multinomial samples, and one draw under a model's shipped generation config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beamuq import strategy_names
from beamuq.array_types import Floats
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import GrowingAnswers, SearchContext, at_least_one, positive
from beamuq.errors import BeamUQError

# What else a generation config can change, with the value that changes nothing.
_OTHER_WARPERS = {
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "bad_words_ids": None,
    "num_beams": 1,
    "sequence_bias": None,
    "guidance_scale": 1.0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
}


@dataclass(frozen=True)
class Greedy:
    """The most probable token at every step; ties by token id."""

    strategy = strategy_names.GREEDY

    def start(self, context: SearchContext) -> GreedyState:
        return GreedyState(self, context)


@dataclass(frozen=True)
class Sample:
    """``size`` independent draws from the model's distribution, sharpened to 1/``temperature``."""

    size: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least_one("size", self.size)
        _warm(self.temperature)

    @property
    def strategy(self) -> str:
        return strategy_names.sample(self.temperature)

    def start(self, context: SearchContext) -> SamplesState:
        return SamplesState(self, context)


@dataclass(frozen=True)
class Shipped:
    """One draw under a model's shipped generation config: only to explain differences from print.

    The distribution is sharpened to 1/``temperature``, cut to the ``top_k`` most probable tokens
    (0: all), then to the fewest of them that hold ``top_p`` of the mass. ``top_k`` = 1 is greedy.
    """

    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    strategy = strategy_names.SHIPPED

    def __post_init__(self) -> None:
        _warm(self.temperature)
        positive("top_p", self.top_p)
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, not {self.top_k}")

    @classmethod
    def from_config(cls, config: Any) -> Shipped:
        """The distribution of a ``generation_config``, with ``generate``'s defaults.

        Raises BeamUQError if the config asks for something that changes the distribution in a way
        not known here, or for what is no distribution, such as a temperature of 0.
        """
        for name, neutral in _OTHER_WARPERS.items():
            if getattr(config, name, None) not in (None, neutral):
                raise BeamUQError(
                    f"generation_config.json: {name} = {getattr(config, name)!r} is not supported "
                    "by 'shipped'; leave 'shipped' out of the study for this model"
                )
        if not config.do_sample:
            return cls(top_k=1)
        settings = {name: getattr(config, name) for name in ("temperature", "top_k", "top_p")}
        try:
            return cls(**{name: value for name, value in settings.items() if value is not None})
        except (TypeError, ValueError) as error:
            raise BeamUQError(
                f"generation_config.json: {error}; leave 'shipped' out of the study for this model"
            ) from error

    def start(self, context: SearchContext) -> SamplesState:
        return SamplesState(self, context)


def _warm(temperature: float) -> None:
    """Refuse a temperature that is too low for a distribution."""
    if not temperature >= strategy_names.LEAST_TEMPERATURE:
        raise ValueError(
            f"temperature must be at least {strategy_names.LEAST_TEMPERATURE}, not {temperature}"
        )


class GreedyState:
    """One growing answer per question."""

    def __init__(self, policy: Greedy, context: SearchContext) -> None:
        self.policy = policy
        self._answers = GrowingAnswers(context, 1)

    def query(self) -> DistributionQuery:
        return DistributionQuery(self._answers.ends, top=1, statistics=True)

    def advance(self, query: DistributionQuery) -> None:
        self._answers.grow(query.tokens[:, 0], query.logprobs[:, 0])

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        return [(int(self._answers.nodes[question, 0]), None)]


class SamplesState:
    """Independent draws: the key of (question, strategy, sample, step) decides a token.

    Samples of all temperatures share their keys, so differences between temperatures are of common
    random numbers.
    """

    def __init__(self, policy: Sample | Shipped, context: SearchContext) -> None:
        self.policy = policy
        if isinstance(policy, Sample):
            self._keys = context.draw_keys("sample", policy.size)
        else:
            self._keys = context.draw_keys(policy.strategy, 1)
        self._answers = GrowingAnswers(context, self._keys.shape[1])
        self._logprobs: Floats = np.zeros(self._answers.nodes.shape)

    def query(self) -> DistributionQuery:
        query = DistributionQuery(self._answers.ends, temperature=self.policy.temperature)
        if len(query.nodes):
            query.keys = self._answers.next_keys(self._keys)
        if isinstance(self.policy, Shipped):
            query.top_k = self.policy.top_k
            query.top_p = self.policy.top_p
            query.statistics = True
        return query

    def advance(self, query: DistributionQuery) -> None:
        self._logprobs[self._answers.alive] += query.policy_logprobs
        self._answers.grow(query.tokens, query.logprobs)

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        nodes = self._answers.nodes[question].tolist()
        return list(zip(nodes, self._logprobs[question].tolist(), strict=True))
