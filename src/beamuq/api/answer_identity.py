"""What rows say of the model and the prompt of their answers, for ``decide`` to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

IN_MEMORY = "memory:"
"""Before the hash of a model in memory, which is not that of its files."""


def are_of_one_kind(hash_of_model: str, other_hash: str) -> bool:
    """Whether two hashes of models are both of files, or both of what was in memory."""
    return hash_of_model.startswith(IN_MEMORY) == other_hash.startswith(IN_MEMORY)


def hash_of_prompt(around: str, settings: Mapping[str, object]) -> str:
    """sha256 of the prompt around a question, and of settings that are not the defaults."""
    content = around + (json.dumps(settings) if settings else "")
    return hashlib.sha256(content.encode()).hexdigest()


def common_prompt_hash(around: Sequence[str | None], settings: Mapping[str, object]) -> str | None:
    """The hash of the one prompt around all questions; None: they differ, or one is not known."""
    prompts = set(around)
    if len(prompts) != 1:
        return None
    (prompt,) = prompts
    return None if prompt is None else hash_of_prompt(prompt, settings)
