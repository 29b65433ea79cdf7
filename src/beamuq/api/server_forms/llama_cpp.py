"""llama.cpp's own ``/completion``, whose tokens hold an ending that is no stop string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamuq.api.server_forms.reply import (
    Form,
    FormPart,
    Reply,
    Request,
    TokenLogprob,
    candidate_record,
    was_cut,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

ITS_OWN = (
    "stop_type",
    "generation_settings",
    "tokens_predicted",
    "completion_probabilities",
    "stopped_eos",
)
OLD_ENDS = {"stopped_eos": "eos", "stopped_word": "word", "stopped_limit": "limit"}


class _Completion(FormPart):
    content: str
    stop: bool = True
    stop_type: str | None = None
    stopping_word: str | None = None
    completion_probabilities: list[Any] | None = None
    model: str | None = None
    generation_settings: dict[str, object] = {}


def _fits(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("content"), str) and any(
        value.get(name) is not None for name in ITS_OWN
    )


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    completion: _Completion = validated(_Completion, without_nulls(value), place)
    if not completion.stop:
        raise BeamUQError(
            f"{place}: stop: false: a part of a stream; ask with stream false, or join the parts"
        )
    end = completion.stop_type or _end_in_old_versions(value)
    cut = was_cut(end, f"{place}: stop_type", whole=("eos", "word"), cut=("limit",))
    record = candidate_record(
        completion.content,
        _tokens(completion.completion_probabilities, place),
        request,
        cut=cut,
        stops=request.known_stops(completion.stopping_word),
    )
    return Reply([record], completion.model, completion.generation_settings)


def _end_in_old_versions(value: Mapping[str, Any]) -> str | None:
    return next((end for name, end in OLD_ENDS.items() if value.get(name)), None)


def _tokens(probabilities: list[Any] | None, place: str) -> list[TokenLogprob] | None:
    """Its tokens; None of a version that gives probabilities in place of their logarithms."""
    if not probabilities:
        return None
    if not all(isinstance(entry, Mapping) and "logprob" in entry for entry in probabilities):
        return None
    tokens: list[TokenLogprob] = validated(
        list[TokenLogprob], probabilities, f"{place}: completion_probabilities"
    )
    return tokens


FORM = Form("llama.cpp's /completion", _fits, _read)
