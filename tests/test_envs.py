"""Conda files, pins, installed versions, rules and the container tell one story."""

from __future__ import annotations

import importlib.metadata
import json
import re
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from beamuq_study.study_config import ROOT
from run_snakemake import snakemake

NAMES = ("analysis", "gpu")


def pins_of(name: str) -> dict[str, str]:
    environment: dict[str, Any] = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
    listed = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    return dict(pin.split("==") for pin in listed)


def constraints() -> dict[str, str]:
    lines = (
        line.split("#")[0].strip()
        for line in (ROOT / "envs/constraints.txt").read_text().splitlines()
    )
    return {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines if line)
    }


def test_every_pin_can_be_had_on_the_oldest_python_of_readme() -> None:
    # Some packages exclude the first releases of 3.11, which Debian 12 still has.
    # Not all of them are installed: some are for an older Python, or for Linux alone.
    found = {
        distribution.name: distribution.metadata["Requires-Python"]
        for distribution in importlib.metadata.distributions()
        if canonicalize_name(distribution.name) in constraints()
    }
    assert len(found) > 0.9 * len(constraints())
    assert [
        name for name, said in found.items() if said and "3.11.0" not in SpecifierSet(said)
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_installed_versions_are_the_pins(name: str) -> None:
    installed = {package: importlib.metadata.version(package) for package in pins_of(name)}
    # a CPU build calls itself 2.13.0+cpu
    assert {package: Version(version).public for package, version in installed.items()} == {
        package: Version(version).public for package, version in pins_of(name).items()
    }


def test_the_analysis_environment_has_no_torch_and_the_other_all_of_it() -> None:
    analysis, gpu = pins_of("analysis"), pins_of("gpu")
    assert not {"torch", "transformers", "datasets"} & analysis.keys()
    assert {"torch", "transformers", "datasets"} <= gpu.keys()
    assert analysis.items() <= gpu.items()


def test_environments_and_container_have_the_python_that_ci_tests() -> None:
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    tested = ci["jobs"]["checks"]["env"]["PYTHON"].removeprefix("python")
    for name in NAMES:
        environment = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
        assert f"python={tested}" in environment["dependencies"]
    assert f"FROM python:{tested}-" in (ROOT / "Containerfile").read_text()


def test_the_container_s_command_is_a_whole_run() -> None:
    command = re.search(r"^CMD (.*)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert command is not None
    assert json.loads(command[1]) == ["snakemake", "--cores", "all"]


def test_a_workstation_plans_the_paper_for_cards() -> None:
    options = ["--dry-run", "--nolock", "--cores", "2", "--config", "study=paper", "device=cuda"]
    done = snakemake(ROOT, "results/paper/tables/base_accs.csv", *options)
    assert done.returncode == 0, done.stderr
    told = re.search(r"rule quality:.*?resources: ([^\n]+)", done.stdout + done.stderr, re.DOTALL)
    assert told is not None
    assert "gpu=1" in told[1]
