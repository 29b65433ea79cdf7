"""What decoding asks of a model server, whichever protocol it speaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beamuq.array_types import Floats, Ints

Prefix = Sequence[int]
"""The tokens of a prompt and of its answer so far."""


@dataclass(frozen=True, eq=False)
class TokenList:
    """The most probable next tokens [k], most probable first, ties by id, with natural log p [k].

    A probability of 0 is -inf.
    """

    tokens: Ints
    logprobs: Floats

    def by_token(self) -> dict[int, float]:
        """Log p by token id."""
        return dict(zip(self.tokens.tolist(), self.logprobs.tolist(), strict=True))


@dataclass(frozen=True)
class Drawn:
    """An answer that the server drew: its tokens, and the log p of each at temperature 1."""

    token_ids: tuple[int, ...]
    token_logprobs: tuple[float, ...]


class ServedModel(ABC):
    """A model behind a server, with the configs that its tokenizer's folder has.

    ``vocabulary`` is how many tokens the model has, ``window`` the most tokens of a prompt and its
    answer, ``most_listed`` how many of the most probable tokens the server lists, ``most_named``
    of how many named tokens it tells the log-probabilities in one request (0: of none).
    ``can_draw``: whether the server draws answers up to a stop token.
    """

    name: str
    config: Any
    generation_config: Any
    vocabulary: int
    window: int | None
    most_listed: int
    most_named: int
    can_draw: bool = False

    @abstractmethod
    def most_probable(self, prefixes: Sequence[Prefix], length: int) -> list[TokenList]:
        """For each prefix the ``length`` most probable next tokens, of at most ``most_listed``.

        Raises BeamUQError if the server does not answer, or answers something else.
        """

    @abstractmethod
    def named(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> Floats:
        """Log-probabilities of ``tokens``, at most ``most_named``, after each prefix.

        Shape (prefixes, tokens). Raises as `most_probable`.
        """

    @abstractmethod
    def draw(
        self, prefix: Prefix, size: int, *, seed: int, steps: int, stop_ids: frozenset[int]
    ) -> list[Drawn]:
        """Independent answers at temperature 1, of at most ``steps`` tokens, the stop included.

        ``seed`` is of 64 bits.
        Raises as `most_probable`, and where the server does not draw up to a stop token.
        """
