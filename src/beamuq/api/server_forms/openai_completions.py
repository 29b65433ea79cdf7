"""OpenAI's chat and text completions, as vLLM, SGLang, llama.cpp and many others give them too.

OpenAI's chats leave out the ending's log-probability, vLLM and llama.cpp have it: it is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from beamuq.api.server_forms.reply import (
    AGAIN,
    Form,
    FormPart,
    RawCandidate,
    Reply,
    Request,
    TokenLogprob,
    answer_of,
    candidate_record,
    failed,
    holds_thought,
    refused,
    text_of,
    was_cut,
    without_nulls,
)
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError


class _Logprobs(FormPart):
    content: list[TokenLogprob] | None = None  # of a chat; of llama.cpp in text completions too
    tokens: list[str] | None = None  # of a text completion
    token_logprobs: list[float | None] | None = None


class _Message(FormPart):
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None  # of older versions
    reasoning_content: Any = None  # DeepSeek, SGLang, older vLLM
    reasoning: Any = None  # vLLM, OpenRouter


class _Choice(FormPart):
    message: _Message | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None  # vLLM: the stop string
    error: Any = None
    seed: Any = None  # Together


class _Completion(FormPart):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    seed: Any = None


def _fits(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("choices"), list)


def _read(value: Mapping[str, Any], place: str, request: Request) -> Reply:
    if any(
        isinstance(choice, Mapping) and choice.get("delta") is not None
        for choice in value["choices"]
    ):
        raise BeamUQError(
            f"{place}: choices[0].delta: a part of a stream; ask without stream, or join the parts"
        )
    completion: _Completion = validated(_Completion, without_nulls(value), place)
    candidates = [
        _of_choice(choice, f"{place}: choices[{number}]", request)
        for number, choice in enumerate(completion.choices)
    ]
    settings = _settings(value, completion)
    settings_at = "" if settings.keys() <= {"seed"} else ": generation_settings"
    return Reply(candidates, completion.model, settings, settings_at)


def _of_choice(choice: _Choice, place: str, request: Request) -> RawCandidate:
    if choice.error:
        raise failed(place, choice.error)
    if choice.message and choice.message.refusal:
        raise refused(place, choice.message.refusal)
    cut = was_cut(
        choice.finish_reason, f"{place}: finish_reason", whole=("stop", "eos"), cut=("length",)
    )
    thought = False
    text = choice.text
    if choice.message:
        thought = _check_message(choice.message, place)
        text = text_of(choice.message.content, f"{place}: message")
    answer = answer_of(text, place, thought=thought)
    stops = request.known_stops(choice.stop_reason)
    tokens = _tokens(choice.logprobs, place)
    return candidate_record(answer, tokens, request, cut=cut, stops=stops, thought=thought)


def _check_message(message: _Message, place: str) -> bool:
    """Whether the message tells a thought; raises BeamUQError for a call of a tool."""
    for name in ("tool_calls", "function_call"):
        if getattr(message, name):
            raise BeamUQError(f"{place}: message.{name}: a call of a tool is no answer; {AGAIN}")
    return holds_thought(message.content, message.reasoning_content, message.reasoning)


def _tokens(logprobs: _Logprobs | None, place: str) -> list[TokenLogprob] | None:
    if logprobs is None:
        return None
    if logprobs.content is not None:
        return logprobs.content
    if logprobs.token_logprobs is None or logprobs.tokens is None:
        return None
    if len(logprobs.tokens) != len(logprobs.token_logprobs):
        counts = f"{len(logprobs.tokens)} tokens, {len(logprobs.token_logprobs)} token_logprobs"
        raise BeamUQError(
            f"{place}: logprobs: {counts}; give one of each, as the server wrote them"
        )
    pairs = zip(logprobs.tokens, logprobs.token_logprobs, strict=True)
    return [TokenLogprob(token=text, logprob=logprob) for text, logprob in pairs]


def _settings(value: Mapping[str, Any], completion: _Completion) -> Mapping[str, Any]:
    """Those that llama.cpp says of itself, and the seed where a server names one."""
    seed = completion.seed
    if seed is None and len(completion.choices) == 1:
        seed = completion.choices[0].seed
    named = {} if seed is None else {"seed": seed}
    verbose = value.get("__verbose")
    holder = verbose if isinstance(verbose, Mapping) else value
    settings = holder.get("generation_settings")
    return {**named, **settings} if isinstance(settings, Mapping) else named


FORM = Form("OpenAI's chat or text completion", _fits, _read)
