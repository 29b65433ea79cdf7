"""OpenAI's Responses API, whose tokens do not hold the ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.api.server_forms.reply import (
    AGAIN,
    NO_END_SAID,
    Form,
    FormPart,
    Reply,
    Request,
    TokenLogprob,
    candidate_record,
    refused,
    text_of,
    was_cut,
    without_logprob,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

ECHOED = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
    "top_logprobs",
)


class _Part(FormPart):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    logprobs: list[TokenLogprob] | None = None


class _Item(FormPart):
    type: str
    content: list[_Part] | None = None
    phase: str | None = None


class _Details(FormPart):
    reason: str | None = None


class _Response(FormPart):
    output: list[_Item]
    status: str | None = None
    incomplete_details: _Details | None = None
    model: str | None = None


def _fits(value: Mapping[str, Any]) -> bool:
    items = value.get("output")
    typed = isinstance(items, list) and all(
        isinstance(item, Mapping) and "type" in item for item in items
    )
    return typed and (value.get("object") == "response" or bool(items))


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    response: _Response = validated(_Response, without_nulls(value), place)
    parts = _parts(response, place)
    cut = _was_cut(response, place)
    text = text_of([without_nulls(part.model_dump()) for part in parts], f"{place}: output")
    if text is None:
        raise BeamUQError(f"{place}: output: no message with a text; {AGAIN}")
    if cut is None:
        record = without_logprob(text, f"{NO_END_SAID} (status)")
    else:
        record = candidate_record(
            text,
            _tokens(parts),
            request,
            cut=cut,
            stops=request.known_stops(),
            thought=any(item.type == "reasoning" for item in response.output),
        )
    echoed = {name: value[name] for name in ECHOED if value.get(name) is not None}
    return Reply([record], response.model, echoed, settings_at="")


def _tokens(parts: Sequence[_Part]) -> list[TokenLogprob] | None:
    """The tokens of all texts; None where one of them has none."""
    tokens = []
    for part in parts:
        if part.text is not None:
            if not part.logprobs:
                return None
            tokens += part.logprobs
    return tokens


def _parts(response: _Response, place: str) -> list[_Part]:
    """The parts of the messages; of the final ones alone, where the response marks these."""
    messages = _messages(response, place)
    final = [item for item in messages if item.phase == "final_answer"]
    parts = [part for item in final or messages for part in item.content or ()]
    for part in parts:
        if part.refusal:
            raise refused(place, part.refusal)
    return parts


def _messages(response: _Response, place: str) -> list[_Item]:
    messages = []
    for number, item in enumerate(response.output):
        if item.type == "message":
            messages.append(item)
        elif item.type != "reasoning":
            raise BeamUQError(
                f"{place}: output[{number}].type: {item.type!r}: an answer with tools is no answer "
                "of the model alone; ask without tools"
            )
    return messages


def _was_cut(response: _Response, place: str) -> bool | None:
    """Whether the text was cut; None: the response does not say."""
    if response.status is None:
        return None
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return was_cut(
            reason, f"{place}: incomplete_details.reason", whole=(), cut=("max_output_tokens",)
        )
    return was_cut(response.status, f"{place}: status", whole=("completed",), cut=("incomplete",))


FORM = Form("OpenAI's Responses API", _fits, _read)
