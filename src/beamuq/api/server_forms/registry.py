"""Which form a response has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from beamuq.api.server_forms.reply import Form, failed, refused, said
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
_Test = Callable[[Mapping[str, Any]], bool]


def form_of(value: Mapping[str, Any]) -> Form | None:
    """The form of a response; None: it is none that is read."""
    return next((form for form in FORMS if form.fits(value)), None)


def refuse_what_is_no_answer(value: Mapping[str, Any], place: str) -> None:
    """Refuse an error of a server, and a form that is known and not read. Raises BeamUQError naming
    it.
    """
    value = said(value)
    error = value.get("error")
    if error and not isinstance(error, bool):
        raise failed(place, error)
    if value.get("object") == "error" or value.get("type") == "error":
        raise failed(place, value)
    if "detail" in value and "text" not in value:
        raise failed(place, value["detail"])
    feedback = value.get("promptFeedback", value.get("prompt_feedback"))
    if isinstance(feedback, Mapping) and not value.get("candidates"):
        raise refused(place, feedback.get("blockReason", feedback.get("block_reason")))
    for what, is_it, fix in _NOT_READ:
        if is_it(value):
            raise BeamUQError(f"{place}: {what}; {fix}")


def _of_beam_search(value: Mapping[str, Any]) -> bool:
    sequences = value.get("sequences")
    if not isinstance(sequences, list) or not sequences:
        return False
    return all(isinstance(each, Mapping) and "cum_logprob" in each for each in sequences)


def _of_a_choice(value: Mapping[str, Any]) -> bool:
    return "finish_reason" in value and ("message" in value or "text" in value)


def _of_cohere(value: Mapping[str, Any]) -> bool:
    ends = (
        "COMPLETE",
        "STOP_SEQUENCE",
        "MAX_TOKENS",
        "TOOL_CALL",
        "ERROR",
        "ERROR_TOXIC",
        "ERROR_LIMIT",
        "TIMEOUT",
    )
    return value.get("finish_reason") in ends or _are_mappings(value.get("generations"), "text")


def _are_mappings(parts: object, key: str) -> bool:
    if not isinstance(parts, list) or not parts:
        return False
    return all(isinstance(part, Mapping) and key in part for part in parts)


ITS_TEXTS = "give its texts as answer and samples"
_NOT_READ: tuple[tuple[str, _Test, str], ...] = (
    (
        "vLLM's BeamSearchOutput: its tokens and texts hold the prompt",
        _of_beam_search,
        "give each beam's own text, and as logprob its cum_logprob where its end token is among "
        "its tokens",
    ),
    (
        "an answer of Gemini's generateContent, which is not read",
        lambda value: isinstance(value.get("candidates"), list),
        ITS_TEXTS,
    ),
    (
        "an answer of text-generation-inference, which is not read",
        lambda value: "generated_text" in value,
        ITS_TEXTS,
    ),
    (
        "an answer of Bedrock's Converse, which is not read",
        lambda value: "stopReason" in value,
        ITS_TEXTS,
    ),
    (
        "a message of LangChain, which is not read",
        lambda value: "response_metadata" in value and "content" in value,
        ITS_TEXTS,
    ),
    ("an answer of Cohere, which is not read", _of_cohere, ITS_TEXTS),
    (
        "an answer of a model of Bedrock's invoke_model, which is not read",
        lambda value: "generation" in value or _are_mappings(value.get("results"), "outputText"),
        ITS_TEXTS,
    ),
    (
        "a line of Anthropic's batches, which is not read",
        lambda value: isinstance(value.get("result"), Mapping) and "custom_id" in value,
        "give its result.message under answer, or as the line",
    ),
    (
        "choices that are no list",
        lambda value: isinstance(value.get("choices"), Mapping),
        "give the response as it was",
    ),
    ("a choice of a response, without what is around it", _of_a_choice, "give the whole response"),
    (
        "a message alone",
        lambda value: "role" in value and "content" in value,
        "give the whole response, or its text",
    ),
)
