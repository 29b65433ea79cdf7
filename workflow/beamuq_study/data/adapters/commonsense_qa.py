"""CommonsenseQA (``tau/commonsense_qa``): multiple choice, five options, all of them shown."""

from __future__ import annotations

from beamuq.errors import BeamUQError
from beamuq_study.data.question import CHOICES, Adapter, Question, Row, multiple_choice

OPTIONS = 5


def read(row: Row, _: str) -> list[Question]:
    """One question. Some rows repeat an option's text; they stay, since the reference is a text and not a letter."""
    question = multiple_choice(row)
    if len(question["options"]) != OPTIONS:
        raise BeamUQError(f"choices: {len(question['options'])} options; CommonsenseQA has {OPTIONS}")
    return [question]


ADAPTER = Adapter(columns=CHOICES, read=read, options=True)
