"""Conversations: lists of messages, as chat templates take them, checked before a model reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.errors import BeamUQError

Message = dict[str, Any]
UNASKED = ("assistant", "model", "system", "developer")
"""Roles of messages that ask for no answer."""
FIXED = ("system", "developer")
"""Roles of messages that are the prompt around a conversation, and no part of it."""


def read_conversation(messages: Sequence[Any], place: str) -> list[Message]:
    """The messages as a chat template takes them: role, content as one text, and all other keys.

    A content of one text part is that text. What is null, as Parquet fills in, is not said.

    Raises BeamUQError naming the ``place``, the message and the fix: no message, something else
    than a mapping, a role or a content that is missing or no text, several parts, a part that is no
    text, and a last message that asks for nothing.
    """
    if not messages:
        raise BeamUQError(f"{place}: messages: empty; give a message of the user")
    read = []
    for number, message in enumerate(messages):
        read.append(_message(message, f"{place}: messages[{number}]"))
    last = read[-1]
    where = f"{place}: messages[{len(read) - 1}]"
    if last["role"].lower() in UNASKED:
        raise BeamUQError(
            f"{where}: role: {json.dumps(last['role'])}: the last message asks for no answer; end "
            "with the user's, and leave out what comes behind it"
        )
    if not last["content"].strip():
        raise BeamUQError(f"{where}: content: empty; write the question")
    return read


def _message(message: Any, where: str) -> Message:
    """One message, checked; ``where`` names it in errors."""
    if not isinstance(message, Mapping):
        raise BeamUQError(
            f"{where}: a {type(message).__name__}; give a mapping with role and content, such as "
            '{"role": "user", "content": "…"}'
        )
    fields = {str(key): value for key, value in message.items() if value is not None}
    role = fields.get("role")
    if not isinstance(role, str) or not role.strip():
        problem = f"{role!r:.40}: no role" if "role" in fields else "missing"
        raise BeamUQError(f"{where}: role: {problem}; write system, user or assistant")
    if "content" not in fields:
        raise BeamUQError(f"{where}: content: missing; write its text")
    return fields | {"content": _text(fields["content"], f"{where}: content")}


def _text(content: Any, where: str) -> str:
    """The one text of a message's content, checked."""
    if isinstance(content, str):
        check_characters(content, where)
        return content
    if not isinstance(content, Sequence) or not content:
        raise BeamUQError(f"{where}: a {type(content).__name__}; write one text")
    texts = []
    for number, part in enumerate(content):
        texts.append(_text_of_part(part, f"{where}[{number}]"))
    if len(texts) > 1:
        # Servers put line breaks between parts or nothing, and templates trim them or not.
        raise BeamUQError(
            f"{where}: {len(texts)} parts; join them to one text as they are to be read"
        )
    check_characters(texts[0], where)
    return texts[0]


def check_characters(text: str, place: str) -> None:
    """Refuse half a surrogate pair, which is no character and which no tokenizer reads."""
    half = next((mark for mark in text if "\ud800" <= mark <= "\udfff"), None)
    if half is not None:
        raise BeamUQError(
            f"{place}: holds {half!r}, half a surrogate pair; write the character, or leave it out"
        )


def _text_of_part(part: Any, where: str) -> str:
    """The text of a part of a content."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise BeamUQError(
            f"{where}: type: {kind!r:.40}: only texts are read, and an image or a tool's part "
            'would be lost; give one part {"type": "text", "text": "…"}, or a text'
        )
    return text


def around(messages: Sequence[Mapping[str, Any]]) -> str:
    """The prompt around a conversation: messages of the system and of the developer, in JSON."""
    fixed = [message for message in messages if message["role"] in FIXED]
    pairs = [[message["role"], message["content"]] for message in fixed]
    return json.dumps(pairs, ensure_ascii=False)
