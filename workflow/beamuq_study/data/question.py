"""What an adapter is, and what every question must be whatever dataset it comes from.

Text is data and is kept as it came, with one exception: what a prompt shows as one line (a
question, an answer, an option, a title) loses its surrounding whitespace, and a line break inside
becomes a space, because a newline there would end the line that the model is to complete. Stories
and paragraphs lose only their surrounding whitespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq.written_texts import name

Row = dict[str, Any]

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

    ``columns`` are those of the hub's schema that are read. ``read`` makes the questions of a row,
    given ``<split>-<row>`` (0-based) for datasets without ids of their own; it raises a BeamUQError
    without the place. ``repeats``: the hub repeats rows, the first of an id stands. ``options``:
    its questions are multiple choice. ``unread``: columns that would say more than it reads; a row
    with one is refused. ``normalizer``: how answers are compared with references (D17, quality), a
    name of ``beamuq.scorers.quality_metrics.NORMALIZERS``.
    """

    columns: pa.Schema
    read: Callable[[Row, str], Iterable[Question]]
    normalizer: str
    repeats: bool = False
    options: bool = False
    unread: tuple[str, ...] = ()


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
    """A checked question. ``references`` are its right answers; a repeated one is kept once.

    ``group`` defaults to the id.

    Raises BeamUQError for a blank id, question, reference, option or passage, no reference, or an
    id with a character that does not show or ends the line. The message does not tell the row:
    :func:`questions_of` adds it.
    """
    if isinstance(references, str) or isinstance(options, str):
        raise BeamUQError(
            f"references {references!r:.60} and options are lists of texts, not a text; mend the "
            "adapter"
        )
    row = Question(
        id=id,
        question=one_line(text),
        context=[Passage(title=one_line(p["title"]), text=p["text"].strip()) for p in context],
        history=[
            Turn(question=one_line(t["question"]), answer=one_line(t["answer"])) for t in history
        ],
        options=[one_line(option) for option in options],
        references=list(dict.fromkeys(one_line(reference) for reference in references)),
        group=id if group is None else group,
    )
    _check_name("id", row["id"])
    _check_name("group", row["group"])
    for what, wrong in {
        "the id is empty; give each question its own": not row["id"].strip(),
        "the question is empty; remove the row or fill it in": not row["question"],
        "the list of answers is empty, as in a test split; choose a split with answers": not row[
            "references"
        ],
        "an answer is empty: choose a split with answers, or fill it in": not all(
            row["references"]
        ),
        "an option is empty; fill it in": not all(row["options"]),
        "a passage is empty; fill it in": not all(passage["text"] for passage in row["context"]),
    }.items():
        if wrong:
            raise BeamUQError(what)
    return row


def _check_name(what: str, text: str) -> None:
    try:
        name(text)
    except ValueError as error:
        raise BeamUQError(f"{what}: {text!r:.60}: {error}") from error


def questions_of(
    adapter: Adapter, rows: Iterable[tuple[str, Row]], split: str, repeated: list[str] | None = None
) -> list[Question]:
    """Every question of a split in file order; ``rows`` are (place, row).

    The ids of rows that repeat an earlier one, and so are left out, are appended to ``repeated``.

    Raises BeamUQError if any row is unusable or an id stands twice: the message names file, row and
    fix.
    """
    questions: dict[str, Question] = {}
    for index, (place, row) in enumerate(rows):
        try:
            for item in adapter.read(row, f"{split}-{index}"):
                first = questions.setdefault(item["id"], item)
                if first is item:
                    continue
                if not adapter.repeats:
                    raise BeamUQError(f"id {item['id']!r} stands twice; give each row its own")
                if first["question"] != item["question"]:
                    raise BeamUQError(
                        f"id {item['id']!r} already belongs to another question; give each its own"
                    )
                if repeated is not None:
                    repeated.append(item["id"])
        except BeamUQError as error:
            raise BeamUQError(f"{place}: {error}") from error
    return list(questions.values())


def one_line(text: str) -> str:
    """``text`` without outer whitespace, its line breaks turned into one space each."""
    return _LINE_BREAK.sub(" ", text.strip())
