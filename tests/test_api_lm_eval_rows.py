"""Samples that lm-eval logged (lm_eval_logs/make_logs.py) are scored, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beamuq
from beamuq.api.candidate_records import read_records
from beamuq.errors import BeamUQError

FILE = Path(__file__).parent / "lm_eval_logs/samples_facts.jsonl"
pytestmark = pytest.mark.filterwarnings("ignore:lm-eval's log")


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def settings(row: dict[str, Any]) -> dict[str, Any]:
    stated: dict[str, Any] = row["arguments"]["gen_args_0"]["arg_1"]
    return stated


def test_the_first_response_is_shown_and_the_others_are_its_samples() -> None:
    for record, line in zip(read_records(FILE), lines(), strict=True):
        (responses,) = line["resps"]
        texts = [record.answer.text, *(sample.text for sample in record.samples)]
        assert texts == responses
        assert (record.id, record.answers) == (str(line["doc_id"]), [line["target"]])
        assert record.quality == line["exact_match"]
        assert {sample.temperature for sample in record.samples} == {1.0}
        assert record.prompt_hash is None  # lm-eval's is of each whole prompt
    assert beamuq.score(FILE, similarity="lexical")["Dissimilarity"].notna().all()


def test_settings_that_a_model_may_have_of_its_own_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="top_p and top_k"):
        read_records(FILE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"temperature": 0.0}, r"gen_args_0\.arg_1: temperature: 0\.0: .*greedy"),
        ({"temperature": None}, "temperature: not said"),
        ({"do_sample": None}, "do_sample: not said"),
        ({"do_sample": False}, "do_sample: False"),
        ({"top_p": 0.9}, r"top_p: 0\.9"),
        ({"num_beams": 4}, "num_beams: 4"),
    ],
)
def test_what_was_not_drawn_from_the_model_is_refused(
    changed: dict[str, Any], message: str
) -> None:
    rows = lines()
    settings(rows[0]).update(changed)
    with pytest.raises(BeamUQError, match=f"row 1: .*{message}"):
        read_records(rows)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"resps": [["Rome"]]}, "resps: one response"),
        ({"resps": [[[-0.5, False]], [[-1.5, False]]]}, "resps: no texts"),
        ({"filtered_resps": ["a vote"]}, "filtered_resps: 'a vote': not of the first"),
        ({"arguments": {}}, r"arguments\.gen_args_0\.arg_1: missing"),
    ],
)
def test_lines_of_other_tasks_and_filters_are_refused(
    changed: dict[str, Any], message: str
) -> None:
    rows = lines()
    rows[1] |= changed
    with pytest.raises(BeamUQError, match=f"row 2: {message}"):
        read_records(rows)
