"""What an adapter is, and what every question must be whatever dataset it comes from.

Text is data and is kept as it came, with one exception: what a prompt shows as one line (a question, an answer, an
option, a title) loses its surrounding whitespace, and a line break inside becomes a space, because a newline there
would end the line that the model is to complete. Stories and paragraphs lose only their surrounding whitespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypedDict

import pyarrow as pa

from beamuq import plugins
from beamuq.errors import BeamUQError

Row = dict[str, Any]

STRING, STRINGS = pa.string(), pa.list_(pa.string())
CHOICES = pa.schema(
    {
        "id": STRING,
        "question": STRING,
        "choices": pa.struct({"text": STRINGS, "label": STRINGS}),
        "answerKey": STRING,
    }
)
"""The hub's schema of multiple choice: see :func:`multiple_choice`."""
NO_ANSWER = "has no gold answer, as in a test split; choose a split with answers"

_LINE_BREAK = re.compile(r"\s*[\r\n]\s*")


class Passage(TypedDict):
    """A paragraph; a CoQA story has the title ``""``."""

    title: str
    text: str


class Turn(TypedDict):
    """A question of the same dialogue with its gold answer."""

    question: str
    answer: str


class Question(TypedDict):
    """A row of ``questions`` in ``beamuq_study.parquet_tables.SCHEMAS``."""

    id: str
    question: str
    context: list[Passage]
    history: list[Turn]
    options: list[str]
    references: list[str]
    group: str


@dataclass(frozen=True)
class Adapter:
    """How one dataset of the hub becomes questions.

    ``columns`` are those of the hub's schema that are read; further ones are ignored. ``read`` makes the questions of
    one row, given ``<split>-<row>`` (0-based) for datasets without ids of their own; it raises a BeamUQError without
    the place, which :func:`questions_of` puts before it. ``repeats``: the hub repeats rows, the first of an id stands.
    ``options``: its questions are multiple choice.
    """

    columns: pa.Schema
    read: Callable[[Row, str], Iterable[Question]]
    repeats: bool = False
    options: bool = False


def question(
    id: str,
    text: str,
    references: Iterable[str],
    *,
    context: Iterable[Passage] = (),
    history: Iterable[Turn] = (),
    options: Iterable[str] = (),
    group: str | None = None,
) -> Question:
    """A checked question; repeated references are dropped, ``group`` defaults to the question itself.

    Raises BeamUQError, without the place, for a blank id, question, reference, option or passage, or no reference.
    """
    if isinstance(references, str) or isinstance(options, str):
        raise BeamUQError(f"references {references!r:.60} and options are lists of texts, not a text; mend the adapter")
    row = Question(
        id=id,
        question=one_line(text),
        context=[Passage(title=one_line(p["title"]), text=p["text"].strip()) for p in context],
        history=[Turn(question=one_line(t["question"]), answer=one_line(t["answer"])) for t in history],
        options=[one_line(option) for option in options],
        references=list(dict.fromkeys(one_line(reference) for reference in references)),
        group=id if group is None else group,
    )
    for what, wrong in {
        "the id is empty; give each question its own": not row["id"].strip(),
        "the question is empty; remove the row or fill it in": is_blank(row["question"]),
        f"the list of answers is empty: the row {NO_ANSWER}": not row["references"],
        f"an answer is empty: the row {NO_ANSWER}, or fill it in": not all(row["references"]),
        "an option is empty; fill it in": not all(row["options"]),
        "a passage is empty; fill it in": not all(passage["text"] for passage in row["context"]),
    }.items():
        if wrong:
            raise BeamUQError(what)
    return row


def multiple_choice(row: Row) -> Question:
    """A question of ``id, question, choices {label, text}, answerKey``: the reference is the right option's text.

    Options stay in the file's order and are lettered by place when shown, so labels 1–4 become (A)–(D).
    """
    labels, texts, key = row["choices"]["label"], row["choices"]["text"], row["answerKey"]
    if len(labels) != len(texts):
        raise BeamUQError(f"choices: {len(labels)} labels but {len(texts)} texts; give each option one of both")
    if not 2 <= len(texts) <= 26:
        raise BeamUQError(f"choices: {len(texts)} options; there must be from 2 to 26, one a letter")
    if len(set(labels)) != len(labels):
        raise BeamUQError(f"choices: a label stands twice in {', '.join(labels)}; label each option once")
    if not key.strip():
        raise BeamUQError(f"answerKey: {key!r}: the row {NO_ANSWER}")
    if key not in labels:
        raise BeamUQError(f"answerKey: {key!r} is not among the labels {', '.join(labels)}; correct it")
    return question(row["id"], row["question"], [texts[labels.index(key)]], options=texts)


def questions_of(
    adapter: Adapter, rows: Iterable[tuple[str, Row]], split: str, repeated: list[str] | None = None
) -> list[Question]:
    """Every question of a split in file order; ``rows`` are (place, row) pairs, a place being file and row.

    The ids of rows that repeat an earlier one, and so are left out, are appended to ``repeated``.

    Raises BeamUQError if any row is unusable or an id stands twice: the message names file, row and fix.
    """
    questions: dict[str, Question] = {}
    for place, item in _read(adapter, rows, split):
        first = questions.setdefault(item["id"], item)
        if first is item:
            continue
        if not adapter.repeats:
            raise BeamUQError(f"{place}: id {item['id']!r} stands twice; give each row its own")
        if first["question"] != item["question"]:
            raise BeamUQError(f"{place}: id {item['id']!r} already belongs to another question; give each its own")
        if repeated is not None:
            repeated.append(item["id"])
    return list(questions.values())


def one_line(text: str) -> str:
    """``text`` without surrounding whitespace, its line breaks (and the space around them) turned into one space."""
    return _LINE_BREAK.sub(" ", text.strip())


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: only spaces, line breaks, and invisible characters such as the zero-width space."""
    return not any(character.isprintable() and not character.isspace() for character in text)


def _read(adapter: Adapter, rows: Iterable[tuple[str, Row]], split: str) -> Iterator[tuple[str, Question]]:
    for index, (place, row) in enumerate(rows):
        try:
            what = f"adapter {getattr(adapter.read, '__module__', '')}"
            checked = wraps(adapter.read)(partial(_checked, adapter))  # whose code it is, is to be told by the reader
            items = plugins.call(what, checked, row, f"{split}-{index}")
            yield from [(place, item) for item in items]
        except BeamUQError as error:
            raise BeamUQError(f"{place}: {error}") from error


def _checked(adapter: Adapter, row: Row, name: str) -> list[Question]:
    """What an adapter, which may be someone else's, makes of a row: each made again by :func:`question`, as a check."""
    parts = ("context", "history", "options", "group")
    return [
        question(item["id"], item["question"], item["references"], **{part: item[part] for part in parts})  # type: ignore[literal-required]
        for item in adapter.read(row, name)
    ]
