"""Anthropic's Messages API, which gives no log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamuq.api.server_forms.reply import (
    Form,
    FormPart,
    Reply,
    Request,
    answer_of,
    candidate_record,
    holds_thought,
    refused,
    text_of,
    was_cut,
    without_nulls,
)
from beamuq.config_errors import validated


class _Message(FormPart):
    content: list[Any]
    stop_reason: str | None = None
    model: str | None = None


def _fits(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    message: _Message = validated(_Message, without_nulls(value), place)
    if message.stop_reason == "refusal":
        raise refused(place, text_of(message.content, place) or "no text")
    whole = ("end_turn", "stop_sequence")
    cut = was_cut(message.stop_reason, f"{place}: stop_reason", whole=whole, cut=("max_tokens",))
    text = text_of(message.content, place)
    answer = answer_of(text, place, thought=holds_thought(message.content))
    return Reply([candidate_record(answer, None, request, cut=cut)], message.model)


FORM = Form("Anthropic's Messages API", _fits, _read)
