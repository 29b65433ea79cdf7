"""The workflow as a module of another one: from a folder, and from a repository as `snakedeploy`
writes it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from beamuq_study.study_config import ROOT
from run_snakemake import ENVIRONMENT

CONFIG = {"study": "study.yaml", "models_root": "models"}
QUESTION = '{"id": "a1", "question": "Which planet do we live on?", "answers": ["Earth"]}\n'
STUDY = """\
title: My study
demo: false
seed: 1
batch_questions: 6
models:
  small: {label: small, title: Small, source: "packaged:smollm2-135m-instruct", style: base}
datasets:
  mine:
    title: My questions
    category: Closed-Book QA
    adapter: jsonl
    source: folder:questions
    licence: CC0-1.0
    split: test
    few_shot: 0
    few_shot_split: train
    questions: 1
    max_new_tokens: 8
recipes:
  main: {sample: {size: 4}, beam: {widths: [4]}}
grid:
  - {recipe: main, models: [small], datasets: [mine], scorers: [words]}
scorers:
  words: {kind: lexical, title: shared words, equivalence_threshold: 0.8}
quality: {metric: answer_f1, title: F1}
main: {recipe: main, scorer: words, beam: 'beam M=4', num_candidates: 4}
scoring:
  main:
    methods: [Prob, Dissimilarity]
evaluation: {metrics: [PRR], resamples: 100}
exhibits: [base_accs]
"""
SNAKEFILE = """\
configfile: "config/config.yaml"


module beamuq:
    snakefile:
        {snakefile!r}
    config:
        config


use rule * from beamuq as beamuq_*


rule mine:
    default_target: True
    input:
        "results/study/prompts/base/mine.parquet",
        "results/study/study.json",
    output:
        "done.txt",
    shell:
        "cp {{input[1]}} {{output}}"
"""


def folder_of_another_workflow(folder: Path, snakefile: str) -> Path:
    (folder / "workflow").mkdir(parents=True)
    (folder / "workflow/Snakefile").write_text(SNAKEFILE.format(snakefile=snakefile))
    (folder / "config").mkdir()
    (folder / "config/config.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "questions").mkdir()
    (folder / "questions/test.jsonl").write_text(QUESTION)
    (folder / "study.yaml").write_text(STUDY)
    model = folder / "models/smollm2-135m-instruct"
    model.mkdir(parents=True)
    (model / "fetched.json").write_text("{}")
    return folder


def run_in(folder: Path) -> subprocess.CompletedProcess[str]:
    # no path of this checkout is given: the module brings its own
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(Path(sys.executable).parent / "snakemake"), "--cores", "1"],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )


def committed_copy(folder: Path) -> Path:
    """A repository of its own whose only commit is the checkout as it stands, also with changes
    that are no commit.
    """
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "Snakefile",
            "src",
            "workflow",
            "studies",
            "envs",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*identity, "commit", "--quiet", "--message", "all"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    subprocess.run(["git", "tag", "v1"], cwd=folder, check=True)
    return folder


def test_a_module_from_a_folder_runs_its_programs(tmp_path: Path) -> None:
    folder = folder_of_another_workflow(tmp_path / "mine", str(ROOT / "workflow/Snakefile"))
    run = run_in(folder)
    assert run.returncode == 0, run.stderr
    assert "localrules" not in run.stderr
    assert (folder / "results/study/prompts/base/mine.parquet").is_file()
    assert (folder / "done.txt").is_file()


def test_a_module_from_a_repository_runs_the_programs_of_its_commit(tmp_path: Path) -> None:
    repository = committed_copy(tmp_path / "repository")
    folder = folder_of_another_workflow(
        tmp_path / "mine", f"git+file://{repository}/workflow/Snakefile@v1"
    )
    run = run_in(folder)
    assert run.returncode == 0, run.stderr
    assert (folder / "results/study/prompts/base/mine.parquet").is_file()
    (checkout,) = (folder / ".snakemake/beamuq").iterdir()
    assert (checkout / "workflow/scripts/prompts.py").is_file()
    assert list((folder / ".snakemake/beamuq").glob("tmp*")) == []
