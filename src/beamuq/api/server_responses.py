"""Responses of servers as candidates: OpenAI's chat and text completions, as vLLM, SGLang and llama.cpp give them too.

SGLang's ``/generate`` with ``beam_width`` gives beams, in ``meta_info.beam_results``.

A candidate gets the log-probabilities of its tokens only where the ending's is among them (D2, p(y | x)): the sum
without it is the probability of no outcome. Where a server leaves it out, or anything else, the candidate has no
log-probability and says why (``left_out``), which ``score`` tells as the reason of every score that needs it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeGuard

from pydantic import BaseModel, Field

from beamuq.config_errors import validated
from beamuq.errors import BeamUQError

FLOOR = -9999.0  # what OpenAI and vLLM write for a token too unlikely to say
MOST_ENDING_TOKENS = 16  # a stop string may be several tokens
NO_LOGPROBS = "the response has no log-probabilities; ask the server for logprobs"
NO_ENDING = (
    "the server left out the ending's log-probability, without which the tokens' sum is the probability of no outcome; "
    "without_ending scores it all the same"
)
NO_TOKEN = f"a token's log-probability is null or the server's floor of {FLOOR:g}"
NO_SPELLING = "the tokens with log-probabilities do not spell the text: reasoning, an echoed prompt, or token ids alone"

FREE = """model messages prompt n seed stream stream_options user max_tokens max_completion_tokens max_new_tokens
n_predict logprobs top_logprobs n_probs stop temperature cache_prompt return_tokens_as_token_ids n_keep
n_discard min_keep samplers post_sampling_probs timings_per_token chat_format reasoning_format
dynatemp_exponent xtc_threshold dry_base repeat_last_n dry_allowed_length dry_penalty_last_n
dry_sequence_breakers mirostat_tau mirostat_eta"""
"""Settings of a request that leave the model's distribution as it is, some because others switch them on."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("top_p", "typical_p", "repetition_penalty", "repeat_penalty", "best_of"), (1,)),
    **dict.fromkeys(("top_k", "top_n_sigma"), (0, -1)),
    **dict.fromkeys(("min_p", "presence_penalty", "frequency_penalty", "mirostat", "min_tokens"), (0,)),
    **dict.fromkeys(("xtc_probability", "dry_multiplier", "dynatemp_range"), (0,)),
    **dict.fromkeys(("ignore_eos", "echo"), (False,)),
    **dict.fromkeys(("logit_bias", "grammar", "response_format"), (None, "", [], {})),
}
"""Settings that do so at these values alone."""


class _Form(BaseModel, extra="ignore", strict=True):
    """A part of a response; what is not read of it is ignored."""


class _Token(_Form):
    token: str
    logprob: float | None = None
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None


class _Logprobs(_Form):
    content: list[_Token] | None = None  # of a chat; of llama.cpp in text completions too
    tokens: list[str] = []  # of a text completion
    token_logprobs: list[float | None] | None = None


class _Message(_Form):
    content: str | None = None


class _Choice(_Form):
    message: _Message | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Completion(_Form):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Finish(_Form):
    type: str
    length: int | None = None


class _Beam(_Form):
    text: str
    output_ids: Annotated[list[int], Field(min_length=1)]
    finish_reason: _Finish
    sequence_score: float


def read_responses(
    row: Mapping[str, Any], place: str, *, without_ending: bool = False, temperature: float = 1.0
) -> dict[str, Any]:
    """A question's row with the candidates that its responses hold.

    ``answer`` may be a response of one choice; ``samples`` and ``beams`` a response, or a list of responses and other
    candidates. All else stays as it is. ``without_ending``: where only the ending's log-probability is left out, the
    tokens' are taken, and the candidate is marked.

    Raises BeamUQError in one line: the ``place``, the key, the value and the fix.
    """
    found = dict(row)
    if isinstance(row.get("request"), Mapping):
        check_request(row["request"], f"{place}: request", temperature)
    for kind in ("answer", "samples", "beams"):
        parts = row[kind] if isinstance(row.get(kind), list) else [row.get(kind)]
        responses = [part for part in parts if _is_response(part)]
        if not responses:
            continue
        # two samples may say the same, in responses with ids of their own or without
        if any(part.get("id") and part in responses[:n] for n, part in enumerate(responses)):
            raise BeamUQError(f"{place}: {kind}: the same response stands twice; give each once")
        for one in responses if kind == "samples" else ():  # as llama.cpp says of itself
            verbose = one.get("__verbose")
            said = (verbose if isinstance(verbose, Mapping) else one).get("generation_settings")
            if isinstance(said, Mapping):
                check_request(said, f"{place}: samples: generation_settings", temperature)
        candidates: list[Any] = []
        for part in parts:
            candidates += _candidates(part, f"{place}: {kind}", without_ending) if _is_response(part) else [part]
        if kind == "answer" and len(candidates) != 1:
            raise BeamUQError(f"{place}: answer: {len(candidates)} choices; give the one greedy response")
        found[kind] = candidates[0] if kind == "answer" else candidates
    return found


def check_request(settings: Mapping[str, Any], place: str, temperature: float) -> None:
    """Refuse settings unless they are known to leave samples the model's own, at this temperature.

    Raises BeamUQError naming the first.
    """
    further = settings.get("extra_body")
    for name, value in {**settings, **(further if isinstance(further, Mapping) else {})}.items():
        if value is None:  # as Parquet fills in what a request does not say
            continue
        if name == "temperature" and value != temperature:
            raise BeamUQError(
                f"{place}: temperature: {value}: scored with {temperature:g}; give score that temperature"
            )
        if name != "extra_body" and name not in FREE.split() and value not in NEUTRAL.get(name, ()):
            fix = f"ask with {NEUTRAL[name][0]!r}" if name in NEUTRAL else "ask without it"
            raise BeamUQError(f"{place}: {name}: {value!r:.80}: such samples are not the model's own; {fix}")


def _is_response(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and ("choices" in value or _has_beams(value))


def _has_beams(value: Mapping[str, Any]) -> bool:
    """Whether it is SGLang's answer to ``/generate`` with ``beam_width``."""
    return isinstance(value.get("meta_info"), Mapping) and "beam_results" in value["meta_info"]


def _beams(response: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """SGLang's beams: their score is log p divided by the number of tokens.

    A beam that was cut before the largest length is the prefix of an answer and no outcome: it is left out, and said.
    """
    where = f"{place}: meta_info.beam_results"
    beams: list[_Beam] = validated(list[_Beam], response["meta_info"]["beam_results"], where)
    whole = [beam for beam in beams if not _is_prefix(beam)]
    if len(whole) < len(beams):
        warnings.warn(f"{place}: {len(beams) - len(whole)} unfinished beams were left out", stacklevel=2)
    return [
        {"text": beam.text, "token_ids": beam.output_ids, "logprob": beam.sequence_score * len(beam.output_ids)}
        for beam in whole
    ]


def _is_prefix(beam: _Beam) -> bool:
    finish = beam.finish_reason
    return finish.type == "length" and (finish.length is None or len(beam.output_ids) < finish.length)


def _candidates(response: Mapping[str, Any], place: str, without_ending: bool) -> list[dict[str, Any]]:
    if _has_beams(response):
        return _beams(response, place)
    completion: _Completion = validated(_Completion, response, place)
    return [_candidate(choice, f"{place}: choices[{n}]", without_ending) for n, choice in enumerate(completion.choices)]


def _candidate(choice: _Choice, place: str, without_ending: bool) -> dict[str, Any]:
    """A candidate's record: its tokens' log-probabilities, or why it has none."""
    text = choice.message.content if choice.message else choice.text
    if text is None or choice.finish_reason not in ("stop", "length"):
        raise BeamUQError(
            f"{place}: finish_reason: {choice.finish_reason!r:.80}: give whole answers that ended by stop or length; "
            "ask again, or leave this one out"
        )
    held = choice.logprobs or _Logprobs()
    if held.content is not None:
        logprobs: list[float | None] | None = [token.logprob for token in held.content]
        tokens = [_encoded(each.token) if each.bytes is None else bytes(each.bytes) for each in held.content]
    else:
        logprobs, tokens = held.token_logprobs, [_encoded(token) for token in held.tokens]
    why = _left_out(text, tokens, logprobs, cut=choice.finish_reason == "length")
    if why == NO_ENDING and without_ending:
        return {"text": text, "token_logprobs": logprobs, "without_ending": True}
    return {"text": text, "left_out": why} if why else {"text": text, "token_logprobs": logprobs}


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def _left_out(text: str, tokens: Sequence[bytes], logprobs: Sequence[float | None] | None, *, cut: bool) -> str | None:
    """What of a candidate's log-probability a server leaves out; None: nothing."""
    if logprobs is None or len(logprobs) != len(tokens):
        return NO_LOGPROBS
    if any(logprob is None or logprob <= FLOOR for logprob in logprobs):
        return NO_TOKEN
    ended = _ended(tokens, text)
    if ended is None:
        return NO_SPELLING
    return None if ended or (cut and tokens) else NO_ENDING


def _ended(tokens: Sequence[bytes], text: str) -> bool | None:
    """Whether a token stands behind a text or reaches beyond it; None: the tokens do not spell it.

    Space may differ, and what is half a character in a token: decoded alone, both are lost with some tokenizers.
    """
    told, spelled = _encoded(text), b"".join(tokens)
    if spelled.startswith(told):
        return len(spelled) > len(told) or tokens[-1:] == [b""]
    counts = range(max(0, len(tokens) - MOST_ENDING_TOKENS), len(tokens) + 1)
    texts = [token.decode(errors="replace") for token in tokens]
    found = [n for n in counts if _spells("".join(texts[:n]), text) and "\ufffd" not in "".join(texts[n : n + 1])]
    return (min(found) if text == text.rstrip() else max(found)) < len(tokens) if found else None


def _spells(spelled: str, text: str) -> bool:
    """Whether the parts between lost characters stand in a text one behind the other, space left out."""
    first, *others = (re.escape(part) for part in re.split("\ufffd+", "".join(spelled.split())))
    # atomic groups: each part is taken where it stands first, and nothing is tried again
    pattern = first + "".join(f"(?>.*?{part})" for part in others[:-1]) + "".join(f".*{part}" for part in others[-1:])
    return re.fullmatch(pattern, "".join(text.split())) is not None
