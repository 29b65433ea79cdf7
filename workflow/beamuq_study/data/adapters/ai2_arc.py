"""ARC (``allenai/ai2_arc``, ARC-Challenge): multiple choice, three to five options labelled A–E or 1–4."""

from __future__ import annotations

from beamuq_study.data.question import CHOICES, Adapter, Question, Row, multiple_choice


def read(row: Row, _: str) -> list[Question]:
    """One question."""
    return [multiple_choice(row)]


ADAPTER = Adapter(columns=CHOICES, read=read, options=True)
