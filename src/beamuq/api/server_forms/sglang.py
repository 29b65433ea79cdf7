"""SGLang's ``/generate``: one answer, or with ``beam_width`` beams, in ``meta_info.beam_results``.

A beam's score is log p divided by its number of tokens, the ending's among them. A beam that was
cut before the largest length is the prefix of an answer and no outcome: it is left out, and said.
Of one answer the token that stopped it is named, so that it is known whether it is among the tokens
with log-probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from beamuq.api.server_forms.reply import (
    FLOOR,
    NO_ENDING,
    NO_LOGPROBS,
    NO_TOKEN,
    TEMPERED,
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

NOT_ALL = (
    "fewer tokens have log-probabilities than were generated; ask with return_logprob, without a "
    "start"
)
NO_TEXTS = (
    "its tokens have no texts, so that its ending is not known; ask with return_text_in_logprobs"
)


def _three(value: object) -> object:
    """What SGLang says of a token: its log-probability, its id and, if asked for, its text."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return (*value, None)
    return tuple(value) if isinstance(value, list) else value


TokenTriple = Annotated[tuple[float | None, int, str | None], BeforeValidator(_three)]


class _Finish(FormPart):
    type: str
    length: int | None = None
    matched: int | str | list[int] | None = None


class _Beam(FormPart):
    text: str
    output_ids: Annotated[list[int], Field(min_length=1)]
    finish_reason: _Finish | str | None = None
    sequence_score: float


class _Meta(FormPart):
    finish_reason: _Finish | str | None = None
    completion_tokens: int | None = None
    output_token_logprobs: list[TokenTriple] | None = None


class _Answer(FormPart):
    text: str
    meta_info: _Meta


def _fits(value: Mapping[str, Any]) -> bool:
    meta = value.get("meta_info")
    return isinstance(meta, Mapping) and ("text" in value or "beam_results" in meta)


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    meta = value["meta_info"]
    if meta.get("beam_results") is not None or "text" not in value:
        return Reply(_of_beams(meta.get("beam_results"), place), beams=True)
    answer: _Answer = validated(_Answer, said(value), place)
    return Reply([_of_answer(answer, f"{place}: meta_info", asked)])


def _of_beams(results: object, place: str) -> list[dict[str, Any]]:
    at = f"{place}: meta_info.beam_results"
    if not isinstance(results, list) or not results:
        raise BeamUQError(
            f"{at}: {results!r:.80}: no beams; start the server with --enable-beam-search and ask "
            "again"
        )
    records = []
    prefixes = 0
    for number, result in enumerate(results):
        where = f"{at}: [{number}]"
        beam: _Beam = validated(_Beam, _in_one(result), where)
        kind, length, _ = _ending(beam.finish_reason)
        cut = was_cut(kind, f"{where}.finish_reason", whole=("stop",), cut=("length",))
        if cut and (length is None or len(beam.output_ids) < length):
            prefixes += 1
            continue
        records.append(_of_beam(beam))
    if not records:
        raise BeamUQError(
            f"{at}: all {prefixes} beams are unfinished; ask with a larger max_new_tokens"
        )
    if prefixes:
        warnings.warn(f"{place}: {prefixes} unfinished beams were left out", stacklevel=2)
    return records


def _in_one(result: object) -> object:
    """A beam whose score and ending may stand in ``meta_info`` of its own."""
    if not isinstance(result, Mapping):
        return result
    inner = result.get("meta_info")
    return {**(said(inner) if isinstance(inner, Mapping) else {}), **said(result)}


def _of_beam(beam: _Beam) -> dict[str, Any]:
    logprob = beam.sequence_score * len(beam.output_ids)
    return {"text": beam.text, "token_ids": beam.output_ids, "logprob": logprob}


def _ending(finish: _Finish | str | None) -> tuple[object, int | None, object]:
    """Its kind, the largest length, and what stopped it."""
    if isinstance(finish, _Finish):
        return finish.type, finish.length, finish.matched
    return finish, None, None


def _of_answer(answer: _Answer, place: str, asked: Asked) -> dict[str, Any]:
    meta = answer.meta_info
    kind, _, matched = _ending(meta.finish_reason)
    cut = was_cut(kind, f"{place}.finish_reason", whole=("stop",), cut=("length",))
    given = meta.output_token_logprobs
    record = {"text": answer.text}
    if not given:
        return record | {"left_out": NO_LOGPROBS}
    logprobs = [each[0] for each in given]
    ids = [each[1] for each in given]
    texts = [each[2] for each in given]
    if why := _why_none(meta, logprobs, asked):
        return record | {"left_out": why}
    known: dict[str, Any] = {"token_logprobs": logprobs, "token_ids": ids}
    if cut and meta.completion_tokens is not None:
        return record | known
    if isinstance(matched, int):
        if ids[-1] == matched:
            return record | known
        return record | (
            known | {"without_ending": True} if asked.without_ending else {"left_out": NO_ENDING}
        )
    if any(text is None for text in texts):
        return record | {"left_out": NO_TEXTS}
    tokens = [TokenLogprob(token=str(text), logprob=logprob) for logprob, _, text in given]
    return candidate(answer.text, tokens, asked, cut=cut, stops=asked.known_stops(matched))


def _why_none(meta: _Meta, logprobs: Sequence[float | None], asked: Asked) -> str | None:
    if asked.tempered:
        return TEMPERED
    if meta.completion_tokens is not None and meta.completion_tokens != len(logprobs):
        return NOT_ALL
    return NO_TOKEN if any(logprob is None or logprob <= FLOOR for logprob in logprobs) else None


FORM = Form("SGLang's /generate", _fits, _read)
