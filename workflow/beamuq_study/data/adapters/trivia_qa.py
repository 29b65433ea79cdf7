"""TriviaQA (``mandarjoshi/trivia_qa``, rc.nocontext): closed book, many aliases."""

from __future__ import annotations

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq_study.data.question import NO_ANSWER, STRING, STRINGS, Adapter, Question, Row, question


def read(row: Row, _: str) -> list[Question]:
    """One question. References are ``answer.value`` first, then the aliases; blank aliases say nothing and are dropped.

    A few-shot example shows the first reference, so the value as it is written, not the hub's ``normalized_value``.
    """
    value, aliases = row["answer"]["value"], row["answer"]["aliases"]
    if value == "<unk>":
        raise BeamUQError(f"answer.value: '<unk>': the row {NO_ANSWER}")
    return [question(row["question_id"], row["question"], [value, *(alias for alias in aliases if alias.strip())])]


ADAPTER = Adapter(
    columns=pa.schema(
        {"question": STRING, "question_id": STRING, "answer": pa.struct({"value": STRING, "aliases": STRINGS})}
    ),
    read=read,
    repeats=True,  # rc lists a question once for the web and once for Wikipedia
)
