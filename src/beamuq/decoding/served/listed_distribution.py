"""One next-token distribution, as far as a server has told it: bounds for what it has not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.next_token_distributions import LEAST
from beamuq.decoding.served.served_model import TokenList

SLACK = 1e-5
"""What float32 may lose of a distribution's mass of 1."""
EXACT = 1e-6
"""nats between the bounds of an ending's log p within which it is known."""


class ListedDistribution:
    """The most probable tokens, and named ones, of the distribution after a prefix.

    Stop tokens that count as one ending are merged: the smallest id has the sum of their
    probabilities. A token that is neither listed nor named has at most ``bound``, the log p of the
    last one listed, or the log of what mass is left.
    """

    def __init__(self, listed: TokenList, vocabulary: int, merged: Ints) -> None:
        self._merged = merged
        self._named_endings: dict[int, float] = {}
        self._others: dict[int, float] = {}
        self._vocabulary = vocabulary
        self.length = 0
        self.lengthen(listed)

    def lengthen(self, listed: TokenList) -> None:
        """Take up a list; a longer one replaces it."""
        possible = listed.logprobs > LEAST
        self.length = len(listed.tokens)
        # behind a probability of 0 are only more of them
        self.is_whole = self.length >= self._vocabulary or not bool(possible.all())
        tokens = listed.tokens[possible]
        logprobs = listed.logprobs[possible]
        ends = np.isin(tokens, self._merged)
        self.tokens: Ints = tokens[~ends]
        self.logprobs: Floats = logprobs[~ends]
        self._listed_endings = dict(
            zip(tokens[ends].tolist(), logprobs[ends].tolist(), strict=True)
        )
        self._edge = float(logprobs[-1])
        self._listed_mass = float(np.exp(logprobs).sum())

    def name(self, logprobs: Mapping[int, float]) -> None:
        """Take up the log-probabilities of named tokens."""
        endings = set(self._merged.tolist())
        for token, logprob in logprobs.items():
            place = self._named_endings if token in endings else self._others
            place[token] = logprob if logprob > LEAST else -math.inf

    @property
    def edge(self) -> float:
        """The log p of the last token listed; -inf: all that are possible are listed."""
        return -math.inf if self.is_whole else self._edge

    @property
    def bound(self) -> float:
        """The most log p of a token that is neither listed nor named."""
        if self.is_whole:
            return -math.inf
        return min(self._edge, math.log(self._mass_left))

    @property
    def _mass_left(self) -> float:
        listed = {*self._listed_endings, *self.tokens.tolist()}
        named = {**self._named_endings, **self._others}
        beyond = math.fsum(math.exp(named[token]) for token in named.keys() - listed)
        return max(1.0 - self._listed_mass - beyond, 0.0) + SLACK

    @property
    def ending_bounds(self) -> tuple[float, float]:
        """The least and the most log p that the merged ending can have; -inf: none."""
        logprobs = self._named_endings | self._listed_endings
        low_mass = math.fsum(math.exp(logprob) for logprob in logprobs.values())
        missing = 0 if self.is_whole else len(self._merged) - len(logprobs)
        high_mass = low_mass
        if missing:
            high_mass += min(missing * math.exp(self.bound), self._mass_left)
        return _log(low_mass), _log(high_mass)

    def knows_ending(self, exactness: float) -> bool:
        """Whether the bounds of the ending's log p lie within so many nats."""
        low, high = self.ending_bounds
        return low == high or high - low <= exactness

    @property
    def ending(self) -> float:
        """The log p of the merged ending, in the middle of its bounds."""
        low, high = self.ending_bounds
        return low if low == high else (low + high) / 2

    def known(self) -> tuple[Ints, Floats]:
        """All tokens of known log p but for endings that are merged, listed ones first."""
        listed = set(self.tokens.tolist())
        named = {token: value for token, value in self._others.items() if token not in listed}
        tokens = np.concatenate([self.tokens, np.array(list(named), dtype=np.int64)])
        logprobs = np.concatenate([self.logprobs, np.array(list(named.values()))])
        return tokens, logprobs

    def list_of(self, exactness: float) -> TokenList:
        """The most probable tokens, with the merged ending where it belongs to them."""
        if not len(self._merged) or not self.knows_ending(exactness):
            return TokenList(self.tokens, self.logprobs)
        ending = self.ending
        if ending == -math.inf or ending < self.edge:
            return TokenList(self.tokens, self.logprobs)
        tokens = np.append(self.tokens, self._merged[0])
        logprobs = np.append(self.logprobs, ending)
        order = np.lexsort((tokens, -logprobs))
        return TokenList(tokens[order], logprobs[order])

    def going_on(self, stops: Bools, exactness: float) -> Floats:
        """The log-probabilities of listed tokens that do not stop, the largest first."""
        listed = self.list_of(exactness)
        return listed.logprobs[~stops[listed.tokens]]

    def needs_ending(self, top: int, exactness: float) -> bool:
        """Whether the merged ending may be among the ``top`` most probable and is not known."""
        if not len(self._merged) or self.knows_ending(exactness):
            return False
        weakest = self.logprobs[top - 1] if len(self.logprobs) >= top else -math.inf
        return bool(self.ending_bounds[1] >= weakest)


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf
