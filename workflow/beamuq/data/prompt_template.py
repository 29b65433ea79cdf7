"""Prompt templates: what ``workflow/prompts/<style>/<adapter>.txt`` may say, and how it is filled in.

A file has named parts, each opened by a line such as ``== prompt ==``; what stands before the first is a note.
``prompt`` is the whole prompt. The others are repeated as often as there are such things: ``shot`` is one few-shot
example, ``turn`` one earlier turn of a dialogue, ``option`` one option of a multiple-choice question. ``{name}`` stands
for a value:

=====================  =======================================================================================
in ``prompt``          ``{question}``; ``{shots}``, ``{history}``: examples, earlier turns, a blank line between;
                       ``{options}``: one a line; ``{story}``; ``{title_1}``, ``{paragraph_1}``, ``{title_2}``, …
in ``shot``            ``{question}``, ``{options}``, ``{answer}``: the first reference
in ``turn``            ``{question}``, ``{answer}``
in ``option``          ``{letter}``: A, B, … by place; ``{text}``
=====================  =======================================================================================

There is no logic but one rule: where ``{shots}`` or ``{history}`` stands alone on a line and is empty, the line goes,
and the blank line after it. Values are put in once and never read again, so braces in a question are just braces.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError

_PART = re.compile(r"^== *(\w+) *==[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"\{([a-z]+(?:_[0-9]+)?)\}")
_ALLOWED = {
    "prompt": r"question|options|shots|history|story|title_[1-9]\d*|paragraph_[1-9]\d*",
    "shot": r"question|options|answer",
    "turn": r"question|answer",
    "option": r"letter|text",
}
_REPEATED = {"shots": "shot", "history": "turn", "options": "option"}


@dataclass(frozen=True)
class Template:
    """The parts of a template by name; ``prompt`` is always there."""

    parts: Mapping[str, str]


def load(path: Path) -> Template:
    """Read and check a template.

    Raises
    ------
    BeamUQError
        If it is missing, lacks the part that a placeholder needs, uses an unknown one, or ends a line with a space.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BeamUQError(f"{path}: no such template; write one for this dataset and style") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BeamUQError(f"{path}: not readable as UTF-8 text ({error})") from error
    return parse(text, str(path))


def parse(text: str, where: str) -> Template:
    """The template in ``text``; ``where`` names it in errors. Raises as :func:`load`."""
    _, *pieces = _PART.split(text)
    parts = dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))
    if len(parts) * 2 != len(pieces):
        raise BeamUQError(f"{where}: a part stands twice; keep one of each")
    if "prompt" not in parts:
        raise BeamUQError(f"{where}: has no part '== prompt =='; add it")
    for part, body in parts.items():
        if part not in _ALLOWED:
            raise BeamUQError(f"{where}: unknown part '{part}'; known: {', '.join(_ALLOWED)}")
        if not body:
            raise BeamUQError(f"{where}: part '{part}' is empty; write it or remove it")
        if any(line != line.rstrip() for line in body.split("\n")):
            raise BeamUQError(f"{where}: part '{part}' has a line that ends with a space; remove the space")
        for name in _NAME.findall(body):
            if not re.fullmatch(_ALLOWED[part], name):
                known = _ALLOWED[part].replace(r"_[1-9]\d*", "_1").replace("|", ", ")
                raise BeamUQError(f"{where}: part '{part}': unknown placeholder {{{name}}}; known: {known}")
            if name in _REPEATED and _REPEATED[name] not in parts:
                raise BeamUQError(f"{where}: {{{name}}} needs a part '== {_REPEATED[name]} =='; add it")
    return Template(parts)


def render(template: Template, question: Mapping[str, Any], shots: Sequence[Mapping[str, Any]], *, where: str) -> str:
    """The prompt of one question (a row of ``questions``), after few-shot examples (rows of ``shots``) in their order.

    For an instruct model this is the user's message; the model's chat template is applied elsewhere.

    Raises
    ------
    BeamUQError
        If the template asks for what the question has not, or leaves out what it has; ``where`` names both.
    """
    values = _values(template, question, where)
    values["shots"] = "\n\n".join(
        _fill(template, "shot", _values(template, shot, where) | {"answer": shot["references"][0]}, where)
        for shot in shots
    )
    values["history"] = "\n\n".join(_fill(template, "turn", turn, where) for turn in question["history"])
    passages = question["context"]
    if len(passages) == 1 and not passages[0]["title"]:
        values["story"] = passages[0]["text"]
    else:
        for number, passage in enumerate(passages, start=1):
            values[f"title_{number}"], values[f"paragraph_{number}"] = passage["title"], passage["text"]
    return _fill(template, "prompt", values, where)


def _values(template: Template, question: Mapping[str, Any], where: str) -> dict[str, str]:
    values = {"question": question["question"]}
    if question["options"]:
        values["options"] = "\n".join(
            _fill(template, "option", {"letter": letter, "text": text}, where)
            for letter, text in zip(
                string.ascii_uppercase[: len(question["options"])], question["options"], strict=True
            )
        )
    return values


def _fill(template: Template, part: str, values: Mapping[str, str], where: str) -> str:
    if part not in template.parts:
        raise BeamUQError(f"{where}: the template has no part '== {part} =='; add it")
    body = template.parts[part]
    for name in ("shots", "history"):
        if not values.get(name):
            body = re.sub(rf"^\{{{name}\}}(?:\n\n?|$)", "", body, flags=re.MULTILINE)
    used = set(_NAME.findall(body))
    for name in sorted(used - values.keys()):
        raise BeamUQError(f"{where}: part '{part}' asks for {{{name}}}, which the question has not")
    for name in sorted(name for name in values.keys() - used if values[name]):
        raise BeamUQError(f"{where}: part '{part}' leaves out {{{name}}}, which the question has")
    return _NAME.sub(lambda match: values[match[1]], body)
