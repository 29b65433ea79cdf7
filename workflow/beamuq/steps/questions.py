"""A dataset's split to the questions that are asked and the few-shot examples shown before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beamuq import parquet_tables
from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.question import Question
from beamuq.data.question_and_example_choice import choose_questions, choose_shots
from beamuq.data.read_dataset_file import read_questions, source_of
from beamuq.errors import BeamUQError
from beamuq.plan.job_types import MachineOptions, QuestionsJob


def run(job: QuestionsJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Choose both and write them, questions in the subset's order."""
    settings = job.settings
    reader = load_adapter(settings.adapter)
    repeated: list[str] = []
    everything = read_questions(reader, job.split, repeated)
    files = {"split": _described(job.split)}
    chosen = choose_questions(everything, settings.questions, seed=settings.seed, dataset=settings.dataset)
    shots: list[Question] = []
    if settings.few_shot:
        if job.few_shot_split is None:
            raise BeamUQError(f"datasets.{settings.dataset}.few_shot: {settings.few_shot}, but no few_shot_split")
        pool = read_questions(reader, job.few_shot_split)
        files["few_shot_split"] = _described(job.few_shot_split)
        shots = choose_shots(pool, everything, settings.few_shot, seed=settings.seed, dataset=settings.dataset)

    provenance = {
        "settings": settings.model_dump(),
        "files": files,
        "read": {"questions": len(everything), "repeated_rows": len(repeated)},
        "versions": {"numpy": np.__version__, "pyarrow": pa.__version__},
    }
    for path, kind, rows in ((job.questions, "questions", chosen), (job.shots, "shots", shots)):
        parquet_tables.write(
            path, kind, [dict(row) for row in rows], cell={"dataset": settings.dataset}, provenance=provenance
        )
    print(f"{settings.dataset}: {len(chosen)} of {len(everything)} questions, {len(shots)} few-shot examples")


def _described(path: Path) -> dict[str, Any]:
    return {"name": path.name, "sha256": parquet_tables.file_sha256(path), "fetched": source_of(path)}
