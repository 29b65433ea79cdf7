"""The built wheel, installed where only the core's dependencies can be imported, far from any checkout."""

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

from beamuq_study.study_config import ROOT
from tiny import build_tiny_model

pytestmark = pytest.mark.slow
EXTRAS = ("torch", "transformers", "snakemake", "matplotlib")


def closure(requirements: list[str]) -> set[str]:
    """The installed distributions that requirements bring."""
    pending, found = [Requirement(text) for text in requirements], set()
    while pending:
        requirement = pending.pop()
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
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


@pytest.fixture(scope="module")
def core(wheel: Path) -> Path:
    """The bin folder of a virtual environment with the wheel and the closure of its dependencies, as links."""
    packages = installed(wheel, wheel.parent / "env")
    for name in closure(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]):
        for file in importlib.metadata.files(name) or ():
            top = Path(str(file.locate())).parents[len(file.parts) - 2] if len(file.parts) > 1 else file.locate()
            if file.parts[0] not in ("..", "__pycache__") and not (packages / file.parts[0]).exists():
                (packages / file.parts[0]).symlink_to(top)
    return wheel.parent / "env/bin"


@pytest.fixture
def run(core: Path, tmp_path: Path) -> Any:
    """Runs a command of the environment in an empty folder, as its own home, with nothing of this process's paths."""

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{core}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return command


def test_the_core_has_neither_torch_nor_snakemake_nor_matplotlib(run: Any) -> None:
    for name in EXTRAS:
        assert f"No module named '{name}'" in run("python", "-c", f"import {name}").stderr


def test_readmes_example_prints_what_readme_says(run: Any) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert example is not None
    assert run("python", "-c", example[1]).stdout == example[2]


def test_candidates_are_scored_and_explored(run: Any, tmp_path: Path) -> None:
    (tmp_path / "candidates.jsonl").write_text('{"answer": "a", "samples": ["a", "b"]}\n', encoding="utf-8")
    scored = run("beamuq", "score", "candidates.jsonl", "--similarity", "lexical", "--format", "jsonl")
    assert scored.returncode == 0, scored.stderr
    assert '"Dissimilarity"' in scored.stdout
    explored = run("beamuq", "explore", "candidates.jsonl", "--similarity", "lexical", "--output", "page.html")
    assert explored.returncode == 0, explored.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" in page
    assert "<style" in page


def test_answers_are_calibrated_and_decided(run: Any, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "answer": "a", "samples": ["a", "a" if n % 4 else "b"], "correct": bool(n % 4)}
        for n in range(400)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run("beamuq", "score", "rows.jsonl", "--output", "scores.jsonl").returncode == 0
    calibrated = run("beamuq", "calibrate", "scores.jsonl", "--method", "Dissimilarity", "--output", "calibration.json")
    assert calibrated.returncode == 0, calibrated.stderr
    decided = run("beamuq", "decide", "scores.jsonl", "--calibration", "calibration.json", "--format", "csv")
    assert decided.returncode == 0, decided.stderr
    assert len(decided.stdout.splitlines()) == 401


def test_ask_names_the_extra_that_it_lacks(run: Any) -> None:
    asked = run("beamuq", "ask", "Who wrote Hamlet?")
    assert asked.returncode == 2
    assert "pip install 'beamuq[models]'" in asked.stderr


def test_prompts_travel_with_the_wheel_and_fetched_models_go_to_the_users_cache(run: Any, tmp_path: Path) -> None:
    code = (
        "import beamuq.api.open_models as o, beamuq.prompts.prompt_template as s, beamuq\n"
        "print(o.fetched_models(), (s.PROMPTS / 'base/jsonl.txt').is_file(), set(beamuq.__all__) <= set(dir(beamuq)))"
    )
    assert run("python", "-c", code).stdout.split() == [str(tmp_path / ".cache/beamuq/models"), "True", "True"]


IN_MEMORY = """
import sys
import beamuq
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, similarity = sys.argv[1:]
model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
prompts = [f"Question: who is {n}?\\nAnswer:" for n in range(12)]
quality = correct = [n % 2 for n in range(12)]
story = [n // 2 for n in range(12)]
inputs = tokenizer(prompts[:1], return_tensors="pt")

answers = beamuq.ask(["Who wrote Hamlet?", "Who wrote Emma?"], model=(model, tokenizer))
candidates = beamuq.decode(model, tokenizer, prompts, samples=10, beams=10)
scores = beamuq.score(candidates, similarity=similarity, methods=["CocoaPPL"])
print(len(answers), beamuq.prr(scores["CocoaPPL"], quality).value <= 1)
calibration = beamuq.Calibration(risk=0.1).fit(scores["CocoaPPL"], correct, groups=story)
new_scores = scores["CocoaPPL"][:3]
print(list(calibration.decide(new_scores)))
out = model.generate(**inputs, custom_generate=beamuq.beams, width=10, max_new_tokens=5)
print(len(out.sequences_scores), beamuq.__file__)
"""


def test_a_model_in_memory_is_asked_decoded_scored_calibrated_and_searched(wheel: Path, tmp_path: Path) -> None:
    packages = installed(wheel, tmp_path / "env")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    folder = build_tiny_model("llama", tmp_path / "llama", context=4096)
    models = ROOT / "resources/models"
    similarity = "minilm" if (models / "all-minilm-l6-v2").is_dir() else "lexical"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BEAMUQ_MODELS": str(models), "HF_HUB_OFFLINE": "1"}
    command = [str(tmp_path / "env/bin/python"), "-c", IN_MEMORY, str(folder), similarity]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked, columns, found = done.stdout.splitlines()
    assert asked == "2 True"
    assert columns == str(["value", "right_low", "right_high", "shown", "reason"])
    assert found == f"10 {packages / 'beamuq/__init__.py'}"
