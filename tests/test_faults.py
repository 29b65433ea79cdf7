"""A job that is killed or ended goes on from what it has, and ends with the bytes of a clean run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from micro import CANDIDATES, SIMILARITY, Workplace, micro_study, wait_for
from run_snakemake import ENVIRONMENT

pytestmark = pytest.mark.slow


def test_each_stage_that_takes_long_may_be_killed_once(finished: Workplace, tiny_models: Path, tmp_path: Path) -> None:
    place = Workplace(tmp_path / "place", micro_study(tiny_models))
    process = place.start(SIMILARITY, "--retries", "1")
    waiting = ["candidates", "similarity"]
    while process.poll() is None:
        for step in waiting[:1]:
            number = place.process_of(step)
            if number is not None and (step != "candidates" or place.parts()):
                os.kill(number, signal.SIGKILL)
                waiting.remove(step)
        time.sleep(0.005)
    output = process.communicate(timeout=400)[0]
    assert process.returncode == 0, output
    assert waiting == []
    assert "questions are there from an earlier run" in place.logs()
    whole = finished.hashes()
    assert {path: whole[path] for path in (CANDIDATES, SIMILARITY)}.items() <= place.hashes().items()


def test_sigterm_keeps_the_batch_and_the_next_run_goes_on(finished: Workplace, tmp_path: Path) -> None:
    place, output = finished.copy(tmp_path / "place"), tmp_path / "main.parquet"
    told = place.run("--dry-run", "--printshellcmds", "--nolock", "--force", CANDIDATES)
    options = re.search(r"-m beamuq\.steps (candidates .*?) > ", told)
    assert options is not None
    words = [sys.executable, "-m", "beamuq.steps", *shlex.split(options[1].replace(CANDIDATES, str(output)))]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(words, cwd=place.folder, env=ENVIRONMENT, text=True, **streams)  # type: ignore[call-overload]
    wait_for(lambda: list(tmp_path.glob("main.batches/*/batch-00001.parquet")))
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 143
    kept = len(list(tmp_path.glob("main.batches/*/batch-*.parquet")))
    assert 2 <= kept < 20
    assert not output.exists()
    again = subprocess.run(words, cwd=place.folder, env=ENVIRONMENT, text=True, check=True, **streams)  # type: ignore[call-overload]
    assert f"{kept} of 20 questions are there from an earlier run" in again.stdout
    assert output.read_bytes() == (finished.folder / CANDIDATES).read_bytes()
