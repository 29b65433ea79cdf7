"""Fetch one model into its folder."""

from __future__ import annotations

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import MANIFEST
from beamuq.models.model_source import fetch_model
from beamuq.models.offline import open_for_fetching
from beamuq.plan.job_types import FetchModelJob, MachineOptions


def run(job: FetchModelJob, machine: MachineOptions) -> None:
    """Fetch; ``job.model`` is the manifest in the model's folder."""
    if job.model.name != MANIFEST:
        raise BeamUQError(f"--job: model: {job.model}: must end in {MANIFEST}")
    fetch_model(job.source, job.model.parent, lock=machine.lock, offline=open_for_fetching(offline=machine.offline))
