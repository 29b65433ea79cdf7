"""Fetch one split of a hub dataset at its locked commit."""

from __future__ import annotations

from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.hub_dataset import fetch_split
from beamuq.errors import BeamUQError
from beamuq.models.offline import open_for_fetching
from beamuq.plan.job_types import FetchDatasetJob, MachineOptions


def run(job: FetchDatasetJob, machine: MachineOptions) -> None:
    """Fetch; the lock file keeps the commit."""
    if not job.source.startswith("hub:"):
        raise BeamUQError(f"--job: source: {job.source!r}: only hub:ORG/NAME is fetched")
    if machine.lock is None:
        raise BeamUQError("--machine: lock: null: a hub dataset needs the study's lock file; name it")
    fetch_split(
        job.source.removeprefix("hub:"),
        job.config,
        job.split_name,
        job.split,
        adapter=load_adapter(job.adapter),
        lock=machine.lock,
        offline=open_for_fetching(offline=machine.offline),
    )
