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
    Form,
    FormPart,
    RawCandidate,
    Reply,
    Request,
    left_out,
    was_cut,
    without_nulls,
)
from beamuq.api.server_forms.tokens_along_text import token
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

ROUNDING = 1e-3  # how far a sum of rounded log-probabilities may be off
NO_STOP_TOKEN = (
    "the token that stopped it is not the last of token_ids, "
    "so that the sum lacks its log-probability"
)
STOPPED_BY_TEXT = (
    "a stop string ended it, "
    "and without its tokens' logprobs it is not known which of them are its own"
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
    named = {name: getattr(value, name, None) for name in ("request_id", "prompt", "finished")}
    parts = {name: part for name, part in named.items() if isinstance(part, str | bool)}
    return {**parts, "outputs": [_output_as_mapping(output) for output in outputs]}


def _output_as_mapping(output: object) -> object:
    if isinstance(output, Mapping) or not hasattr(output, "token_ids"):
        return output
    names = ("text", "cumulative_logprob", "finish_reason", "stop_reason", *OF_TENSORRT)
    parts = {name: getattr(output, name) for name in names if hasattr(output, name)}
    token_ids = output.token_ids
    parts["token_ids"] = [] if token_ids is None else [int(token_id) for token_id in token_ids]
    logprobs = getattr(output, "logprobs", None)
    parts["logprobs"] = None if logprobs is None else list(logprobs)
    return parts


def _fits(value: Mapping[str, Any]) -> bool:
    outputs = value.get("outputs")
    return isinstance(outputs, list) and all(_is_output(output) for output in outputs)


def _is_output(value: object) -> bool:
    return isinstance(value, Mapping) and "text" in value and "token_ids" in value


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    if value.get("finished") is False:
        raise BeamUQError(
            f"{place}: finished: false: a part of a stream; give the last output of the request"
        )
    if not value["outputs"]:
        raise BeamUQError(f"{place}: outputs: none; give a request that was answered")
    candidates = []
    for number, output in enumerate(value["outputs"]):
        where = f"{place}: outputs[{number}]"
        is_vllm = not any(name in output for name in OF_TENSORRT)
        candidates.append(_candidate(_read_output(output, where), where, request, is_vllm=is_vllm))
    return Reply(candidates)


def _read_output(output: Mapping[str, Any], place: str) -> _Output:
    parts = without_nulls(output)
    if parts.get("logprobs") is not None:
        parts["logprobs"] = _of_drawn_tokens(parts, place)
    content = {name: part for name, part in parts.items() if name in _Output.model_fields}
    read: _Output = validated(_Output, content, place)
    return read


def _of_drawn_tokens(parts: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Of the alternatives at each step, that which was drawn."""
    token_ids: list[int] = validated(list[int], parts.get("token_ids"), f"{place}: token_ids")
    tables = parts["logprobs"]
    if not isinstance(tables, list) or len(tables) != len(token_ids):
        raise BeamUQError(
            f"{place}: logprobs: not one for each of {len(token_ids)} token_ids; give them as vLLM "
            "wrote them"
        )
    drawn = []
    for number, (token_id, alternatives) in enumerate(zip(token_ids, tables, strict=True)):
        table = alternatives if isinstance(alternatives, Mapping) else {}
        entry = table.get(token_id, table.get(str(token_id)))
        if entry is None:
            raise BeamUQError(
                f"{place}: logprobs[{number}]: token {token_id}, which was drawn, is not among them"
            )
        drawn.append(_logprob_as_mapping(entry))
    return drawn


def _logprob_as_mapping(entry: object) -> dict[str, Any]:
    """A token's entry: a number, a mapping, or an object of vLLM."""
    if isinstance(entry, float):
        return {"logprob": entry}
    if isinstance(entry, Mapping):
        return dict(entry)
    return {name: getattr(entry, name, None) for name in ("logprob", "decoded_token")}


def _candidate(output: _Output, place: str, request: Request, *, is_vllm: bool) -> RawCandidate:
    cut = was_cut(output.finish_reason, f"{place}: finish_reason", whole=("stop",), cut=("length",))
    _check_text(output, place)
    _check_sum(output, place)
    why = _why_left_out(output, request, cut=cut) if is_vllm else NOT_VLLM
    record = {"text": output.text, "token_ids": output.token_ids}
    logprobs = [entry.logprob for entry in output.logprobs or ()]
    if why == NO_ENDING and request.without_ending:
        return record | {"token_logprobs": logprobs, "without_ending": True}
    if why:
        return record | {"left_out": why}
    if logprobs:
        return record | {"token_logprobs": logprobs}
    return record | {"logprob": output.cumulative_logprob}


def _check_text(output: _Output, place: str) -> None:
    """Refuse an output without its text; behind a stop string it may be empty."""
    count = len(output.token_ids)
    if not output.text and count > 1 and not isinstance(output.stop_reason, str):
        raise BeamUQError(
            f"{place}: text: empty, of {count} token_ids; generate with detokenize, or decode them"
        )


def _check_sum(output: _Output, place: str) -> None:
    """Refuse a sum that is not that of the tokens' log-probabilities."""
    total = output.cumulative_logprob
    if not output.logprobs or total is None:
        return
    own_sum = math.fsum(entry.logprob for entry in output.logprobs)
    if abs(own_sum - total) > ROUNDING * max(1.0, abs(total)):
        raise BeamUQError(
            f"{place}: cumulative_logprob: {total:g}: its logprobs sum to {own_sum:g}; give the "
            "output as it was"
        )


def _why_left_out(output: _Output, request: Request, *, cut: bool) -> str | None:
    """Why the log-probability of an answer is left out; None: it is taken.

    It is the sum over the answer's tokens. It is left out unless that sum is of the whole answer,
    with the ending and nothing further. ``cut``: the answer ended at the most tokens allowed. What
    stopped it decides:

    - a token, named by its id: it must be the last one;
    - a stop string: tokens after it may have been drawn, so the tokens' texts must end with it;
    - neither is named: vLLM counts the ending among the tokens. So the sum is taken, and checked
      against the tokens' texts only where all of them are known.
    """
    if output.cumulative_logprob is None and output.logprobs is None:
        return NO_LOGPROBS
    if isinstance(output.stop_reason, int):
        stopped_by_last_token = output.token_ids[-1] == output.stop_reason
        return None if cut or stopped_by_last_token else NO_STOP_TOKEN
    if isinstance(output.stop_reason, str):
        if output.logprobs is None:
            return STOPPED_BY_TEXT
        return _why_left_out_along_text(output, request, cut=cut)
    texts = [entry.decoded_token for entry in output.logprobs or ()]
    if not texts or None in texts:
        return None
    return _why_left_out_along_text(output, request, cut=cut)


def _why_left_out_along_text(output: _Output, request: Request, *, cut: bool) -> str | None:
    """Why the log-probability is left out, by the tokens' texts laid along the answer's."""
    entries = output.logprobs or []
    return left_out(
        output.text,
        [token(entry.decoded_token or "") for entry in entries],
        [entry.logprob for entry in entries],
        cut=cut,
        stops=request.known_stops(output.stop_reason),
    )


FORM = Form("vLLM's RequestOutput", _fits, _read)
