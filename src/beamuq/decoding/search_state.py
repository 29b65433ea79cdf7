"""The types of decoding: prompts, policies, the searches they start, the candidates they yield.

A policy is a value; every later table names its candidates by its ``strategy``. A policy starts a
search on a batch of questions; the search asks for next-token distributions and chooses tokens from
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

import numpy as np

from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.random_numbers import draw_keys
from beamuq.errors import BeamUQError


@dataclass(frozen=True)
class Prompt:
    """A question's prompt as tokens, the start token included if the model wants one."""

    id: str
    token_ids: tuple[int, ...]


def compose_batches(prompts: Sequence[Prompt], size: int) -> list[list[Prompt]]:
    """Batches of at most ``size`` prompts, sorted so that those that share prefixes meet.

    Depends on the prompts alone, not on the order in which they come.
    """
    ordered = sorted(prompts, key=lambda prompt: (prompt.token_ids, prompt.id))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One answer of one policy to one prompt, of T tokens. Log-probabilities are natural.

    ``token_logprobs`` are the model's own (temperature 1), terminator included, so that masses sum
    to one; ``logprob`` is their sum in float64. ``policy_logprob`` is the log-probability under the
    distribution the candidate was drawn from (tempered, conditional) and None for a search.
    ``terminated`` is False for an answer cut at the largest length. Greedy, shipped and the first
    beam of each beam search also carry, per step, the entropy in nats of the full distribution and
    the ten most probable tokens with their log-probabilities, most probable first; a chosen token
    outside the ten is appended as the eleventh. Over a server there are no entropies, and no
    alternatives where it lists too few. The first candidate of each strategy carries what its
    search took.
    """

    prompt_id: str
    strategy: str
    rank: int
    token_ids: tuple[int, ...]
    token_logprobs: Floats
    logprob: float
    policy_logprob: float | None
    terminated: bool
    entropies: Floats | None = None
    top_ids: tuple[tuple[int, ...], ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None
    effort: Effort | None = None


@dataclass(frozen=True)
class Effort:
    """The work that a strategy alone would take for a question, and the proof of its search.

    ``rows`` are the prefixes beyond the prompt whose next token it asked about, ``passes`` the
    forward passes that it must make one after the other. ``proven``: whether its set of outcomes is
    all that it claims, or was cut short, and then no outcome outside has more than
    ``missed_logprob``; None where a strategy claims nothing.
    """

    rows: int
    passes: int
    proven: bool | None = None
    missed_logprob: float | None = None


@dataclass(frozen=True)
class SearchContext:
    """The inputs that all searches of a batch share.

    Its ``prompts``, which of the vocabulary's tokens stop (``stops``, bool), the most tokens of an
    answer (``steps``), the ``seed`` and the ``trie`` of generated tokens, whose node q is the end
    of prompt q.
    """

    prompts: Sequence[Prompt]
    stops: Bools
    steps: int
    seed: int
    trie: TokenTrie

    def draw_keys(self, strategy: str, size: int) -> Ints:
        """Keys of shape (questions, size, steps) for the draws of a strategy."""
        return np.stack(
            [draw_keys(self.seed, prompt.id, strategy, size, self.steps) for prompt in self.prompts]
        )


class GrowingAnswers:
    """Growing answers: ``nodes`` (questions, size) end them, ``alive`` says which go on."""

    def __init__(self, context: SearchContext, size: int) -> None:
        self._context = context
        self.nodes: Ints = np.repeat(np.arange(len(context.prompts))[:, None], size, axis=1)
        self.alive: Bools = np.ones(self.nodes.shape, dtype=bool)
        self.depth = 0

    @property
    def ends(self) -> Ints:
        """The nodes to go on from, question by question."""
        return self.nodes[self.alive]

    def next_keys(self, keys: Ints) -> Ints:
        """Those of ``keys`` (questions, size, steps) that decide the next tokens."""
        return keys[:, :, self.depth][self.alive]

    def grow(self, tokens: Ints, logprobs: Floats) -> None:
        """Add a token to each answer that goes on, until it stops or is as long as can be."""
        self.nodes[self.alive] = self._context.trie.grow(self.ends, tokens, logprobs)
        self.depth += 1
        self.alive[self.alive] = ~self._context.stops[tokens] & (self.depth < self._context.steps)


class SearchState(Protocol):
    """A policy under way on a batch: it queries nodes of the trie, chooses tokens, and so on."""

    @property
    def policy(self) -> Policy: ...

    def query(self) -> DistributionQuery:
        """The search's next question to the model; it names no node when the search is done."""

    def advance(self, query: DistributionQuery) -> None:
        """Choose tokens by an answered query that names nodes: make children in the trie."""

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        """A question's final nodes by rank, each with its draw's log p (None: not drawn)."""


@runtime_checkable
class ProvenState(Protocol):
    """A search that proves what it finds."""

    def proof(self, question: int) -> tuple[bool | None, float | None]:
        """Whether a question's outcomes are complete, None: no claim; if not, the best one's log p.

        That is the most that a missing outcome can have.
        """


@runtime_checkable
class Policy(Protocol):
    """How tokens are chosen. One from outside the package must be a search: each outcome once."""

    @property
    def strategy(self) -> str:
        """Its name in every table (:mod:`beamuq.strategy_names`)."""

    def start(self, context: SearchContext) -> SearchState:
        """The policy under way on a batch."""


def positive(name: str, value: float) -> None:
    """Refuse a parameter of a policy that is not above 0; raises BeamUQError."""
    if not value > 0:
        raise BeamUQError(f"{name} must be positive, not {value}")


def at_least_one(name: str, value: object) -> None:
    """Refuse a size or width that is no whole number from 1 on; raises BeamUQError."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BeamUQError(f"{name} must be a whole number, not {value!r}")
    positive(name, int(value))
