"""Questions and few-shot examples to prompts, through one template."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.data.prompt_template import load, render
from beamuq.errors import BeamUQError
from beamuq.plan.job_types import MachineOptions, PromptsJob


def run(job: PromptsJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Render the prompts, in the order of the questions."""
    template, cell = load(job.template), job.settings.model_dump()
    rows = {}
    for kind, path in (("questions", job.questions), ("shots", job.shots)):
        loaded = parquet_tables.read(path, kind)
        if loaded.cell != {"dataset": cell["dataset"]}:
            raise BeamUQError(f"{path}: holds {kind} of {loaded.cell}, not of {cell['dataset']!r}; run its rule again")
        rows[kind] = loaded.table.to_pylist()
    prompts = [
        {"id": row["id"], "prompt": render(template, row, rows["shots"], where=f"{job.template}: {row['id']}")}
        for row in rows["questions"]
    ]
    # neither versions nor the tables' own hashes: what is decoded depends on the text alone, and costs hours
    digest = parquet_tables.file_sha256(job.template)
    parquet_tables.write(job.prompts, "prompts", prompts, cell=cell, provenance={"template_sha256": digest})
    print(f"{cell['style']}/{cell['dataset']}: {len(prompts)} prompts")
