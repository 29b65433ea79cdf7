"""Prompt templates: the grammar of ``src/beamuq/prompts/<style>/<adapter>.txt``, and filling in.

A file has named parts, each opened by a line such as ``== prompt ==``; text before the first is a
note. ``prompt`` is the whole prompt. The others are repeated as often as there are such things:
``shot`` is one few-shot example, ``turn`` one earlier turn of a dialogue, ``option`` one option of
a multiple-choice question. ``{name}`` stands for a value:

- in ``prompt``: ``{question}``; ``{shots}`` and ``{history}``, examples and earlier turns with a
  blank line between; ``{options}``, one per line; ``{story}``; ``{title_1}``, ``{paragraph_1}``,
  ``{title_2}``, …
- in ``shot``: ``{question}``, ``{options}``, ``{answer}``, the first reference
- in ``turn``: ``{question}``, ``{answer}``
- in ``option``: ``{letter}``, A, B, … by place; ``{text}``

There is no logic but one rule: where ``{shots}`` or ``{history}`` is alone on a line and is empty,
the line goes, and the blank line after it. Values are put in once and never read again, so braces
in a question are just braces.

:func:`split_parts` and :func:`fill_part` serve the template of P(True) too
(:mod:`beamuq.scorers.judgements`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError, reading

PROMPTS = Path(__file__).parent
"""The templates that come with the package."""
Row = Mapping[str, Any]
Template = Mapping[str, str]
"""The parts of a dataset's template by name; ``prompt`` is always there."""

_PART = re.compile(r"^== *(\w+) *==[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{([a-z]+(?:_[0-9]+)?)\}")
_ALLOWED = {
    "prompt": r"question|options|shots|history|story|title_[1-9]\d*|paragraph_[1-9]\d*",
    "shot": r"question|options|answer",
    "turn": r"question|answer",
    "option": r"letter|text",
}
_REPEATED = {"shots": "shot", "history": "turn", "options": "option"}
_BLOCKS = ("shots", "passages", "history", "options")  # go, with their line, where there are none


def read_template(path: Path) -> str:
    """The text of a template file. Raises BeamUQError if it is missing or is no text."""
    with reading(path, "a template in UTF-8", "restore it"):
        return path.read_text(encoding="utf-8")


def split_parts(text: str) -> list[tuple[str, str]]:
    """The parts of a template in their order: name, and text without newlines at its ends."""
    _, *pieces = _PART.split(text)
    names = pieces[::2]
    bodies = [body.strip("\n") for body in pieces[1::2]]
    return list(zip(names, bodies, strict=True))


def placeholders(body: str) -> list[str]:
    """The names in braces of one part, in their order."""
    return _PLACEHOLDER.findall(body)


def fill_part(body: str, values: Mapping[str, str]) -> str:
    """A part with a value for each placeholder; an empty block alone on its line takes it along."""
    for name in _BLOCKS:
        if values.get(name) == "":
            body = re.sub(rf"^\{{{name}\}}(?:\n\n?|$)", "", body, flags=re.MULTILINE)
    return _PLACEHOLDER.sub(lambda match: values[match[1]], body)


def load(path: Path) -> Template:
    """Read and check a dataset's template.

    Raises BeamUQError if it is missing, lacks the part that a placeholder needs, uses an unknown
    one, or ends a line with a space.
    """
    return parse(read_template(path), str(path))


def parse(text: str, where: str) -> Template:
    """The template in ``text``; ``where`` names it in errors. Raises as :func:`load`."""
    parts = dict(split_parts(text))
    if "prompt" not in parts:
        raise BeamUQError(f"{where}: has no part '== prompt =='; add it")
    for part in parts:
        _check_part(part, parts, where)
    return parts


def _check_part(part: str, parts: Template, where: str) -> None:
    if part not in _ALLOWED:
        raise BeamUQError(f"{where}: unknown part '{part}'; known: {', '.join(_ALLOWED)}")
    if any(line != line.rstrip() for line in parts[part].split("\n")):
        raise BeamUQError(
            f"{where}: part '{part}' has a line that ends with a space; remove the space"
        )
    for name in placeholders(parts[part]):
        if not re.fullmatch(_ALLOWED[part], name):
            allowed = _ALLOWED[part].replace(r"_[1-9]\d*", "_1").replace("|", ", ")
            raise BeamUQError(
                f"{where}: part '{part}': unknown placeholder {{{name}}}; known: {allowed}"
            )
        if name in _REPEATED and _REPEATED[name] not in parts:
            raise BeamUQError(f"{where}: {{{name}}} needs a part '== {_REPEATED[name]} =='; add it")


def render(
    template: Template,
    question: Row,
    shots: Sequence[Row],
    *,
    where: str,
) -> str:
    """The prompt of one question, a row of ``questions``, after few-shot examples in their order.

    ``shots`` are rows of the table of that name. For an instruct model this is the user's message;
    the model's chat template is applied elsewhere.

    Raises BeamUQError if the template asks for what the question has not, or leaves out what it
    has; ``where`` names both.
    """
    values = _values(template, question, where)
    filled_shots = []
    for shot in shots:
        answered = _values(template, shot, where) | {"answer": shot["references"][0]}
        filled_shots.append(_fill(template, "shot", answered, where))
    turns = [_fill(template, "turn", turn, where) for turn in question["history"]]
    values["shots"] = "\n\n".join(filled_shots)
    values["history"] = "\n\n".join(turns)
    values |= _passage_values(question["context"])
    return _fill(template, "prompt", values, where)


def _passage_values(passages: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Of one passage without a title the story; of others titles and paragraphs by number."""
    if len(passages) == 1 and not passages[0]["title"]:
        return {"story": passages[0]["text"]}
    values: dict[str, str] = {}
    for number, passage in enumerate(passages, start=1):
        values[f"title_{number}"] = passage["title"]
        values[f"paragraph_{number}"] = passage["text"]
    return values


def lettered(options: Sequence[str]) -> list[dict[str, str]]:
    """Values of the ``option`` parts: options with the letters A, B, … by place."""
    letters = string.ascii_uppercase[: len(options)]
    return [{"letter": letter, "text": text} for letter, text in zip(letters, options, strict=True)]


def _values(template: Template, question: Row, where: str) -> dict[str, str]:
    values = {"question": question["question"]}
    if question["options"]:
        options = lettered(question["options"])
        filled = [_fill(template, "option", option, where) for option in options]
        values["options"] = "\n".join(filled)
    return values


def _fill(template: Template, part: str, values: Mapping[str, str], where: str) -> str:
    """:func:`fill_part`; refuses a part that asks for what is not there or leaves out what is."""
    if part not in template:
        raise BeamUQError(f"{where}: the template has no part '== {part} =='; add it")
    place = f"{where}: part '{part}'"
    used = set(placeholders(template[part]))
    unanswered = used - values.keys()
    if unanswered:
        raise BeamUQError(f"{place} asks for {{{min(unanswered)}}}, which the question has not")
    left_out = [name for name in values.keys() - used if values[name]]
    if left_out:
        raise BeamUQError(f"{place} leaves out {{{min(left_out)}}}, which the question has")
    return fill_part(template[part], values)
