"""Questions and few-shot examples of one dataset to the rows of ``prompts``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import PROMPTS, load, render
from beamuq_study import parquet_tables
from beamuq_study.provenance import read_cell


def rendered(
    template: Path,
    questions: Path,
    shots: Path,
    dataset: str,
    made_with: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, str]]:
    """The rows of ``prompts`` of a dataset's questions and few-shot examples, by a template."""
    parts = load(template)
    read = read_cell({"questions": questions, "shots": shots}, made_with)
    for kind, loaded in read.items():
        if loaded.cell != {"dataset": dataset}:
            raise BeamUQError(
                f"{loaded.path}: holds {kind} of {loaded.cell}, not of {dataset!r}; run its rule "
                "again"
            )
    examples = read["shots"].table.to_pylist()
    return [
        {"id": row["id"], "prompt": render(parts, row, examples, where=f"{template}: {row['id']}")}
        for row in read["questions"].table.to_pylist()
    ]


def read_prompts(path: Path, style: str, dataset: str, count: int) -> list[dict[str, str]]:
    """The first ``count`` prompts of a file.

    Refuses prompts that the questions and examples of the same study would not give: they are of
    another run. The footer of prompts tells of no run, so they are rendered again, where the
    study's files and template are here.
    """
    prompts = parquet_tables.read(path, "prompts")
    if prompts.cell["dataset"] != dataset:
        raise BeamUQError(f"{path}: holds prompts of {prompts.cell['dataset']!r}, not {dataset!r}")
    rows: list[dict[str, str]] = prompts.table.to_pylist()
    results = path.parent.parent.parent
    questions, shots = (
        results / parquet_tables.Artifact(kind, dataset).path for kind in ("questions", "shots")
    )
    if questions.is_file() and shots.is_file():
        adapter = (
            parquet_tables.read_footer(questions).provenance.get("settings", {}).get("adapter")
        )
        template = PROMPTS / style / f"{adapter}.txt"
        same_template = template.is_file() and io.file_sha256(template) == prompts.provenance.get(
            "template_sha256"
        )
        if same_template and rendered(template, questions, shots, dataset, {}) != rows:
            raise BeamUQError(
                f"{path}: not the prompts that {questions} and {shots} give, but another run's; "
                "delete it and run again"
            )
    if len(rows) < count:
        raise BeamUQError(f"{path}: holds {len(rows)} prompts, {count} are asked for")
    return rows[:count]
