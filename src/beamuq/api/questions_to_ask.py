"""What ``ask`` is asked: questions and conversations, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.api.rows import Rows, placed_rows, plain
from beamuq.errors import BeamUQError
from beamuq.models.conversations import Message, read_conversation


@dataclass(frozen=True)
class Question:
    """A question's text, or a conversation's messages and the text of the last; and its place."""

    text: str
    messages: list[Message]
    place: str


def read_questions(question: Any) -> tuple[list[Question], bool]:
    """The questions of a call of ``ask``, and whether it is one that stands in no list.

    Raises BeamUQError if it asks nothing, or what is neither text nor messages.
    """
    if isinstance(question, str):
        return [read_question(question, "question 1")], True
    if isinstance(question, Mapping) or not isinstance(question, Iterable):
        raise BeamUQError(
            f"question: a {type(question).__name__}; give a question, a conversation, or a list of "
            "them"
        )
    parts = list(question)
    if not parts:
        raise BeamUQError("no question; give one")
    if all(_is_message(part) for part in parts):
        return [read_question(parts, "question 1")], True
    questions = []
    for place, part in enumerate(parts, start=1):
        was_read = isinstance(part, Question)
        questions.append(part if was_read else read_question(part, f"question {place}"))
    return questions, False


def _is_message(part: Any) -> bool:
    """Whether it is a message of one conversation, and no question that was read before."""
    return not isinstance(part, Question) and isinstance(plain(part), Mapping)


def read_question(question: Any, place: str) -> Question:
    """A question, by its text or the messages of a conversation.

    Raises BeamUQError naming the ``place`` if it is empty, or neither.
    """
    if isinstance(question, str):
        if not question.strip():
            raise BeamUQError(f"{place}: the question is empty; write one")
        return Question(question, [], place)
    messages = plain(question)
    if not isinstance(messages, list):
        raise BeamUQError(
            f"{place}: a {type(question).__name__}; give a text, or a conversation: a list of "
            "messages"
        )
    conversation = read_conversation(messages, place)
    return Question(conversation[-1]["content"], conversation, place)


def check_conversations(
    questions: Sequence[Question],
    style: str,
    shots: Rows | None,
    prompt_template: str | Path | None,
) -> None:
    """Refuse what conversations cannot be asked with: each would be dropped."""
    conversations = [question for question in questions if question.messages]
    if not conversations:
        return
    first = conversations[0].place
    for question in questions:
        if not question.messages:
            raise BeamUQError(
                f"{question.place}: a question beside a conversation ({first}), which is asked "
                "without examples and template; ask them apart, or give it as messages: "
                '[{"role": "user", "content": "…"}]'
            )
    if style != "chat":
        raise BeamUQError(
            f"{first}: messages: they go through the model's chat template, and style is "
            f"{style!r}; give style chat"
        )
    if prompt_template is not None:
        raise BeamUQError(
            "prompt_template: a conversation is asked as it is; leave the template out"
        )
    if shots is not None and list(placed_rows(shots)):
        raise BeamUQError(
            "shots: a conversation is asked as it is; write examples as turns, and leave shots out"
        )
