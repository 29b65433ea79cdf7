"""The rules: they ask for what they need and no more, and name what their programs take."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import rule_graph
from beamuq.errors import BeamUQError
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import NAMED_BY
from beamuq_study.plan import check_study
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.rule_programs import OTHERS, arguments_of, words_by_name
from micro import micro_study
from run_job import program
from run_snakemake import snakemake

ROOT = Path(__file__).resolve().parents[1]
MINILM = "models/all-minilm-l6-v2/fetched.json"


def dry_run(*arguments: str) -> str:
    done = snakemake(ROOT, "--dry-run", "--cores", "1", "--nolock", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def planned() -> dict[str, str]:
    """What a dry run prints of the demo's everything, and of the paper's candidates and one model's
    table.
    """
    wanted = {"demo": ["all"], "paper": ["generations", "results/paper/tables/qa_gemma4b.csv"]}
    return {
        study: dry_run("--forceall", "--printshellcmds", *targets, "--config", f"study={study}")
        for study, targets in wanted.items()
    }


@pytest.mark.parametrize("study", ["demo", "paper"])
def test_every_command_names_what_its_program_takes(study: str, planned: dict[str, str]) -> None:
    shown = re.findall(
        r"^Shell command: python \S*scripts/(\w+).py (.*) > \S+ 2>&1$", planned[study], re.M
    )
    commands = [(rule, shlex.split(words)) for rule, words in shown]
    assert len(commands) > 30
    assert {rule for rule, _ in commands} >= {"questions", "prompts", "candidates", "similarity"}
    assert str(ROOT) not in planned[study][planned[study].index("rule ") :]
    for rule, words in commands:
        arguments_of(program(rule).run, words_by_name(words))


def test_every_rule_with_a_program_passes_what_it_needs() -> None:
    """Also rules that neither study has a job of: the map, shards."""
    text = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    rules = re.split(r"^rule ", text, flags=re.MULTILINE)[1:]
    assert len(rules) == 20
    for rule in rules:
        rule = rule.partition("\n\n\n")[0]  # what stands between rules is none of them
        (name,) = re.findall(r"SCRIPTS}/(\w+).py", rule)
        shell = rule.partition("    shell:\n")[2]
        named = {word.replace("-", "_") for word in re.findall(r"--([\w-]+)", shell)}
        of_program = inspect.signature(program(name).run).parameters
        needed = {of.name for of in of_program.values() if of.default is inspect.Parameter.empty}
        assert needed - OTHERS <= named, rule
        assert OTHERS & needed or named <= of_program.keys(), rule


def asked_by_rule() -> dict[str, str]:
    """What the text of each rule asks for as mem_mb; "" where it says nothing."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "workflow/rules").glob("*.smk"))
    )
    rules = re.split(r"^rule (\w+):", text, flags=re.MULTILINE)[1:]
    found = {}
    for name, body in zip(rules[::2], rules[1::2], strict=True):
        if re.search(r"^    (script|shell):", body, re.MULTILINE):
            told = re.search(r"mem_mb=(.*),", body)
            found[name] = told[1] if told else ""
    return found


def test_every_job_asks_for_memory_and_for_more_at_each_attempt() -> None:
    plan = Plan.load({"study": "demo", "device": "cpu"})
    ways = asked_by_rule()
    assert {
        way for way in ways.values() if not re.fullmatch(r"plan\.(asked_mb\(\d+\)|memory_mb)", way)
    } == set()
    for asked in (plan.asked_mb(2000), plan.memory_mb):
        first, second = (asked(None, attempt) for attempt in (1, 2))  # type: ignore[arg-type]
        assert second == 2 * first > 0


def test_the_documentation_says_what_each_rule_asks_for_and_profiles_do_not_contradict_it() -> None:
    page = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`memory_gb`.*|[\d.]+ GB) \| ((?:`\w+`(?:, )?)+) \|$", page, re.MULTILINE
    )
    told = {rule: amount for amount, rules in rows for rule in re.findall(r"`(\w+)`", rules)}
    ways = {
        rule: re.fullmatch(r"plan\.asked_mb\((\d+)\)", way) for rule, way in asked_by_rule().items()
    }
    asked = {
        rule: f"{int(way[1]) / 1000:g} GB" if way else "`memory_gb`" for rule, way in ways.items()
    }
    assert {rule: amount.split(",")[0] for rule, amount in told.items()} == asked
    slurm, pod, job = (
        yaml.safe_load((ROOT / "profiles" / name).read_text(encoding="utf-8"))
        for name in ("slurm/profile.yaml", "kubernetes/profile.yaml", "kubernetes/job.yaml")
    )
    assert [
        rule for rule, of in slurm["set-resources"].items() if "mem_mb" in of or rule not in asked
    ] == []
    (container,) = job["spec"]["template"]["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024**3
    assert 0 < pod["resources"]["mem_mb"] * 10**6 < limit


def test_rules_write_tables_where_exhibits_look_for_them() -> None:
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    for kind, names in NAMED_BY.items():
        assert (
            f'"results/{{study}}/{"/".join((kind, *(f"{{{name}}}" for name in names)))}.parquet"'
            in rules
        ), kind


def test_a_figure_pulls_only_its_own_cell() -> None:
    output = dry_run("--forceall", "figures/demo/redundancy.pdf")
    assert "candidates/smollm2-135m-plain/triviaqa/main.parquet" in output
    assert "smollm2-135m-chat" not in output
    assert "results/demo/evaluation" not in output


def test_make_demo_is_the_plain_command() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.partition("\ndemo: ")[2].partition("\n\n")[0].splitlines()[1:]
    assert recipe == ["\tsnakemake --cores all --config study=demo"]
    assert "`snakemake --cores all --config study=demo`" in (ROOT / "README.md").read_text()


def test_the_cell_of_the_first_figure_comes_first_then_those_of_the_main_recipe() -> None:
    plan = Plan.load({"study": "demo", "device": "cpu"})
    priorities = {
        cell: plan.priority(wildcards_of(cell.model, cell.dataset, cell.recipe))
        for cell in plan.grid.cells
    }
    first = Cell("smollm2-135m-plain", "triviaqa", "main")
    assert [cell for cell, priority in priorities.items() if priority == 2] == [first]
    assert {cell.recipe for cell, priority in priorities.items() if priority == 1} == {"main"}
    assert "main" not in {cell.recipe for cell, priority in priorities.items() if priority == 0}


def test_every_rule_of_a_cell_has_the_priority_of_its_cell() -> None:
    without = []
    for file in sorted((ROOT / "workflow/rules").glob("*.smk")):
        for block in re.split(r"^(?=rule )", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            is_of_a_cell = block.startswith("rule ") and "/{recipe}" in block.partition("log:")[2]
            if is_of_a_cell and "priority: plan.priority" not in block:
                without.append(block.partition(":")[0])
    assert without == []


def wildcards_of(model: str, dataset: str, recipe: str) -> Any:
    return SimpleNamespace(model=model, dataset=dataset, recipe=recipe)


def test_the_paper_study_plans_every_recipe(planned: dict[str, str]) -> None:
    plan = Plan.load({"study": "paper"})
    assert len(plan.grid.cells) == 36 + 4 + 4 + 2 + 12 + 12 + 6
    counted = re.search(r"^candidates\s+(\d+)$", planned["paper"], re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == len(plan.grid.cells)


def test_the_picture_of_the_rules_is_snakemake_s_own_graph_of_the_demo() -> None:
    """Else: snakemake --rulegraph --config study=demo | python tools/rule_graph.py
    docs/gallery/rules.svg.
    """
    done = snakemake(ROOT, "--rulegraph", "--nolock", "--config", "study=demo")
    assert done.returncode == 0, done.stderr
    assert (ROOT / "docs/gallery/rules.svg").read_text(encoding="utf-8") == rule_graph.svg(
        done.stdout
    )


def test_a_bad_study_stops_snakemake_with_one_line_and_no_traceback() -> None:
    done = snakemake(ROOT, "--dry-run", "--cores", "1", "--nolock", "--config", "study=dmo")
    assert done.returncode != 0
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert [line for line in lines if line.startswith("error: ")] == [
        next(line for line in lines if "did you mean 'demo'" in line)
    ]
    assert "Traceback" not in done.stdout + done.stderr


def test_auto_is_refused_before_anything_runs_on_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip(
        "snakemake_executor_plugin_slurm", reason="the extra 'slurm' is not installed"
    )
    shutil.copy(ROOT / "config.yaml", tmp_path)
    done = snakemake(
        tmp_path, "--executor", "slurm", "--jobs", "1", "results/demo/questions/coqa.parquet"
    )
    assert done.returncode != 0
    assert 'config.yaml: device: "auto": ' in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_study_called_like_one_of_the_projects_is_refused(
    tiny_models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(micro_study(tiny_models)))
    with pytest.raises(BeamUQError, match=r"demo\.yaml.*writes results/demo too; rename your file"):
        Plan.load({"study": str(path), "device": "cpu"})
    path.rename(tmp_path / "mine.yaml")
    assert Plan.load({"study": str(tmp_path / "mine.yaml"), "device": "cpu"}).name == "mine"
    assert Plan.load({"study": str(ROOT / "studies/demo.yaml"), "device": "cpu"}).name == "demo"


def test_what_another_study_fetched_at_another_commit_is_refused(
    tmp_path: Path, nli_from_hub: Path
) -> None:
    (nli_from_hub / "fetched.json").write_text(
        json.dumps({"source": "hub:org/nli", "revision": "a" * 40, "files": {}})
    )
    (tmp_path / "own.lock.json").write_text(
        json.dumps({"models": {"org/nli": {"commit": "a" * 40}}})
    )
    Plan.load({"study": "own.yaml", "device": "cpu"})
    (tmp_path / "own.lock.json").write_text(
        json.dumps({"models": {"org/nli": {"commit": "b" * 40}}})
    )
    with pytest.raises(
        BeamUQError,
        match=r"nli/fetched.json: is of commit a{40}, own.lock.json names b{40}.*delete",
    ):
        Plan.load({"study": "own.yaml", "device": "cpu"})


def test_a_split_of_another_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.load({"study": "paper", "device": "cpu"})
    monkeypatch.setattr(check_study, "source_of", lambda _: {"source": "hub:other/set"})
    monkeypatch.setattr(Path, "is_file", lambda path: path.suffix == ".parquet")
    with pytest.raises(
        BeamUQError,
        match=r"is of source hub:other/set, datasets\.\w+ asks for hub:\w+.*; delete it",
    ):
        check_study._check_revisions(plan.grid, plan.paths)


@pytest.mark.packaged
def test_going_offline_or_to_another_study_fetches_nothing_again_and_every_job_is_offline(
    tiny_models: Path, tmp_path: Path
) -> None:
    model = ROOT / "resources/models/all-minilm-l6-v2"
    if not model.is_dir():
        pytest.skip("resources/models/all-minilm-l6-v2 is not fetched")
    study = micro_study(tiny_models)
    source = {
        "kind": "embedding",
        "title": "e",
        "source": "packaged:all-minilm-l6-v2",
        "equivalence_threshold": 0.8,
    }
    folder = tmp_path / "place"
    folder.mkdir()
    for name in ("one", "other"):
        (folder / f"{name}.yaml").write_text(
            yaml.safe_dump(study | {"scorers": {"nli": source}}, sort_keys=False)
        )
    shutil.copy(ROOT / "config.yaml", folder)
    shutil.copytree(model, folder / MINILM.removesuffix("/fetched.json"), copy_function=os.link)
    (folder / MINILM).unlink()
    shutil.copy(model / "fetched.json", folder / MINILM)  # no link, whose time would change with it
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / "first").mkdir()
    (tmp_path / "first/sitecustomize.py").write_text(
        f"import os, pathlib, sys\nif len(sys.orig_argv) > 1:\n"
        f"    program = pathlib.Path(sys.orig_argv[1]).stem\n"
        f"    text = ''.join(f'{{name}}={{value}}\\n' for name, value in os.environ.items())\n"
        f"    pathlib.Path({str(seen)!r}, program).write_text(text)\n"
    )
    path = {"PYTHONPATH": str(tmp_path / "first"), "HF_HUB_OFFLINE": ""}

    def run(*arguments: str, study: str = "one") -> str:
        settings = (f"study={study}.yaml", "device=cpu", "models_root=models")
        options = [argument for argument in arguments if "=" not in argument]
        more = [argument for argument in arguments if "=" in argument]
        words = ("--nolock", "--cores", "1", *options, "--config", *settings, *more)
        done = snakemake(folder, *words, **path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("fetched", "--forcerun", "fetch_model")
    assert not list((folder / "models").glob(".*"))  # nobody filled it: it is whole
    assert "Nothing to be done" in run("-n", MINILM, "offline=true", study="other")
    run("results/one/questions/triviaqa.parquet", "offline=true")
    for step, offline in {"fetch_model": "0", "questions": "1"}.items():
        told = dict(
            line.split("=", 1) for line in (seen / step).read_text().splitlines() if "=" in line
        )
        switches = (
            "HF_HUB_OFFLINE",
            "TRANSFORMERS_OFFLINE",
            "HF_DATASETS_OFFLINE",
            "HF_HUB_DISABLE_TELEMETRY",
        )
        assert {told[name] for name in switches} == {"1"}, step
        assert told["BEAMUQ_OFFLINE"] == offline


def test_only_the_programs_that_fetch_ask_the_hub() -> None:
    files = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "workflow").rglob("*.py"),
        *(ROOT / "workflow").rglob("*.smk"),
    ]
    lifting = [path.name for path in files if "open_for_fetching(" in path.read_text()]
    assert sorted(lifting) == ["fetch_dataset.py", "fetch_model.py", "offline.py"]


PROGRAM_THAT_WARNS = """
import warnings
from pathlib import Path
from beamuq_study.rule_programs import run_program

def run(*, output: Path) -> None:
    warnings.warn("texts are cut", stacklevel=1)
    output.touch()

run_program(run, output="output")
"""


def test_a_program_prints_each_warning_as_one_line_of_its_log(tmp_path: Path) -> None:
    program_file = tmp_path / "warns.py"
    program_file.write_text(PROGRAM_THAT_WARNS)
    command = [sys.executable, str(program_file), "--output", str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "warning: texts are cut" in done.stderr.splitlines()
