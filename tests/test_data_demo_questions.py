"""The demo's own questions are those of their adapters, and share nothing with their few-shot
rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from beamuq.text_normalization import normalize_triviaqa
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions

DEMO = Path(__file__).resolve().parents[1] / "workflow" / "demo"
NAMES = ("trivia_qa", "web_questions", "coqa", "hotpot_qa", "commonsense_qa", "ai2_arc")


@pytest.mark.parametrize("name", NAMES)
def test_no_question_or_passage_is_shared_by_few_shot_and_evaluation_rows(name: str) -> None:
    evaluated = "test" if name in ("web_questions", "ai2_arc") else "validation"
    shown, asked = (
        read_questions(ADAPTERS[name], DEMO / name / f"{part}.jsonl")
        for part in ("train", evaluated)
    )
    keys = [
        (normalize_triviaqa(row["question"]), str(row["context"] if name == "coqa" else ""))
        for row in (*shown, *asked)
    ]
    assert len(set(keys)) == len(keys)
    passages = [
        {passage["text"] for row in rows for passage in row["context"]} for rows in (shown, asked)
    ]
    assert not passages[0] & passages[1]
