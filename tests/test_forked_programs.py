"""Programs forked from one process that has imported the libraries (tools/forked_programs.py)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forked_programs

pytestmark = pytest.mark.snakemake

SNAKEFILE = """
rule all:
    output: "seen"
    shell: '''while [ ! -e "$(dirname "$(command -v python)")/socket" ]; do sleep 0.1; done
              python -c 'import sys; print("torch" in sys.modules)' > {output}'''
"""


def test_a_signal_to_the_client_reaches_its_program_and_the_programs_status_comes_back() -> None:
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(143)); print('up', flush=True); signal.pause()"
    command = [str(forked_programs.folder() / "python"), "-c", program]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "up\n"
        client.send_signal(signal.SIGTERM)
        assert client.wait(timeout=60) == 143


def test_where_there_is_no_server_a_program_starts_a_python_of_its_own(tmp_path: Path) -> None:
    client = tmp_path / "python"
    client.write_text(forked_programs.CLIENT.format(python=sys.executable, address=str(tmp_path / "none")))
    client.chmod(0o755)
    command = [str(client), "-c", "import sys; print('torch' in sys.modules)"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_jobs_of_the_snakemake_that_it_runs_find_the_libraries_imported(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, forked_programs.__file__, "--cores", "1"]
    done = subprocess.run(command, text=True, capture_output=True, check=False, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == "True\n"
