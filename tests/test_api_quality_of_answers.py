"""Quality of anyone's answers, by a study's metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import beamuq
from beamuq.api.quality_of_answers import quality
from beamuq.errors import BeamUQError
from beamuq.scorers.quality_metrics import answer_f1

ROWS: list[dict[str, Any]] = [
    {"id": "capital", "answer": "It is\nParis", "samples": ["Paris"]},
    {"id": 7, "answer": "1,000 m", "samples": ["1000 m"]},
]
OPTIONS = [["Paris", "Lyon"], ["1000 m", "2000 m"]]


def test_answers_are_judged_as_questions_of_ones_own_are() -> None:
    values = beamuq.quality(ROWS, [["Paris"], "1000 m"])
    assert list(values.index) == ["capital", "7"]
    assert values.name == "answer_f1"
    assert values.tolist() == [
        answer_f1("It is Paris", ["Paris"]),
        answer_f1("1,000 m", ["1000 m"]),
    ]
    assert values.tolist() == [1, 1]


def test_exact_match_reads_numbers_by_their_value() -> None:
    assert quality(ROWS, [["Paris"], ["1000 m"]], "exact_match").tolist() == [0, 1]


def test_gold_label_reads_the_options() -> None:
    assert quality(ROWS, ["Paris", "2000 m"], "gold_label", options=OPTIONS).tolist() == [1, 0]
    with pytest.raises(BeamUQError, match="options: missing"):
        quality(ROWS, ["Paris", "2000 m"], "gold_label")


@pytest.mark.parametrize("right_answer", ["B", "lyon"])
def test_a_right_answer_that_is_no_option_is_refused_by_gold_label(right_answer: str) -> None:
    told = f"answers: id '7': '{right_answer}': none of the row's options; give the option's text"
    rows = [{"id": 7, "answer": "Lyon"}]
    options = [["Paris", "Lyon"]]
    with pytest.raises(BeamUQError, match=told):
        quality(rows, [right_answer], "gold_label", options=options)
    assert quality(rows, [[right_answer, "Lyon"]], "gold_label", options=options).tolist() == [1]


def test_right_answers_may_be_given_by_id_or_stand_in_the_rows() -> None:
    by_id = quality(ROWS, {7: ["1 km"], "capital": ["Paris"]})
    assert by_id.tolist() == quality(ROWS, [["Paris"], ["1 km"]]).tolist()
    in_rows = [row | {"answers": ["Paris"]} for row in ROWS]
    assert quality(in_rows).tolist() == [1, 0]
    series = pd.Series({"capital": ["Paris"], "7": ["1000 m"]}).rename_axis("id")[::-1]
    assert quality(ROWS, series).tolist() == [1, 1]


def test_what_is_missing_or_of_another_row_is_named() -> None:
    with pytest.raises(BeamUQError, match="answers: 1, rows: 2"):
        quality(ROWS, [["Paris"]])
    with pytest.raises(BeamUQError, match="answers: id '7': none"):
        quality(ROWS, [["Paris"], []])
    with pytest.raises(BeamUQError, match="answers: id '7': missing"):
        quality(ROWS, {"capital": "Paris"})
    with pytest.raises(BeamUQError, match="answers: id '8': no row has it"):
        quality(ROWS, {"capital": "Paris", 7: "x", 8: "y"})
    with pytest.raises(BeamUQError, match="answers: id 'capital': the row has none"):
        quality(ROWS)
    with pytest.raises(BeamUQError, match=r"answers: id '7': 3\.5; give a text"):
        quality(ROWS, ["Paris", 3.5])  # type: ignore[list-item]
    with pytest.raises(BeamUQError, match="answers: a str; give a list"):
        quality(ROWS, "Paris")
    with pytest.raises(BeamUQError, match="did you mean 'answer_f1'"):
        quality(ROWS, ["Paris", "x"], "answer_f")
    with pytest.raises(BeamUQError, match="metric alignscore: give model"):
        quality(ROWS, ["Paris", "x"], "alignscore")


def test_a_metric_of_ones_own_reads_the_answers_as_they_are(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_quality.py").write_text(
        "def lines(answers, references, normalize, learned):\n"
        "    return [float('\\n' in answer) for answer in answers]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    values = quality(ROWS, ["Paris", "x"], "own_quality:lines")
    assert np.array_equal(values, [1, 0])


@pytest.mark.parametrize(
    ("answers", "ids"),
    [
        (["It is Paris", "Lyon"], ["1", "2"]),
        (("It is Paris", "Lyon"), ["1", "2"]),
        ((text for text in ("It is Paris", "Lyon")), ["1", "2"]),
        (np.array(["It is Paris", "Lyon"]), ["1", "2"]),
        (pd.Series(["It is Paris", "Lyon"]), ["1", "2"]),
        (pd.Series(["It is Paris", "Lyon"], index=["a", "b"]), ["a", "b"]),
        (pd.Series(["It is Paris", "Lyon"], index=pd.Index([0, 1], name="id")), ["0", "1"]),
        (pd.DataFrame({"answer": ["It is Paris", "Lyon"]}), ["1", "2"]),
        (pd.DataFrame({"id": ["a", 7], "answer": ["It is Paris", "Lyon"]}), ["a", "7"]),
        ([{"id": "a", "answer": "It is Paris"}, {"id": 7, "answer": "Lyon"}], ["a", "7"]),
    ],
)
def test_answers_alone_are_judged_too(answers: Any, ids: list[str]) -> None:
    assert quality(answers, ["Paris", "Paris"]).to_dict() == dict(zip(ids, [1.0, 0.0], strict=True))


def test_a_frame_whose_index_names_the_ids_keeps_them() -> None:
    answers = pd.DataFrame({"answer": ["Paris"]}, index=pd.Index(["a"], name="id"))
    assert quality(answers, {"a": "Paris"}).to_dict() == {"a": 1}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["Paris", None], "row 2: answer: null: give a text"),
        (["Paris", 7], "row 2: answer: 7: give a text"),
        (pd.Series(["Paris", np.nan]), "row 2: answer: null: give a text"),
        (pd.DataFrame({"answer": ["Paris", None]}), "row 2: answer: this key is missing"),
        (pd.DataFrame({"response": ["Paris", "Lyon"]}), "row 1: answer: this key is missing"),
        (pd.Series(["Paris", "Lyon"], index=["a", "a"]), "row 2: id 'a' stands twice"),
        ({"a": "Paris", "b": "Lyon"}, "rows: a dict; give a list"),
        ({"Paris", "Lyon"}, "rows: a set; give a list"),
        (3, "rows: a int; give a list"),
    ],
)
def test_what_is_no_answer_is_refused_with_its_row_and_key(answers: Any, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        quality(answers, ["Paris", "Paris"])


def test_series_of_answers_and_right_answers_in_two_orders_are_refused() -> None:
    answers = pd.Series(["Paris", "Rome"], index=["a", "b"])
    right_answers = pd.Series(["Rome", "Paris"], index=["b", "a"])
    with pytest.raises(BeamUQError, match=r"rows, answers: .*two orders"):
        quality(answers, right_answers)
    assert quality(answers, right_answers.rename_axis("id")).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["answers", "options"])
@pytest.mark.parametrize("index_name", ["qid", None])
def test_a_series_whose_index_has_the_ids_in_another_order_is_not_paired_by_place(
    name: str, index_name: str | None
) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "answer": ["Rome", "Oslo"]})
    columns: dict[str, Any] = {
        "answers": pd.Series(["Rome", "Oslo"], index=["a", "b"]),
        "options": pd.Series([["Rome", "Pisa"], ["Oslo", "Bergen"]], index=["a", "b"]),
    }
    for rows in (frame, frame.to_dict("records")):
        assert quality(rows, metric="gold_label", **columns).tolist() == [1, 1]
        turned = columns | {name: columns[name][::-1].rename_axis(index_name)}
        with pytest.raises(BeamUQError, match=rf"rows, {name}: the same ids in two orders"):
            quality(rows, metric="gold_label", **turned)
        by_id = turned | {name: turned[name].rename_axis("id")}
        assert quality(rows, metric="gold_label", **by_id).tolist() == [1, 1]


def test_a_column_of_the_same_frame_is_taken_in_its_order_and_in_no_other() -> None:
    frame = pd.DataFrame({"answer": ["Rome", "Oslo", "Bonn"], "right": ["Rome", "Oslo", "Paris"]})
    shuffled = frame.iloc[[2, 0]]
    assert quality(shuffled, shuffled["right"]).tolist() == [0, 1]
    assert quality(shuffled.to_dict("records"), shuffled["right"]).tolist() == [0, 1]
    assert quality(list(frame["answer"]), frame["right"].set_axis(["x", "y", "z"])).sum() == 2
    with pytest.raises(BeamUQError, match=r"rows, answers: .*two orders.*first\.index"):
        quality(shuffled, shuffled["right"].sort_index())
    named_rows = shuffled.assign(id=["c", "a"])
    assert quality(named_rows, shuffled["right"]).tolist() == [0, 1]
    assert quality(named_rows, shuffled["right"].reset_index(drop=True)).tolist() == [0, 1]
    with pytest.raises(BeamUQError, match="rows, answers: series of different answers"):
        quality(named_rows, shuffled["right"].set_axis(["c", "d"]))


def test_what_choose_picked_is_judged_in_one_call() -> None:
    samples = ["Rome", "Rome", "Oslo"]
    rows = [
        {"id": "a", "answer": "Oslo", "samples": samples, "answers": ["Rome"]},
        {"id": "b", "answer": "Rome", "samples": samples, "answers": ["Oslo"]},
    ]
    best = beamuq.choose(rows, similarity="lexical")
    right_answers = {"a": "Rome", "b": "Oslo"}
    assert quality(rows).to_dict() == {"a": 0, "b": 0}
    assert quality(best, right_answers).to_dict() == {"a": 1, "b": 0}
    assert quality(best.set_index("id"), right_answers).to_dict() == {"a": 1, "b": 0}
