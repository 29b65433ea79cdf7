"""Responses of servers as candidates: OpenAI's chat and text completions, vLLM's outputs, SGLang, llama.cpp.

A candidate gets the log-probabilities of its tokens only where the ending's is among them (D2, p(y | x)): the sum
without it is the probability of no outcome. Where a server leaves it out, or anything else, the candidate has no
log-probability and says why (``left_out``), which ``score`` tells as the reason of every score that needs it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

KINDS = ("answer", "samples", "beams")
ROUNDING = 1e-3  # relative; how far a server's sum of rounded log-probabilities may be off
FLOOR = -9999.0  # what OpenAI and vLLM write for a token too unlikely to say
MOST_ENDING_TOKENS = 16  # a stop string may be several tokens
STOPPED, CUT = {"stop", "eos", "word"}, {"length", "limit"}
NO_LOGPROBS = "the response has no log-probabilities; ask the server for logprobs"
NO_ENDING = (
    "the server left out the ending's log-probability, without which the tokens' sum is the probability of no outcome"
)
NO_TOKEN = f"a token's log-probability is null or the server's floor of {FLOOR:g}"
NO_SPELLING = "the tokens with log-probabilities do not spell the text: reasoning, an echoed prompt, or token ids alone"
NEUTRAL = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "repeat_penalty": (1,),
}
"""Settings under which samples are the model's own (D4, sampling). What a request leaves out nobody can check."""

ANSWER_LABELS = ("correct", "quality", "group")  # what a row, or the answer's line, may say for calibrate
OF_ROWS = ("beam_scores", "eos_token_id")  # what a row may say of its responses
FORMS = ("choices", "outputs", "sequences", "meta_info", "stop_type")
ATTRIBUTES = (
    *("outputs", "sequences", "text", "token_ids", "tokens", "logprobs", "cumulative_logprob", "cum_logprob"),
    *("finish_reason", "stop_reason", "logprob", "decoded_token"),
)


class _Form(BaseModel):
    """A part of a response; what is not read of it is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Token(_Form):
    token: str | None = None
    logprob: float | None = None
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None


class _Logprobs(_Form):
    content: list[_Token] | None = None  # of a chat
    tokens: list[str] | None = None  # of a text completion
    token_logprobs: list[float | None] | None = None


class _Message(_Form):
    content: str | None = None


class _Choice(_Form):
    message: _Message | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None


class _Completion(_Form):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Logprob(_Form):
    logprob: float
    decoded_token: str | None = None


_Top = list[dict[int | str, _Logprob]]


class _Output(_Form):
    text: str
    token_ids: list[int]
    logprobs: _Top | None = None
    cumulative_logprob: float | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _RequestOutput(_Form):
    outputs: Annotated[list[_Output], Field(min_length=1)]


class _Sequence(_Form):
    text: str | None = None
    tokens: list[int]
    logprobs: _Top = []
    cum_logprob: float | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _BeamSearchOutput(_Form):
    sequences: Annotated[list[_Sequence], Field(min_length=1)]


class _FinishReason(_Form):
    type: str
    matched: int | str | None = None


class _MetaInfo(_Form):
    finish_reason: _FinishReason
    output_token_logprobs: list[Annotated[tuple[float | None, int, str | None], Field(strict=False)]] | None = None


class _Generated(_Form):
    text: str
    meta_info: _MetaInfo


class _LlamaCpp(_Form):
    content: str
    completion_probabilities: list[_Token] | None = None
    stop_type: str


class _Answer(NamedTuple):
    """One choice of any server. ``tokens``: their texts; ``ended``: is the ending among them, None: by the texts."""

    text: str
    finish: str | None
    logprobs: Sequence[float | None] | None
    tokens: Sequence[bytes | None] = ()
    stop: int | str | None = None
    ended: bool | None = None
    total: tuple[float, int] | None = None  # the sum, and of how many tokens, where they are not told one by one


def as_rows(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows a question, where candidates may be responses, or lines a request, which are put together by question.

    A line has ``custom_id``, naming its question, and a response, itself or under ``response``. What it holds is said
    by ``kind``, or by the temperature of the request: 0 the answer, 1 samples, ``use_beam_search`` beams.

    Raises
    ------
    BeamUQError
        In one line: the place, the key, the value and the fix.
    """
    questions: dict[str, tuple[str, dict[str, Any]]] = {}
    for place, row in rows:
        if any(kind in row for kind in KINDS) or not ("response" in row or _is_response(row)):
            kept = {key: value for key, value in row.items() if key not in OF_ROWS}
            yield place, kept | {kind: _read(row[kind], kind, row, place) for kind in KINDS if kind in row}
            continue
        response = _response_of(row, place)
        named = [row.get("custom_id"), row.get("id") if "response" in row else None]
        name = next((each for each in named if each not in (None, "")), None)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise BeamUQError(
                f"{place}: custom_id: missing; name the question that was asked, the same in each request"
            )
        kind = _kind(row, response, place)
        found = questions.setdefault(str(name), (place, {"id": str(name)}))[1]
        candidates = _read(response, kind, row, place)
        if kind == "answer":
            found |= {key: row[key] for key in ANSWER_LABELS if key in row}
        if kind != "answer":
            found.setdefault(kind, []).extend(candidates)
        elif found.setdefault(kind, candidates) is not candidates:
            raise BeamUQError(f"{place}: custom_id {name!r} has two answers; keep one greedy response")
    for name, (place, row) in questions.items():
        if "answer" not in row:
            raise BeamUQError(f"{place}: custom_id {name!r} has no greedy answer; request one at temperature 0 as well")
        yield f"{place}: custom_id {name!r}", row


def plain_object(value: Any) -> Any:
    """What a response of a client's or vLLM's own class holds, as a mapping; anything else as it is."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    held = {name: getattr(value, name) for name in ATTRIBUTES if hasattr(value, name)}
    return held or value


def _is_response(value: Any) -> bool:
    return isinstance(value, Mapping) and any(key in value for key in FORMS)


def _response_of(row: Mapping[str, Any], place: str) -> Any:
    """The response of a line, which OpenAI's batches put into ``response.body``."""
    response = row.get("response", row)
    if row.get("error"):
        raise BeamUQError(f"{place}: error: {row['error']!r:.200}; ask again, or leave the line out")
    body = response.get("body", response) if isinstance(response, Mapping) else response
    several = isinstance(body, list) and body and all(map(_is_response, body))
    if not (several or _is_response(body)):
        raise BeamUQError(f"{place}: response: not of a form that is known; it has one of {', '.join(FORMS)}")
    return body


def _kind(row: Mapping[str, Any], response: Any, place: str) -> str:
    """Whether a line holds the answer, samples or beams; refuses samples that are not the model's own."""
    request = row.get("request") or {}
    if not isinstance(request, Mapping):
        raise BeamUQError(f"{place}: request: {request!r:.80}: must be the request's object")
    first = response[0] if isinstance(response, list) else response
    settings: dict[str, Any] = {}
    for each in (first.get("generation_settings"), request, request.get("body"), request.get("sampling_params"), row):
        settings |= each if isinstance(each, Mapping) else {}
    temperature = settings.get("temperature")
    kind = row.get("kind")
    if kind is None:
        if settings.get("use_beam_search") or "sequences" in first:
            kind = "beams"
        elif isinstance(temperature, int | float):
            kind = "samples" if temperature else "answer"
        else:
            raise BeamUQError(f"{place}: kind: missing; give {', '.join(KINDS)}, or the request's temperature")
    if kind not in KINDS:
        raise BeamUQError(f"{place}: kind: {kind!r:.80}: must be one of {', '.join(KINDS)}")
    if kind == "samples":
        _check_draws(settings, place)
    return str(kind)


def _check_draws(settings: Mapping[str, Any], place: str) -> None:
    """Refuse samples of another distribution than the model's own, as far as a request's settings say so."""
    for name, neutral in NEUTRAL.items():
        if settings.get(name) not in (None, *neutral):
            more = (
                "; whether log-probabilities are then those at 1 depends on the server" if name == "temperature" else ""
            )
            raise BeamUQError(
                f"{place}: {name}: {settings[name]!r:.80}: samples are drawn from the model's own distribution; ask "
                f"for {neutral[0]}{more}"
            )


def _read(value: Any, kind: str, row: Mapping[str, Any], place: str) -> Any:
    """What stands under a key of a row, with responses as candidates; records and texts as they are."""
    if _is_response(value):
        found = _candidates(value, kind, row, f"{place}: {kind}")
        if kind == "answer" and len(found) != 1:
            raise BeamUQError(f"{place}: answer: {len(found)} choices; give the one greedy response")
        return found[0] if kind == "answer" else found
    if not isinstance(value, list) or not any(map(_is_response, value)):
        return value
    if kind == "answer":
        if len(value) > 1:
            raise BeamUQError(f"{place}: answer: {len(value)} responses; give the one greedy response")
        return _read(value[0], kind, row, place)
    parts = (_read(each, kind, row, place) if _is_response(each) else [each] for each in value)
    return [each for part in parts for each in part]


def _candidates(response: Mapping[str, Any], kind: str, row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    if "choices" in response:
        completion: _Completion = validated(_Completion, response, place)
        answers = [_of_choice(each, f"{place}: choices[{n}]") for n, each in enumerate(completion.choices)]
    elif "outputs" in response:
        request: _RequestOutput = validated(_RequestOutput, response, place)
        answers = [_of_output(each, kind, row, f"{place}: outputs[{n}]") for n, each in enumerate(request.outputs)]
    elif "sequences" in response:
        found: _BeamSearchOutput = validated(_BeamSearchOutput, response, place)
        answers = [_of_sequence(each, row, f"{place}: sequences[{n}]") for n, each in enumerate(found.sequences)]
    elif "meta_info" in response:
        answers = [_of_generated(validated(_Generated, response, place))]
    else:
        plain: _LlamaCpp = validated(_LlamaCpp, response, place)
        if kind == "samples" and isinstance(settings := response.get("generation_settings"), Mapping):
            _check_draws(settings, place)
        tokens = plain.completion_probabilities
        answers = [_Answer(plain.content, plain.stop_type, _of_tokens(tokens), _spelled(tokens))]
    return [_candidate(answer, kind, f"{place}[{n}]") for n, answer in enumerate(answers)]


def _of_choice(choice: _Choice, place: str) -> _Answer:
    text = choice.message.content if choice.message else choice.text
    if text is None:
        raise BeamUQError(f"{place}: no text (finish_reason {choice.finish_reason!r}); leave it out or ask again")
    stop = choice.stop_reason if choice.matched_stop is None else choice.matched_stop
    held = choice.logprobs or _Logprobs()
    if held.content is not None or held.tokens is None:
        return _Answer(text, choice.finish_reason, _of_tokens(held.content), _spelled(held.content), stop)
    logprobs = held.token_logprobs or []
    if len(logprobs) != len(held.tokens):
        raise BeamUQError(f"{place}.logprobs: {len(held.tokens)} tokens and {len(logprobs)} token_logprobs")
    return _Answer(
        text, choice.finish_reason, logprobs, [token.encode(errors="replace") for token in held.tokens], stop
    )


def _of_tokens(tokens: Sequence[_Token] | None) -> list[float | None] | None:
    return None if tokens is None else [token.logprob for token in tokens]


def _spelled(tokens: Sequence[_Token] | None) -> list[bytes | None]:
    return [
        bytes(each.bytes)
        if each.bytes is not None
        else None
        if each.token is None or re.fullmatch(r"token_id:\d+", each.token)
        else each.token.encode(errors="replace")
        for each in tokens or ()
    ]


def _of_output(output: _Output, kind: str, row: Mapping[str, Any], place: str) -> _Answer:
    """vLLM's ``CompletionOutput``: the token that ended it is among ``token_ids``, unless a beam search dropped it."""
    if output.logprobs is None:
        if kind == "beams":
            _asks_what_scores_are(output.cumulative_logprob, row, place)
        score = output.cumulative_logprob
        total = None if score is None else (score, len(output.token_ids))
        return _Answer(output.text, output.finish_reason, None, total=total)
    logprobs, _ = _chosen(output.token_ids, output.logprobs, output.stop_reason, place)
    _checks_sum(output.cumulative_logprob, logprobs, len(logprobs), "cumulative_logprob", place)
    dropped = isinstance(output.stop_reason, int) and output.stop_reason not in output.token_ids[-1:]
    ended = not dropped or len(logprobs) > len(output.token_ids)
    return _Answer(output.text, output.finish_reason, logprobs, ended=ended)


def _of_sequence(sequence: _Sequence, row: Mapping[str, Any], place: str) -> _Answer:
    """vLLM's ``BeamSearchSequence``: its text and tokens hold the prompt, its log-probabilities only what follows."""
    fix = "give each beam as an object with 'text', decoded without the prompt, and 'logprob', its cum_logprob"
    if not sequence.logprobs or len(sequence.logprobs) > len(sequence.tokens) + 1:
        raise BeamUQError(f"{place}: logprobs: {len(sequence.logprobs)} for {len(sequence.tokens)} tokens; {fix}")
    end = row.get("eos_token_id")
    if sequence.finish_reason is None and not isinstance(end, int):
        raise BeamUQError(f"{place}: finish_reason: null; add eos_token_id to the row, to tell what ends an answer")
    stop = end if sequence.stop_reason is None else sequence.stop_reason
    dropped = sequence.finish_reason in STOPPED and isinstance(stop, int) and stop not in sequence.tokens[-1:]
    count = len(sequence.logprobs) - dropped
    ids = sequence.tokens[len(sequence.tokens) - count :]
    logprobs, spelled = _chosen(ids, sequence.logprobs, stop, place)
    _checks_sum(sequence.cum_logprob, logprobs, len(sequence.tokens), "cum_logprob", place)
    stopped = sequence.finish_reason in STOPPED or stop in ids[-1:]
    end_text = spelled.pop() if stopped else ""
    text = "".join(token or "\0" for token in spelled)
    if end_text is None or not (sequence.text or "").removesuffix(end_text).endswith(text):
        raise BeamUQError(f"{place}: text: does not end as its decoded tokens do; {fix}")
    return _Answer(text, "stop" if stopped else "length", logprobs, ended=True)


def _chosen(ids: Sequence[int], top: _Top, stop: int | str | None, place: str) -> tuple[list[float], list[Any]]:
    """Log-probability and text of every generated token, of the ending too where only its entry is left."""
    if len(top) == len(ids) + 1 and isinstance(stop, int):
        ids = [*ids, stop]
    if len(top) != len(ids):
        raise BeamUQError(f"{place}: logprobs: {len(top)} entries for {len(ids)} tokens; give one a token")
    entries = []
    for n, (token, entry) in enumerate(zip(ids, top, strict=True)):
        found = entry.get(token, entry.get(str(token)))
        if found is None:
            raise BeamUQError(f"{place}: logprobs[{n}]: has no entry for the token chosen, {token}")
        entries.append(found)
    return [each.logprob for each in entries], [each.decoded_token for each in entries]


def _checks_sum(score: float | None, logprobs: Sequence[float], length: int, name: str, place: str) -> None:
    """A score beside the tokens is their sum, or that sum over a length; anything else says that tokens are missing."""
    total = sum(logprobs)  # of numbers that are not checked yet, on which fsum fails
    lengths = {1, len(logprobs), len(logprobs) - 1, length, length - 1} - {0}
    if score is not None and not any(abs(score * n - total) <= ROUNDING * max(1.0, abs(total)) for n in lengths):
        raise BeamUQError(
            f"{place}: {name}: {score:g}: neither the sum of its tokens' log-probabilities, {total:g}, nor that over a "
            "length; give all of its tokens"
        )


def _asks_what_scores_are(score: float | None, row: Mapping[str, Any], place: str) -> None:
    if score is not None and row.get("beam_scores") != "sum":
        raise BeamUQError(
            f"{place}: cumulative_logprob: {score:g}: a sum, or divided by a length? ask for logprobs, or add "
            "beam_scores: sum to the row if it is not divided"
        )


def _of_generated(response: _Generated) -> _Answer:
    held, reason = response.meta_info.output_token_logprobs, response.meta_info.finish_reason
    if held is None:
        return _Answer(response.text, reason.type, None)
    tokens = [None if text is None else text.encode(errors="replace") for _, _, text in held]
    ended = [reason.matched] == [token for _, token, _ in held[-1:]] if isinstance(reason.matched, int) else None
    return _Answer(response.text, reason.type, [logprob for logprob, _, _ in held], tokens, reason.matched, ended)


def _candidate(answer: _Answer, kind: str, place: str) -> dict[str, Any]:
    """A candidate's record: its tokens' log-probabilities, or why it has none."""
    if answer.finish not in STOPPED | CUT:
        raise BeamUQError(
            f"{place}: finish_reason: {answer.finish!r:.80}: must be stop or length; ask again, without streaming, or "
            "leave the answer out"
        )
    record = {"text": answer.text}
    if answer.total is not None:
        score, length = answer.total
        return record | {"logprob": score} | ({"tokens": length} if kind == "answer" else {})
    why = _left_out(answer)
    return record | ({"left_out": why} if why else {"token_logprobs": answer.logprobs})


def _left_out(answer: _Answer) -> str | None:
    """What of a candidate's log-probability a server leaves out; None: nothing."""
    if answer.logprobs is None:
        return NO_LOGPROBS
    if any(logprob is None or logprob <= FLOOR for logprob in answer.logprobs):
        return NO_TOKEN
    if answer.ended is not None or not answer.logprobs:
        return None if answer.ended else NO_ENDING
    known = [token for token in answer.tokens if token is not None]
    beyond = _beyond(known, answer.text) if len(known) == len(answer.logprobs) else None
    if beyond is None:
        return NO_SPELLING
    kept = isinstance(answer.stop, str) and answer.stop != "" and answer.text.endswith(answer.stop)
    return None if answer.finish in CUT or beyond or kept else NO_ENDING


def _beyond(tokens: Sequence[bytes], text: str) -> int | None:
    """How many tokens stand behind a text or reach beyond it; None: the tokens do not spell it.

    Space may differ, and what is half a character in a token: decoded alone, both are lost with some tokenizers.
    """
    told, ends = text.encode(errors="replace"), list(itertools.accumulate(map(len, tokens)))
    if b"".join(tokens).startswith(told):
        return sum(end > len(told) or end - len(token) >= len(told) for token, end in zip(tokens, ends, strict=True))
    counts = range(len(tokens), max(-1, len(tokens) - MOST_ENDING_TOKENS - 1), -1)
    found = [n for n in counts if _spells(b"".join(tokens[:n]).decode(errors="replace"), text)]
    return len(tokens) - (min(found) if text == text.rstrip() else max(found)) if found else None


def _spells(spelled: str, text: str) -> bool:
    first, *others = re.split("\ufffd+", "".join(spelled.split()))
    rest = "".join(text.split())
    if not others:
        return rest == first
    if not rest.startswith(first):
        return False
    *middle, last = others
    at = len(first)
    for part in middle:
        found = rest.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return rest.endswith(last, at)
