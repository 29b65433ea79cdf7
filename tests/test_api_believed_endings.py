"""Lists of tokens' log-probabilities are believed to hold the ending's, which is told once."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import beamuq
from beamuq.cli import main
from beamuq.errors import BeamUQError

LIST = {"text": "Rome", "token_logprobs": [-0.3, -0.2]}
BEAMS = [{"text": "Rome", "logprob": -0.5}, {"text": "Oslo", "logprob": -1.5}]
ROW: dict[str, Any] = {"id": "a", "answer": LIST, "samples": ["Rome", "Oslo"]}
THEIRS = {"response": "Rome", "drawn": ["Rome", "Oslo"], "lp": [-0.3, -0.2]}
KEYS = {"answer_key": "response", "samples_key": "drawn", "answer_logprobs_key": "lp"}
TOLD = "token_logprobs: believed to hold that of the ending"


def scored(rows: Any, **options: Any) -> pd.DataFrame:
    return beamuq.score(rows, similarity="lexical", methods="Prob,CocoaPPL", **options)


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def assert_silent(rows: Any, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored(rows, **options)


def test_a_list_is_believed_and_told_of_once_with_its_place() -> None:
    rows = [ROW, ROW | {"id": "b", "samples": [LIST, LIST]}]
    place = r"^id 'a': answer: token_logprobs \(and 2 more places\): "
    with pytest.warns(UserWarning, match=place) as told:
        scored(rows)
    (warning,) = told
    assert "\n" not in str(warning.message)


def test_another_tools_list_is_told_of_too() -> None:
    with pytest.warns(UserWarning, match=f"id '1': answer: {TOLD}"):
        scored([THEIRS], **KEYS)
    assert_silent([THEIRS], with_ending=True, **KEYS)


@pytest.mark.parametrize(
    "said", [{"ended": True}, {"ended": False}, {"without_ending": False}, {"without_ending": True}]
)
def test_a_list_that_says_it_is_not_told_of(said: dict[str, bool]) -> None:
    assert_silent([ROW | {"answer": LIST | said}])


def test_what_is_said_of_all_rows_is_not_told_of() -> None:
    assert_silent([ROW], with_ending=True)
    with_numbers = [{"id": "a", "answer": {"text": "Rome", "logprob": -0.5}, "beams": BEAMS}]
    assert_silent(with_numbers)


def test_with_ending_changes_no_score() -> None:
    with pytest.warns(UserWarning, match=TOLD):
        believed = scored([ROW])
    assert believed.equals(scored([ROW], with_ending=True))


def test_null_says_nothing_as_a_row_of_parquet_has_it(tmp_path: Path) -> None:
    answers = [LIST | {"ended": None}, LIST | {"ended": True}]
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"id": ["a", "b"], "answer": answers, "samples": [["Oslo"]] * 2}).to_parquet(path)
    with pytest.warns(UserWarning, match=f"id 'a': answer: {TOLD}"):
        scored(path)


def test_without_ending_marks_ones_own_lists_but_those_that_say_they_are_whole() -> None:
    rows = [ROW, ROW | {"id": "b", "answer": LIST | {"ended": True}}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = scored(rows, without_ending=True)
    of_prob = scores[scores["method"] == "Prob"].set_index("id")
    assert of_prob["value"].to_dict() == {"a": 0.5, "b": 0.5}
    assert of_prob.loc["a", "note"] != ""
    assert of_prob.loc["b", "note"] == ""


def test_both_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match="with_ending, without_ending: both"):
        scored([ROW], with_ending=True, without_ending=True)
    path = written(tmp_path / "rows.jsonl", [ROW])
    with pytest.raises(BeamUQError, match="with_ending, without_ending: both"):
        beamuq.score_file(path, tmp_path / "s.jsonl", with_ending=True, without_ending=True)


def test_a_servers_response_whose_tokens_show_the_ending_is_not_told_of() -> None:
    tokens = [{"token": "Rome", "logprob": -0.2}, {"token": "<|im_end|>", "logprob": -0.1}]
    choice = {
        "message": {"content": "Rome"},
        "finish_reason": "stop",
        "logprobs": {"content": tokens},
    }
    response = {"id": "r", "model": "m", "choices": [choice, choice]}
    assert_silent([response])
    scores = scored([response], without_ending=True)
    assert set(scores["note"]) == {""}


def test_files_and_the_command_tell_it_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "rows.jsonl", [ROW])
    with pytest.warns(UserWarning, match=TOLD):
        beamuq.score_file(path, tmp_path / "scores.jsonl", similarity="lexical")
    with pytest.warns(UserWarning, match=TOLD):
        main(["score", str(path), "--similarity", "lexical"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        main(["score", str(path), "--similarity", "lexical", "--with-ending"])
    assert "CocoaPPL" in capsys.readouterr().out


def test_advise_tells_it_of_beams() -> None:
    beams = [LIST | {"token_logprobs": [-0.1, -0.1]}, {"text": "Oslo", "token_logprobs": [-3.0]}]
    with pytest.warns(UserWarning, match=f"id '1': beams: {TOLD}"):
        beamuq.advise([{"answer": "Rome", "beams": beams}])
