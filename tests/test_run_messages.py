"""What is told around a run; and that going offline, or to another study, reruns nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import run_snakemake
from beamuq import run_messages
from beamuq.cost import estimate
from beamuq.errors import BeamUQError
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import ROOT
from micro import Workplace, micro_study
from run_snakemake import ENVIRONMENT

MINILM = "models/all-minilm-l6-v2/fetched.json"


def snakemake(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_snakemake.snakemake(folder, "--nolock", *arguments, **environment)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Path:
    """A folder with the micro study, and nothing run."""
    return Workplace(tmp_path_factory.mktemp("place"), micro_study(tiny_models)).folder


MICRO = ("--config", "study=micro.yaml", "device=cpu")


def test_a_dry_run_ends_with_what_is_left_would_cost(place: Path) -> None:
    done = snakemake(place, "-n", *MICRO)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.rstrip().splitlines()[-4:]
    assert last[0] == "Costs of what is left of study micro, estimated:"
    assert last[1].startswith("  time: unknown; ")
    assert last[3] == "  downloads: none"


def test_costs_that_cannot_be_told_stop_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("table x is broken\nsecond line")

    monkeypatch.setattr(estimate, "summary", fail)
    plan = Plan.load({"study": "demo", "device": "cpu"})
    words = ["snakemake", "--workflow-profile", "profiles/workstation"]
    told = run_messages.opening(plan, words, {}, [ROOT])
    assert told == "Study demo: executor local, profile profiles/workstation, cpu in float32."
    assert capsys.readouterr().err == "costs: cannot be told (table x is broken)\n"


def test_files_stamped_in_the_future_are_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert run_messages.stamped_in_the_future([tmp_path], time.time()) == []
    (line,) = run_messages.stamped_in_the_future([tmp_path], time.time() - 120)
    assert f"1 files are stamped in the future (first: {tmp_path / 'x'})" in line
    assert f"find {tmp_path} -newermt now" in line


def test_a_study_called_like_one_of_the_projects_is_refused(tiny_models: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(micro_study(tiny_models)))
    with pytest.raises(BeamUQError, match=r"demo\.yaml.*writes results/demo too; rename your file"):
        Plan.load({"study": str(path), "device": "cpu"})
    path.rename(tmp_path / "mine.yaml")
    assert Plan.load({"study": str(tmp_path / "mine.yaml"), "device": "cpu"}).name == "mine"
    assert Plan.load({"study": str(ROOT / "studies/demo.yaml"), "device": "cpu"}).name == "demo"


def test_the_page_of_what_was_fetched_follows_study_and_lock(tmp_path: Path, nli_from_hub: Path) -> None:
    facts = {"commit": "a" * 40, "licence": "mit", "gated": False, "sizes": {}}
    (nli_from_hub / "config.json").write_text("{}")
    manifest = {"revision": "a" * 40, "licence": "mit", "files": {"config.json": {"sha256": "0", "size": 2}}}
    (nli_from_hub / "fetched.json").write_text(json.dumps(manifest))
    shutil.copy(ROOT / "config.yaml", tmp_path)
    study = yaml.safe_load((tmp_path / "own.yaml").read_text())
    asked = ("--cores", "1", "results/own/fetched.md", "--config", "study=own.yaml", "device=cpu")

    def again() -> str:
        done = snakemake(tmp_path, *asked)
        assert done.returncode == 0, done.stdout + done.stderr
        return (tmp_path / "results/own/fetched.md").read_text()

    again()
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": facts}}))
    assert "| mit | not gated |" in again()
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": facts | {"gated": "manual"}}}))
    assert "| mit | gated, access by request |" in again()
    study["title"] = "Another title"
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    assert "“Another title”" in again()
    study["datasets"]["triviaqa"]["licence"] = "MPL-2.0"
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    assert "MPL-2.0" in again()
    assert "Nothing to be done" in snakemake(tmp_path, *asked).stderr


def test_what_another_study_fetched_at_another_commit_is_refused(tmp_path: Path, nli_from_hub: Path) -> None:
    (nli_from_hub / "fetched.json").write_text(json.dumps({"revision": "a" * 40, "files": {}}))
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": {"commit": "a" * 40}}}))
    Plan.load({"study": "own.yaml", "device": "cpu"})
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": {"commit": "b" * 40}}}))
    with pytest.raises(
        BeamUQError, match=r"org--nli/fetched.json: is of commit a{40}, own.lock.json names b{40}.*delete"
    ):
        Plan.load({"study": "own.yaml", "device": "cpu"})


@pytest.mark.packaged
def test_going_offline_or_to_another_study_fetches_nothing_again_and_every_job_is_offline(
    tiny_models: Path, tmp_path: Path, root: Path
) -> None:
    model = root / "resources/models/all-minilm-l6-v2"
    if not model.is_dir():
        pytest.skip("resources/models/all-minilm-l6-v2 is not fetched")
    study = micro_study(tiny_models)
    source = {"kind": "embedding", "title": "e", "source": "packaged:all-minilm-l6-v2", "equivalence_threshold": 0.8}
    folder = tmp_path / "place"
    folder.mkdir()
    for name in ("one", "other"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(study | {"scorers": {"nli": source}}, sort_keys=False))
    shutil.copy(ROOT / "config.yaml", folder)
    shutil.copytree(model, folder / MINILM.removesuffix("/fetched.json"), copy_function=os.link)
    (folder / MINILM).unlink()
    shutil.copy(model / "fetched.json", folder / MINILM.replace("fetched", ".fetched"))
    seen = tmp_path / "seen"
    (tmp_path / "bin").mkdir()
    seen.mkdir()
    stub = tmp_path / "bin/python"
    stub.write_text(f'#!/bin/sh\nenv > {seen}/"$3"\nexec {sys.executable} "$@"\n')
    stub.chmod(0o755)
    path = {"PATH": f"{stub.parent}:{ENVIRONMENT['PATH']}", "HF_HUB_OFFLINE": ""}

    def run(*arguments: str, study: str = "one") -> str:
        settings = (f"study={study}.yaml", "device=cpu", "models_root=models")
        options = [argument for argument in arguments if "=" not in argument]
        more = [argument for argument in arguments if "=" in argument]
        done = snakemake(folder, "--cores", "1", *options, "--config", *settings, *more, **path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "| scorer nli | packaged:all-minilm-l6-v2 | 53aa51172d14 | 91 MB | Apache-2.0 | not gated |" in run(
        "fetched"
    )
    assert "Nothing to be done" in run("-n", MINILM)
    assert "Nothing to be done" in run("-n", MINILM, "offline=true")
    assert "Nothing to be done" in run("-n", MINILM, study="other")
    run("results/one/questions/triviaqa.parquet", "offline=true")
    for step, offline in {"fetch_model": "0", "questions": "1"}.items():
        told = dict(line.split("=", 1) for line in (seen / step).read_text().splitlines() if "=" in line)
        switches = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
        assert {told[name] for name in switches} == {"1"}, step
        assert told["BEAMUQ_OFFLINE"] == offline


def test_no_rule_runs_outside_the_shell_that_forbids_the_hub() -> None:
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        text = path.read_text()
        assert not re.findall(r"^    (run|script|notebook|wrapper):", text, re.MULTILINE), path
        for switch in ("OFFLINE", "open_for_fetching", "env -"):
            assert switch not in text, path
    lifting = [
        path.name for path in (ROOT / "workflow/beamuq").rglob("*.py") if "open_for_fetching(" in path.read_text()
    ]
    assert sorted(lifting) == ["fetch_dataset.py", "fetch_model.py", "offline.py"]
