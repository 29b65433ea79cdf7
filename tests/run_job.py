"""Run a step as its rule does: one job as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beamuq.steps.__main__ import main


def job_text(job: Mapping[str, object]) -> str:
    """A job as a rule passes it; paths may be given as such."""
    return json.dumps(job, default=str)


def run_job(step: str, job: Mapping[str, object], **machine: Any) -> None:
    """Run one job; ``machine``: threads, cache_root, lock, offline."""
    main([step, "--job", job_text(job), "--machine", json.dumps(machine, default=str)])
