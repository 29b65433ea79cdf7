"""Which form a response has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beamuq.api.server_forms import (
    anthropic_messages,
    inspect_output,
    llama_cpp,
    ollama,
    openai_completions,
    openai_responses,
    sglang,
    vllm_output,
)
from beamuq.api.server_forms.reply import Form, failed, refused, without_nulls
from beamuq.errors import BeamUQError

FORMS: tuple[Form, ...] = (
    inspect_output.FORM,  # before OpenAI's, whose key of choices it has
    openai_completions.FORM,
    openai_responses.FORM,
    ollama.FORM,
    vllm_output.FORM,
    sglang.FORM,
    llama_cpp.FORM,
    anthropic_messages.FORM,
)


@dataclass(frozen=True)
class _UnsupportedForm:
    """A form that is recognised but not supported.

    ``name`` says what it is, ``fits`` whether a response has it, and ``fix`` what to give instead.
    """

    name: str
    fits: Callable[[Mapping[str, Any]], bool]
    fix: str


def form_of(value: Mapping[str, Any]) -> Form | None:
    """The form of a response; None: it is none that is read."""
    return next((form for form in FORMS if form.fits(value)), None)


def refuse_what_is_no_answer(value: Mapping[str, Any], place: str) -> None:
    """Raise BeamUQError, naming the ``place``, for a response that holds no answer to be read.

    That is a server's error, a prompt that Gemini blocked, or a form that is recognised but not
    supported. Any other response passes.
    """
    response = without_nulls(value)
    _refuse_error(response, place)
    # Gemini tells why it blocked a prompt, and gives no candidates then.
    feedback = response.get("promptFeedback", response.get("prompt_feedback"))
    if isinstance(feedback, Mapping) and not response.get("candidates"):
        raise refused(place, feedback.get("blockReason", feedback.get("block_reason")))
    for form in _UNSUPPORTED_FORMS:
        if form.fits(response):
            raise BeamUQError(f"{place}: {form.name}; {form.fix}")


def _refuse_error(response: Mapping[str, Any], place: str) -> None:
    """Raise BeamUQError with a server's own words for its error, which stand in various places."""
    error = response.get("error")
    # ``true`` has no words to tell: what else the response holds decides.
    if error and not isinstance(error, bool):
        raise failed(place, error)
    if response.get("object") == "error" or response.get("type") == "error":
        raise failed(place, response)
    if "detail" in response and "text" not in response:
        raise failed(place, response["detail"])


def _is_beam_search(value: Mapping[str, Any]) -> bool:
    return _are_mappings(value.get("sequences"), "cum_logprob")


def _is_gemini(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("candidates"), list)


def _is_text_generation_inference(value: Mapping[str, Any]) -> bool:
    return "generated_text" in value


def _is_bedrock_converse(value: Mapping[str, Any]) -> bool:
    return "stopReason" in value


def _is_bedrock_invoke_model(value: Mapping[str, Any]) -> bool:
    return "generation" in value or _are_mappings(value.get("results"), "outputText")


def _is_langchain(value: Mapping[str, Any]) -> bool:
    return "response_metadata" in value and "content" in value


def _is_cohere(value: Mapping[str, Any]) -> bool:
    return value.get("finish_reason") in COHERE_ENDS or _are_mappings(
        value.get("generations"), "text"
    )


def _is_anthropic_batch_line(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("result"), Mapping) and "custom_id" in value


def _has_choices_in_no_list(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("choices"), Mapping)


def _is_choice_alone(value: Mapping[str, Any]) -> bool:
    return "finish_reason" in value and ("message" in value or "text" in value)


def _is_message_alone(value: Mapping[str, Any]) -> bool:
    return "role" in value and "content" in value


def _are_mappings(parts: object, key: str) -> bool:
    if not isinstance(parts, list) or not parts:
        return False
    return all(isinstance(part, Mapping) and key in part for part in parts)


COHERE_ENDS = (
    "COMPLETE",
    "STOP_SEQUENCE",
    "MAX_TOKENS",
    "TOOL_CALL",
    "ERROR",
    "ERROR_TOXIC",
    "ERROR_LIMIT",
    "TIMEOUT",
)
ITS_TEXTS = "give its texts as answer and samples"
_UNSUPPORTED_FORMS = (
    _UnsupportedForm(
        "vLLM's BeamSearchOutput: its tokens and texts hold the prompt",
        _is_beam_search,
        "give each beam's own text, and as logprob its cum_logprob where its end token is among "
        "its tokens",
    ),
    _UnsupportedForm(
        "an answer of Gemini's generateContent, which is not read",
        _is_gemini,
        ITS_TEXTS,
    ),
    _UnsupportedForm(
        "an answer of text-generation-inference, which is not read",
        _is_text_generation_inference,
        ITS_TEXTS,
    ),
    _UnsupportedForm(
        "an answer of Bedrock's Converse, which is not read",
        _is_bedrock_converse,
        ITS_TEXTS,
    ),
    _UnsupportedForm(
        "a message of LangChain, which is not read",
        _is_langchain,
        ITS_TEXTS,
    ),
    _UnsupportedForm("an answer of Cohere, which is not read", _is_cohere, ITS_TEXTS),
    _UnsupportedForm(
        "an answer of a model of Bedrock's invoke_model, which is not read",
        _is_bedrock_invoke_model,
        ITS_TEXTS,
    ),
    _UnsupportedForm(
        "a line of Anthropic's batches, which is not read",
        _is_anthropic_batch_line,
        "give its result.message under answer, or as the line",
    ),
    _UnsupportedForm(
        "choices that are no list",
        _has_choices_in_no_list,
        "give the response as it was",
    ),
    _UnsupportedForm(
        "a choice of a response, without what is around it",
        _is_choice_alone,
        "give the whole response",
    ),
    _UnsupportedForm(
        "a message alone",
        _is_message_alone,
        "give the whole response, or its text",
    ),
)
"""In the order in which they are tried."""
