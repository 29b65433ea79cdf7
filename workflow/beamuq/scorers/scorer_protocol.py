"""What every similarity scorer returns, and the protocol that they share."""

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
    similarity itself and ``neutral`` and ``contradict`` are None (D18).
    """

    entail: Floats
    neutral: Floats | None = None
    contradict: Floats | None = None


class Scorer(Protocol):
    """A similarity: pairs of (premise, hypothesis) to scores, whatever order or company they come in."""

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each pair; a pair of identical texts gets the scorer's own value (D9)."""
        ...
