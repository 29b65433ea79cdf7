"""Prompts as token ids, plain or through a model's chat template, and whether they fit its context window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.written_texts import check_whole

# The date that Llama's templates write where they are given none.
DATE = "26 Jul 2024"


def plain_prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a plain prompt, with the BOS that the tokenizer is configured to add and never an EOS.

    Raises BeamUQError if the prompt holds half a surrogate pair.
    """
    check_whole(text, "prompt")
    ids = list(tokenizer(text).input_ids)
    bare = list(tokenizer(text, add_special_tokens=False).input_ids)
    ends = (end for end in range(len(ids), len(bare) - 1, -1) if ids[end - len(bare) : end] == bare)
    return ids[: next(ends, len(ids))]


def chat_prompt_ids(tokenizer: Any, message: str, enable_thinking: bool | None = None) -> list[int]:
    """Token ids of one user message in the model's chat template, up to where its answer begins.

    The template writes its own BOS; the tokenizer adds no second one. ``enable_thinking`` goes to a template that
    knows it, and a template that writes the date gets a fixed one, so that an answer does not depend on the day.

    Raises BeamUQError if the tokenizer has no chat template, thinking is set for a template that does not know it or
    not set for one that does, or the template writes a date that cannot be fixed, fails or writes nothing.
    """
    template = tokenizer.chat_template
    if not template:
        raise BeamUQError(f"{tokenizer.name_or_path}: has no chat template; use style: base for this model")
    options: dict[str, Any] = {}
    if enable_thinking is not None:
        if not can_think(tokenizer):
            raise BeamUQError(f"{tokenizer.name_or_path}: its chat template knows no enable_thinking; remove the key")
        options["enable_thinking"] = enable_thinking
    elif can_think(tokenizer):
        # Left unset such a template lets the model think first: its answer would be the opening mark of a thought.
        raise BeamUQError(f"{tokenizer.name_or_path}: its chat template can think first; set enable_thinking: false")
    if "date_string" in str(template):
        options["date_string"] = DATE
    elif "strftime_now" in str(template):
        raise BeamUQError(
            f"{tokenizer.name_or_path}: its chat template writes today's date, so answers would change with the day; "
            "put a fixed date into the template of a copy of the model"
        )
    messages = [{"role": "user", "content": message}]
    what = f"{tokenizer.name_or_path}: its chat template"
    text: object = plugins.call(
        what, tokenizer.apply_chat_template, messages, tokenize=False, add_generation_prompt=True, **options
    )
    if not isinstance(text, str) or not text:
        raise BeamUQError(f"{what}: gave {text!r:.60}, not the text of a prompt; mend it")
    check_whole(text, "prompt")
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def can_think(tokenizer: Any) -> bool:
    """Whether the chat template has a switch for thinking before the answer (``enable_thinking``, as Qwen 3's has)."""
    return "enable_thinking" in str(tokenizer.chat_template)


def context_window(model: Any) -> int | None:
    """The most tokens, prompt and answer together, that the model's positions reach; None: it counts none.

    Where longer texts would turn the angles of all positions (rope types ``longrope`` and ``dynamic``), it ends there:
    such a text has another distribution alone than beside shorter ones.
    """
    config = model.config.get_text_config()
    windows = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len", "seq_length")]
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in ("longrope", "dynamic"):
        windows.insert(0, rope.get("original_max_position_embeddings"))
    return next((window for window in windows if isinstance(window, int) and window > 0), None)


def check_prompt_lengths(prompts: Mapping[str, Sequence[int]], window: int | None, max_new_tokens: int) -> None:
    """Refuse a prompt that leaves no room for its answer.

    Raises BeamUQError naming the first prompt's id, its length and the window.
    """
    for question, ids in prompts.items():
        if window is not None and len(ids) + max_new_tokens > window:
            raise BeamUQError(
                f"prompt {question!r}: {len(ids)} tokens and {max_new_tokens} new ones exceed the model's context of "
                f"{window} tokens; shorten the prompt or max_new_tokens, drop the question or use a model with a "
                "longer context"
            )
