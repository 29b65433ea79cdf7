"""A warning of answers without a text, which scores take for certain ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

from beamuq.api.candidate_records import QuestionRecord, Records


def warn_if_answers_are_empty(records: Sequence[QuestionRecord]) -> None:
    """Warn of answers without a text: how many there are, and which is the first."""
    _warn([item.id for item in records if _is_empty(item)], len(records))


def with_empty_answers_told(blocks: Iterable[Records]) -> Iterator[Records]:
    """The same blocks; behind the last one it is told how many answers had no text."""
    ids: list[str] = []
    questions = 0
    for block in blocks:
        ids += [item.id for item in block if _is_empty(item)]
        questions += len(block)
        yield block
    _warn(ids, questions)


def _is_empty(item: QuestionRecord) -> bool:
    return not item.answer.text.strip()


def _warn(ids: Sequence[str], questions: int) -> None:
    if not ids:
        return
    warnings.warn(
        f"{len(ids)} of {questions} answers are empty (first: id {ids[0]!r}): where most samples "
        "are empty too, scores take such an answer for a certain one; judge and decide on them "
        "apart",
        stacklevel=4,
    )
