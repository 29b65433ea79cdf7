"""What every similarity scorer takes and returns, and the protocol that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pair = tuple[str, str]


@dataclass(frozen=True)
class PairScores:
    """Scores of P pairs, each array of shape (P,), in [0, 1].

    ``entail[i]`` is how much the premise of pair i entails its hypothesis; for a scorer without classes it is the
    similarity itself and ``neutral`` and ``contradict`` are None (D18, scorers without classes).
    """

    entail: Floats
    neutral: Floats | None = None
    contradict: Floats | None = None


@dataclass(frozen=True)
class Counts:
    """How many rows were asked for, how many of them were distinct, how many had to be run."""

    asked: int
    distinct: int
    scored: int


class SimilarityScorer(Protocol):
    """A similarity: pairs of (premise, hypothesis) to scores, whatever order or company they come in."""

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each pair; a pair of identical texts gets the scorer's own value (D9, one cleaning)."""
        ...


class CountingScorer(SimilarityScorer, Protocol):
    """A scorer that also tells how much work its last call was."""

    counts: Counts
