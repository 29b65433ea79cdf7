"""Answers that are one of their own samples: told of, or left out of what they are compared with.

A drawn answer that stands among its samples is compared with itself, and seems the more certain.
A greedy answer often has the text of a sample too; it was not drawn, and nothing is left out.
Samples that never differ are told of as well.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from beamuq.api.candidate_records import CandidateRecord, QuestionRecord, Records
from beamuq.errors import BeamUQError

LEAST_QUESTIONS = 10
"""Of so many questions whose samples all agree it is asked whether they were drawn."""
LEAST_P = 1e-3
"""p below which the answers' place among the samples is said to be no chance."""


def warn_if_answers_are_samples(records: Sequence[QuestionRecord]) -> None:
    """Warn where one place among the samples holds the answer's text in every question.

    Samples are exchangeable: of an answer that is none of them, a given place holds its text with
    the share of samples that have it. p is the product of these shares times the places tried.
    """
    place, p = _common_place(records)
    if place is None or p >= LEAST_P:
        return
    warnings.warn(
        f"the answer has the text of samples[{place}] in all {len(records)} questions (by chance "
        f"p = {p:.1g}): if it is that sample, it is compared with itself and seems more certain; "
        "leave_one_out (--leave-one-out) leaves that sample out",
        stacklevel=3,
    )


def warn_if_samples_are_one_draw(records: Sequence[QuestionRecord]) -> None:
    """Warn where in every question all samples are one text, as greedy answers are."""
    several = [item for item in records if len(item.samples) > 1]
    if len(several) < LEAST_QUESTIONS:
        return
    if any(len({sample.text.strip() for sample in item.samples}) > 1 for item in several):
        return
    warnings.warn(
        f"in all {len(several)} questions the samples are one text each: greedy answers, or draws "
        "of one seed, are no samples; ask at temperature 1, without a seed or each with its own",
        stacklevel=3,
    )


def _common_place(records: Sequence[QuestionRecord]) -> tuple[int | None, float]:
    """The first place that holds the answer's text in all questions, and its p; None: none does."""
    places_by_question = [_matching_places(item) for item in records]
    fewest = min((len(item.samples) for item in records), default=0)
    places = [
        place
        for place in range(fewest)
        if all(place in matching for matching in places_by_question)
    ]
    if not places:
        return None, 1.0
    shares = [
        len(matching) / len(item.samples)
        for matching, item in zip(places_by_question, records, strict=True)
    ]
    return places[0], fewest * math.prod(shares)


def _matching_places(item: QuestionRecord) -> set[int]:
    return {place for place, sample in enumerate(item.samples) if _has_text_of(sample, item)}


def _has_text_of(sample: CandidateRecord, item: QuestionRecord) -> bool:
    return sample.text.strip() == item.answer.text.strip()


def without_the_answers(records: Sequence[QuestionRecord], where: str) -> Records:
    """Questions without the one sample that is the answer.

    Of several of the answer's text that of its log-probability, else the first.

    Raises BeamUQError naming a question whose answer is none of its samples.
    """
    return Records(_without_the_answer(item, where) for item in records)


def _without_the_answer(item: QuestionRecord, where: str) -> QuestionRecord:
    places = sorted(_matching_places(item))
    if not places:
        raise BeamUQError(
            f"{where}: id {item.id!r}: answer: {item.answer.text!r:.80}: none of its "
            f"{len(item.samples)} samples; leave_one_out is of answers that are one of them: leave "
            "it out for greedy answers"
        )
    alike = [place for place in places if item.samples[place].total == item.answer.total]
    left_out = (alike or places)[0]
    samples = [sample for place, sample in enumerate(item.samples) if place != left_out]
    return item.model_copy(update={"samples": samples})
