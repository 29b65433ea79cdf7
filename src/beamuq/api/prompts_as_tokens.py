"""Prompts of a model in memory, in whichever form they are given, as token ids."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pandas as pd

from beamuq.api.answer_identity import prompt_around
from beamuq.api.rows import plain
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens
from beamuq.models.conversations import Message, check_characters, read_conversation

FORMS = "give a text, a list of token ids or a list of messages"


@dataclass(frozen=True)
class PromptTokens:
    """A prompt's token ids, and its question: its text or last message; None of a list of ids.

    around: of a conversation the prompt around its questions; None: it is not known which part of a
    text that is.
    """

    token_ids: tuple[int, ...]
    question: str | None
    around: str | None = None


def listed_prompts(prompts: Any) -> list[Any]:
    """The prompts of a call, each a text, token ids or a conversation.

    Raises BeamUQError if it is one prompt instead of a list of them.
    """
    if isinstance(prompts, str):
        raise BeamUQError("prompts: one text; give a list of prompts")
    if isinstance(prompts, Mapping) or not isinstance(prompts, Iterable):
        raise BeamUQError(
            f"prompts: a {type(prompts).__name__}; give a list of prompts, each a text, ids or "
            "messages"
        )
    if isinstance(prompts, pd.DataFrame):
        raise BeamUQError(
            "prompts: a frame; give one column of it, such as frame['question'].tolist()"
        )
    if isinstance(prompts, Set):
        raise BeamUQError(
            f"prompts: a {type(prompts).__name__}, which has no order; give a list of prompts"
        )
    listed = list(prompts)
    _refuse_mappings([plain(prompt) for prompt in listed])
    return listed


def _refuse_mappings(prompts: Sequence[Any]) -> None:
    """Refuse what a tokenizer returned, and messages in the place of conversations."""
    mappings = [prompt for prompt in prompts if isinstance(prompt, Mapping)]
    if any("input_ids" in mapping for mapping in mappings):
        raise BeamUQError(
            "prompts: what a tokenizer returned; give its input_ids, a list of numbers a prompt"
        )
    if mappings:
        raise BeamUQError(
            "prompts: a message stands where a conversation is expected; give a list of "
            "conversations"
        )


def prompt_as_tokens(tokenizer: Any, prompt: Any, *, chat: bool, place: str) -> PromptTokens:
    """One prompt as tokens; ``chat``: texts and conversations go through the model's chat template.

    Raises BeamUQError naming the ``place``: a form that is none, messages without ``chat``, a
    thought that is left open, and as :func:`beamuq.models.prompt_tokens.chat_prompt_ids`.
    """
    if isinstance(prompt, str):
        check_characters(prompt, place)
        return PromptTokens(_ids_of_text(tokenizer, prompt, chat=chat, place=place), prompt)
    parts = plain(prompt.tolist() if hasattr(prompt, "tolist") else prompt)
    if not isinstance(parts, Sequence) or isinstance(parts, bytes):
        raise BeamUQError(f"{place}: a {type(prompt).__name__}; {FORMS}")
    if not parts:
        raise BeamUQError(f"{place}: empty; {FORMS}")
    if any(isinstance(part, Mapping) for part in parts):
        messages = read_conversation(parts, place)
        if not chat:
            raise BeamUQError(
                f"{place}: messages: they go through the model's chat template; say chat=True"
            )
        ids_in_chat = _ids_in_chat(tokenizer, messages, place)
        return PromptTokens(ids_in_chat, messages[-1]["content"], prompt_around(messages))
    ids = tuple(_token_id(part, place) for part in parts)
    written = tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    prompt_tokens.check_no_open_thought(tokenizer, str(written), place)
    return PromptTokens(ids, None)


def _ids_of_text(tokenizer: Any, text: str, *, chat: bool, place: str) -> tuple[int, ...]:
    if chat:
        return _ids_in_chat(tokenizer, text, place)
    prompt_tokens.check_no_open_thought(tokenizer, text, place)
    return tuple(prompt_tokens.plain_prompt_ids(tokenizer, text))


def _ids_in_chat(tokenizer: Any, message: str | list[Message], place: str) -> tuple[int, ...]:
    if isinstance(message, str) and not message.strip():
        raise BeamUQError(f"{place}: empty; write the question")
    # a thought before the answer would take the answer's place
    thinking = False if prompt_tokens.can_think(tokenizer) else None
    return tuple(prompt_tokens.chat_prompt_ids(tokenizer, message, thinking, place=place))


def _token_id(part: Any, place: str) -> int:
    if isinstance(part, str):
        raise BeamUQError(f"{place}: a list of texts; {FORMS}")
    try:
        token = operator.index(part)
    except (TypeError, ValueError):
        token = -1
    if token < 0 or isinstance(part, bool):
        raise BeamUQError(f"{place}: {part!r:.40}: no token id; {FORMS}")
    return token
