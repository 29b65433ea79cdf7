"""Conversations: what is read of their messages, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from beamuq.errors import BeamUQError
from beamuq.models.conversations import around, read_conversation

USER = {"role": "user", "content": "Who?"}
SYSTEM = {"role": "system", "content": "Answer in one word."}


def test_messages_are_read_as_they_are_and_what_is_null_is_not_said() -> None:
    turns = [SYSTEM, USER, {"role": "assistant", "content": "Ann"}, USER | {"name": None}]
    assert read_conversation(turns, "row 1") == [*turns[:3], USER]


def test_a_content_of_one_text_part_is_its_text() -> None:
    parts = [{"type": "text", "text": "Who?"}]
    assert read_conversation([{"role": "user", "content": parts}], "row 1") == [USER]


def of(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([], "messages: empty; give"),
        (["Who?"], r"messages\[0\]: a str; give a mapping"),
        ([USER, None], r"messages\[1\]: a NoneType; give a mapping"),
        ([{"content": "Who?"}], r"messages\[0\]: role: missing; write"),
        ([{"role": 3, "content": "Who?"}], r"messages\[0\]: role: 3: no role; write"),
        ([{"from": "human", "value": "Who?"}], r"messages\[0\]: role: missing; write"),
        ([{"role": "user"}], r"messages\[0\]: content: missing; write"),
        (of(None), r"messages\[0\]: content: missing; write"),
        (of(7), r"messages\[0\]: content: a int; write one text"),
        (of([]), r"messages\[0\]: content: a list; write one text"),
        (of({"text": "Who?"}), r"messages\[0\]: content: a dict; write one text"),
        (of(["Who", "is it?"]), r"messages\[0\]: content: 2 parts; join them"),
        (
            of([{"type": "image_url", "image_url": {}}]),
            r"messages\[0\]: content\[0\]: type: 'image_url': only texts",
        ),
        (
            of([{"type": "text", "text": "Who?"}, {"type": "image"}]),
            r"messages\[0\]: content\[1\]: type: 'image': only texts",
        ),
        (of([{"type": "text"}]), r"messages\[0\]: content\[0\]: type: 'text': only texts"),
        (of("  "), r"messages\[0\]: content: empty; write the question"),
        (of("\ud800"), r"messages\[0\]: content: holds '\\ud800', half a surrogate"),
        (
            [USER, {"role": "assistant", "content": "Ann"}],
            r"messages\[1\]: role: \"assistant\": .*; end with the user's",
        ),
        ([SYSTEM], r"messages\[0\]: role: \"system\": .*; end with the user's"),
    ],
)
def test_what_is_malformed_is_refused_with_place_key_and_fix(
    messages: list[Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=f"^row 1: {told}"):
        read_conversation(messages, "row 1")


def test_around_a_conversation_is_what_the_system_and_the_developer_say() -> None:
    developer = {"role": "developer", "content": "Be kind."}
    assert around([SYSTEM, USER]) == around(
        [SYSTEM, USER, {"role": "assistant", "content": "Ann"}, USER]
    )
    assert (
        len(
            {
                around(turns)
                for turns in ([USER], [SYSTEM, USER], [developer, USER], [SYSTEM, developer, USER])
            }
        )
        == 4
    )
