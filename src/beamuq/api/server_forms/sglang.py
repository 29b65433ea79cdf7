"""SGLang's ``/generate``: one answer, or with ``beam_width`` beams, in ``meta_info.beam_results``.

A beam's score is log p divided by its number of tokens, the ending's among them. A beam that was
cut before the largest length is the prefix of an answer and no outcome: it is left out, and said.
Of one answer the token that stopped it is named, so that it is known whether it is among the tokens
with log-probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from beamuq.api.server_forms.reply import (
    FLOOR,
    NO_ENDING,
    NO_LOGPROBS,
    NO_TOKEN,
    TEMPERED,
    Form,
    FormPart,
    RawCandidate,
    Reply,
    Request,
    TokenLogprob,
    candidate_record,
    was_cut,
    without_logprob,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

NOT_ALL = (
    "fewer tokens have log-probabilities than were generated; "
    "ask with return_logprob, without a start"
)
NO_TEXTS = (
    "its tokens have no texts, so that its ending is not known; ask with return_text_in_logprobs"
)


def _three(value: object) -> object:
    """A token's log-probability, its id and its text, which is there only if it was asked for."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return (*value, None)
    return tuple(value) if isinstance(value, list) else value


TokenTriple = Annotated[tuple[float | None, int, str | None], BeforeValidator(_three)]
"""A token's log-probability, its id and its text."""


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


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    meta = value["meta_info"]
    if meta.get("beam_results") is not None or "text" not in value:
        return Reply(_candidates_of_beams(meta.get("beam_results"), place), beams=True)
    answer: _Answer = validated(_Answer, without_nulls(value), place)
    return Reply([_candidate_of_answer(answer, f"{place}: meta_info", request)])


def _candidates_of_beams(results: object, place: str) -> list[RawCandidate]:
    """The finished beams; warns of those that were left out."""
    beams_place = f"{place}: meta_info.beam_results"
    if not isinstance(results, list) or not results:
        raise BeamUQError(
            f"{beams_place}: {results!r:.80}: no beams; start the server with --enable-beam-search "
            "and ask again"
        )
    records = []
    for number, result in enumerate(results):
        where = f"{beams_place}: [{number}]"
        beam: _Beam = validated(_Beam, _in_one(result), where)
        if not _is_prefix(beam, where):
            records.append(_candidate_of_beam(beam))
    prefixes = len(results) - len(records)
    if not records:
        raise BeamUQError(
            f"{beams_place}: all {prefixes} beams are unfinished; ask with a larger max_new_tokens"
        )
    if prefixes:
        warnings.warn(f"{place}: {prefixes} unfinished beams were left out", stacklevel=2)
    return records


def _in_one(result: object) -> object:
    """A beam whose score and ending may stand in ``meta_info`` of its own."""
    if not isinstance(result, Mapping):
        return result
    inner = result.get("meta_info")
    if not isinstance(inner, Mapping):
        return without_nulls(result)
    return {**without_nulls(inner), **without_nulls(result)}


def _is_prefix(beam: _Beam, place: str) -> bool:
    """Whether a beam was cut before the largest length."""
    ending = _ending(beam.finish_reason)
    if not was_cut(ending.kind, f"{place}.finish_reason", whole=("stop",), cut=("length",)):
        return False
    return ending.longest is None or len(beam.output_ids) < ending.longest


def _candidate_of_beam(beam: _Beam) -> RawCandidate:
    logprob = beam.sequence_score * len(beam.output_ids)
    return {"text": beam.text, "token_ids": beam.output_ids, "logprob": logprob}


@dataclass(frozen=True)
class _Ending:
    """How an answer ended, the largest number of tokens, and the token or string that ended it."""

    kind: str | None
    longest: int | None = None
    matched: int | str | list[int] | None = None


def _ending(finish: _Finish | str | None) -> _Ending:
    if isinstance(finish, _Finish):
        return _Ending(finish.type, finish.length, finish.matched)
    return _Ending(finish)


def _candidate_of_answer(answer: _Answer, place: str, request: Request) -> RawCandidate:
    """One answer: its tokens' log-probabilities, or why they do not give the answer's.

    They give it where the ending's token is among them, or the answer was cut and has none. Where a
    stop string ended the answer, or it is not said what did, the tokens' texts have to show that.

    Raises BeamUQError for an answer that ended neither by itself nor at the most tokens allowed.
    """
    meta = answer.meta_info
    ending = _ending(meta.finish_reason)
    cut = was_cut(ending.kind, f"{place}.finish_reason", whole=("stop",), cut=("length",))
    triples = meta.output_token_logprobs
    if not triples:
        return without_logprob(answer.text, NO_LOGPROBS)
    logprobs = [logprob for logprob, _, _ in triples]
    token_ids = [token_id for _, token_id, _ in triples]
    why = _why_left_out(meta, logprobs, request)
    if why:
        return without_logprob(answer.text, why)
    record = {"text": answer.text, "token_logprobs": logprobs, "token_ids": token_ids}
    if cut and meta.completion_tokens is not None:
        # The server's own count was compared above: no token is missing, and none is an ending.
        return record
    if isinstance(ending.matched, int):
        if token_ids[-1] == ending.matched:
            return record
        if request.without_ending:
            return record | {"without_ending": True}
        return without_logprob(answer.text, NO_ENDING)
    tokens = _tokens_with_texts(triples)
    if tokens is None:
        return without_logprob(answer.text, NO_TEXTS)
    stops = request.known_stops(ending.matched)
    return candidate_record(answer.text, tokens, request, cut=cut, stops=stops)


def _tokens_with_texts(triples: Sequence[TokenTriple]) -> list[TokenLogprob] | None:
    """The tokens of an answer; None where one of them has no text."""
    tokens = []
    for logprob, _, text in triples:
        if text is None:
            return None
        tokens.append(TokenLogprob(token=text, logprob=logprob))
    return tokens


def _why_left_out(meta: _Meta, logprobs: Sequence[float | None], request: Request) -> str | None:
    """Why the tokens' log-probabilities are not those of the answer; None: they may be."""
    if request.tempered:
        return TEMPERED
    if meta.completion_tokens is not None and meta.completion_tokens != len(logprobs):
        return NOT_ALL
    if any(logprob is None or logprob <= FLOOR for logprob in logprobs):
        return NO_TOKEN
    return None


FORM = Form("SGLang's /generate", _fits, _read)
