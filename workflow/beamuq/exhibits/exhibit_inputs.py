"""The result files that exhibits and the comparison read, each by its own path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.config_errors import parse_json, validated
from beamuq.errors import BeamUQError
from beamuq.parquet_tables import Artifact, Footer, Loaded, read
from beamuq.provenance import check_one_run, check_settings
from beamuq.study_config import Study, load_study


class Inputs:
    """The files an exhibit asked for, by :class:`~beamuq.parquet_tables.Artifact`."""

    def __init__(self, loaded: dict[Artifact, Loaded]) -> None:
        self._loaded = loaded
        self._frames: dict[Artifact, pd.DataFrame] = {}

    @classmethod
    def read(cls, results_folder: Path, wanted: Iterable[Artifact], study: Study | None = None) -> Inputs:
        """Read each artifact of ``wanted`` from its own path under ``results_folder``, such as ``results/demo``.

        Raises BeamUQError if a file is missing, unreadable, of another kind, its footer names another cell than its
        path or other settings than ``study``, or the files are not of one run.
        """
        loaded = {artifact: read_artifact(results_folder / artifact.path, artifact) for artifact in wanted}
        if study:
            for table in loaded.values():
                check_settings(table, settings_of(study, table))
        check_one_run(loaded.values())
        return cls(loaded)

    def __getitem__(self, need: Artifact) -> Loaded:
        return self._loaded[need]

    def frame(self, need: Artifact) -> pd.DataFrame:
        """The table of ``need`` as a frame. Shared between calls: do not write into it."""
        if need not in self._frames:
            self._frames[need] = self._loaded[need].table.to_pandas()
        return self._frames[need]


def read_artifact(path: Path, artifact: Artifact) -> Loaded:
    """Read one file and check that it holds ``artifact``.

    Raises BeamUQError if the file is missing, unreadable, of another kind, or its footer names another cell.
    """
    loaded = read(path, artifact.kind)
    if loaded.cell != artifact.cell:
        raise BeamUQError(f"{path}: holds {loaded.cell}, expected {artifact.cell}; delete it and run again")
    return loaded


def settings_of(study: Study, table: Footer) -> dict[str, Any]:
    """What the footer of a study's table may name of it, by the names there."""
    main, quality = study.main, study.main_quality
    said: dict[str, Any] = study.evaluation.model_dump(mode="json") | {
        "seed": study.seed,
        "quality": quality.metric,
        "threshold": quality.threshold,
        "risks": study.decisions.risks,
        "guarantee": study.decisions.confidence,
        "further_qualities": {of.metric: of.threshold for of in study.qualities(table.cell["dataset"])[1:]},
        "alpha": main.alpha,
        "epsilon": main.epsilon,
        "num_candidates": main.num_candidates,
    }
    if table.kind == "quality":
        said["metric"] = table.cell["metric"]
    if table.kind == "similarity":
        said["kind"] = study.scorers[table.cell["scorer"]].kind
    if table.kind == "candidates":
        recipe = study.recipes[table.cell["recipe"]]
        said |= {
            "recipe": recipe.searched(),
            "max_new_tokens": study.datasets[table.cell["dataset"]].max_new_tokens,
            "newline_stops": study.newline_stops,
            "merge_stop_tokens": recipe.merge_stop_tokens,
        }
    return said


def read_study(path: Path) -> Study:
    """The study of a step's ``--study``: a study file, or the JSON that the workflow writes of one.

    JSON is read as JSON: YAML would take its ``1e-05`` for a string.

    Raises BeamUQError if it is not a valid study.
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
