"""Samples that cannot be read cost their row nothing, where that is asked: it is scored with the
others, and a warning counts them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beamuq
from beamuq.cli import main
from beamuq.errors import BeamUQError


def choice(text: str | None, ending: str = "stop", **further: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, "finish_reason": ending, **further}


def response(*choices: Any) -> dict[str, Any]:
    return {"object": "chat.completion", "model": "m", "choices": list(choices)}


FILTERED = choice(None, "content_filter")
ROME = choice("Rome")
OSLO = choice("Oslo")
TIMED_OUT = {"error": {"message": "Request timed out"}}
BATCH_LINE = {"response": {"status_code": 200, "body": response(ROME, FILTERED, OSLO)}}
WHOLE = response(ROME, ROME)

BAD_SAMPLES = {
    "a filtered choice": [response(ROME, FILTERED, OSLO)],
    "a choice that is null": [response(ROME, None, OSLO)],
    "a line of a batch": [BATCH_LINE],
    "a null among responses": [response(ROME), None, response(OSLO)],
    "an error among responses": [response(ROME), TIMED_OUT, response(OSLO)],
    "a response of a filtered choice": [response(ROME), response(FILTERED), response(OSLO)],
    "a null among texts": ["Rome", None, "Oslo"],
    "an object without a text": [{"text": "Rome"}, {"text": None}, {"text": "Oslo"}],
    "a log-probability that can be none": [
        {"text": "Rome", "logprob": -0.5},
        {"text": "Rome", "logprob": 3.0},
        {"text": "Oslo", "logprob": -2.0},
    ],
}


@pytest.mark.parametrize("samples", BAD_SAMPLES.values(), ids=BAD_SAMPLES)
def test_a_row_is_scored_with_the_samples_that_can_be_read(samples: list[Any]) -> None:
    rows = [{"answer": "Rome", "samples": samples}, {"answer": "Rome", "samples": [WHOLE]}]
    with pytest.warns(UserWarning, match="rows: 1 of 5 samples left out, in 1 rows, .*row 1: "):
        scores = beamuq.score(rows, similarity="lexical", skip_invalid_samples=True)
    assert scores["Dissimilarity"].to_dict() == {"1": 0.5, "2": 0.0}
    assert scores.loc[scores["method"] == "Dissimilarity", "candidates"].max() == 2


@pytest.mark.parametrize("samples", BAD_SAMPLES.values(), ids=BAD_SAMPLES)
@pytest.mark.parametrize("skip_invalid", [False, True])
def test_without_the_option_the_row_is_not_read_and_the_option_is_named(
    samples: list[Any], skip_invalid: bool
) -> None:
    rows = [{"answer": "Rome", "samples": samples}, {"answer": "Rome", "samples": [WHOLE]}]
    told = "row 1: .* \\(--skip-invalid-samples\\) leaves such samples out"
    if skip_invalid:
        with pytest.warns(UserWarning, match=f"1 of 2 rows left out: {told}"):
            scores = beamuq.score(rows, similarity="lexical", skip_invalid=True)
        assert set(scores["id"]) == {"2"}
    else:
        with pytest.raises(BeamUQError, match=told):
            beamuq.score(rows, similarity="lexical")


def test_a_line_that_is_a_response_keeps_its_answer() -> None:
    with pytest.warns(UserWarning, match=r"1 of 3 samples left out.*choices\[2\]"):
        scores = beamuq.score(
            [response(ROME, ROME, FILTERED, OSLO)],
            similarity="lexical",
            skip_invalid_samples=True,
        )
    assert scores["Dissimilarity"].to_dict() == {"1": 0.5}
    for skips in (True, False):
        with pytest.raises(BeamUQError, match=r"choices\[0\]: .*'content_filter'") as refused:
            beamuq.score([response(FILTERED, ROME, OSLO)], skip_invalid_samples=skips)
        assert "--skip-invalid-samples" not in str(refused.value)


def test_another_tools_samples_lose_their_log_probabilities_with_their_texts() -> None:
    draws = [{"text": "Rome", "lp": -0.5}, {"text": None, "lp": -1}, None, {"text": "Oslo"}]
    rows = [{"out": "Rome", "draws": draws}, {"out": "Rome", "draws": draws[:1] * 2}]
    with pytest.warns(UserWarning, match="2 of 6 samples left out, in 1 rows"):
        scores = beamuq.score(
            rows,
            similarity="lexical",
            answer_key="out",
            samples_key="draws.text",
            samples_logprobs_key="draws.lp",
            skip_invalid_samples=True,
        )
    assert scores["Dissimilarity"].to_dict() == {"1": 0.5, "2": 0.0}


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("samples", [response(), [response()]], ids=["one", "in a list"])
def test_a_response_of_samples_without_a_choice_costs_its_row_alone(
    samples: Any, skips: bool
) -> None:
    rows = [{"greedy": response(ROME), "drawn": drawn} for drawn in (samples, WHOLE)]
    keys = {"answer_key": "greedy", "samples_key": "drawn", "skip_invalid_samples": skips}
    with pytest.warns(UserWarning, match="1 of 2 rows left out: row 1: drawn"):
        scores = beamuq.score(rows, similarity="lexical", skip_invalid=True, **keys)
    assert set(scores["id"]) == {"2"}
    with pytest.raises(BeamUQError, match="row 1: drawn"):
        beamuq.score(rows, similarity="lexical", **keys)


def test_a_row_without_a_sample_that_can_be_read_is_refused_or_left_out() -> None:
    rows = [
        {"answer": "Rome", "samples": [response(FILTERED, FILTERED)]},
        {"answer": "Rome", "samples": ["Rome", "Oslo"]},
    ]
    with pytest.raises(BeamUQError, match=r"row 1: .*'content_filter'"):
        beamuq.score(rows, similarity="lexical", skip_invalid_samples=True)
    with pytest.warns(UserWarning, match="1 of 2 rows left out: row 1: ") as caught:
        beamuq.score(rows, similarity="lexical", skip_invalid=True, skip_invalid_samples=True)
    assert not any("samples left out" in str(warning.message) for warning in caught)


def test_where_more_than_half_of_the_samples_cannot_be_read_none_is_left_out() -> None:
    rows = [{"answer": "Rome", "samples": [response(ROME, FILTERED, FILTERED)]}]
    with pytest.raises(BeamUQError, match="2 of 3 samples cannot be read, more than half"):
        beamuq.score(rows, similarity="lexical", skip_invalid_samples=True)


def test_settings_that_are_not_the_models_own_are_no_unreadable_sample() -> None:
    row = {
        "answer": "Rome",
        "samples": [response(ROME, FILTERED, OSLO)],
        "request": {"temperature": 1.0, "top_p": 0.5},
    }
    with pytest.raises(BeamUQError, match="top_p"):
        beamuq.score([row], skip_invalid_samples=True)


def test_the_option_is_of_the_command_and_of_long_files_too(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"answer": "Rome", "samples": [response(ROME, FILTERED, OSLO)]}] * 3
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "scores.jsonl"
    with pytest.warns(UserWarning, match="3 of 9 samples left out, in 3 rows.* 3 as line 1: "):
        beamuq.score_file(file, output, similarity="lexical", skip_invalid_samples=True)
    with pytest.warns(UserWarning, match="3 of 9 samples left out"):
        main(["score", str(file), "--similarity", "lexical", "--skip-invalid-samples"])


def test_the_option_is_not_of_logs_of_inspect() -> None:
    with pytest.raises(BeamUQError, match="skip_invalid_samples: is not of a log of Inspect"):
        beamuq.score("run.eval", skip_invalid_samples=True)
