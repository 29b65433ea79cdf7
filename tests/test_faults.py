"""Whatever happens on the way, a rerun ends with the bytes of a clean run; and what is wrong is named."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beamuq import parquet_tables
from beamuq.decoding.finished_batches import FinishedBatches
from beamuq.errors import BeamUQError
from beamuq.steps.__main__ import main as run_step
from beamuq.study_config import ROOT
from micro import CANDIDATES, SCORES, SIMILARITY, Workplace, micro_study, wait_for
from run_snakemake import ENVIRONMENT
from tiny import build_tiny_model

STEPS = ("questions", "prompts", "candidates", "similarity", "quality", "scores", "evaluation", "table", "figure")
PROFILE = ("--workflow-profile", str(ROOT / "profiles/workstation"))

pytestmark = pytest.mark.slow


@pytest.fixture
def place(finished: Workplace, tmp_path: Path) -> Workplace:
    """A copy of the finished study, to break."""
    return finished.copy(tmp_path / "place")


@pytest.fixture(scope="module")
def command(finished: Workplace) -> Callable[[Path], list[str]]:
    """What the rule of candidates starts, with another output."""
    told = finished.run("--dry-run", "--printshellcmds", "--nolock", "--force", CANDIDATES)
    options = re.search(r"-m beamuq\.steps (candidates .*?) > ", told)
    assert options is not None
    return lambda output: shlex.split(options[1].replace(CANDIDATES, str(output)))


def started(place: Workplace, options: list[str], **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "beamuq.steps", *options],
        cwd=place.folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **more,
    )


def told_by(process: subprocess.Popen[str], status: int = 0) -> str:
    told = process.communicate(timeout=120)[0]
    assert process.returncode == status, told
    return told


def test_every_kind_of_rule_may_be_killed_once(finished: Workplace, tiny_models: Path, tmp_path: Path) -> None:
    place = Workplace(tmp_path / "place", micro_study(tiny_models))
    killed: list[str] = []
    process = place.start("--retries", "1")

    def kill_each_step_once() -> None:
        while process.poll() is None:
            for step in STEPS:
                number = None if step in killed else place.process_of(step)
                if number is not None and (step != "candidates" or place.parts()):
                    os.kill(number, signal.SIGKILL)
                    killed.append(step)
            time.sleep(0.005)

    killer = threading.Thread(target=kill_each_step_once)
    killer.start()
    output = process.communicate(timeout=400)[0]
    killer.join()
    assert process.returncode == 0, output
    assert sorted(killed) == sorted(STEPS)
    assert place.hashes() == finished.hashes()


def test_a_power_cut_and_a_second_snakemake(place: Workplace, finished: Workplace) -> None:
    (place.folder / CANDIDATES).unlink()
    first = place.start(CANDIDATES)
    wait_for(place.parts)
    os.killpg(first.pid, signal.SIGSTOP)
    assert "Directory cannot be locked" in place.run(CANDIDATES, fails=True)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    place.run("--unlock")
    assert "questions are there from an earlier run" in place.run(CANDIDATES, "--rerun-incomplete")
    place.run("ledger")  # what the job that ran again took
    assert "Nothing to be done" in place.run("--dry-run")
    assert place.hashes() == finished.hashes()


def test_a_corrupt_table_is_named_and_deleting_it_mends_the_study(place: Workplace, finished: Workplace) -> None:
    path = place.folder / SIMILARITY
    path.write_bytes(damaged(path.read_bytes())["altered"])
    told = place.run(SCORES, fails=True)
    assert f"{SIMILARITY}: not a readable Parquet file" in told
    assert "delete it and run again" in told
    path.unlink()
    place.run(SCORES)
    assert place.hashes() == finished.hashes()


def damaged(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2
    altered = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
    return {"cut": content[:middle], "altered": altered, "empty": b""}


@pytest.mark.parametrize("damage", ["cut", "altered", "empty"])
def test_a_corrupt_table_is_not_read(damage: str, finished: Workplace, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(damaged((finished.folder / SIMILARITY).read_bytes())[damage])
    with pytest.raises(BeamUQError, match=r"x\.parquet: not a readable Parquet file .*delete it"):
        parquet_tables.read(path, "similarity")


def test_a_table_of_another_versions_columns_is_not_read(finished: Workplace, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = parquet_tables.pq.read_table(finished.folder / "results/micro/quality/answer_f1/tiny/triviaqa/main.parquet")
    old = table.rename_columns({"answer_source": "produced"}).replace_schema_metadata(table.schema.metadata)
    parquet_tables.pq.write_table(old, path)
    with pytest.raises(BeamUQError, match=r"x\.parquet: its columns are not those of 'quality'; delete it"):
        parquet_tables.read(path, "quality")


def test_a_cache_cut_short_is_named_and_deleting_it_mends_the_study(place: Workplace, finished: Workplace) -> None:
    cache = next(place.folder.glob("resources/cache/**/*.npz"))
    cache.write_bytes(cache.read_bytes()[:-40])
    (place.folder / SIMILARITY).unlink()
    assert f"{cache.relative_to(place.folder)}: not a readable" in place.run(SIMILARITY, fails=True)
    cache.unlink()
    place.run(SIMILARITY)
    assert place.hashes() == finished.hashes()


def test_a_batch_of_another_model_is_refused(
    place: Workplace,
    finished: Workplace,
    command: Callable[[Path], list[str]],
    tiny_models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FinishedBatches, "discard", lambda _: None)
    monkeypatch.chdir(place.folder)
    other = build_tiny_model("llama", tmp_path / "llama", seed=1)
    shutil.copy(tiny_models / "llama/config.json", other)
    output, foreign = tmp_path / "own/main.parquet", tmp_path / "foreign/main.parquet"
    options = command(output)
    run_step(options)
    words = [word.replace(str(tiny_models / "llama"), str(other)) for word in command(foreign)]
    place_of_job = words.index("--job") + 1
    planned = json.loads(words[place_of_job]) | {"folders": {}}  # as of a model that was fetched
    run_step([*words[:place_of_job], json.dumps(planned), *words[place_of_job + 1 :]])
    own, others = (sorted(path.parent.glob("main.batches/*/batch-*")) for path in (output, foreign))
    assert own[0].parent.name != others[0].parent.name
    shutil.copy(others[3], own[3])
    with pytest.raises(BeamUQError, match=rf"{own[3]}: belongs to another run"):
        run_step(options)
    own[3].unlink()
    output.unlink()
    run_step(options)
    assert output.read_bytes() == (finished.folder / CANDIDATES).read_bytes()


def test_sigterm_keeps_the_batch_and_the_retry_goes_on(
    place: Workplace, finished: Workplace, command: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    output = tmp_path / "main.parquet"
    process = started(place, command(output))
    wait_for(lambda: list(tmp_path.glob("main.batches/*/batch-00001.parquet")))
    process.terminate()
    told_by(process, status=143)
    kept = len(list(tmp_path.glob("main.batches/*/batch-*.parquet")))
    assert 2 <= kept < 20
    assert not output.exists()
    assert f"{kept} of 20 questions are there from an earlier run" in told_by(started(place, command(output)))
    assert output.read_bytes() == (finished.folder / CANDIDATES).read_bytes()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.mount
def test_a_full_disk_is_named_and_room_mends_the_run(
    small_disk: Path, place: Workplace, finished: Workplace, command: Callable[[Path], list[str]]
) -> None:
    output = small_disk / "main.parquet"
    told = told_by(started(place, command(output)), status=2)
    assert "cannot be written (" in told
    assert "Traceback" not in told
    assert not output.exists()
    assert not list(small_disk.rglob("*.tmp"))
    assert list(small_disk.rglob("batch-*.parquet"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert "questions are there from an earlier run" in told_by(started(place, command(output)))
    assert output.read_bytes() == (finished.folder / CANDIDATES).read_bytes()


def test_a_file_that_may_not_grow_is_named(
    place: Workplace, command: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    output = tmp_path / "out/main.parquet"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    told = told_by(started(place, command(output), preexec_fn=limit), status=2)
    assert "cannot be written (" in told
    assert "Traceback" not in told
    assert not output.exists()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("error", [28, 122])
def test_no_table_is_left_half_written(error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_and_fail(_: object, path: Path, **__: object) -> None:
        Path(path).write_bytes(b"PAR1 half")
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(parquet_tables.pq, "write_table", write_and_fail)
    with pytest.raises(BeamUQError, match=rf"x\.parquet: cannot be written \({os.strerror(error)}\)"):
        parquet_tables.write(tmp_path / "x.parquet", "prompts", [{"id": "a", "prompt": "b"}])
    assert not list(tmp_path.iterdir())


def test_a_wrong_clock_reruns_nothing(place: Workplace, finished: Workplace) -> None:
    chance = random.Random(1)
    files = [path for path in place.folder.rglob("*") if path.is_file() and ".snakemake" not in path.parts]
    for path in files:
        moment = time.time() + chance.uniform(-1e6, 1e6)
        os.utime(path, (moment, moment))
    assert len(files) > 20
    assert "Nothing to be done" in place.run(*PROFILE)
    assert place.hashes() == finished.hashes()
