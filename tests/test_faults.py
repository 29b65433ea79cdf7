"""Whatever happens on the way, a rerun ends with the bytes of a clean run; and what is wrong is named."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from beamuq import artifacts
from beamuq.decoding.finished_batches import FinishedBatches
from beamuq.errors import BeamUQError
from beamuq.plan.jobs import Plan
from beamuq.steps import candidates
from beamuq.study import ROOT
from micro import CANDIDATES, ENVIRONMENT, EVALUATION, SCORES, SIMILARITY, Workplace, build_models, wait_for
from tiny import build_tiny_model

STEPS = ("questions", "prompts", "candidates", "similarity", "quality", "scores", "evaluation", "table", "figure")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A study that nothing happened to."""
    folder = tmp_path_factory.mktemp("clean")
    place = Workplace(folder / "place", build_models(folder / "models"))
    place.run()
    return place


@pytest.fixture
def place(clean: Workplace, tmp_path: Path) -> Workplace:
    """A copy of the finished study, to break."""
    return Workplace.copy_of(clean, tmp_path / "place")


def whole(place: Workplace, clean: Workplace) -> bool:
    """Nothing is left to do but to sum what the jobs that ran again took, and everything is as in the clean run."""
    place.run("ledger")
    return "Nothing to be done" in place.run("--dry-run") and place.hashes() == clean.hashes()


def command(place: Workplace, output: Path, monkeypatch: pytest.MonkeyPatch, model: Path | None = None) -> list[str]:
    """The candidates step of the study, as its rule starts it, with another output."""
    monkeypatch.chdir(place.folder)
    plan = Plan.load({"study": "micro.yaml", "device": "cpu"})
    cell = SimpleNamespace(model="tiny", dataset="triviaqa", recipe="main")
    inputs = plan.candidates_inputs(cell)
    options = ["--prompts", inputs["prompts"], "--model", str(model or inputs["model"])]
    options += ["--settings", plan.candidates_settings(cell), "--device", "cpu", "--dtype", "float32"]
    return [*options, "--candidates", str(output)]


def started(options: list[str], **more: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "beamuq.steps.candidates", *options]
    return subprocess.Popen(line, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)  # type: ignore[call-overload, no-any-return]


def test_every_kind_of_rule_may_be_killed_once(clean: Workplace, tmp_path: Path) -> None:
    place = Workplace(tmp_path / "place", clean.folder.parent / "models")
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
    assert place.hashes() == clean.hashes()


def test_a_power_cut_and_a_second_snakemake(place: Workplace, clean: Workplace) -> None:
    (place.folder / CANDIDATES).unlink()
    first = place.start(CANDIDATES)
    wait_for(place.parts)
    os.killpg(first.pid, signal.SIGSTOP)
    assert "Directory cannot be locked" in place.run(CANDIDATES, fails=True)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert "Directory cannot be locked" in place.run(CANDIDATES, "--rerun-incomplete", fails=True)
    place.run("--unlock")
    assert "questions are there from an earlier run" in place.run(CANDIDATES, "--rerun-incomplete")
    assert whole(place, clean)


@pytest.mark.parametrize("damage", ["cut", "altered", "empty"])
def test_a_corrupt_table_is_named_and_deleting_it_mends_the_study(
    damage: str, place: Workplace, clean: Workplace
) -> None:
    path = place.folder / SIMILARITY
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 0xFF
    path.write_bytes({"cut": content[:middle], "altered": content, "empty": b""}[damage])
    told = place.run(SCORES, fails=True)
    assert f"{SIMILARITY}: not a readable Parquet file" in told
    assert "delete it and run again" in told
    path.unlink()
    place.run(SCORES)
    assert whole(place, clean)


def test_a_memo_cut_short_is_named_and_deleting_it_mends_the_study(place: Workplace, clean: Workplace) -> None:
    memo = next(place.folder.glob("resources/cache/**/*.npz"))
    memo.write_bytes(memo.read_bytes()[:-40])
    (place.folder / SIMILARITY).unlink()
    told = place.run(SIMILARITY, fails=True)
    assert f"{memo.relative_to(place.folder)}: not a readable cache file" in told
    memo.unlink()
    place.run(SIMILARITY)
    assert whole(place, clean)


def test_a_batch_of_another_model_is_refused(
    place: Workplace, clean: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FinishedBatches, "discard", lambda _: None)
    other = build_tiny_model("llama", tmp_path / "llama", seed=1)
    shutil.copy(clean.folder.parent / "models/llama/config.json", other)
    output, foreign = tmp_path / "own/main.parquet", tmp_path / "foreign/main.parquet"
    options = command(place, output, monkeypatch)
    candidates.main(options)
    candidates.main(command(place, foreign, monkeypatch, other / "config.json"))
    own_parts, foreign_parts = (sorted(path.parent.glob("main.batches/*/batch-*")) for path in (output, foreign))
    assert own_parts[0].parent.name != foreign_parts[0].parent.name
    shutil.copy(foreign_parts[3], own_parts[3])
    with pytest.raises(BeamUQError, match=rf"{own_parts[3]}: belongs to another run"):
        candidates.main(options)
    own_parts[3].unlink()
    output.unlink()
    candidates.main(options)
    assert output.read_bytes() == (clean.folder / CANDIDATES).read_bytes()


def test_sigterm_keeps_the_batch_and_the_retry_goes_on(
    place: Workplace, clean: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "main.parquet"
    options = command(place, output, monkeypatch)
    process = started(options)
    wait_for(lambda: list(tmp_path.glob("main.batches/*/batch-00001.parquet")))
    process.terminate()
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 143, told
    kept = len(list(tmp_path.glob("main.batches/*/batch-*.parquet")))
    assert 2 <= kept < 20
    assert not output.exists()
    again = started(options)
    assert f"{kept} of 20 questions are there from an earlier run" in again.communicate(timeout=60)[0]
    assert output.read_bytes() == (clean.folder / CANDIDATES).read_bytes()


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
    small_disk: Path, place: Workplace, clean: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = small_disk / "main.parquet"
    options = command(place, output, monkeypatch)
    process = started(options)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 2, told
    assert "cannot be written (" in told
    assert "Traceback" not in told
    assert not output.exists()
    assert not list(small_disk.rglob("*.tmp"))
    assert list(small_disk.rglob("part-*.parquet"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    again = started(options)
    assert "questions are there from an earlier run" in again.communicate(timeout=60)[0]
    assert output.read_bytes() == (clean.folder / CANDIDATES).read_bytes()


def test_a_file_that_may_not_grow_is_named(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out/main.parquet"
    limited = started(
        command(place, output, monkeypatch), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    )
    told = limited.communicate(timeout=60)[0]
    assert limited.returncode == 2, told
    assert "cannot be written (" in told
    assert "Traceback" not in told
    assert not output.exists()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("error", [28, 122])
def test_no_table_is_left_half_written(error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_and_fail(_: object, path: Path, **__: object) -> None:
        Path(path).write_bytes(b"PAR1 half")
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(artifacts.pq, "write_table", write_and_fail)
    with pytest.raises(BeamUQError, match=rf"x\.parquet: cannot be written \({os.strerror(error)}\)"):
        artifacts.write(tmp_path / "x.parquet", "prompts", [{"id": "a", "prompt": "b"}])
    assert not list(tmp_path.iterdir())


def test_a_wrong_clock_reruns_nothing(place: Workplace, clean: Workplace) -> None:
    chance = random.Random(1)
    files = [path for path in place.folder.rglob("*") if path.is_file() and ".snakemake" not in path.parts]
    for path in files:
        moment = time.time() + chance.uniform(-1e6, 1e6)
        os.utime(path, (moment, moment))
    assert len(files) > 20
    output = place.run("--workflow-profile", str(ROOT / "profiles/workstation"))
    assert "Nothing to be done" in output
    assert (place.folder / EVALUATION).read_bytes() == (clean.folder / EVALUATION).read_bytes()


PROFILE = ("--workflow-profile", str(ROOT / "profiles/workstation"))
FUTURE, PAST = time.time() + 3e7, 315_532_800.0  # in a year; 1980


@pytest.mark.parametrize("moment", [FUTURE, PAST], ids=["future", "1980"])
@pytest.mark.parametrize("path", [CANDIDATES, SIMILARITY, "results/micro/prompts/base/triviaqa.parquet"])
def test_one_wrong_stamp_in_the_middle_reruns_nothing(
    path: str, moment: float, place: Workplace, clean: Workplace
) -> None:
    os.utime(place.folder / path, (moment, moment))
    assert "Nothing to be done" in place.run("--dry-run", *PROFILE)
    assert place.hashes() == clean.hashes()


@pytest.mark.parametrize("moment", [FUTURE, PAST], ids=["future", "1980"])
def test_what_is_lost_beside_a_wrong_stamp_comes_back_without_decoding(
    moment: float, place: Workplace, clean: Workplace
) -> None:
    os.utime(place.folder / CANDIDATES, (moment, moment))
    (place.folder / SIMILARITY).unlink()
    logs = place.folder / "logs/micro/candidates/tiny/triviaqa/main.log"
    decoded = logs.stat().st_mtime_ns
    if moment == FUTURE:
        told = place.run(SIMILARITY, *PROFILE, fails=True)
        assert "clock skew" in told
        command = next(line for line in told.splitlines() if line.startswith("  clock: ")).partition("Mend it: ")[2]
        subprocess.run(command, shell=True, cwd=place.folder, check=True)
    place.run(SIMILARITY, *PROFILE)
    assert logs.stat().st_mtime_ns == decoded
    assert whole(place, clean)


def test_a_change_hidden_by_a_stamp_in_the_future_is_warned_of_and_found(clean: Workplace, tmp_path: Path) -> None:
    place = Workplace(tmp_path / "place", clean.folder.parent / "models")
    prompts = "results/micro/prompts/base/triviaqa.parquet"
    study = yaml.safe_load((place.folder / "micro.yaml").read_text())
    data = place.folder / "data"
    shutil.copytree(ROOT / "workflow/demo/trivia_qa", data)
    study["datasets"]["triviaqa"]["source"] = f"folder:{data}"
    (place.folder / "micro.yaml").write_text(yaml.safe_dump(study))
    place.run(prompts, *PROFILE)
    before = (place.folder / prompts).read_bytes()
    for path in place.folder.glob("results/**/*.parquet"):
        os.utime(path, (FUTURE, FUTURE))
    split = data / "validation.jsonl"
    split.write_text(split.read_text().replace("?", " now?"))
    told = place.run("--dry-run", prompts, *PROFILE)
    assert "Nothing to be done" in told
    (line,) = [line for line in told.splitlines() if line.startswith("  clock: ")]
    assert "files are stamped in the future (first: results/micro/prompts/base/triviaqa.parquet)" in line
    subprocess.run(line.partition("Mend it: ")[2], shell=True, cwd=place.folder, check=True)
    assert "clock:" not in place.run(prompts, *PROFILE)
    assert (place.folder / prompts).read_bytes() != before
