"""Snakemake as its command line starts it, but forked from a process that has imported it once, which halves a start.

The process is the standard library's fork server, of one thread: what one run leaves behind, no other one sees. Its
jobs are forked likewise (forked_jobs.py).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import forked_jobs
from beamuq.study_config import ROOT

SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["snakemake.cli", "beamuq.plan.study_on_machine"])


def snakemake(
    folder: Path, *arguments: str, seconds: float = 1200, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the project's Snakefile in ``folder``: status and both streams, as of ``subprocess.run``."""
    words = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), *arguments]
    environment = ENVIRONMENT | {"PATH": forked_jobs.path()} | environment
    with tempfile.TemporaryDirectory() as streams:
        told = [Path(streams, name) for name in ("out", "error")]
        process = _server.Process(target=_run, args=(words, folder, environment, told))
        process.start()
        process.join(seconds)
        late = process.exitcode is None
        if late and process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        out, error = (path.read_text(encoding="utf-8") for path in told)
        assert not late, f"{words} ran longer than {seconds} s\n{out}{error}"
        return subprocess.CompletedProcess(words, process.exitcode or 0, out, error)


def _run(words: list[str], folder: Path, environment: dict[str, str], told: list[Path]) -> None:
    os.setsid()  # its jobs can be ended with it
    for stream, path in enumerate(told, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    from snakemake.cli import main

    status: object = 0
    try:
        main(words[1:])
    except SystemExit as stop:
        status = stop.code or 0
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)
