"""Inspect's ``ModelOutput``: OpenAI's chat with ``stop_reason`` in place of ``finish_reason``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from beamuq.api.server_forms.reply import (
    AGAIN,
    Asked,
    Form,
    FormPart,
    Reply,
    TokenLogprob,
    answer_of,
    candidate,
    holds_thought,
    refused,
    said,
    text_of,
    was_cut,
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


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    output: _Output = validated(_Output, said(value), place)
    places = [f"{place}: choices[{number}]" for number in range(len(output.choices))]
    return Reply(
        [_of_choice(*each, asked) for each in zip(output.choices, places, strict=True)],
        output.model,
    )


def _of_choice(choice: _Choice, place: str, asked: Asked) -> dict[str, Any]:
    if choice.stop_reason == "content_filter":
        words = choice.stop_details and choice.stop_details.explanation
        raise refused(f"{place}: stop_reason: 'content_filter'", words or "its content filter")
    whole, cut_by = ("stop",), ("max_tokens", "model_length")
    cut = was_cut(choice.stop_reason, f"{place}: stop_reason", whole=whole, cut=cut_by)
    if choice.message.tool_calls:
        raise BeamUQError(f"{place}: message.tool_calls: a call of a tool is no answer; {AGAIN}")
    text = text_of(choice.message.content, f"{place}: message")
    thought = holds_thought(choice.message.content)
    answer = answer_of(text, place, thought=thought)
    tokens = choice.logprobs.content if choice.logprobs else None
    stops = asked.known_stops()
    return candidate(answer, tokens, asked, cut=cut, stops=stops, thought=thought)


FORM = Form("Inspect's ModelOutput", _fits, _read)
