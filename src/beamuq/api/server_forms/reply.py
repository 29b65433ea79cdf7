"""What a response holds, whatever its form, and what forms share: endings, parts, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field

from beamuq.api.server_forms.tokens_along_text import Token, Verdict, token, verdict
from beamuq.errors import BeamUQError

FLOOR = -9999.0  # what OpenAI and vLLM write for a token too unlikely to say
NO_LOGPROBS = "the response has no log-probabilities; ask the server for logprobs"
NO_TOKENS_OF_EMPTY = (
    "the text is empty, and the response has no token of it, not even the ending's, whose "
    "log-probability would be the answer's"
)
NO_ENDING = (
    "the server's tokens lack the ending (end-of-sequence token), and the sum of the others is not "
    "log p of the whole answer; without_ending (--without-ending) scores by it all the same"
)
NO_TOKEN = f"a token's log-probability is null or the server's floor of {FLOOR:g}"
NO_SPELLING = (
    "the tokens with log-probabilities do not spell the text: reasoning, an echoed prompt, or "
    "token ids alone"
)
UNCLEAR_ENDING = (
    "the tokens fit the text both with and without an ending: what stands behind it may be text "
    "that was cut away; a stop string is known where 'request' says it, as stop"
)
BEHIND_A_THOUGHT = (
    "the model thought before it answered: its tokens' log-probabilities are those behind that "
    "thought, and their sum is not the answer's"
)
NO_END_SAID = "the response does not say how it ended"
TEMPERED = (
    "the server's log-probabilities are those at the temperature asked for, not the model's own"
)
WHY = {
    Verdict.NO_ENDING: NO_ENDING,
    Verdict.UNCLEAR: UNCLEAR_ENDING,
    Verdict.NO_SPELLING: NO_SPELLING,
}
AGAIN = "ask again, or leave this one out"
RawCandidate = dict[str, Any]
"""A candidate's fields, from which ``candidate_records.CandidateRecord`` is read."""
THOUGHT_PARTS = ("reasoning", "thinking", "redacted_thinking", "reasoning_text", "summary_text")


class FormPart(BaseModel, extra="ignore", strict=True):
    """A part of a response; what is not read of it is ignored."""


class TokenLogprob(FormPart):
    """A token as OpenAI's chat, and those that follow it, give it."""

    token: str
    logprob: float | None = None
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None


@dataclass(frozen=True)
class Request:
    """What is known of a request, and how its response is to be read.

    ``stops``: its stop strings. ``tempered``: its candidates were drawn at a temperature other than
    1. ``without_ending``: where only the ending's log-probability is left out, the tokens' are
    taken.
    """

    stops: tuple[str, ...] = ()
    tempered: bool = False
    without_ending: bool = False

    def known_stops(self, ended_by: object = None) -> tuple[str, ...]:
        """Its stop strings, and that by which a response says that it ended."""
        if isinstance(ended_by, str) and ended_by:
            return (*self.stops, ended_by)
        return self.stops


@dataclass(frozen=True)
class Reply:
    """The candidates of a response, its model, and the settings that it says it was made with.

    ``settings_at``: where in it the settings stand. ``beams``: they are of one beam search by the
    response's own form.
    """

    candidates: list[RawCandidate]
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    settings_at: str = ": generation_settings"
    beams: bool = False


@dataclass(frozen=True)
class Form:
    """A form of response: its name, whether a mapping has it, and how it is read.

    ``read`` takes the mapping, its place and what is known of the request, and raises BeamUQError
    in one line.
    """

    name: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], str, Request], Reply]


def was_cut(end: object, place: str, *, whole: Sequence[str], cut: Sequence[str]) -> bool:
    """Whether an answer was cut at the most tokens allowed, by the ending that its response names.

    Raises BeamUQError for any other ending: an abort, a filter, a call of a tool, none.
    """
    if end in cut:
        return True
    if end in whole:
        return False
    endings = " or ".join((*whole, *cut))
    raise BeamUQError(f"{place}: {end!r:.80}: give whole answers, which end by {endings}; {AGAIN}")


def refused(place: str, words: object) -> BeamUQError:
    """The error for an answer that the server refused to give."""
    return BeamUQError(
        f"{place}: the server refused: {words!s:.200}; ask in another way, or leave this one out"
    )


def failed(place: str, error: object) -> BeamUQError:
    """The error for a server's error in the place of an answer."""
    words: object = error
    if isinstance(error, Mapping):
        words = error.get("message") or error.get("msg") or error.get("type") or dict(error)
    return BeamUQError(f"{place}: the server's error: {words!s:.200}; {AGAIN}")


def text_of(content: object, place: str) -> str | None:
    """The text of a message's content, which may be in parts, without thoughts; None: no text.

    Raises BeamUQError if a part is a refusal, or anything else that is no text.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BeamUQError(
            f"{place}: content: a {type(content).__name__}; give a text, or its parts in a list"
        )
    texts = []
    for number, part in enumerate(content):
        text = _text_of_part(part, f"{place}: content[{number}]")
        if text is not None:
            texts.append(text)
    return "".join(texts) if texts else None


def holds_thought(content: object, *fields: object) -> bool:
    """Whether a message tells a thought: among its content's parts, or in one of its ``fields``.

    A thought of space alone is none: so servers show that thinking was switched off.
    """
    parts = content if isinstance(content, list) else []
    if any(isinstance(part, Mapping) and part.get("type") in THOUGHT_PARTS for part in parts):
        return True
    return any(value.strip() if isinstance(value, str) else value for value in fields)


def answer_of(text: str | None, place: str, *, thought: bool) -> str:
    """The text of an answer.

    Raises BeamUQError naming the place if there is none, or an empty one behind a thought, which
    was cut or took the answer's place.
    """
    if text is None:
        raise BeamUQError(f"{place}: no text; {AGAIN}")
    if thought and not text.strip():
        raise BeamUQError(
            f"{place}: a thought and no answer; ask with more tokens, or leave this one out"
        )
    return text


def _text_of_part(part: object, place: str) -> str | None:
    """The text of one part; None of a thought."""
    if isinstance(part, str):
        return part
    fields: Mapping[str, Any] = part if isinstance(part, Mapping) else {}
    kind = fields.get("type")
    text = fields.get("text")
    if fields.get("refusal"):
        raise refused(place, fields["refusal"])
    if kind in THOUGHT_PARTS:
        return None
    if kind in (None, "text", "output_text") and isinstance(text, str):
        return text
    raise BeamUQError(
        f"{place}: type: {kind!r:.80}: no text; only answers of text can be compared; {AGAIN}"
    )


def candidate_record(
    text: str,
    tokens: Sequence[TokenLogprob] | None,
    request: Request,
    *,
    cut: bool,
    stops: tuple[str, ...] = (),
    thought: bool = False,
) -> RawCandidate:
    """A candidate with its tokens' log-probabilities, or why they do not give its text's.

    ``thought``: the model thought first. What it would say without that thought, or with another,
    is not known.
    """
    if tokens is None:
        return without_logprob(text, NO_LOGPROBS)
    if thought:
        return without_logprob(text, BEHIND_A_THOUGHT)
    logprobs = [entry.logprob for entry in tokens]
    spelled = [token(entry.token, entry.bytes) for entry in tokens]
    why = left_out(text, spelled, logprobs, cut=cut, stops=stops)
    if why is None:
        return {"text": text, "token_logprobs": logprobs}
    if why == NO_ENDING and request.without_ending:
        return {"text": text, "token_logprobs": logprobs, "without_ending": True}
    return without_logprob(text, why)


def with_ending_said(candidate: RawCandidate) -> RawCandidate:
    """A candidate that was read of a response: its log-probabilities hold the ending's, or it says
    that they lack it.
    """
    if "token_logprobs" not in candidate:
        return candidate
    return {"without_ending": False} | candidate


def without_logprob(text: str, why: str) -> RawCandidate:
    """A candidate whose log-probability is not known, and why."""
    return {"text": text, "left_out": why}


def left_out(
    text: str,
    tokens: Sequence[Token],
    logprobs: Sequence[float | None],
    *,
    cut: bool,
    stops: tuple[str, ...] = (),
) -> str | None:
    """Why the tokens' log-probabilities do not give the text's; None: they do."""
    if not tokens:
        return NO_LOGPROBS if text else NO_TOKENS_OF_EMPTY
    if any(logprob is None or logprob <= FLOOR for logprob in logprobs):
        return NO_TOKEN
    return WHY.get(verdict(text, tokens, cut=cut, stops=stops))


def without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping without its nulls, which say nothing, as in a row of Parquet."""
    return {key: part for key, part in value.items() if part is not None}
