"""The prompt that asks whether an answer is true: what ``workflow/prompts/p_true.txt`` may say, and how it is filled.

The file has the parts of :data:`PARTS`, each opened by a line such as ``== prompt ==``; what stands before the first is
a note. One file serves every dataset: ``{passages}`` is a story or titled paragraphs, ``{history}`` the earlier turns
of a dialogue (both a blank line between), ``{options}`` one option a line. Where one of them stands alone on a line and
the question has none, the line goes, and the blank line after it. Values are put in once and never read again.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError

PARTS: Mapping[str, frozenset[str]] = {
    "story": frozenset({"text"}),
    "passage": frozenset({"title", "text"}),
    "turn": frozenset({"question", "answer"}),
    "option": frozenset({"letter", "text"}),
    "prompt": frozenset({"passages", "history", "question", "options", "answer"}),
}
_PART = re.compile(r"^== *(\w+) *==[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"\{([a-z]+)\}")


def load(path: Path) -> dict[str, str]:
    """The parts of a template file by name.

    Raises
    ------
    BeamUQError
        If it is missing, lacks a part or has one more, or a part's placeholders are not those of :data:`PARTS`.
    """
    try:
        _, *pieces = _PART.split(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BeamUQError(f"{path}: not readable as UTF-8 text ({error}); restore the template of P(True)") from error
    names = pieces[::2]
    parts = {name: body.strip("\n") for name, body in zip(names, pieces[1::2], strict=True)}
    if sorted(names) != sorted(PARTS):
        raise BeamUQError(f"{path}: has the parts {', '.join(names)}; it needs each of {', '.join(PARTS)} once")
    for name, body in parts.items():
        if set(_NAME.findall(body)) != PARTS[name]:
            needed = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(PARTS[name]))
            raise BeamUQError(f"{path}: part '{name}' must use exactly {needed}; correct its placeholders")
    if parts["prompt"] != parts["prompt"].rstrip():
        raise BeamUQError(f"{path}: part 'prompt' ends with a space; remove it")
    return parts


def render(parts: Mapping[str, str], question: Mapping[str, Any], answer: str) -> str:
    """The prompt about one answer to a question (a row of ``questions``); for an instruct model the user's message."""
    letters = string.ascii_uppercase[: len(question["options"])]
    options = zip(letters, question["options"], strict=True)
    values = {
        "passages": "\n\n".join(
            _fill(parts["passage" if passage["title"] else "story"], passage) for passage in question["context"]
        ),
        "history": "\n\n".join(_fill(parts["turn"], turn) for turn in question["history"]),
        "question": question["question"],
        "options": "\n".join(_fill(parts["option"], {"letter": letter, "text": text}) for letter, text in options),
        "answer": answer,
    }
    return _fill(parts["prompt"], values)


def _fill(body: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        if not value:
            body = re.sub(rf"^\{{{name}\}}(?:\n\n?|$)", "", body, flags=re.MULTILINE)
    return _NAME.sub(lambda match: values[match[1]], body)
