"""What ``snakemake --logger beamuq`` shows of a run whose output is no terminal, and of jobs that run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

import run_snakemake

pytest.importorskip("snakemake_logger_plugin_rich", reason="snakemake-logger-plugin-rich is not installed")

from snakemake_logger_plugin_beamuq import LogHandler

SNAKEFILE = """
rule all:
    input: "well", "ill"
rule copy:
    output: "well"
    log: "copy.log"
    shell: "echo fine > {log}; touch {output}"
rule decode:
    output: "ill"
    log: "logs/decode.log"
    shell: "(echo batch 1 of 2; echo 'questions.parquet: no such file'; exit 2) > {log}"
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of a run in which one job ends well and the other does not."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--keep-going", "--logger", "beamuq"]
    done = subprocess.run(command, cwd=folder, env=run_snakemake.ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode != 0
    return [line for line in (done.stdout + done.stderr).splitlines() if line]


def test_a_finished_job_is_one_line(shown: list[str]) -> None:
    assert [line.partition(": ")[2].split(",")[0] for line in shown if " of 3: " in line] == ["copy"]
    assert "input:" not in "".join(shown)


def test_a_failed_job_shows_the_last_line_of_its_log_at_once_and_at_the_end(shown: list[str]) -> None:
    told = "failed: decode: questions.parquet: no such file (logs/decode.log)"
    assert shown.count(told) == 2
    assert shown[-1] == told
    assert "batch 1 of 2" not in "".join(shown)  # nor its whole command


SETTINGS = SimpleNamespace(stdout=False, dryrun=False, printshellcmds=False, show_failed_logs=False, verbose=False)


def started(event: LogEvent, log: Path) -> Any:
    named = {"rule_name": "candidates", "wildcards": {"model": "m", "dataset": "d"}}
    return SimpleNamespace(event=event, jobid=1, log=[log], **named)


STOPPED = """
rule all:
    input: "whole"
rule first:
    output: "part"
    log: "first.log"
    shell: "touch {output} 2> {log}"
rule decode:
    input: "part"
    output: "whole"
    log: "decode.log"
    shell: "python -c 'import beamuq.errors, time; print(1, file=open(\\"begun\\", \\"w\\"));"
           " beamuq.errors.exit_with_one_line(lambda: time.sleep(60))' 2> {log}"
"""


def test_a_run_stopped_by_ctrl_c_says_so_and_calls_nothing_failed(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(STOPPED)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--logger", "beamuq"]
    run = subprocess.Popen(
        command, cwd=tmp_path, env=run_snakemake.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
        # what starts the tests in the background has them ignore the signal, and a child would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (tmp_path / "begun").exists() and run.poll() is None:
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)  # what a terminal does
    shown = [line for line in run.communicate(timeout=60)[0].splitlines() if line]
    assert run.returncode != 0
    assert "stopped: 1 of 3 jobs are done; the same command goes on after them" in shown
    assert "failed" not in "\n".join(shown)
    assert "did not complete" not in "\n".join(shown)


def test_a_stopped_job_that_ends_well_in_its_next_try_is_no_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "decode.log"
    log.write_text("stopped as asked\n")
    handler = LogHandler(SETTINGS, None)
    handler.emit(SimpleNamespace(event=LogEvent.RUN_INFO, stats={"total": 1}))  # type: ignore[arg-type]
    for event in (LogEvent.JOB_INFO, LogEvent.JOB_ERROR, LogEvent.JOB_INFO):
        handler.emit(started(event, log))
    handler.emit(SimpleNamespace(event=LogEvent.JOB_FINISHED, job_id=1))  # type: ignore[arg-type]
    handler.close()
    shown = capsys.readouterr()
    assert "1 of 1" in shown.out + shown.err
    assert "stopped" not in shown.out + shown.err


def test_a_running_job_is_shown_with_the_last_line_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_bytes(b"loading\r\xff 50 %\rbatch 9 of 42: 108 of 500 questions, 31 tokens/s, 4 min 2 s left\n\n")
    handler = LogHandler(SETTINGS, None)
    handler.emit(started(LogEvent.JOB_INFO, log))
    handler.close()
    assert str(handler.__rich__()) == f"candidates m/d: {log.read_text(errors='replace').split('%')[1].strip()}"
