"""ARC (``allenai/ai2_arc``, ARC-Challenge): multiple choice, three to five options labelled A–E or 1–4."""

from __future__ import annotations

import pyarrow as pa

from beamuq.data.question import STRING, STRINGS, Adapter, Question, Row, multiple_choice


def read(row: Row, _: str) -> list[Question]:
    """One question."""
    return [multiple_choice(row)]


ADAPTER = Adapter(
    columns=pa.schema(
        {
            "id": STRING,
            "question": STRING,
            "choices": pa.struct({"text": STRINGS, "label": STRINGS}),
            "answerKey": STRING,
        }
    ),
    read=read,
    options=True,
)
