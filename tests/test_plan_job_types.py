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

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.models.model_folder import model_identity
from beamuq.plan.job_types import MODELS, Job, MachineOptions, PromptsJob, SimilarityJob, job_type, read_job
from beamuq.plan.make_jobs import MADE_BY, READERS, Jobs
from beamuq.plan.study_on_machine import Plan
from beamuq.provenance import MadeWith
from beamuq.study_config import STUDIES
from run_job import run_job

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


@pytest.mark.parametrize("recipe", ["truth", "widths"])
def test_decisions_of_any_scored_cell_can_be_asked_for(recipe: str, plan: Plan) -> None:
    job = job_of(plan, "decisions", recipe=recipe)
    assert str(job.outputs()["scored"]).endswith(f"embedding/smollm2-135m-plain/triviaqa/{recipe}.scored.jsonl")


@pytest.mark.parametrize("rule", RULES)
def test_a_job_writes_what_its_rule_does(rule: str, plan: Plan) -> None:
    job = job_of(plan, rule)
    assert set(job.outputs()) == set(job_type(rule).patterns())
    assert not [path for path in job.outputs().values() if "{" in str(path)]
    assert "rerun_on" not in job.text()


@pytest.mark.parametrize("rule", sorted({*RULES} - {"estimate"}))  # which is about the machine, and writes no file
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


@pytest.mark.parametrize("merged", [False, True])
def test_merged_endings_are_a_setting_of_a_recipe_where_finished_decodings_have_them(merged: bool, plan: Plan) -> None:
    """Beside the recipe, as when the key was the study's: no decoding runs again."""
    recipe = plan.study.recipes["main"].model_copy(update={"merge_stop_tokens": merged})
    study = plan.study.model_copy(update={"recipes": plan.study.recipes | {"main": recipe}})
    settings = replace(plan, study=study).jobs.candidates(SimpleNamespace(**WHERE)).settings  # type: ignore[arg-type]
    assert settings.merge_stop_tokens == merged
    assert "merge_stop_tokens" not in settings.recipe


def test_a_recipe_may_decode_fewer_questions_together_and_nothing_else_changes(plan: Plan) -> None:
    """Neither another recipe's jobs nor what exhibits are told of the study."""
    recipe = plan.study.recipes["truth"].model_copy(update={"batch_questions": 3})
    fewer = replace(plan, study=plan.study.model_copy(update={"recipes": plan.study.recipes | {"truth": recipe}}))
    before, after = (job_of(of, "candidates", recipe="truth").settings.model_dump() for of in (plan, fewer))  # type: ignore[attr-defined]
    assert after == before | {"batch_questions": 3}
    for rule in ("candidates", "study"):
        assert job_of(fewer, rule).text() == job_of(plan, rule).text()


@pytest.mark.parametrize("rule", RULES)
def test_a_job_is_told_what_the_tables_it_reads_have_to_be_made_with(rule: str, plan: Plan) -> None:
    wildcards: Any = SimpleNamespace(**WHERE, name="qa_mean_prr" if rule == "table" else "redundancy")
    told = read_job(MachineOptions, plan.machine_options(rule)(wildcards, None, 1), "--machine").expected
    read = getattr(plan.jobs, rule)(wildcards).inputs() if rule in READERS else {}
    further = {"quality exact_match"} if rule == "evaluation" else set()
    ours = {name for name, file in read.items() if "results" in Path(str(file)).parts}
    assert set(told) == further | ours - {"prompts"}  # their footers name no setting
    for name, made in told.items():
        kind, _, metric = name.partition(" ")
        other = {"metric": metric} if metric else {"scorer": "lexical"} if name == "cross_similarity" else {}
        job = job_of(plan, MADE_BY[kind], **other)
        settings = json.loads(job.text())["settings"]
        assert settings | made.settings == settings
        assert made.settings
        files = {model: str(file) for model, file in job.inputs().items() if model in MODELS}
        assert {model: str(file) for model, file in made.manifests.items()} == files


def test_what_a_table_must_be_made_with_is_asked_of_the_study(own_model: Path) -> None:
    def told() -> MadeWith:
        jobs = Plan.load({"study": "own.yaml", "device": "cpu"}).jobs
        return jobs.expected("scores", SimpleNamespace(**WHERE))["similarity"]  # type: ignore[arg-type]

    first = told()
    assert (first.settings["name"], list(first.folders), first.manifests) == ("embedding", ["model"], {})
    (own_model / "model.safetensors").write_text("retrained weights")
    assert told().folders != first.folders


def test_optional_files_are_inputs_where_they_are_given(plan: Plan) -> None:
    named = set(job_of(plan, "scores").inputs())
    assert named == {"questions", "candidates", "similarity", "statistics", "cross_similarity"}
    widths = plan.jobs.scores(SimpleNamespace(**WHERE | {"recipe": "widths"}))  # type: ignore[arg-type]
    assert set(widths.inputs()) == {"questions", "candidates", "similarity"}


def test_a_similarity_job_says_which_strategies_need_few_pairs_only_where_any_do(plan: Plan) -> None:
    """So a file of before is not computed again."""
    job = job_of(plan, "similarity")
    assert "only_with_answer" not in job.text()
    assert "only_with_answer" not in job.settings.model_dump(mode="json", exclude={"source"})
    settings = job.settings.model_copy(update={"only_with_answer": ("exact M=10",)})
    text = job.model_copy(update={"settings": settings}).text()
    assert read_job(SimilarityJob, text).settings == settings


def test_a_recipe_of_estimators_compares_with_the_answer_alone_and_takes_a_table_that_holds_more(
    plan: Plan, tmp_path: Path
) -> None:
    """So a file of before is neither refused nor made again."""
    jobs = replace(plan.jobs, paths=replace(plan.paths, name=str(tmp_path)))
    where = SimpleNamespace(**WHERE | {"recipe": "truth"})
    job = jobs.similarity(where)  # type: ignore[arg-type]
    assert job.settings.only_with_answer == tuple(plan.grid.study.recipes["truth"].strategies())
    before = plan.grid.only_for_estimators("truth")
    assert 0 < len(before) < len(job.settings.only_with_answer)
    for kept in (job.settings.only_with_answer, before):
        settings = job.settings.model_copy(update={"only_with_answer": kept}).model_dump(mode="json")
        cell = {name: getattr(where, name) for name in ("model", "dataset", "recipe", "scorer")}
        table = parquet_tables.SCHEMAS["similarity"].empty_table()
        parquet_tables.write(job.similarity, "similarity", table, cell=cell, provenance={"settings": settings})
        assert jobs.similarity(where).settings.only_with_answer == kept  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({"templat": "t"}, "templat", '"t"'),
        ({"settings": {"style": "chat", "dataset": "web"}}, "settings.style", '"chat"'),
        ({"format": "one"}, "format", '"one"'),
        ({"questions": None}, "questions", "null"),
    ],
)
def test_what_is_no_job_is_told_by_key_and_value(change: dict[str, Any], key: str, value: str) -> None:
    files = {name: f"{name}.parquet" for name in ("template", "questions", "shots", "prompts")}
    job = files | {"settings": {"style": "base", "dataset": "web"}, "format": 1} | change
    with pytest.raises(BeamUQError) as error:
        read_job(PromptsJob, json.dumps(job))
    assert str(error.value).startswith(f"--job: {key}: {value}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("machine", "key"), [({"threads": 0}, "threads"), ({"thread": 1}, "thread")])
def test_a_bad_machine_is_told_too(machine: dict[str, Any], key: str, tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=f"--machine: {key}: "):
        run_job("fetch_model", {"source": "packaged:x", "model": tmp_path / "fetched.json"}, **machine)


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


@pytest.mark.parametrize(
    ("of_this_version", "same_content", "reruns_nothing"),
    [(False, "loaded", True), (False, "visible", True), (False, "", False), (True, "loaded", False)],
)
def test_a_table_of_the_version_before_keeps_its_job_until_the_weights_change(
    of_this_version: bool, same_content: str, reruns_nothing: bool, own_model: Path, tmp_path: Path
) -> None:
    (own_model / "README.md").write_text("which the version before counted")
    said = folders_of("candidates")
    every_file = same_content == "visible"
    content = model_identity(own_model, every_file=every_file)["content"] if same_content else "0" * 64
    made: dict[str, Any] = {"models": {"model": {"content": content}}} | ({"folders": said} if of_this_version else {})
    table = tmp_path / "results/own/candidates" / WHERE["model"] / WHERE["dataset"] / f"{WHERE['recipe']}.parquet"
    parquet_tables.write(table, "candidates", [], provenance=made)
    assert folders_of("candidates") == ({} if reruns_nothing else said)
    assert own_model.is_dir()


def test_a_damaged_manifest_of_a_folder_is_told_before_anything_is_planned(own_model: Path) -> None:
    (own_model / "fetched.json").write_text("{broken")
    with pytest.raises(BeamUQError, match=r"fetched\.json: not a readable manifest"):
        Plan.load({"study": "own.yaml", "device": "cpu"})


def test_fetched_models_are_followed_by_their_manifests_alone(plan: Plan) -> None:
    assert not any(job_of(plan, rule).folders for rule in RULES)


def test_scorers_run_in_float32_whatever_the_language_model_runs_in() -> None:
    """On a card everything ran in bfloat16, which the release's scorers do not."""
    jobs = Plan.load({"study": "paper", "device": "cuda"}).jobs
    cell = SimpleNamespace(model="gemma-3-4b-base", dataset="coqa", recipe="main", scorer="nli", metric="alignscore")
    assert jobs.candidates(cell).dtype == "bfloat16"
    assert (jobs.similarity(cell).dtype, jobs.quality(cell).dtype) == ("float32", "float32")
    assert (jobs.statistics(cell).dtype, jobs.statistics(cell).scorer_dtype) == ("bfloat16", "float32")


def test_one_dtype_for_all_is_said_once(plan: Plan) -> None:
    """So that results of the version before, on a CPU, are not made again."""
    assert "scorer_dtype" not in job_of(plan, "statistics").text()
