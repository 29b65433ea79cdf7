"""Write down the study as exhibits and pages see it."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.plan.job_types import MachineOptions, StudyJob


def run(job: StudyJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Write the JSON that the plan made."""
    parquet_tables.write_text(job.study, job.content + "\n")
