"""Tell what a study would run, fetch and take, before anything starts."""

from __future__ import annotations

from beamuq.cost.estimate import report
from beamuq.plan.job_types import EstimateJob, MachineOptions
from beamuq.plan.study_on_machine import Plan


def run(job: EstimateJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Print jobs, downloads and a prediction scaled from what the study has measured."""
    print("\n".join(report(Plan.load(job.machine))))
