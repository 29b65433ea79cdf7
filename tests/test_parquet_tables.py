"""Tables on a disk that fails: what is damaged is refused in one line, and what cannot be written leaves nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables


@pytest.mark.parametrize("call", ["pathlib.Path.mkdir", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_disk_that_refuses_is_told_in_one_line(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, refuse)
    with pytest.raises(BeamUQError, match=rf"x\.txt: cannot be written \({os.strerror(number)}\).*make room"):
        io.write_text(tmp_path / "x.txt", "text")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_reached_is_not_to_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    (tmp_path / "x.parquet").touch()
    monkeypatch.setattr(parquet_tables.pq, "ParquetFile", stale)
    with pytest.raises(BeamUQError, match=r"x\.parquet: cannot be read \(Stale file handle\); mend that") as told:
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
