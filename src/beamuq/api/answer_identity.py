"""What rows say of the model and the prompt of their answers, for ``decide`` to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.models.conversations import around

IN_MEMORY = "memory:"
"""Before the hash of a model in memory, which is not that of its files."""


def are_of_one_kind(hash_of_model: str, other_hash: str) -> bool:
    """Whether two hashes of models are both of files, or both of what was in memory."""
    return hash_of_model.startswith(IN_MEMORY) == other_hash.startswith(IN_MEMORY)


def prompt_around(messages: Sequence[Mapping[str, Any]]) -> str:
    """The prompt around a conversation's questions, as it is hashed."""
    return f"conversation\n{around(messages)}"


def hash_of_prompt(prompt: str, settings: Mapping[str, object]) -> str:
    """sha256 of the prompt around a question, and of settings that are not the defaults."""
    content = prompt + (json.dumps(settings) if settings else "")
    return hashlib.sha256(content.encode()).hexdigest()


def common_prompt_hash(prompts: Sequence[str | None], settings: Mapping[str, object]) -> str | None:
    """The hash of the one prompt around all questions; None: they differ, or one is not known."""
    distinct = set(prompts)
    if len(distinct) != 1:
        return None
    (prompt,) = distinct
    return None if prompt is None else hash_of_prompt(prompt, settings)
