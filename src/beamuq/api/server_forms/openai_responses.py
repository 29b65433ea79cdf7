"""OpenAI's Responses API. Its tokens do not hold the ending: its texts have no log-probability of
the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamuq.api.server_forms.reply import (
    AGAIN,
    NO_END_SAID,
    Asked,
    Form,
    FormPart,
    Reply,
    TokenLogprob,
    candidate,
    refused,
    said,
    text_of,
    was_cut,
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


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    response: _Response = validated(_Response, said(value), place)
    parts = _parts(response, place)
    cut = _was_cut(response, place)
    text = text_of([said(part.model_dump()) for part in parts], f"{place}: output")
    if text is None:
        raise BeamUQError(f"{place}: output: no message with a text; {AGAIN}")
    told = [part.logprobs for part in parts if part.text is not None]
    tokens = [token for each in told for token in each or ()] if all(told) else None
    thought = any(item.type == "reasoning" for item in response.output)
    stops = asked.known_stops()
    found = candidate(text, tokens, asked, cut=bool(cut), stops=stops, thought=thought)
    if cut is None:
        found = {"text": text, "left_out": f"{NO_END_SAID} (status)"}
    echoed = {name: value[name] for name in ECHOED if value.get(name) is not None}
    return Reply([found], response.model, echoed, settings_at="")


def _parts(response: _Response, place: str) -> list[_Part]:
    """The parts of the messages; of messages on the way to the answer none, where the last is
    marked.
    """
    messages: list[_Item] = []
    for number, item in enumerate(response.output):
        if item.type == "message":
            messages.append(item)
        elif item.type != "reasoning":
            where = f"{place}: output[{number}].type: {item.type!r}"
            raise BeamUQError(
                f"{where}: an answer with tools is no answer of the model alone; ask without tools"
            )
    final = [item for item in messages if item.phase == "final_answer"]
    parts = [part for item in final or messages for part in item.content or ()]
    for part in parts:
        if part.refusal:
            raise refused(place, part.refusal)
    return parts


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
