"""Answers without a text are told of: scores take them for certain ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import beamuq

ROWS = [
    {"id": "capital", "answer": "Rome", "samples": ["Rome", "Oslo"]},
    {"id": "blank", "answer": " ", "samples": ["", ""]},
    {"id": "empty", "answer": "", "samples": ["Rome", ""]},
]
TOLD = r"2 of 3 answers are empty \(first: id 'blank'\)"


def test_score_tells_how_many_answers_are_empty() -> None:
    with pytest.warns(UserWarning, match=TOLD):
        scores = beamuq.score(ROWS, similarity="lexical")
    assert scores["Dissimilarity"]["blank"] == 0  # as certain as can be


def test_of_a_long_file_they_are_counted_over_all_blocks(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with pytest.warns(UserWarning, match=TOLD):
        beamuq.score_file(file, tmp_path / "scores.parquet", similarity="lexical")


def test_nothing_is_told_where_none_is(recwarn: pytest.WarningsRecorder) -> None:
    beamuq.score(ROWS[:1], similarity="lexical")
    assert [str(warning.message) for warning in recwarn if "empty" in str(warning.message)] == []


def test_an_empty_answer_without_a_token_is_not_blamed_on_the_server_s_settings() -> None:
    choice = {
        "message": {"role": "assistant", "content": ""},
        "logprobs": {"content": []},
        "finish_reason": "stop",
    }
    response = {"object": "chat.completion", "model": "m", "choices": [choice]}
    row = {"answer": response, "samples": ["Rome", "Oslo"]}
    scores = beamuq.score([row], similarity="lexical", methods="all")
    (reason,) = scores.loc[scores["method"] == "Perplexity", "reason"]
    assert "the text is empty" in reason
    assert "ask the server" not in reason


def test_an_empty_candidate_that_choose_looks_at_is_no_empty_answer(
    recwarn: pytest.WarningsRecorder,
) -> None:
    row = {"id": "capital", "answer": "Rome", "samples": ["Rome", "", "Rome"]}
    assert beamuq.choose([row], similarity="lexical")["text"].tolist() == ["Rome"]
    assert [str(warning.message) for warning in recwarn if "empty" in str(warning.message)] == []
