"""Questions and few-shot examples to prompts, through one template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beamuq import parquet_tables
from beamuq.data.prompt_template import load, render
from beamuq.errors import BeamUQError
from beamuq.plan.job_types import MachineOptions, PromptsJob
from beamuq.provenance import read_cell


def run(job: PromptsJob, machine: MachineOptions) -> None:
    """Render the prompts, in the order of the questions."""
    cell = job.settings.model_dump()
    prompts = rendered(job.template, job.questions, job.shots, job.settings.dataset, machine.expected)
    # neither versions nor the tables' own hashes: what is decoded depends on the text alone, and costs hours
    digest = parquet_tables.file_sha256(job.template)
    parquet_tables.write(job.prompts, "prompts", prompts, cell=cell, provenance={"template_sha256": digest})
    print(f"{cell['style']}/{cell['dataset']}: {len(prompts)} prompts")


def rendered(
    template: Path, questions: Path, shots: Path, dataset: str, expected: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The rows of ``prompts`` that a template makes of the questions and the few-shot examples of a dataset."""
    parts, rows = load(template), {}
    files = {"questions": ("questions", questions), "shots": ("shots", shots)}
    for kind, loaded in read_cell(files, expected).items():
        if loaded.cell != {"dataset": dataset}:
            raise BeamUQError(f"{loaded.path}: holds {kind} of {loaded.cell}, not of {dataset!r}; run its rule again")
        rows[kind] = loaded.table.to_pylist()
    return [
        {"id": row["id"], "prompt": render(parts, row, rows["shots"], where=f"{template}: {row['id']}")}
        for row in rows["questions"]
    ]
