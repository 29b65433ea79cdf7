"""Seeded choice of questions and of few-shot examples.

One permutation of a split, keyed by seed, dataset and purpose, made from raw counter-based bits,
whose stream NumPy guarantees: the same ids in every version. Its first n are the subset of size n,
so subsets nest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from beamuq.errors import BeamUQError
from beamuq_study.data.question import Question


def permutation(count: int, seed: int, dataset: str, purpose: str) -> npt.NDArray[np.int64]:
    """A permutation of ``0 … count − 1``: the ranks of 64-bit draws keyed by the three names."""
    digest = hashlib.sha256(f"{seed}/{dataset}/{purpose}".encode()).digest()
    draws = np.random.Philox(
        key=np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
    ).random_raw(count)
    return np.argsort(draws, kind="stable").astype(np.int64)


def with_turns(
    questions: Sequence[Question], only: Collection[int] | None, left_out: Collection[int] | None
) -> list[Question]:
    """The questions whose turn of their dialogue, the first being 1, is chosen; None: all."""
    chosen = []
    for question in questions:
        turn = len(question["history"]) + 1
        is_named = only is None or turn in only
        if is_named and turn not in (left_out or ()):
            chosen.append(question)
    return chosen


def choose_questions(
    questions: Sequence[Question], count: int, *, seed: int, dataset: str
) -> list[Question]:
    """The first ``count`` of the seeded permutation of ``questions`` (given in file order).

    Raises BeamUQError if the split holds fewer.
    """
    if count > len(questions):
        raise BeamUQError(
            f"datasets.{dataset}.questions: {count} is more than the {len(questions)} that the "
            "split holds; lower it"
        )
    return [
        questions[index]
        for index in permutation(len(questions), seed, dataset, "questions")[:count]
    ]


def choose_shots(
    candidates: Sequence[Question],
    evaluated: Sequence[Question],
    count: int,
    *,
    seed: int,
    dataset: str,
) -> list[Question]:
    """``count`` few-shot examples, seeded, of different questions that are not ``evaluated``.

    ``evaluated`` is the whole split, not the subset, so that the examples don't change with the
    subset's size. Two questions are one if they agree but for case and spacing.

    Raises BeamUQError if fewer are left.
    """
    texts_evaluated = set(map(_folded, evaluated))
    distinct: dict[str, Question] = {}
    for question in candidates:
        distinct.setdefault(_folded(question), question)
    eligible = [question for folded, question in distinct.items() if folded not in texts_evaluated]
    if count > len(eligible):
        raise BeamUQError(
            f"datasets.{dataset}.few_shot: {count} is more than the {len(eligible)} questions of "
            "the few-shot split "
            "that are not evaluated too; lower it or name another few_shot_split"
        )
    return [eligible[index] for index in permutation(len(eligible), seed, dataset, "shots")[:count]]


def _folded(question: Question) -> str:
    return " ".join(question["question"].casefold().split())
