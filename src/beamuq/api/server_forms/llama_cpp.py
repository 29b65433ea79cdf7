"""llama.cpp's own ``/completion``, whose tokens hold the ending where an end token, and not a stop
string, ended it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamuq.api.server_forms.reply import (
    Asked,
    Form,
    FormPart,
    Reply,
    TokenLogprob,
    candidate,
    said,
    was_cut,
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
    generation_settings: dict[str, Any] = {}


def _fits(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("content"), str) and any(
        value.get(name) is not None for name in ITS_OWN
    )


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    completion: _Completion = validated(_Completion, said(value), place)
    if not completion.stop:
        raise BeamUQError(
            f"{place}: stop: false: a part of a stream; ask with stream false, or join the parts"
        )
    old = next((end for name, end in OLD_ENDS.items() if value.get(name)), None)
    cut = was_cut(
        completion.stop_type or old, f"{place}: stop_type", whole=("eos", "word"), cut=("limit",)
    )
    found = candidate(
        completion.content,
        _tokens(completion.completion_probabilities, place),
        asked,
        cut=cut,
        stops=asked.known_stops(completion.stopping_word),
    )
    return Reply([found], completion.model, completion.generation_settings)


def _tokens(given: list[Any] | None, place: str) -> list[TokenLogprob] | None:
    """Its tokens; none of a version that gives probabilities in place of their logarithms."""
    if not given or not all(isinstance(each, Mapping) and "logprob" in each for each in given):
        return None
    tokens: list[TokenLogprob] = validated(
        list[TokenLogprob], given, f"{place}: completion_probabilities"
    )
    return tokens


FORM = Form("llama.cpp's /completion", _fits, _read)
