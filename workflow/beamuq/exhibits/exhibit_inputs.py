"""The result files that exhibits and the comparison read, each by its own path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from beamuq.config_errors import parse_json, validated
from beamuq.errors import BeamUQError
from beamuq.parquet_tables import Artifact, Loaded, read
from beamuq.study_config import Study, load_study


class Inputs:
    """The files an exhibit asked for, by :class:`~beamuq.parquet_tables.Artifact`."""

    def __init__(self, loaded: dict[Artifact, Loaded]) -> None:
        self._loaded = loaded
        self._frames: dict[Artifact, pd.DataFrame] = {}

    @classmethod
    def read(cls, results_folder: Path, wanted: Iterable[Artifact]) -> Inputs:
        """Read each artifact of ``wanted`` from its own path under ``results_folder``, such as ``results/demo``.

        Raises
        ------
        BeamUQError
            If a file is missing, unreadable, of another kind, or its footer names another cell than its path.
        """
        return cls({artifact: read_artifact(results_folder / artifact.path, artifact) for artifact in wanted})

    def __getitem__(self, need: Artifact) -> Loaded:
        return self._loaded[need]

    def frame(self, need: Artifact) -> pd.DataFrame:
        """The table of ``need`` as a frame. Shared between calls: do not write into it."""
        if need not in self._frames:
            self._frames[need] = self._loaded[need].table.to_pandas()
        return self._frames[need]


def read_artifact(path: Path, artifact: Artifact) -> Loaded:
    """Read one file and check that it holds ``artifact``.

    Raises
    ------
    BeamUQError
        If the file is missing, unreadable, of another kind, or its footer names another cell.
    """
    loaded = read(path, artifact.kind)
    if loaded.cell != artifact.cell:
        raise BeamUQError(f"{path}: holds {loaded.cell}, expected {artifact.cell}; delete it and run again")
    return loaded


def read_study(path: Path) -> Study:
    """The study of a step's ``--study``: a study file, or the JSON that the workflow writes of one.

    JSON is read as JSON: YAML would take its ``1e-05`` for a string.

    Raises
    ------
    BeamUQError
        If it is not a valid study.
    """
    if path.suffix != ".json":
        return load_study(path)
    again = "delete the file, and a run writes it anew"
    content = parse_json(path.read_bytes(), path, again)
    try:
        return validated(Study, content, path)
    except BeamUQError as error:  # of another version
        raise BeamUQError(f"{error}; or {again}") from error


def distinct(needs: Sequence[Artifact]) -> list[Artifact]:
    """``needs`` without repetitions, order kept."""
    return list(dict.fromkeys(needs))
