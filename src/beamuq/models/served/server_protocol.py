"""What every protocol of a model server does, and how its lists are checked."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.decoding.next_token_distributions import LEAST
from beamuq.decoding.served.served_model import Drawn, Prefix, TokenList
from beamuq.errors import BeamUQError
from beamuq.models.served.http_requests import ServerRequests

MASS = 1e-3
"""How far above 1 the mass of a list may lie, by rounding."""
ABOVE_ZERO = 1e-4
"""How far above 0 a log-probability may lie, by rounding."""


WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before lists that are too short are asked for again."""


class ServerProtocol(ABC):
    """The requests of one kind of server.

    ``kind`` and ``version`` say which it is, ``model`` is the id of the model that is asked.
    """

    path: str
    """Where tokens are asked for."""
    length_field: str
    """The field of a request that says how many tokens are listed."""
    kind: str
    version: str
    model: str
    window: int | None
    """The most tokens of a prompt and its answer; None: the server does not say."""
    can_name = False
    """Whether the protocol has a field for named tokens."""
    can_draw = False
    """Whether it draws answers up to a stop token."""

    def __init__(self, requests: ServerRequests) -> None:
        self.requests = requests

    @abstractmethod
    def lists(
        self, prefixes: Sequence[Prefix], length: int, *, temperature: float = 0.0
    ) -> list[TokenList]:
        """The ``length`` most probable next tokens after each prefix; fewer: there are no more."""

    def complete_lists(
        self, prefixes: Sequence[Prefix], length: int, least: int, *, temperature: float = 0.0
    ) -> list[TokenList]:
        """:meth:`lists` of at least ``least`` tokens; short ones are asked for again.

        vLLM 0.32 lists the drawn token alone where a request of another client names tokens in the
        same step.

        Raises BeamUQError where they stay short.
        """
        lists = self.lists(prefixes, length, temperature=temperature)
        for wait in WAITS:
            short = [place for place, listed in enumerate(lists) if len(listed.tokens) < least]
            if not short:
                return lists
            time.sleep(wait)
            members = [prefixes[place] for place in short]
            anew = self.lists(members, length, temperature=temperature)
            for place, listed in zip(short, anew, strict=True):
                lists[place] = listed
        fewest = min(len(listed.tokens) for listed in lists)
        if fewest >= least:
            return lists
        raise BeamUQError(
            f"the model server: lists {fewest} tokens where {least} were asked for; see that it is "
            "the server that was checked, and that no other client asks it at the same time"
        )

    def list_refused(self, prefix: Prefix, length: int) -> str | None:
        """What the server says against a list of so many tokens; None: it gives one."""
        body = self._body([prefix]) | {self.length_field: length}
        reply = self.requests.post(self.path, body)
        return None if reply.status == 200 else reply.message

    @abstractmethod
    def read_as(self, prefixes: Sequence[Prefix]) -> list[Sequence[int] | int]:
        """The tokens that the server has read of each prefix, or how many, where it says no more.

        Where it tells one number for all it is that of the first, which must be the only one.
        """

    @abstractmethod
    def tokenized(self, text: str) -> list[int] | None:
        """The server's token ids of a text, without special ones; None: it does not tell."""

    @abstractmethod
    def named(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> list[dict[int, float]]:
        """Log p of named tokens, and of others, after each prefix."""

    @abstractmethod
    def draw(
        self, prefix: Prefix, size: int, *, seed: int, steps: int, stop_ids: frozenset[int]
    ) -> list[Drawn]:
        """Answers that the server draws at temperature 1."""

    @abstractmethod
    def _body(self, prefixes: Sequence[Prefix]) -> dict[str, Any]:
        """A request for the most probable next token after each prefix."""

    def _completed(self, prefixes: Sequence[Prefix], fields: Mapping[str, Any]) -> Any:
        """What the server answers to a request with further fields; raises where it refuses it."""
        reply = self.requests.post(self.path, self._body(prefixes) | dict(fields))
        if reply.status != 200:
            raise BeamUQError(f"the model server: status {reply.status}: {reply.message}")
        return reply.content


def sorted_list(entries: Mapping[int, float], length: int) -> TokenList:
    """The ``length`` most probable of tokens with their log p, ties by id; the drawn one may be
    one more.

    Raises BeamUQError if these are no log-probabilities.
    """
    tokens = np.fromiter(entries.keys(), dtype=np.int64, count=len(entries))
    logprobs = np.fromiter(entries.values(), dtype=np.float64, count=len(entries))
    if not len(tokens):
        raise BeamUQError("the model server: lists no next token; it must give log-probabilities")
    check_numbers(logprobs)
    order = np.lexsort((tokens, -logprobs))[:length]
    tokens = tokens[order]
    logprobs = logprobs[order]
    if logprobs[0] > ABOVE_ZERO or np.exp(logprobs).sum() > 1 + MASS:
        raise BeamUQError(
            "the model server: its list is of no probabilities, as their sum is above 1; let it "
            "give raw log-probabilities (vLLM: --logprobs-mode raw_logprobs)"
        )
    logprobs = without_rounding(logprobs)
    if logprobs[0] == -np.inf:
        raise BeamUQError("the model server: lists no possible token; mend the model's weights")
    return TokenList(tokens, logprobs)


def check_numbers(logprobs: Floats) -> None:
    """Raise BeamUQError where a log p is NaN."""
    if np.isnan(logprobs).any():
        raise BeamUQError(
            "the model server: its log-probabilities are NaN; serve the model in another dtype"
        )


def without_rounding(logprobs: Floats) -> Floats:
    """Log-probabilities of at most 0; -inf where a server writes the least that it can."""
    return np.where(logprobs < LEAST, -np.inf, np.minimum(logprobs, 0.0))


def in_order(members: Sequence[Any], count: int, what: str) -> list[Mapping[str, Any]]:
    """Answers by their indices; raises BeamUQError unless they are so many, one of each index."""
    answers = [mapping(member, what) for member in members]
    by_index = {answer.get("index"): answer for answer in answers}
    if len(answers) != count or set(by_index) != set(range(count)):
        raise BeamUQError(
            f"the model server: {what}: {len(answers)} answers where {count} were asked for, or of "
            f"other indices; {OTHER}"
        )
    return [by_index[number] for number in range(count)]


def as_logprob(value: Any) -> float:
    """A log p; null, as JSON has it in the place of NaN, is NaN."""
    return float(value) if isinstance(value, int | float) else float("nan")


def as_window(value: Any) -> int | None:
    """A context window; None: the value is none."""
    return value if isinstance(value, int) and value > 0 else None


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """A part of an answer that must be an object; raises BeamUQError naming it."""
    if not isinstance(value, Mapping):
        raise BeamUQError(f"the model server: {what}: no JSON object; {OTHER}")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """A part of an answer that must be a list; raises BeamUQError naming it."""
    if not isinstance(value, list):
        raise BeamUQError(f"the model server: {what}: no list; {OTHER}")
    return value


OTHER = (
    "this server does not answer as vLLM or llama.cpp do: give one that lists the "
    "log-probabilities of next tokens by their ids"
)
