"""Jobs travel as one text and come back the same; what is not such a job is told by key and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
import yaml

from beamuq.errors import BeamUQError
from beamuq.plan.job_types import Job, MachineOptions, PromptsJob, job_type, read_job
from beamuq.plan.make_jobs import Jobs
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import STUDIES

WHERE = {
    "model": "smollm2-135m-plain",
    "dataset": "triviaqa",
    "recipe": "main",
    "scorer": "embedding",
    "metric": "answer_f1",
    "style": "base",
    "folder": "all-minilm-l6-v2",
    "split": "validation",
    "shard": "1-of-2",
}
RULES = [rule for rule in vars(Jobs) if job_type(rule) is not Job]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.load({"study": "demo", "device": "cpu"})


def job_of(plan: Plan, rule: str, **of: str) -> Job:
    name = "qa_mean_prr" if rule == "table" else "redundancy"
    make: Callable[[Any], Job] = getattr(plan.jobs, rule)
    return make(SimpleNamespace(**WHERE | of, name=name))


@pytest.mark.parametrize("rule", RULES)
def test_a_job_comes_back_as_the_type_that_its_step_takes(rule: str, plan: Plan) -> None:
    job = job_of(plan, rule)
    module = __import__(f"beamuq.steps.{rule.removesuffix('_shard')}", fromlist=["run"])
    kind = get_type_hints(module.run)["job"]
    assert read_job(kind, job.text()).model_dump() == job.model_dump()


@pytest.mark.parametrize("rule", RULES)
def test_a_job_writes_what_its_rule_does(rule: str, plan: Plan) -> None:
    job = job_of(plan, rule)
    assert set(job.outputs()) == set(job_type(rule).patterns())
    assert not [path for path in job.outputs().values() if "{" in str(path)]
    assert "rerun_on" not in job.text()


@pytest.mark.parametrize("rule", RULES)
def test_no_job_names_how_the_machine_runs_it(rule: str, plan: Plan) -> None:
    machine = {"cache_root": "elsewhere", "offline": True, "memory_gb": 99}
    other = Plan.load({"study": "demo", "device": "cpu"} | machine)
    assert job_of(other, rule).text() == job_of(plan, rule).text()


def test_cards_of_a_model_are_asked_for_and_run_nothing_again() -> None:
    plan, wildcards = Plan.load({"study": "demo", "device": "cuda"}), SimpleNamespace(**WHERE)
    model = plan.study.models[WHERE["model"]].model_copy(update={"cards": 2})
    study = plan.study.model_copy(update={"models": plan.study.models | {WHERE["model"]: model}})
    spread = replace(plan, study=study)
    asking: list[Callable[[Any], int]] = [spread.shard_gpus, spread.candidates_gpus, spread.statistics_gpus]
    assert [gpus(wildcards) for gpus in asking] == [2, 2, 2]
    assert spread.gpus == 1
    assert [json.loads(each.machine_options("candidates")(wildcards, None, 1))["cards"] for each in (plan, spread)] == [
        1,
        2,
    ]  # type: ignore[arg-type]
    for rule in ("candidates", "candidates_shard", "statistics"):
        assert job_of(spread, rule).text() == job_of(plan, rule).text()


def test_a_recipe_may_decode_fewer_questions_together_and_nothing_else_changes(plan: Plan) -> None:
    """Neither another recipe's jobs nor what exhibits are told of the study."""
    recipe = plan.study.recipes["truth"].model_copy(update={"batch_questions": 3})
    fewer = replace(plan, study=plan.study.model_copy(update={"recipes": plan.study.recipes | {"truth": recipe}}))
    before, after = (job_of(of, "candidates", recipe="truth").settings.model_dump() for of in (plan, fewer))  # type: ignore[attr-defined]
    assert after == before | {"batch_questions": 3}
    for rule in ("candidates", "study"):
        assert job_of(fewer, rule).text() == job_of(plan, rule).text()


def test_the_settings_of_the_tables_that_a_job_reads_are_asked_for(plan: Plan) -> None:
    wildcards: Any = SimpleNamespace(**WHERE)
    told = read_job(MachineOptions, plan.machine_options("evaluation")(wildcards, None, 1), "--machine").expected
    assert set(told) == {"questions", "candidates", "scores", "quality", "quality exact_match"}
    for name, settings in told.items():
        kind, _, metric = name.partition(" ")
        job = job_of(plan, kind, **({"metric": metric} if metric else {}))
        assert settings.items() <= json.loads(job.text())["settings"].items()


def test_optional_files_are_inputs_where_they_are_given(plan: Plan) -> None:
    named = set(job_of(plan, "scores").inputs())
    assert named == {"questions", "candidates", "similarity", "statistics", "cross_similarity"}
    widths = plan.jobs.scores(SimpleNamespace(**WHERE | {"recipe": "widths"}))  # type: ignore[arg-type]
    assert set(widths.inputs()) == {"questions", "candidates", "similarity"}


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({"templat": "t"}, "templat", '"t"'),
        ({"settings": {"style": "chat", "dataset": "web"}}, "settings.style", '"chat"'),
    ],
)
def test_what_is_no_job_is_told_by_key_and_value(change: dict[str, Any], key: str, value: str) -> None:
    files = {name: f"{name}.parquet" for name in ("template", "questions", "shots", "prompts")}
    job = files | {"settings": {"style": "base", "dataset": "web"}, "format": 1} | change
    with pytest.raises(BeamUQError) as error:
        read_job(PromptsJob, json.dumps(job))
    assert str(error.value).startswith(f"--job: {key}: {value}: ")
    assert "\n" not in str(error.value)


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder and, beside it, a study that decodes with it and scores with it, where a user would start it."""
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text(name)
    study = yaml.safe_load((STUDIES / "demo.yaml").read_text())
    study["models"][WHERE["model"]]["source"] = study["scorers"]["embedding"]["source"] = f"folder:{folder}"
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.chdir(tmp_path)
    return folder


def folders_of(rule: str) -> dict[str, str]:
    job = job_of(Plan.load({"study": "own.yaml", "device": "cpu"}), rule)
    assert ('"folders"' in job.text()) == bool(job.folders)
    return job.folders


LOADED = {"candidates": ["model"], "similarity": ["model"], "statistics": ["language_model", "nli"], "quality": []}


@pytest.mark.parametrize("rule", LOADED)
def test_the_weights_of_a_folder_of_ones_own_decide_what_runs_again(rule: str, own_model: Path) -> None:
    first = folders_of(rule)
    assert list(first) == LOADED[rule]
    assert folders_of(rule) == first
    (own_model / "config.json").touch()
    (own_model / "checkpoint-500").mkdir()
    for name in ("README.md", "training_args.bin", "checkpoint-500/model.safetensors"):
        (own_model / name).write_text("which nothing loads")
    assert folders_of(rule) == first
    (own_model / "model.safetensors").write_text("retrained weights")
    again = folders_of(rule)
    assert all(again[name] != first[name] for name in LOADED[rule])


def test_a_plug_in_may_read_every_file_of_its_folder(own_model: Path, tmp_path: Path) -> None:
    study = yaml.safe_load((tmp_path / "own.yaml").read_text())
    study["scorers"]["embedding"]["kind"] = "my_similarity:Scorer"
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "my_similarity.py").write_text("class Scorer: ...")
    first = folders_of("similarity"), folders_of("candidates")
    (own_model / "head.onnx").write_text("which the plug-in may load")
    assert folders_of("similarity") != first[0]
    assert folders_of("candidates") == first[1]


def test_scorers_run_in_float32_whatever_the_language_model_runs_in() -> None:
    """On a card everything ran in bfloat16, which the release's scorers do not."""
    jobs = Plan.load({"study": "paper", "device": "cuda"}).jobs
    cell = SimpleNamespace(model="gemma-3-4b-base", dataset="coqa", recipe="main", scorer="nli", metric="alignscore")
    assert jobs.candidates(cell).dtype == "bfloat16"
    assert (jobs.similarity(cell).dtype, jobs.quality(cell).dtype) == ("float32", "float32")
    assert (jobs.statistics(cell).dtype, jobs.statistics(cell).scorer_dtype) == ("bfloat16", "float32")
