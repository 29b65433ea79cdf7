"""Questions and few-shot examples of one dataset to the rows of ``prompts``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import load, render
from beamuq.provenance import read_cell


def rendered(
    template: Path, questions: Path, shots: Path, dataset: str, made_with: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The rows of ``prompts`` that a template makes of the questions and the few-shot examples of a dataset."""
    parts, rows = load(template), {}
    files = {"questions": ("questions", questions), "shots": ("shots", shots)}
    for kind, loaded in read_cell(files, made_with).items():
        if loaded.cell != {"dataset": dataset}:
            raise BeamUQError(f"{loaded.path}: holds {kind} of {loaded.cell}, not of {dataset!r}; run its rule again")
        rows[kind] = loaded.table.to_pylist()
    return [
        {"id": row["id"], "prompt": render(parts, row, rows["shots"], where=f"{template}: {row['id']}")}
        for row in rows["questions"]
    ]
