"""Tables on a disk that fails: what is damaged is refused in one line, and what cannot be written leaves nothing."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import synthetic
from beamuq import parquet_tables
from beamuq.data.read_dataset_file import read_rows, rows_of, source_of
from beamuq.errors import BeamUQError, exit_with_one_line

TABLES = synthetic.cell(N=3, M=3)
PROVENANCE = {"settings": {"seed": 1}, "inputs": {"candidates": "ab" * 32}}


@pytest.mark.parametrize("kind", TABLES)
def test_a_flipped_bit_anywhere_is_refused_in_one_line_or_changes_nothing(kind: str, tmp_path: Path) -> None:
    path, chance = tmp_path / "x.parquet", random.Random(kind)
    parquet_tables.write(path, kind, TABLES[kind], cell={"dataset": "coqa"}, provenance=PROVENANCE)
    whole, content = parquet_tables.read(path, kind), path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for number in range(120):
        place = chance.randrange(footer if number % 4 else 0, len(content))
        flipped = bytes([content[place] ^ 1 << chance.randrange(8)])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        try:
            assert parquet_tables.read(path, kind) == whole, place
            assert parquet_tables.read_footer(path).provenance == PROVENANCE, place
        except BeamUQError as error:
            assert str(error).startswith(f"{path}: "), place  # noqa: PT017
            assert str(error).endswith("delete it and run again"), place  # noqa: PT017
            assert "\n" not in str(error), place  # noqa: PT017


def test_candidates_of_an_earlier_version_are_read_without_what_came_later(tmp_path: Path) -> None:
    path, later = tmp_path / "x.parquet", {"search_rows", "search_passes", "proven", "missed_logprob"}
    parquet_tables.write(path, "candidates", TABLES["candidates"])
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(sorted(later)), path)
    found = parquet_tables.read(path, "candidates").table
    assert {name for name in found.column_names if found.column(name).null_count == len(found)} >= later
    pq.write_table(table.drop_columns(["proven"]), path)
    with pytest.raises(BeamUQError, match="its columns are not those"):
        parquet_tables.read(path, "candidates")


def no_text() -> pa.Array:
    """One text that is no UTF-8."""
    return pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xc3\x28"))


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    path, table = tmp_path / "x.parquet", pa.table({"id": no_text(), "prompt": no_text()})
    parquet_tables.write(path, "prompts", table)
    with pytest.raises(BeamUQError, match=r"x\.parquet: not a readable Parquet file \(.*UTF8.*delete it"):
        parquet_tables.read(path, "prompts")


NO_TEXT, NO_JSON = {"text": no_text()}, pa.table({"text": ["a"]}).replace_schema_metadata({"beamuq_source": "{"})


@pytest.mark.parametrize(
    ("table", "read"),
    [
        (pa.table(NO_TEXT), lambda path: list(read_rows(path, pa.schema([("text", pa.string())])))),
        (pa.table(NO_TEXT), lambda path: list(rows_of(path))),
        (NO_JSON, source_of),
    ],
)
def test_a_users_file_whose_text_or_footer_is_none_is_refused(
    table: pa.Table, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table, path)
    with pytest.raises(BeamUQError, match=r"x\.parquet: not a readable Parquet file \(.*fetch or copy it again"):
        read(path)


@pytest.mark.parametrize("call", ["pathlib.Path.mkdir", "tempfile.mkstemp", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_disk_that_refuses_is_told_in_one_line(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, refuse)
    with pytest.raises(BeamUQError, match=rf"x\.txt: cannot be written \({os.strerror(number)}\).*make room"):
        parquet_tables.write_text(tmp_path / "x.txt", "text")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_refuses_anything_else_ends_a_step_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    def make_folder() -> None:
        raise OSError(errno.EROFS, "Read-only file system", "some/folder")

    with pytest.raises(SystemExit, match="2"):
        exit_with_one_line(make_folder)
    assert capsys.readouterr().err.startswith("error: some/folder: cannot be read or written (Read-only file system)")


def test_a_file_that_cannot_be_reached_is_not_to_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(_: str) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    (tmp_path / "x.parquet").touch()
    monkeypatch.setattr(parquet_tables.pa, "OSFile", stale)
    with pytest.raises(BeamUQError, match=r"x\.parquet: cannot be read \(Stale file handle\); mend that") as told:
        parquet_tables.read(tmp_path / "x.parquet", "quality")
    assert "delete" not in str(told.value)
