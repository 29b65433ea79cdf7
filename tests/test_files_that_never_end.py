"""A FIFO or a device in place of a file is refused in one line: reading it would never end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import beamuq
from beamuq import io
from beamuq.api.calibration_file import read_calibration
from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import read_template
from beamuq_study import parquet_tables
from beamuq_study.study_config import load_study

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "calibration": ("c.json", beamuq.Calibration.load),
    "calibration of decide": ("c.json", read_calibration),
    "calibration as text": ("c.json", lambda path: read_calibration(str(path))),
    "rows in JSON": ("r.json", lambda path: beamuq.score(path, similarity="lexical")),
    "rows in CSV": ("r.csv", lambda path: beamuq.decide(path, path)),
    "rows in JSON Lines": ("r.jsonl", lambda path: beamuq.score(path, similarity="lexical")),
    "explored rows": ("r.jsonl", beamuq.explore),
    "explored table": ("t.parquet", beamuq.explore),
    "footer": ("t.parquet", parquet_tables.read_footer),
    "hash": ("t.parquet", io.file_sha256),
    "study": ("s.yaml", load_study),
    "study as run": ("study.json", load_study),
    "YAML": ("s.yaml", read_yaml),
    "template": ("p.txt", read_template),
}


@pytest.mark.parametrize("place", ["FIFO", "device"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused(reader: str, place: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    if place == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(BeamUQError, match=rf"{name}: a (FIFO|folder) or a device, no file"):
        read(path)


def test_a_missing_file_and_a_folder_are_told_as_before(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match="no such file"):
        read_calibration(tmp_path / "none.json")
    with pytest.raises(BeamUQError, match="cannot be read"):
        read_calibration(tmp_path)
