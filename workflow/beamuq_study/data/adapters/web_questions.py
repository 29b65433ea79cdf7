"""WebQuestions (``stanfordnlp/web_questions``): closed book; every answer of a set question is a reference."""

from __future__ import annotations

import pyarrow as pa

from beamuq_study.data.question import STRING, STRINGS, Adapter, Question, Row, question


def read(row: Row, name: str) -> list[Question]:
    """One question; the hub has no ids, so its id is ``<split>-<row>``."""
    return [question(name, row["question"], row["answers"])]


ADAPTER = Adapter(columns=pa.schema({"question": STRING, "answers": STRINGS}), read=read)
