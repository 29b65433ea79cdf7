"""The protocol of similarity scorers: pairs of texts in, scores in [0, 1] out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from beamuq import plugins
from beamuq.array_types import Bools, Floats
from beamuq.errors import BeamUQError

Pair = tuple[str, str]


@dataclass(frozen=True)
class PairScores:
    """Scores of P pairs, each array of shape (P,), in [0, 1].

    ``entail[i]`` is how much the premise of pair i entails its hypothesis; for a scorer without
    classes it is the similarity itself and ``neutral`` and ``contradict`` are None.
    """

    entail: Floats
    neutral: Floats | None = None
    contradict: Floats | None = None

    def same(self, threshold: float) -> Bools:
        """Whether each pair means the same, [P]: entailment leads; without classes, it is
        ``threshold`` or more.
        """
        if self.neutral is None or self.contradict is None:
            return self.entail >= threshold
        return self.entail > np.maximum(self.neutral, self.contradict)


class SimilarityScorer(Protocol):
    """A similarity: pairs of (premise, hypothesis) to scores that do not depend on the other
    pairs.
    """

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each pair; a pair of identical texts gets the scorer's own value, not a forced
        1.
        """
        ...


def scored(scorer: SimilarityScorer, pairs: Sequence[Pair]) -> PairScores:
    """The scores of each pair by a scorer of the package or of a plug-in, checked and clipped to
    [0, 1].

    Raises BeamUQError if it fails, or gives anything but one finite number in [0, 1] a pair; the
    message names its class.
    """
    what = f"similarity {type(scorer).__module__}:{type(scorer).__qualname__}"
    if not callable(getattr(scorer, "score", None)):
        raise BeamUQError(f"{what}: has no method score(pairs); add it")
    scores: object = plugins.call(what, scorer.score, list(pairs))
    if not isinstance(scores, PairScores) or (scores.neutral is None) != (
        scores.contradict is None
    ):
        raise BeamUQError(
            f"{what}: return beamuq.scorers.scorer_protocol.PairScores, with both classes or none"
        )

    def checked(name: str, values: object) -> Floats:
        return np.clip(
            plugins.numbers(f"{what}: {name}", values, (len(pairs),), 0.0, 1.0), 0.0, 1.0
        )

    classes = (
        None if values is None else checked("classes", values)
        for values in (scores.neutral, scores.contradict)
    )
    return PairScores(checked("entail", scores.entail), *classes)
