"""The micro study through a real SLURM, with a job cancelled midway: the same bytes as a run on
this machine.

Tables and figures are left out: their rules ask the cluster for nothing that those before them do
not.

Needs root, a Debian and the script that starts SLURM on one machine with two fake GPUs
(``BEAMUQ_SLURM``; by default ``../shared/slurm/start-slurm.sh`` beside the project).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamuq_study.study_config import ROOT
from micro import EVALUATION, Workplace, micro_study, wait_for
from run_snakemake import ENVIRONMENT, SNAKEMAKE

SCRIPT = Path(os.environ.get("BEAMUQ_SLURM", ROOT.parent / "shared/slurm/start-slurm.sh"))

pytestmark = [pytest.mark.slow, pytest.mark.slurm]


@pytest.fixture(scope="module")
def slurm() -> Iterator[None]:
    """SLURM, started and stopped."""
    if not SCRIPT.is_file():
        pytest.skip(f"no script to start SLURM with: {SCRIPT} (BEAMUQ_SLURM names another)")
    if os.geteuid() != 0:
        pytest.skip("starting SLURM needs root")
    command = ["bash", str(SCRIPT), "start", "--cpus", "2"]
    environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    started = subprocess.run(
        command, text=True, capture_output=True, check=False, timeout=300, env=environment
    )
    assert started.returncode == 0, started.stdout + started.stderr
    yield
    subprocess.run(["bash", str(SCRIPT), "stop"], check=False, timeout=60, env=environment)


def profile_for_one_node(folder: Path) -> Path:
    """The shipped profile with what one node without accounting and with fake cards wants
    changed.
    """
    profile: dict[str, Any] = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile["slurm-status-command"] = "squeue"
    profile["slurm-init-seconds-before-status-checks"] = 8
    profile["set-resources"]["candidates"]["gpu"] = 1
    folder.mkdir()
    (folder / "profile.yaml").write_text(yaml.safe_dump(profile))
    return folder


def queued(rule: str) -> list[str]:
    """Number, partition and cards of the running job of a rule."""
    listed = subprocess.run(
        [
            "squeue",
            "--noheader",
            "--states=RUNNING",
            "--Format=JobID:|,Partition:|,tres-per-job:|,Comment:|",
        ],
        text=True,
        capture_output=True,
        check=True,
    )
    jobs = (line.split("|") for line in listed.stdout.splitlines())
    return next((job[:3] for job in jobs if f"rule_{rule}" in job[3]), [])


def started(place: Workplace, *arguments: str) -> subprocess.Popen[str]:
    """Snakemake, started and not waited for."""
    config = ("--config", "study=micro.yaml", "device=cpu", "memory_gb=1")
    return subprocess.Popen(
        [SNAKEMAKE, "--snakefile", str(ROOT / "Snakefile"), *arguments, *config],
        cwd=place.folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.mark.usefixtures("slurm")
def test_a_cluster_with_a_cancelled_job_gives_the_bytes_of_a_workstation(
    tiny_models: Path, tmp_path: Path
) -> None:
    cluster = Workplace(tmp_path / "cluster", micro_study(tiny_models))
    profile = profile_for_one_node(tmp_path / "profile")
    process = started(cluster, EVALUATION, "--workflow-profile", str(profile))
    wait_for(lambda: cluster.parts() or process.poll() is not None, seconds=400)
    number, partition, cards = queued("candidates")
    subprocess.run(["scancel", number], check=True)
    output = process.communicate(timeout=900)[0]
    log = cluster.folder / "logs/micro/candidates/tiny/triviaqa/main.log"
    assert process.returncode == 0, output
    assert (partition, cards) == ("gpu", "gres:gpu:1")
    assert "Trying to restart job" in output
    assert "questions are there from an earlier run" in log.read_text()
    assert (cluster.folder / EVALUATION).is_file()
    here = Workplace(tmp_path / "here", micro_study(tiny_models))
    here.run(EVALUATION)
    assert cluster.hashes() == here.hashes()
