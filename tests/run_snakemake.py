"""Snakemake as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from beamuq_study.study_config import ROOT

SNAKEMAKE = str(Path(sys.executable).parent / "snakemake")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # or each job would compile the package anew


def snakemake(
    folder: Path,
    *arguments: str,
    seconds: float = 1200,
    python: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the project's Snakefile in ``folder``, in another ``python`` if given: status and both
    streams.
    """
    command = [str(python), "-m", "snakemake"] if python else [SNAKEMAKE]
    return subprocess.run(
        [*command, "--snakefile", str(ROOT / "Snakefile"), *arguments],
        cwd=folder,
        env=ENVIRONMENT | environment,
        text=True,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
