"""Dataset files: any representation of the hub's schema is read, any other content is refused by
name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beamuq.errors import BeamUQError
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions
from test_data_adapters import ROWS, WEB, changed, read


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, rows: list[Any]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_file_gives_the_questions_of_its_rows(tmp_path: Path, name: str, suffix: str) -> None:
    path = (parquet if suffix == "parquet" else lines)(tmp_path / f"dev.{suffix}", [ROWS[name]])
    assert read_questions(ADAPTERS[name], path) == read(name, [ROWS[name]], "dev")


@pytest.mark.parametrize("name", sorted(ROWS))
def test_missing_column_is_named_with_file_and_those_that_are_there(
    tmp_path: Path, name: str
) -> None:
    row = changed(ROWS[name], "question" if name != "coqa" else "questions", ...)
    with pytest.raises(
        BeamUQError,
        match=r"test\.parquet: column 'questions?' is missing \(it has .*\); use a file",
    ):
        read_questions(ADAPTERS[name], parquet(tmp_path / "test.parquet", [row]))


@pytest.mark.parametrize("write", [lines, parquet])
def test_a_column_that_says_more_than_jsonl_reads_is_refused(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    path = write(
        tmp_path / f"a.{'jsonl' if write is lines else 'parquet'}",
        [ROWS["jsonl"] | {"context": "a passage"}],
    )
    with pytest.raises(
        BeamUQError,
        match="context: only id, question, answers are read; drop it, or take the adapter",
    ):
        read_questions(ADAPTERS["jsonl"], path)


def test_column_of_another_type_is_refused_by_row(tmp_path: Path) -> None:
    path = parquet(tmp_path / "test.parquet", [{"question": "who?", "answers": "Common"}])
    with pytest.raises(
        BeamUQError, match=r"test\.parquet: row 0: answers must be a list, not 'Common'"
    ):
        read_questions(ADAPTERS["web_questions"], path)


def test_bad_row_of_a_later_batch_is_named_by_its_own_number(tmp_path: Path) -> None:
    path = parquet(tmp_path / "test.parquet", [WEB] * 2500 + [changed(WEB, "answers", [])])
    with pytest.raises(BeamUQError, match=r"test\.parquet: row 2500: the list of answers is empty"):
        read_questions(ADAPTERS["web_questions"], path)


@pytest.mark.parametrize("damage", ["empty", "foreign", "pages"])
def test_a_corrupt_parquet_file_is_refused(damage: str, tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "split.parquet", [changed(WEB, "question", f"who is {n}?") for n in range(2000)]
    )
    whole = path.read_bytes()
    pages = whole[:4] + bytes(3996) + whole[4000:]
    path.write_bytes(
        {"empty": b"", "foreign": b"PAR1 this is no table PAR1", "pages": pages}[damage]
    )
    with pytest.raises(BeamUQError, match=r"split\.parquet: not a readable Parquet file"):
        read_questions(ADAPTERS["web_questions"], path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"question": "who?", "answers": ["a"]}\n{"question": ', r"line 2: not valid JSON"),
        (b'["who?"]\n', r"line 1: not a JSON object"),
        (b'\xff\xfe{"question": "who?"}\n', r"line 1: not valid JSON in UTF-8"),
        (b"\n\n", r"holds no rows"),
        ('{"question": "who?"}'.encode("utf-16"), r"line 1: not valid JSON in UTF-8"),
    ],
)
def test_corrupt_json_lines_are_refused_by_line(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "split.jsonl").write_bytes(content)
    with pytest.raises(BeamUQError, match=rf"split\.jsonl: {told}"):
        read_questions(ADAPTERS["web_questions"], tmp_path / "split.jsonl")


def test_empty_parquet_missing_file_and_other_endings_are_refused(tmp_path: Path) -> None:
    reader = ADAPTERS["web_questions"]
    pq.write_table(
        pa.table({"question": pa.array([], pa.string()), "answers": pa.array([])}),
        tmp_path / "a.parquet",
    )
    (tmp_path / "a.csv").write_text("question,answers\n")
    with pytest.raises(BeamUQError, match=r"a\.parquet: holds no rows"):
        read_questions(reader, tmp_path / "a.parquet")
    with pytest.raises(BeamUQError, match=r"b\.parquet: no such file"):
        read_questions(reader, tmp_path / "b.parquet")
    with pytest.raises(BeamUQError, match=r"a\.csv: must end in \.parquet, \.jsonl or \.ndjson"):
        read_questions(reader, tmp_path / "a.csv")
