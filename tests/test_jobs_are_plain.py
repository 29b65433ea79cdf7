"""A job is a plain process in the Python that runs Snakemake, and what ends it is said."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq_study.plan.study_on_machine import path_to_python
from micro import EVALUATION, Workplace, micro_study, noting_imports
from run_snakemake import snakemake

QUESTIONS = "results/micro/questions/triviaqa.parquet"
STUDY = "results/micro/study.json"
SEEN = ("PYTHONHASHSEED", "TZ", "OMP_NUM_THREADS", "LONG")
BY_TRANSFORMERS = {"torch", "transformers", "scipy", "jinja2"}
IMPORTS = {
    "questions": set(),
    "prompts": set(),
    "write_study": set(),
    "quality": set(),
    "candidates": BY_TRANSFORMERS,
    "similarity": BY_TRANSFORMERS,
    "scores": {"pandas"},
    "evaluation": {"pandas"},
    "table": {"pandas", "jinja2", "scipy"},  # scipy: for an interval of this table
    "figure": {"pandas", "jinja2", "scipy", "matplotlib"},
}
"""By program the packages of ``micro.HEAVY`` that a job of it imports."""


@pytest.fixture
def place(tiny_models: Path, tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "place", micro_study(tiny_models))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The environment's Python under another name, in a folder with a space, as another
    environment's would be.
    """
    environment = Path(sys.prefix)
    copy = tmp_path / "an environment"
    (copy / "bin").mkdir(parents=True)
    shutil.copy(environment / "pyvenv.cfg", copy)
    (copy / "lib").symlink_to(environment / "lib")
    for name in ("python", "python3"):
        (copy / "bin" / name).symlink_to(Path(sys.executable).resolve())
    return copy / "bin/python3"


@pytest.fixture
def seen(tmp_path: Path) -> dict[str, str]:
    """Environment variables with which every Python notes down, in ``seen``, who it is and what it
    was given.
    """
    folder = tmp_path / "seen"
    first = tmp_path / "first"
    folder.mkdir()
    first.mkdir()
    (first / "sitecustomize.py").write_text(
        "import os, pathlib, sys\n"
        "if len(sys.orig_argv) > 1:\n"
        f"    values = [sys.executable, *(os.environ.get(name, '') for name in {SEEN!r})]\n"
        f"    pathlib.Path({str(folder)!r}, "
        "pathlib.Path(sys.orig_argv[1]).stem).write_text('\\n'.join(values))\n"
    )
    return {"PYTHONPATH": str(first)}


def another_python(folder: Path) -> str:
    """A search path that begins with another ``python``, in which no job can run."""
    folder.mkdir()
    (folder / "python").write_text("#!/bin/sh\necho 'another python' >&2\nexit 1\n")
    (folder / "python").chmod(0o755)
    return f"{folder}:{os.defpath}"


def test_jobs_run_in_the_python_that_runs_snakemake(
    place: Workplace, elsewhere: Path, seen: dict[str, str], tmp_path: Path
) -> None:
    """Without its folder on the search path, and with a space in its name."""
    words = ("--cores", "1", QUESTIONS, STUDY, "--config", "study=micro.yaml", "device=cpu")
    path = {"PATH": another_python(tmp_path / "other")}
    done = snakemake(place.folder, *words, python=elsewhere, **seen | path)
    assert done.returncode == 0, done.stdout + done.stderr + place.logs()
    for step in ("questions", "write_study"):
        assert (tmp_path / "seen" / step).read_text().splitlines()[0] == str(
            elsewhere.with_name("python")
        )


def test_a_job_has_the_environment_of_snakemake(
    place: Workplace, seen: dict[str, str], tmp_path: Path
) -> None:
    """Its length too; Snakemake itself says how many threads a job has."""
    given = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LONG": "x" * 100_000}
    words = ("--cores", "1", STUDY, "--config", "study=micro.yaml", "device=cpu")
    done = snakemake(place.folder, *words, **seen | given)
    assert done.returncode == 0, done.stdout + done.stderr + place.logs()
    told = (tmp_path / "seen/write_study").read_text().splitlines()[1:]
    assert told == ["7", "Asia/Tokyo", "1", given["LONG"]]


def test_a_python_without_that_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"/python3: .*'python'.*virtual environment"):
        path_to_python(str(tmp_path / "python3"))


def test_the_folder_of_the_python_comes_first_once(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"/somewhere:{folder}:/elsewhere")
    assert path_to_python(sys.executable) == f"{folder}:/somewhere:/elsewhere"


def test_programs_import_only_what_they_use(decoded: Workplace, tmp_path: Path) -> None:
    """Of the large packages: token F1 needs no torch, a table no scipy."""
    place = decoded.copy(tmp_path / "place")
    targets = [EVALUATION, "results/micro/tables/qa_tiny.csv", "figures/micro/redundancy.pdf"]
    place.run(*targets, environment=noting_imports(place.folder))
    notes = (place.folder / "imports").iterdir()
    noted = {path.name: set(path.read_text().split()) for path in notes}
    assert noted == IMPORTS
