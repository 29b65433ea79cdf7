"""CCP's labels: does an alternative token mean the same as the chosen one, the opposite, or neither?"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.methods.answer_probability import combined_label
from beamuq.scorers.scorer_protocol import PairScores, SimilarityScorer, scored

_AROUND = string.punctuation + " \n"
_BY_PREFERENCE = ("neutral", "contradict", "entail")  # of equal probabilities the first: a tie claims nothing


class _Step(NamedTuple):
    """The words of one step's alternatives, and which of them was chosen."""

    words: list[str]
    chosen: int

    def pairs(self) -> list[tuple[str, str]]:
        """(chosen, alternative) and its reverse, for every alternative but the chosen one."""
        word = self.words[self.chosen]
        others = self.words[: self.chosen] + self.words[self.chosen + 1 :]
        return [pair for other in others for pair in ((word, other), (other, word))]

    def labels(self, label: Mapping[tuple[str, str], str]) -> list[str]:
        """One label a word, from those of the pairs."""
        both = (label[pair] for pair in self.pairs())
        others = [combined_label(forward, next(both)) for forward in both]
        return [*others[: self.chosen], "entail", *others[self.chosen :]]


def word_of(token_text: str) -> str:
    """A token's text on its own, without the punctuation, spaces and newlines around it, as the official code has it.

    The end-of-text token ``<|im_end|>`` becomes ``im_end``, a comma nothing: both are compared as what they are.
    """
    return token_text.strip(_AROUND)


def ccp_labels(
    answers: Sequence[Mapping[str, Any]], scorer: SimilarityScorer, equivalence_threshold: float | None
) -> list[list[list[str]]]:
    """Per answer, step and alternative: ``entail``, ``neutral`` or ``contradict``; the chosen token's is ``entail``.

    ``answers`` are rows of ``candidates`` with their alternatives; every step counts, the terminator's too. The scorer
    is asked once for each distinct pair of words, in both directions, which
    :func:`~beamuq.methods.answer_probability.combined_label` combines. One without classes needs an
    ``equivalence_threshold``: entail iff s ≥ it, else contradict; one with classes has None.

    Raises BeamUQError if an answer has no alternatives, or equivalence_threshold and scorer do not go together.
    """
    steps = [_steps(answer) for answer in answers]
    pairs = list(dict.fromkeys(pair for of_answer in steps for step in of_answer for pair in step.pairs()))
    label = dict(zip(pairs, pair_labels(scored(scorer, pairs), equivalence_threshold), strict=True))
    return [[step.labels(label) for step in of_answer] for of_answer in steps]


def pair_labels(scores: PairScores, equivalence_threshold: float | None) -> list[str]:
    """The label of each scored pair: its most probable class, or without classes the side of the threshold it is on.

    Raises BeamUQError if there are classes and a threshold, or neither.
    """
    if scores.neutral is None or scores.contradict is None:
        if equivalence_threshold is None:
            raise BeamUQError("ccp: a scorer without classes needs equivalence_threshold; give it, for example 0.8")
        return ["entail" if s >= equivalence_threshold else "contradict" for s in scores.entail.tolist()]
    if equivalence_threshold is not None:
        raise BeamUQError(
            "ccp: equivalence_threshold is for a scorer without classes, and this one has them; set it to null"
        )
    classes = np.stack([getattr(scores, name) for name in _BY_PREFERENCE])
    return [_BY_PREFERENCE[row] for row in classes.argmax(axis=0).tolist()]


def _steps(answer: Mapping[str, Any]) -> list[_Step]:
    if answer["top_ids"] is None or answer["top_texts"] is None:
        raise BeamUQError(
            f"candidates: {answer['strategy']!r} of {answer['id']!r} has no alternatives; decode it again"
        )
    tops = zip(answer["token_ids"], answer["top_ids"], answer["top_texts"], strict=True)
    return [_Step([word_of(text) for text in texts], ids.index(token)) for token, ids, texts in tops]
