"""What every similarity scorer takes and returns, and the protocol that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from beamuq import plugins
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError

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


def scored(scorer: SimilarityScorer, pairs: Sequence[Pair]) -> PairScores:
    """What a scorer, the package's or someone else's, says of each pair: checked, and within [0, 1].

    Raises BeamUQError if it fails, or gives anything but one finite number in [0, 1] a pair; the message names its
    class.
    """
    what = _name(scorer)
    found: object = plugins.call(what, scorer.score, list(pairs))
    if not isinstance(found, PairScores) or (found.neutral is None) != (found.contradict is None):
        raise BeamUQError(f"{what}: return beamuq.scorers.scorer_protocol.PairScores, with both classes or none")

    def checked(name: str, values: object) -> Floats:
        return np.clip(plugins.numbers(f"{what}: {name}", values, (len(pairs),), 0.0, 1.0), 0.0, 1.0)

    classes = (None if values is None else checked("classes", values) for values in (found.neutral, found.contradict))
    return PairScores(checked("entail", found.entail), *classes)


def work_of(scorer: CountingScorer) -> str:
    """How much work a scorer's last call was, in words. Raises BeamUQError if someone else's does not tell."""
    counts = plugins.call(f"{_name(scorer)}: its counts", lambda: scorer.counts)
    return f"of {counts.asked} rows {counts.distinct} are distinct, {counts.scored} were scored"


def _name(scorer: SimilarityScorer) -> str:
    return f"similarity {type(scorer).__module__}:{type(scorer).__qualname__}"
