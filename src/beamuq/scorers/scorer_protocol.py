"""The protocol of similarity scorers: pairs of texts in, scores in [0, 1] out."""

from __future__ import annotations

import warnings
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

    ``cut[i]``: texts of pair i are longer than ``limit`` tokens, what the scorer reads at a time,
    and only their beginnings were compared. None: it reads whole texts, or does not say.
    """

    entail: Floats
    neutral: Floats | None = None
    contradict: Floats | None = None
    cut: Bools | None = None
    limit: int = 0

    def same(self, threshold: float) -> Bools:
        """[P] whether a pair means the same: entailment leads; without classes, ≥ a threshold."""
        if self.neutral is None or self.contradict is None:
            return self.entail >= threshold
        return self.entail > np.maximum(self.neutral, self.contradict)


class SimilarityScorer(Protocol):
    """A similarity: (premise, hypothesis) to scores that do not depend on the other pairs."""

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each pair; a pair of identical texts gets the scorer's own value, no forced 1."""
        ...


def scored(scorer: SimilarityScorer, pairs: Sequence[Pair]) -> PairScores:
    """The scores of each pair by a scorer of the package or a plug-in, checked, cut to [0, 1].

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
    count = len(pairs)
    entail = _checked(f"{what}: entail", scores.entail, count)
    cut = None
    if scores.cut is not None:
        cut = _checked(f"{what}: cut", scores.cut, count).astype(bool)
    if scores.neutral is None or scores.contradict is None:
        return PairScores(entail, cut=cut, limit=scores.limit)
    neutral = _checked(f"{what}: classes", scores.neutral, count)
    contradict = _checked(f"{what}: classes", scores.contradict, count)
    return PairScores(entail, neutral, contradict, cut, scores.limit)


def pairs_with_lost_ends(pairs: Sequence[Pair], scores: PairScores) -> set[Pair]:
    """The pairs of two texts of which the scorer compared only beginnings.

    A text beside itself is left out: its end is the same.
    """
    if scores.cut is None:
        return set()
    cut_pairs = {pair for pair, is_cut in zip(pairs, scores.cut, strict=True) if is_cut}
    return {(text, other) for text, other in cut_pairs if text != other}


def warn_of_cut_questions(
    reader: str,
    pairs: Sequence[Pair],
    scores: PairScores,
    compared: Sequence[tuple[str, Pair]],
) -> None:
    """Warn of the questions of whose ``pairs`` the ``reader`` read only the beginnings.

    ``scores`` are of ``pairs``; ``compared`` has each question with a pair that was compared for
    it.
    """
    cut_pairs = pairs_with_lost_ends(pairs, scores)
    questions = dict.fromkeys(question for question, _ in compared)
    cut = dict.fromkeys(question for question, pair in compared if pair in cut_pairs)
    warn_of_cut_texts(reader, scores.limit, list(cut), len(questions))


def warn_of_cut_texts(
    reader: str, limit: int, cut: Sequence[str], count: int, items: str = "questions"
) -> None:
    """Warn of texts of which only the beginnings were read; not where there are none.

    ``reader`` is what the model is called, ``limit`` how many tokens it reads at a time. ``cut``
    names those of ``count`` questions, or other ``items``, that have longer texts.
    """
    if not cut:
        return
    warnings.warn(
        f"{reader} reads {limit} tokens at a time: {len(cut)} of {count} {items} "
        f"(first: {cut[0]!r:.60}) have longer texts, of which only the beginnings were read",
        stacklevel=3,
    )


def _checked(what: str, values: object, count: int) -> Floats:
    return np.clip(plugins.numbers(what, values, (count,), 0.0, 1.0), 0.0, 1.0)
