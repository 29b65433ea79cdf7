"""How many tokens a model's positions reach, and whether prompts leave room for their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.errors import BeamUQError

_WINDOWS = ("max_position_embeddings", "max_seq_len", "seq_length")
_TURNED_BY_LENGTH = ("longrope", "dynamic")


def context_window(model: Any) -> int | None:
    """The most tokens of a prompt and its answer that a model reaches; None: it counts none.

    Where longer texts would turn the angles of all positions (rope types ``longrope`` and
    ``dynamic``), it ends there: such a text has another distribution alone than beside shorter
    ones.
    """
    config = model.config.get_text_config()
    windows = [getattr(config, name, None) for name in _WINDOWS]
    rope = getattr(config, "rope_parameters", None) or {}
    # Kinds of layers may have parameters of their own.
    ropes_of_kinds = [parameters for parameters in rope.values() if isinstance(parameters, Mapping)]
    for parameters in (rope, *ropes_of_kinds):
        if parameters.get("rope_type") in _TURNED_BY_LENGTH:
            windows.insert(0, parameters.get("original_max_position_embeddings"))
    return next((window for window in windows if isinstance(window, int) and window > 0), None)


def check_prompt_lengths(
    prompts: Mapping[str, Sequence[int]], window: int | None, max_new_tokens: int
) -> None:
    """Refuse a prompt that leaves no room for its answer.

    Raises BeamUQError naming the first prompt's id, its length and the window.
    """
    if window is None:
        return
    for question, token_ids in prompts.items():
        if len(token_ids) + max_new_tokens > window:
            raise BeamUQError(
                f"prompt {question!r}: {len(token_ids)} tokens and {max_new_tokens} new ones "
                f"exceed the model's context of {window} tokens; shorten the prompt or "
                "max_new_tokens, drop the question or use a model with a longer context"
            )
