"""vLLM's ``RequestOutput``, as ``LLM.generate`` returns it, or a mapping of its parts.

vLLM counts the token that stops an answer among ``token_ids``, ``logprobs`` and
``cumulative_logprob``, though not in the text; so the sum is that of the whole answer. Where the
tokens' texts are given they are laid along it all the same, and where a stop *string* ended it they
must be: further tokens may have been drawn with its last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from beamuq.api.server_forms.reply import (
    NO_ENDING,
    NO_LOGPROBS,
    Asked,
    Form,
    FormPart,
    Reply,
    left_out,
    said,
    was_cut,
)
from beamuq.api.server_forms.tokens_along_text import token
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

ROUNDING = 1e-3  # how far a sum of rounded log-probabilities may be off
NO_STOP_TOKEN = (
    "the token that stopped it is not the last of token_ids, so that the sum lacks its "
    "log-probability"
)
STOPPED_BY_TEXT = (
    "a stop string ended it, and without its tokens' logprobs it is not known which of them are "
    "its own"
)
NOT_VLLM = "of this engine it is not known whether the ending's log-probability is in the sum"
OF_TENSORRT = ("generation_logits", "disaggregated_params", "context_logits")


class _Logprob(FormPart):
    logprob: float
    decoded_token: str | None = None


class _Output(FormPart):
    text: str
    token_ids: Annotated[list[int], Field(min_length=1)]
    cumulative_logprob: float | None = None
    logprobs: list[_Logprob] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


def as_mapping(value: object) -> dict[str, Any] | None:
    """The parts of an object of vLLM that are read; None: it is no such object."""
    outputs = getattr(value, "outputs", None)
    if isinstance(value, Mapping) or not isinstance(outputs, list | tuple):
        return None
    names = ("request_id", "prompt", "finished")
    parts = {
        name: getattr(value, name)
        for name in names
        if isinstance(getattr(value, name, None), str | bool)
    }
    return parts | {"outputs": [_output_as_mapping(output) for output in outputs]}


def _output_as_mapping(output: object) -> object:
    if isinstance(output, Mapping) or not hasattr(output, "token_ids"):
        return output
    names = ("text", "cumulative_logprob", "finish_reason", "stop_reason", *OF_TENSORRT)
    parts = {name: getattr(output, name) for name in names if hasattr(output, name)}
    ids = getattr(output, "token_ids", None)
    parts["token_ids"] = [] if ids is None else [int(each) for each in ids]
    given = getattr(output, "logprobs", None)
    parts["logprobs"] = None if given is None else list(given)
    return parts


def _fits(value: Mapping[str, Any]) -> bool:
    outputs = value.get("outputs")
    return isinstance(outputs, list) and all(
        isinstance(each, Mapping) and "text" in each and "token_ids" in each for each in outputs
    )


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    if value.get("finished") is False:
        raise BeamUQError(
            f"{place}: finished: false: a part of a stream; give the last output of the request"
        )
    if not value["outputs"]:
        raise BeamUQError(f"{place}: outputs: none; give a request that was answered")
    candidates = []
    for number, output in enumerate(value["outputs"]):
        where = f"{place}: outputs[{number}]"
        parts = said(output)
        if parts.get("logprobs") is not None:
            parts["logprobs"] = _of_drawn_tokens(parts, where)
        read: _Output = validated(
            _Output, {key: parts[key] for key in parts if key in _Output.model_fields}, where
        )
        candidates.append(
            _candidate(read, where, asked, known=not any(name in output for name in OF_TENSORRT))
        )
    return Reply(candidates)


def _of_drawn_tokens(parts: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Of the alternatives at each place, that which was drawn."""
    ids: list[int] = validated(list[int], parts.get("token_ids"), f"{place}: token_ids")
    given = parts["logprobs"]
    if not isinstance(given, list) or len(given) != len(ids):
        raise BeamUQError(
            f"{place}: logprobs: not one for each of {len(ids)} token_ids; give them as vLLM wrote "
            "them"
        )
    found = []
    for number, (drawn, alternatives) in enumerate(zip(ids, given, strict=True)):
        known = alternatives if isinstance(alternatives, Mapping) else {}
        of_drawn = known.get(drawn, known.get(str(drawn)))
        if of_drawn is None:
            raise BeamUQError(
                f"{place}: logprobs[{number}]: token {drawn}, which was drawn, is not among them"
            )
        if isinstance(of_drawn, float):
            found.append({"logprob": of_drawn})
        else:
            found.append(
                dict(of_drawn) if isinstance(of_drawn, Mapping) else _logprob_as_mapping(of_drawn)
            )
    return found


def _logprob_as_mapping(found: object) -> dict[str, Any]:
    return {name: getattr(found, name, None) for name in ("logprob", "decoded_token")}


def _candidate(output: _Output, place: str, asked: Asked, *, known: bool) -> dict[str, Any]:
    cut = was_cut(output.finish_reason, f"{place}: finish_reason", whole=("stop",), cut=("length",))
    by_string = isinstance(output.stop_reason, str)
    if not output.text and len(output.token_ids) > 1 and not by_string:
        count = len(output.token_ids)
        raise BeamUQError(
            f"{place}: text: empty, of {count} token_ids; generate with detokenize, or decode them"
        )
    record: dict[str, Any] = {"text": output.text, "token_ids": output.token_ids}
    why = _why_none(output, cut=cut) if known else NOT_VLLM
    each = [one.logprob for one in output.logprobs or ()]
    total = output.cumulative_logprob
    if (
        each
        and total is not None
        and abs(math.fsum(each) - total) > ROUNDING * max(1.0, abs(total))
    ):
        why = f"its logprobs sum to {math.fsum(each):g}"
        raise BeamUQError(
            f"{place}: cumulative_logprob: {total:g}: {why}; give the output as it was"
        )
    shown = [one.decoded_token for one in output.logprobs or ()]
    told = bool(shown) and all(text is not None for text in shown)
    if not why and not isinstance(output.stop_reason, int) and (by_string or told):
        tokens = [token(text or "") for text in shown]
        why = left_out(
            output.text, tokens, each, cut=cut, stops=asked.known_stops(output.stop_reason)
        )
    if why == NO_ENDING and asked.without_ending:
        return record | {"token_logprobs": each, "without_ending": True}
    if why:
        return record | {"left_out": why}
    return record | ({"token_logprobs": each} if each else {"logprob": total})


def _why_none(output: _Output, *, cut: bool) -> str | None:
    """Why the sum is not that of the whole answer; None: it is, or its tokens will tell."""
    if output.cumulative_logprob is None and output.logprobs is None:
        return NO_LOGPROBS
    if isinstance(output.stop_reason, str) and output.logprobs is None:
        return STOPPED_BY_TEXT
    if (
        isinstance(output.stop_reason, int)
        and not cut
        and output.token_ids[-1] != output.stop_reason
    ):
        return NO_STOP_TOKEN
    return None


FORM = Form("vLLM's RequestOutput", _fits, _read)
