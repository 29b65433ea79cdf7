"""Inspect's ``ModelOutput``: OpenAI's chat with ``stop_reason`` in place of ``finish_reason``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from beamuq.api.server_forms.reply import (
    AGAIN,
    Form,
    FormPart,
    RawCandidate,
    Reply,
    Request,
    TokenLogprob,
    answer_of,
    candidate_record,
    holds_thought,
    refused,
    text_of,
    was_cut,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError


class _Logprobs(FormPart):
    content: list[TokenLogprob] | None = None


class _Message(FormPart):
    content: str | list[Any] | None = None
    tool_calls: list[Any] | None = None


class _Details(FormPart):
    explanation: str | None = None


class _Choice(FormPart):
    message: _Message
    stop_reason: str
    stop_details: _Details | None = None
    logprobs: _Logprobs | None = None


class _Output(FormPart):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None


def _fits(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        return False
    if not choices:
        return "completion" in value
    return all(
        choice.get("finish_reason") is None and choice.get("stop_reason") is not None
        for choice in choices
    )


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    output: _Output = validated(_Output, without_nulls(value), place)
    candidates = [
        _of_choice(choice, f"{place}: choices[{number}]", request)
        for number, choice in enumerate(output.choices)
    ]
    return Reply(candidates, output.model)


def _of_choice(choice: _Choice, place: str, request: Request) -> RawCandidate:
    if choice.stop_reason == "content_filter":
        words = choice.stop_details and choice.stop_details.explanation
        raise refused(f"{place}: stop_reason: 'content_filter'", words or "its content filter")
    cut = was_cut(
        choice.stop_reason,
        f"{place}: stop_reason",
        whole=("stop",),
        cut=("max_tokens", "model_length"),
    )
    if choice.message.tool_calls:
        raise BeamUQError(f"{place}: message.tool_calls: a call of a tool is no answer; {AGAIN}")
    text = text_of(choice.message.content, f"{place}: message")
    thought = holds_thought(choice.message.content)
    answer = answer_of(text, place, thought=thought)
    tokens = choice.logprobs.content if choice.logprobs else None
    stops = request.known_stops()
    return candidate_record(answer, tokens, request, cut=cut, stops=stops, thought=thought)


FORM = Form("Inspect's ModelOutput", _fits, _read)
