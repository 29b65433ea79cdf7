"""The rules: they ask for what they need and no more, and their commands are jobs that the steps read."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import get_type_hints

import pytest

import run_snakemake
from beamuq.config_errors import validated_json
from beamuq.plan.job_types import MachineOptions, read_job
from beamuq.plan.study_on_machine import Plan

ROOT = Path(__file__).resolve().parents[1]


def snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_snakemake.snakemake(ROOT, *arguments)


def dry_run(*arguments: str) -> str:
    done = snakemake("--dry-run", "--cores", "1", "--nolock", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def planned() -> dict[str, str]:
    """What a dry run of everything prints, by study."""
    return {
        study: dry_run("--forceall", "--printshellcmds", "--config", f"study={study}") for study in ("demo", "paper")
    }


@pytest.mark.parametrize("study", ["demo", "paper"])
def test_every_command_is_a_job_that_its_step_reads(study: str, planned: dict[str, str]) -> None:
    commands = [
        shlex.split(command)
        for command in re.findall(r"^Shell command: python -m beamuq.steps (.*) > \S+ 2>&1$", planned[study], re.M)
    ]
    assert len(commands) > 50
    assert len({rule for rule, *_ in commands}) >= 12
    for rule, _, job, _, machine in commands:
        step = importlib.import_module(f"beamuq.steps.{rule}")
        read_job(get_type_hints(step.run)["job"], job)
        validated_json(MachineOptions, machine, "--machine")


def test_a_figure_pulls_only_its_own_cell() -> None:
    output = dry_run("--forceall", "figures/demo/redundancy.pdf").partition("Costs of what is left")[0]
    assert "candidates/smollm2-135m-plain/triviaqa/main.parquet" in output
    assert "smollm2-135m-chat" not in output
    assert "results/demo/evaluation" not in output


def test_the_paper_study_plans_every_recipe(planned: dict[str, str]) -> None:
    plan = Plan.load({"study": "paper"})
    assert len(plan.grid.cells) == 36 + 4 + 4 + 2 + 12 + 12 + 6
    counted = re.search(r"^candidates\s+(\d+)$", planned["paper"], re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == len(plan.grid.cells)


def test_the_snakefile_where_the_workflow_catalog_looks_runs_the_same_rules(tmp_path: Path) -> None:
    shutil.copy(ROOT / "config.yaml", tmp_path)
    chosen = ("--snakefile", str(ROOT / "workflow/Snakefile"))
    done = run_snakemake.snakemake(tmp_path, *chosen, "--cores", "1", "results/demo/study.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/demo/study.json").is_file()


def test_a_bad_study_stops_snakemake_with_one_line_and_no_traceback() -> None:
    done = snakemake("--dry-run", "--cores", "1", "--nolock", "--config", "study=dmo")
    assert done.returncode != 0
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert [line for line in lines if line.startswith("error: ")] == [
        next(line for line in lines if "did you mean 'demo'" in line)
    ]
    assert "Traceback" not in done.stdout + done.stderr


def test_every_rule_has_a_log_and_an_environment_that_exists() -> None:
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        for name, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", path.read_text(), re.MULTILINE):
            assert "    log:" in body, name
            environment = re.search(r'conda:\s+"(.+)"', body)
            assert environment is not None, name
            assert (path.parent / environment[1]).is_file(), name


def test_no_job_names_a_path_of_this_machine(planned: dict[str, str]) -> None:
    jobs = planned["demo"][planned["demo"].index("rule ") :]
    assert str(ROOT) not in jobs


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("study: demo\nstudy: real\n", "key 'study' stands twice"),
        ("study: 2024-13-45\n", "month must be in 1..12"),
        ("x: " + "[" * 3000, "nested too deeply"),
        ("", "must be a mapping"),
    ],
)
def test_a_hostile_config_yaml_is_one_line(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(content)
    done = run_snakemake.snakemake(tmp_path, "--dry-run", "--cores", "1")
    assert done.returncode == 2
    assert re.fullmatch(rf"error: config\.yaml: .*{told}.*\n", done.stderr)
