"""OpenAI's chat and text completions, as vLLM, SGLang, llama.cpp and many others give them too.

OpenAI's chats leave out the ending's log-probability, vLLM and llama.cpp have it; so it is looked
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from beamuq.api.server_forms.reply import (
    AGAIN,
    Asked,
    Form,
    FormPart,
    Reply,
    TokenLogprob,
    answer_of,
    candidate,
    failed,
    holds_thought,
    refused,
    said,
    text_of,
    was_cut,
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


def _read(value: Mapping[str, Any], place: str, asked: Asked) -> Reply:
    if any(
        isinstance(choice, Mapping) and choice.get("delta") is not None
        for choice in value["choices"]
    ):
        raise BeamUQError(
            f"{place}: choices[0].delta: a part of a stream; ask without stream, or join the parts"
        )
    completion: _Completion = validated(_Completion, said(value), place)
    places = [f"{place}: choices[{number}]" for number in range(len(completion.choices))]
    candidates = [_of_choice(*each, asked) for each in zip(completion.choices, places, strict=True)]
    settings = _settings(value, completion)
    at = "" if settings.keys() <= {"seed"} else ": generation_settings"
    return Reply(candidates, completion.model, settings, settings_at=at)


def _of_choice(choice: _Choice, place: str, asked: Asked) -> dict[str, Any]:
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
    stops = asked.known_stops(choice.stop_reason)
    tokens = _tokens(choice.logprobs, place)
    return candidate(answer, tokens, asked, cut=cut, stops=stops, thought=thought)


def _check_message(message: _Message, place: str) -> bool:
    """Refuse a call of a tool; whether the message tells a thought."""
    for name in ("tool_calls", "function_call"):
        if getattr(message, name):
            raise BeamUQError(f"{place}: message.{name}: a call of a tool is no answer; {AGAIN}")
    return holds_thought(message.content, message.reasoning_content, message.reasoning)


def _tokens(held: _Logprobs | None, place: str) -> list[TokenLogprob] | None:
    if held is None:
        return None
    if held.content is not None:
        return held.content
    if held.token_logprobs is None or held.tokens is None:
        return None
    if len(held.tokens) != len(held.token_logprobs):
        counts = f"{len(held.tokens)} tokens, {len(held.token_logprobs)} token_logprobs"
        raise BeamUQError(
            f"{place}: logprobs: {counts}; give one of each, as the server wrote them"
        )
    pairs = zip(held.tokens, held.token_logprobs, strict=True)
    return [TokenLogprob(token=text, logprob=logprob) for text, logprob in pairs]


def _settings(value: Mapping[str, Any], completion: _Completion) -> Mapping[str, Any]:
    """Those that llama.cpp says of itself, and the seed where a server names one."""
    verbose = value.get("__verbose")
    settings = (verbose if isinstance(verbose, Mapping) else value).get("generation_settings")
    seeds = [
        completion.seed,
        *(choice.seed for choice in completion.choices if len(completion.choices) == 1),
    ]
    seed = next((each for each in seeds if each is not None), None)
    named = {} if seed is None else {"seed": seed}
    return {**named, **settings} if isinstance(settings, Mapping) else named


FORM = Form("OpenAI's chat or text completion", _fits, _read)
