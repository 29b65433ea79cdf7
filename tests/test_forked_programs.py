"""Programs forked from one process that has imported the libraries (tools/forked_programs.py)."""

from __future__ import annotations

import signal
import subprocess

import pytest

import forked_programs

pytestmark = pytest.mark.snakemake


def test_a_signal_to_the_client_reaches_its_program_and_the_programs_status_comes_back() -> None:
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(143)); print('up', flush=True); signal.pause()"
    command = [str(forked_programs.folder() / "python"), "-c", program]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "up\n"
        client.send_signal(signal.SIGTERM)
        assert client.wait(timeout=60) == 143
