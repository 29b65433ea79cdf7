"""Tables on a disk that fails: what is damaged is refused in one line, and what cannot be written
leaves nothing.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exhibits_study
from beamuq import io
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact


@pytest.mark.parametrize("call", ["pathlib.Path.mkdir", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_disk_that_refuses_is_told_in_one_line(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, refuse)
    with pytest.raises(
        BeamUQError, match=rf"x\.txt: cannot be written \({os.strerror(number)}\).*make room"
    ):
        io.write_text(tmp_path / "x.txt", "text")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_reached_is_not_to_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    (tmp_path / "x.parquet").touch()
    monkeypatch.setattr(parquet_tables.pq, "ParquetFile", stale)
    with pytest.raises(
        BeamUQError, match=r"x\.parquet: cannot be read \(Stale file handle\); mend that"
    ) as told:
        parquet_tables.read(tmp_path / "x.parquet", "quality")
    assert "delete" not in str(told.value)


def test_a_damaged_table_is_refused_and_none_too(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet_tables.write(path, "prompts", [{"id": "a", "prompt": "b"}])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BeamUQError, match=r"x\.parquet: not a readable Parquet file"):
        parquet_tables.read_footer(path)
    with pytest.raises(BeamUQError, match=r"none\.parquet: no such file"):
        parquet_tables.read_footer(tmp_path / "none.parquet")


def replicates(path: Path, lengths: list[int]) -> None:
    """A file of rows that hold their own number, as often as said."""
    row = dict.fromkeys(
        ("answer_source", "quality", "subset", "metric", "method", "variant", "setting"), ""
    )
    rows = [
        row | {"values": np.full(length, number, np.float32)}
        for number, length in enumerate(lengths)
    ]
    parquet_tables.write(path, "replicates", rows)


@pytest.mark.parametrize("rows", [[], [3], [199, 0, 64, 63, 64]])
def test_lists_of_some_rows_are_read_in_the_order_asked_for(
    rows: list[int], tmp_path: Path
) -> None:
    replicates(tmp_path / "x.parquet", [5] * 200)
    found = parquet_tables.read_lists(
        tmp_path / "x.parquet", "replicates", "values", np.array(rows, dtype=np.int64)
    )
    assert found.dtype == np.float32
    np.testing.assert_array_equal(
        found, np.repeat(np.array(rows)[:, None], 5 if rows else 1, axis=1)
    )


def test_replicates_are_written_and_read_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicates(tmp_path / "x.parquet", [5] * 200)
    groups = []
    read = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda *told, **of: groups.append(told[1]) or read(*told, **of),
    )
    parquet_tables.read_lists(
        tmp_path / "x.parquet", "replicates", "values", np.array([70, 100, 10])
    )
    assert groups == [0, 1]


@pytest.mark.parametrize(
    "lengths", [[5, 4], [5] * 64 + [4]]
)  # within a group of rows, and between two
def test_lists_of_different_lengths_are_refused(lengths: list[int], tmp_path: Path) -> None:
    replicates(tmp_path / "x.parquet", lengths)
    with pytest.raises(
        BeamUQError, match=r"x\.parquet: values: not all of 5 numbers; delete it and run again"
    ):
        parquet_tables.read_lists(
            tmp_path / "x.parquet", "replicates", "values", np.array([0, len(lengths) - 1])
        )


def test_a_large_file_is_held_by_its_footer_and_gives_the_rows_asked_for(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, exhibits_study.study())
    cell = Cell("tiny-base", "triviaqa", "strategies", "cosine")
    needs = [cell.file(kind) for kind in ("evaluation", "replicates", "candidates", "questions")]
    results.paths(needs)
    held = read_bytes(results, needs[0]) + read_bytes(results, needs[3])
    large = read_bytes(results, needs[1]) + read_bytes(results, needs[2])
    before = pa.total_allocated_bytes()
    inputs = results.inputs(needs)
    assert pa.total_allocated_bytes() - before < held + large / 10
    every = inputs.estimates([cell])
    some = inputs.estimates(
        [cell], metric="PRR", method=("Dissimilarity", "Eccentricity"), answer_source="greedy"
    )
    expected = every.where(
        metric="PRR", method=("Dissimilarity", "Eccentricity"), answer_source="greedy"
    )
    assert 0 < len(some) < len(every)
    assert some.frame.equals(expected.frame)
    np.testing.assert_array_equal(some.replicates, expected.replicates)


def read_bytes(results: exhibits_study.Results, need: Artifact) -> int:
    """What a whole table takes in memory."""
    size: int = parquet_tables.read(results.folder / need.path, need.kind).table.nbytes
    return size
