"""The one rule for ids, and the places that read one."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beamuq
from beamuq.api.candidate_records import read_records
from beamuq.errors import BeamUQError
from beamuq.row_ids import id_text
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions

WHOLE = ["1", 1, 1.0, np.int64(1), np.float64(1.0), np.str_("1"), Decimal("1.0")]
REFUSED = [
    True,
    np.bool_(False),
    1.5,
    float("nan"),
    float("inf"),
    2.0**53,
    [1],
    {"a": 1},
    None,
    "",
    " ",
    pd.NA,
    b"1",
]
REFUSED += [Decimal("1.5"), Decimal("1e99999"), pd.NaT]
ROW: dict[str, Any] = {"answer": "Rome", "samples": ["Rome", "Milan"]}
SCORED: dict[str, Any] = {"method": "Prob", "value": 0.5, "correct": 1}


@pytest.mark.parametrize("value", WHOLE)
def test_a_whole_number_is_taken_as_text(value: object) -> None:
    assert id_text(value) == "1"


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_what_names_nothing_is_refused_with_the_fix(value: object) -> None:
    with pytest.raises(ValueError, match=r"give a text|give it as a text"):
        id_text(value)


@pytest.mark.parametrize("value", [1, 1.0, "1"])
def test_every_reader_of_rows_takes_the_same(value: object) -> None:
    assert [item.id for item in read_records([ROW | {"id": value, "group": value}])] == ["1"]
    assert read_records([ROW | {"group": value}])[0].group == "1"
    rows = [SCORED | {"id": value}, SCORED | {"id": "2", "correct": 0}]
    made = beamuq.calibrate(rows, method="Prob")
    assert beamuq.decide(rows, made).table["id"].tolist() == ["1", "2"]


@pytest.mark.parametrize("value", [True, 1.5, float("nan"), [1], None])
def test_every_reader_of_rows_refuses_the_same_by_place_and_key(value: object) -> None:
    with pytest.raises(BeamUQError, match=r"row 1: id: .*give a text or a whole number"):
        read_records([ROW | {"id": value}])
    with pytest.raises(BeamUQError, match=r"row 1: id: .*give a text or a whole number"):
        beamuq.calibrate([SCORED | {"id": value}], method="Prob")
    with pytest.raises(BeamUQError, match=r"row 1: id: .*give a text or a whole number"):
        beamuq.ask_all([{"question": "Who?", "id": value}])


@pytest.mark.parametrize("column", [pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array(["1", "2"])])
def test_ids_of_parquet_and_frames_are_texts(column: pa.Array, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([ROW, ROW]).append_column("id", column)
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert [item.id for item in read_records(tmp_path / "rows.parquet")] == ["1", "2"]
    assert [item.id for item in read_records(rows.to_pandas())] == ["1", "2"]
    asked = pa.table({"id": column, "question": ["Who?", "Where?"], "answers": [["Ann"], ["Rome"]]})
    pq.write_table(asked, tmp_path / "test.parquet")
    assert [
        item["id"] for item in read_questions(ADAPTERS["jsonl"], tmp_path / "test.parquet")
    ] == ["1", "2"]


def test_a_hole_among_ids_is_refused_not_numbered(tmp_path: Path) -> None:
    frame = pd.DataFrame([ROW | {"id": 7.0}, ROW])
    frame.to_parquet(tmp_path / "rows.parquet")
    for rows in (frame, tmp_path / "rows.parquet"):
        with pytest.raises(BeamUQError, match=r"row 2: id: .*missing"):
            read_records(rows)


@pytest.mark.parametrize("value", [True, 1.5, None, [1]])
def test_a_question_of_ones_own_has_an_id_by_the_same_rule(value: object, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(
        json.dumps({"id": value, "question": "Who?", "answers": ["Ann"]}) + "\n"
    )
    with pytest.raises(
        BeamUQError, match=r"test\.jsonl: line 1: id: .*give a text or a whole number"
    ):
        read_questions(ADAPTERS["jsonl"], tmp_path / "test.jsonl")


def test_groups_of_series_are_named_by_the_same_rule() -> None:
    scores = [0.1, 0.5, 0.3, 0.9]
    right = [1, 0, 1, 0]
    for groups in (
        [1, 1, 2, 2],
        [1.0, 1.0, 2.0, 2.0],
        ["1", "1", "2", "2"],
        np.array([1, 1, 2, 2]),
    ):
        assert beamuq.prr(scores, right, groups=groups) == beamuq.prr(
            scores, right, groups=list("1122")
        )
    with pytest.raises(BeamUQError, match="groups: row 4: missing"):
        beamuq.prr(scores, right, groups=[1.0, 1.0, 2.0, float("nan")])
    with pytest.raises(BeamUQError, match="groups: row 4: missing"):
        beamuq.Calibration().fit(scores, right, groups=[1.0, 1.0, 2.0, float("nan")])


def test_the_ids_that_a_frames_index_names_are_kept() -> None:
    table = pd.DataFrame({"answer": ["Rome", "Oslo"], "samples": [["Rome"], ["Bern"]]})
    by_id = table.set_index(pd.Index(["b", 7], name="id"))
    assert list(beamuq.score(by_id, similarity="lexical")["id"].unique()) == ["b", "7"]
    assert list(beamuq.score(table, similarity="lexical")["id"].unique()) == ["1", "2"]
