"""The ledger sums what was measured; a prediction scales it by the work that is planned, and says that it is one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from beamuq import estimate, tables
from beamuq.errors import BeamUQError
from beamuq.estimate import Job
from beamuq.plan import Plan
from beamuq.steps import estimate as estimate_step
from beamuq.steps import ledger as ledger_step
from beamuq.study import Recipe

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.load({"study": "demo", "device": "cpu"})


@pytest.fixture(scope="module")
def titles(plan: Plan) -> dict[str, str]:
    return {key: model.title for key, model in plan.study.models.items()}


@pytest.fixture
def sample(plan: Plan) -> list[Job]:
    """Jobs of the whole demo: 5 tokens a candidate, 10 ms a token, a quarter of all pairs of candidates, 1 s a job."""
    jobs = []
    for cell in plan.cells.values():
        many = cell.questions * estimate.candidates_of(plan.study.recipes[cell.recipe])
        names = {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe}
        blank = Job("", names, "", "cpu", 1.0, 0.5, 100.0, cell.questions, 0, 0, 0, 1000)
        jobs.append(replace(blank, rule="candidates", candidates=many, tokens=5 * many, seconds=0.05 * many))
        for scorer in plan.scorers_of(cell):
            pairs = many**2 // (4 * cell.questions)
            kind = plan.study.scorers[scorer].kind
            jobs.append(replace(blank, rule="similarity", kind=kind, pairs=pairs))
        jobs.append(replace(blank, rule="quality", kind="answer_f1", device=""))
        jobs += [replace(blank, rule=rule, device="") for rule in ("scores", "evaluation") for _ in cell.scorers]
    jobs += [
        replace(
            jobs[0],
            rule="statistics",
            tokens=0,
            candidates=0,
            seconds=2.0,
            cell={"model": c.model, "dataset": c.dataset, "recipe": c.recipe},
        )
        for c in plan.statistics_cells
    ]
    return jobs


@pytest.mark.parametrize(
    ("title", "size"),
    [
        ("Gemma 3 4B base", 4e9),
        ("SmolLM2 135M chat", 1.35e8),
        ("Qwen 2.5 1.5b", 1.5e9),
        ("Tiny", None),
        ("Phi 4", None),
    ],
)
def test_a_models_size_is_read_from_its_title(title: str, size: float | None) -> None:
    assert estimate.parameters(title) == size


def test_candidates_are_counted_by_strategy() -> None:
    recipe = Recipe.model_validate(
        {
            "sample": {"size": 10, "temperatures": [0.5, 1.0]},
            "beam": {"widths": [1, 5]},
            "diverse": {"size": 10, "groups": [2, 5], "penalties": [0.5]},
            "hybrid": {"size": 10, "beams": [1, 2, 3]},
        }
    )
    assert estimate.candidates_of(recipe) == 1 + 20 + 6 + 20 + 30


def test_a_study_predicts_itself(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    for row in estimate.predict(plan, sample, titles):
        own = [job for job in sample if job.rule == row.rule]
        assert row.jobs == len(own)
        assert row.seconds == pytest.approx(sum(job.seconds for job in own))
        assert row.size == pytest.approx(sum(job.size for job in own))
        assert row.tokens == sum(job.tokens for job in own if row.rule == "candidates")
        assert row.pairs == pytest.approx(sum(job.pairs for job in own), rel=0.01)


def test_a_part_of_a_study_predicts_the_rest(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    part = [job for job in sample if job.cell["dataset"] != "coqa"]
    whole = {row.rule: row for row in estimate.predict(plan, sample, titles)}
    for row in estimate.predict(plan, part, titles):
        assert row.jobs == whole[row.rule].jobs
        assert row.tokens == whole[row.rule].tokens
    seconds = {row.rule: row.seconds for row in estimate.predict(plan, part, titles)}
    assert seconds["candidates"] == pytest.approx(whole["candidates"].seconds)


def test_decoding_grows_with_the_models_size(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    smaller = {key: title.replace("135M", "27M") for key, title in titles.items()}
    here = {row.rule: row.seconds for row in estimate.predict(plan, sample, titles)}
    there = {row.rule: row.seconds for row in estimate.predict(plan, sample, smaller)}
    assert there["candidates"] == pytest.approx(5 * (here["candidates"] or 0))
    assert there["similarity"] == here["similarity"]


def test_what_the_sample_cannot_tell_of_is_said(titles: dict[str, str], sample: list[Job]) -> None:
    paper = {row.rule: row for row in estimate.predict(Plan.load({"study": "paper"}), sample, titles)}
    assert paper["quality"].seconds is None
    assert paper["quality"].note == "not in the sample: alignscore"
    assert "nli" in paper["similarity"].note
    assert paper["candidates"].seconds is not None


def test_the_ledger_sums_by_rule(sample: list[Job]) -> None:
    on_card = [replace(job, device="cuda") if job.rule == "candidates" else job for job in sample]
    rows = {row["rule"]: row for row in estimate.ledger(on_card)}
    decoded = [job for job in sample if job.rule == "candidates"]
    assert rows["candidates"]["tokens"] == sum(job.tokens for job in decoded) == rows["total"]["tokens"]
    assert (
        rows["candidates"]["gpu_seconds"] == round(sum(job.seconds for job in decoded)) == rows["total"]["gpu_seconds"]
    )
    assert rows["quality"]["gpu_seconds"] == 0
    assert rows["total"]["jobs"] == len(sample)
    assert rows["total"]["peak_memory_mb"] == 100


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A study of one finished job, and of one whose table is gone."""
    folder = tmp_path / "results/demo"
    cell = {"model": "smollm2-135m-plain", "dataset": "coqa", "recipe": "main"}
    row = {"strategy": "greedy", "rank": 0, "text": "a", "token_texts": ["a", "b"], "token_logprobs": [-1.0, -1.0]}
    rows = [row | {"id": key, "token_ids": [1, 2], "logprob": -2.0, "terminated": True} for key in ("q1", "q2")]
    tables.write(
        folder / "candidates/smollm2-135m-plain/coqa/main.parquet",
        "candidates",
        rows,
        cell=cell,
        provenance={"device": "cuda", "settings": {}},
    )
    for dataset, numbers in {
        "coqa": "12.5\t0:00:12\t2046.1\t1\t1\t1\t0\t0\t11.0\t3.25",
        "gone": "1\t-\t-\t-\t-\t-\t-\t-\t-\t-",
    }.items():
        file = folder / f"benchmarks/candidates/smollm2-135m-plain/{dataset}/main.tsv"
        file.parent.mkdir(parents=True)
        file.write_text(HEADER + numbers + "\n")
    models = {"smollm2-135m-plain": {"title": "SmolLM2 135M few-shot"}}
    (folder / "study.json").write_text(json.dumps({"models": models}))
    return tmp_path / "results"


def test_a_job_is_read_from_its_benchmark_and_its_table(results: Path) -> None:
    (job,) = estimate.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb, job.device) == (12.5, 3.25, 2046.1, "cuda")
    assert (job.questions, job.candidates, job.tokens) == (2, 2, 4)


def test_a_job_too_short_to_be_looked_at_counts(results: Path) -> None:
    file = results / "demo/benchmarks/candidates/smollm2-135m-plain/coqa/main.tsv"
    file.write_text(HEADER + "0.1\t0:00:00\t-\t-\t-\t-\t-\t-\t-\tNA\n")
    (job,) = estimate.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb) == (0.1, 0.0, 0.0)


def test_the_shards_of_a_job_count(results: Path) -> None:
    for shard, seconds in {"1-of-2": 30, "2-of-2": 40}.items():
        file = results / f"demo/benchmarks/candidates_shard/smollm2-135m-plain/coqa/main/{shard}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + f"{seconds}\t0:00:30\t{seconds * 100}\t1\t1\t1\t0\t0\t11.0\t1\n")
    (job,) = estimate.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb) == (82.5, 5.25, 4000)


def test_the_ledger_is_written(results: Path) -> None:
    csv, markdown = results / "demo/ledger.csv", results / "demo/ledger.md"
    ledger_step.main(["--csv", str(csv), "--markdown", str(markdown)])
    assert list(pd.read_csv(csv)["rule"]) == ["candidates", "total"]
    assert "| candidates | 1 | 12 | 12 | 3 | 2,046 | 2 | 4 | 0 |" in markdown.read_text()


def test_a_prediction_says_that_it_is_one(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate_step.main(["--settings", '{"study": "paper", "device": "cuda"}', "--results", str(results)])
    told = capsys.readouterr().out
    assert "Study paper: 46 generations, " in told
    assert "To fetch: " in told
    assert "Weights of Llama 3.1 8B base in bfloat16: about 16.0 GB" in told
    assert "PREDICTION, not a measurement: scaled from 1 jobs of" in told
    assert "run on cuda" in told
    assert "without the rules that the sample cannot tell of" in told


def test_without_a_sample_there_is_no_prediction(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match="run the demo study first"):
        estimate_step.main(["--settings", '{"study": "paper", "device": "cuda"}', "--results", str(tmp_path)])
