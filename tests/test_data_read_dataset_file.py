"""Dataset files: any representation of the hub's schema is read, any other content is refused by name."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.read_dataset_file import read_questions, source_of
from beamuq.errors import BeamUQError
from test_data_adapters import CHOICE, ROWS, WEB, changed, read


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
    assert read_questions(load_adapter(name), path) == read(name, [ROWS[name]], "dev")


def test_large_and_dictionary_encoded_strings_and_lists_of_records_read_the_same(tmp_path: Path) -> None:
    choices = [
        {"label": label, "text": text}
        for label, text in zip(CHOICE["choices"]["label"], CHOICE["choices"]["text"], strict=True)
    ]
    pair = pa.struct({"label": pa.dictionary(pa.int8(), pa.string()), "text": pa.large_string()})
    table = pa.table(
        {
            "id": pa.array(["q1"], pa.large_string()),
            "question": pa.array([CHOICE["question"]], pa.dictionary(pa.int32(), pa.string())),
            "choices": pa.array([choices], pa.large_list(pair)),
            "answerKey": ["D"],
            "extra": pa.array([None], pa.null()),
        }
    )
    pq.write_table(table, tmp_path / "validation.parquet")
    assert read_questions(load_adapter("commonsense_qa"), tmp_path / "validation.parquet") == read(
        "commonsense_qa", [CHOICE]
    )


def test_line_separator_inside_a_json_text_does_not_end_the_line(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(changed(WEB, "question", "who\u2028is?"), ensure_ascii=False), encoding="utf-8")
    assert read_questions(load_adapter("web_questions"), path)[0]["question"] == "who\u2028is?"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_missing_column_is_named_with_file_and_those_that_are_there(tmp_path: Path, name: str) -> None:
    row = changed(ROWS[name], "question" if name != "coqa" else "questions", ...)
    with pytest.raises(
        BeamUQError, match=r"test\.parquet: column 'questions?' is missing \(it has .*\); use a file in"
    ):
        read_questions(load_adapter(name), parquet(tmp_path / "test.parquet", [row]))


def test_column_of_another_type_is_refused_by_row(tmp_path: Path) -> None:
    path = parquet(tmp_path / "test.parquet", [{"question": "who?", "answers": "Common"}])
    with pytest.raises(BeamUQError, match=r"test\.parquet: row 0: answers must be a list, not 'Common'"):
        read_questions(load_adapter("web_questions"), path)


def test_bad_row_of_a_later_batch_is_named_by_its_own_number(tmp_path: Path) -> None:
    path = parquet(tmp_path / "test.parquet", [WEB] * 2500 + [changed(WEB, "answers", [])])
    with pytest.raises(BeamUQError, match=r"test\.parquet: row 2500: the list of answers is empty"):
        read_questions(load_adapter("web_questions"), path)


@pytest.mark.parametrize("damage", ["empty", "foreign", "pages"])
def test_a_corrupt_parquet_file_is_refused(damage: str, tmp_path: Path) -> None:
    path = parquet(tmp_path / "split.parquet", [changed(WEB, "question", f"who is {n}?") for n in range(2000)])
    whole = path.read_bytes()
    pages = whole[:4] + bytes(3996) + whole[4000:]
    path.write_bytes({"empty": b"", "foreign": b"PAR1 this is no table PAR1", "pages": pages}[damage])
    with pytest.raises(BeamUQError, match=r"split\.parquet: not a readable Parquet file"):
        read_questions(load_adapter("web_questions"), path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"question": "who?", "answers": ["a"]}\n{"question": ', r"line 2: not valid JSON"),
        (b'["who?"]\n', r"line 1: not a JSON object"),
        (b'\xff\xfe{"question": "who?"}\n', r"line 1: not valid JSON in UTF-8"),
        (b'{"question": "who \\ud83d?", "answers": ["a"]}\n', r"line 1: not valid JSON in UTF-8"),
        (b"\n\n", r"holds no rows"),
        (b"[" * 100_000, r"line 1: not valid JSON in UTF-8 \(nested too deeply\)"),
        (b'{"question": -' + b"1" * 6000 + b"}", r"line 1: not valid JSON in UTF-8"),
        (b'{"question": "who?", "question": "what?", "answers": ["a"]}', r"line 1: .*'question' stands twice"),
        ('{"question": "who?"}'.encode("utf-16"), r"line 1: not valid JSON in UTF-8"),
        (bytes(100), r"line 1: not valid JSON in UTF-8"),
    ],
)
def test_corrupt_json_lines_are_refused_by_line(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "split.jsonl").write_bytes(content)
    with pytest.raises(BeamUQError, match=rf"split\.jsonl: {told}"):
        read_questions(load_adapter("web_questions"), tmp_path / "split.jsonl")


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "split.jsonl").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(BeamUQError, match=r"split\.jsonl: line 1: longer than"):
        read_questions(load_adapter("web_questions"), tmp_path / "split.jsonl")


def test_a_byte_order_mark_and_carriage_returns_are_no_content(tmp_path: Path) -> None:
    plain = lines(tmp_path / "test.jsonl", [WEB, changed(WEB, "question", "when?")])
    expected = read_questions(load_adapter("web_questions"), plain)
    plain.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    assert read_questions(load_adapter("web_questions"), plain) == expected


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    columns = [pa.array(["who?"]), pa.array(["what?"]), pa.array([["a"]])]
    pq.write_table(pa.table(columns, names=["question", "question", "answers"]), tmp_path / "test.parquet")
    with pytest.raises(BeamUQError, match=r"test\.parquet: column 'question' stands twice"):
        read_questions(load_adapter("web_questions"), tmp_path / "test.parquet")


def test_a_key_that_stands_twice_among_many_is_found_in_seconds(tmp_path: Path) -> None:
    keys = ",".join(f'"k{number}": 1' for number in [*range(60_000), 59_999])
    (tmp_path / "test.jsonl").write_text(f"{{{keys}}}\n")
    start = time.process_time()
    with pytest.raises(BeamUQError, match=r"test\.jsonl: line 1: .*key 'k59999' stands twice"):
        read_questions(load_adapter("jsonl"), tmp_path / "test.jsonl")
    assert time.process_time() - start < 5


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    offsets, data = pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])
    pq.write_table(pa.table({"question": text, "answers": pa.array([["a"]])}), tmp_path / "test.parquet")
    with pytest.raises(BeamUQError, match=r"test\.parquet: not a readable Parquet file .*utf-8"):
        read_questions(load_adapter("web_questions"), tmp_path / "test.parquet")


@pytest.mark.parametrize("text", ["\u200b \u2060", "\ufeff", " \n"])
def test_a_question_that_shows_nothing_is_empty(text: str, tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match="the question is empty"):
        read_questions(load_adapter("web_questions"), lines(tmp_path / "test.jsonl", [changed(WEB, "question", text)]))


def test_empty_parquet_missing_file_and_other_endings_are_refused(tmp_path: Path) -> None:
    reader = load_adapter("web_questions")
    pq.write_table(pa.table({"question": pa.array([], pa.string()), "answers": pa.array([])}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("question,answers\n")
    with pytest.raises(BeamUQError, match=r"a\.parquet: holds no rows"):
        read_questions(reader, tmp_path / "a.parquet")
    with pytest.raises(BeamUQError, match=r"b\.parquet: no such file"):
        read_questions(reader, tmp_path / "b.parquet")
    with pytest.raises(BeamUQError, match=r"a\.csv: must end in \.parquet or \.jsonl"):
        read_questions(reader, tmp_path / "a.csv")


def test_a_file_that_no_fetch_wrote_has_no_source(tmp_path: Path) -> None:
    assert source_of(parquet(tmp_path / "test.parquet", [WEB])) is None
    assert source_of(lines(tmp_path / "test.jsonl", [WEB])) is None
