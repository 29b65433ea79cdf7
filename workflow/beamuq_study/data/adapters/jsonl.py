"""Your own questions: ``id``, ``question`` and ``answers``, the accepted answers with the best first.

Multiple choice and dialogues about a story have richer schemas: name ``ai2_arc`` or ``coqa`` as the adapter instead.
"""

from __future__ import annotations

import pyarrow as pa

from beamuq_study.data.question import STRING, STRINGS, Adapter, Question, Row, question


def read(row: Row, _: str) -> list[Question]:
    """One question."""
    return [question(row["id"], row["question"], row["answers"])]


ADAPTER = Adapter(columns=pa.schema({"id": STRING, "question": STRING, "answers": STRINGS}), read=read)
