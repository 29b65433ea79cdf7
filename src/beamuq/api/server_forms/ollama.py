"""Ollama's ``/api/chat`` and ``/api/generate``, whose tokens do not hold the ending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamuq.api.server_forms.reply import (
    AGAIN,
    Form,
    FormPart,
    Reply,
    Request,
    TokenLogprob,
    answer_of,
    candidate_record,
    holds_thought,
    text_of,
    was_cut,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

ITS_OWN = ("done", "done_reason", "eval_count", "created_at")


class _Message(FormPart):
    content: str | list[Any] | None = None
    tool_calls: list[Any] | None = None
    thinking: str | None = None


class _Response(FormPart):
    message: _Message | None = None  # of a chat
    response: str | None = None  # of a prompt
    thinking: str | None = None  # of a prompt
    done: bool = True
    done_reason: str | None = None
    model: str | None = None
    logprobs: list[TokenLogprob] | None = None


def _fits(value: Mapping[str, Any]) -> bool:
    answers = isinstance(value.get("message"), Mapping) or isinstance(value.get("response"), str)
    return answers and any(value.get(name) is not None for name in ITS_OWN)


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    response: _Response = validated(_Response, without_nulls(value), place)
    if not response.done:
        raise BeamUQError(
            f"{place}: done: false: a part of a stream; ask with stream false, or join the parts"
        )
    if response.message and response.message.tool_calls:
        raise BeamUQError(f"{place}: message.tool_calls: a call of a tool is no answer; {AGAIN}")
    cut = was_cut(response.done_reason, f"{place}: done_reason", whole=("stop",), cut=("length",))
    if response.message:
        text = text_of(response.message.content, f"{place}: message")
        thought = holds_thought(response.message.content, response.message.thinking)
    else:
        text = response.response
        thought = holds_thought(None, response.thinking)
    answer = answer_of(text, place, thought=thought)
    stops = request.known_stops()
    record = candidate_record(
        answer, response.logprobs, request, cut=cut, stops=stops, thought=thought
    )
    return Reply([record], response.model)


FORM = Form("Ollama's /api/chat or /api/generate", _fits, _read)
