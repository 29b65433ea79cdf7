"""Snakemake as its command line starts it, but forked from a process that has imported it (forked_programs.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forked_programs
from beamuq_study.study_config import ROOT

ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


def snakemake(
    folder: Path, *arguments: str, seconds: float = 1200, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the project's Snakefile in ``folder``: status and both streams. Its jobs are forked too."""
    return subprocess.run(
        [str(forked_programs.folder() / "snakemake"), "--snakefile", str(ROOT / "Snakefile"), *arguments],
        cwd=folder,
        env=ENVIRONMENT | {"PATH": forked_programs.path()} | environment,
        text=True,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
