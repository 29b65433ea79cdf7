"""The ledger sums what was measured; a prediction scales it by the work that is planned, and says that it is one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from beamuq import artifacts
from beamuq.cost import measured_costs
from beamuq.cost.measured_costs import Job
from beamuq.machine import load_machine
from beamuq.plan.jobs import Plan
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
        many = cell.questions * measured_costs.candidates_of(plan.study.recipes[cell.recipe])
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
    assert measured_costs.parameters(title) == size


def test_candidates_are_counted_by_strategy() -> None:
    recipe = Recipe.model_validate(
        {
            "sample": {"size": 10, "temperatures": [0.5, 1.0]},
            "beam": {"widths": [1, 5]},
            "diverse": {"size": 10, "groups": [2, 5], "penalties": [0.5]},
            "hybrid": {"size": 10, "beams": [1, 2, 3]},
        }
    )
    assert measured_costs.candidates_of(recipe) == 1 + 20 + 6 + 20 + 30


def test_a_study_predicts_itself(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    for row in measured_costs.predict(plan, sample, titles):
        own = [job for job in sample if job.rule == row.rule]
        assert row.jobs == len(own)
        assert row.seconds == pytest.approx(sum(job.seconds for job in own))
        assert row.size == pytest.approx(sum(job.size for job in own))
        assert row.tokens == sum(job.tokens for job in own if row.rule == "candidates")
        assert row.pairs == pytest.approx(sum(job.pairs for job in own), rel=0.01)


def test_a_part_of_a_study_predicts_the_rest(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    part = [job for job in sample if job.cell["dataset"] != "coqa"]
    whole = {row.rule: row for row in measured_costs.predict(plan, sample, titles)}
    for row in measured_costs.predict(plan, part, titles):
        assert row.jobs == whole[row.rule].jobs
        assert row.tokens == whole[row.rule].tokens
    seconds = {row.rule: row.seconds for row in measured_costs.predict(plan, part, titles)}
    assert seconds["candidates"] == pytest.approx(whole["candidates"].seconds)


def test_decoding_grows_with_the_models_size(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    smaller = {key: title.replace("135M", "27M") for key, title in titles.items()}
    here = {row.rule: row.seconds for row in measured_costs.predict(plan, sample, titles)}
    there = {row.rule: row.seconds for row in measured_costs.predict(plan, sample, smaller)}
    assert there["candidates"] == pytest.approx(5 * (here["candidates"] or 0))
    assert there["similarity"] == here["similarity"]


def test_what_the_sample_cannot_tell_of_is_said(titles: dict[str, str], sample: list[Job]) -> None:
    paper = {row.rule: row for row in measured_costs.predict(Plan.load({"study": "paper"}), sample, titles)}
    assert paper["quality"].seconds is None
    assert paper["quality"].note == "not in the sample: alignscore"
    assert "nli" in paper["similarity"].note
    assert paper["candidates"].seconds is not None


def test_the_ledger_sums_by_rule(sample: list[Job]) -> None:
    on_card = [replace(job, device="cuda") if job.rule == "candidates" else job for job in sample]
    rows = {row["rule"]: row for row in measured_costs.ledger(on_card)}
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
    artifacts.write(
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
    (job,) = measured_costs.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb, job.device) == (12.5, 3.25, 2046.1, "cuda")
    assert (job.questions, job.candidates, job.tokens) == (2, 2, 4)


def test_a_job_too_short_to_be_looked_at_counts(results: Path) -> None:
    file = results / "demo/benchmarks/candidates/smollm2-135m-plain/coqa/main.tsv"
    file.write_text(HEADER + "0.1\t0:00:00\t-\t-\t-\t-\t-\t-\t-\tNA\n")
    (job,) = measured_costs.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb) == (0.1, 0.0, 0.0)


def test_the_shards_of_a_job_count(results: Path) -> None:
    for shard, seconds in {"1-of-2": 30, "2-of-2": 40}.items():
        file = results / f"demo/benchmarks/candidates_shard/smollm2-135m-plain/coqa/main/{shard}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + f"{seconds}\t0:00:30\t{seconds * 100}\t1\t1\t1\t0\t0\t11.0\t1\n")
    (job,) = measured_costs.measured(results / "demo")
    assert (job.seconds, job.cpu_seconds, job.memory_mb) == (82.5, 5.25, 4000)


def test_a_cell_that_is_decoded_again_forgets_what_it_took_before(
    results: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    cell = {"model": "smollm2-135m-plain", "dataset": "coqa", "recipe": "main"}
    folder = results / "demo/benchmarks/candidates_shard/smollm2-135m-plain/coqa/main"
    others = [folder.parents[1] / name / "main/1-of-2.tsv" for name in ("squad_v2", "coqa2")]
    for file in (*others, *(folder / f"{name}.tsv" for name in ("1-of-2", "2-of-2", "1-of-12", "11-of-12"))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + "30\t0:00:30\t1\t1\t1\t1\t0\t0\t1\t1\n")
    sharded = Plan(plan.study, plan.machine.model_copy(update={"shards": 2}), plan.name, plan.path)

    def job(rule: str, **wildcards: str) -> SimpleNamespace:
        return SimpleNamespace(rule=SimpleNamespace(name=rule), wildcards_dict=wildcards)

    measured_costs.forget(sharded, [job("quality", metric="answer_f1", **cell), job("ledger")])
    assert len(list(folder.iterdir())) == 4
    measured_costs.forget(sharded, [job("candidates", **cell)])
    assert sorted(file.name for file in folder.iterdir()) == ["1-of-2.tsv", "2-of-2.tsv"]
    assert measured_costs.measured(results / "demo") == []
    measured_costs.forget(plan, [job("candidates", **cell)])
    assert not list(folder.iterdir())
    assert all(file.is_file() for file in others)


def test_searches_of_ones_own_are_said_not_to_count(plan: Plan, titles: dict[str, str], sample: list[Job]) -> None:
    search = {"strategy": "wide M=4", "policy": "my_strategy:Wide"}
    recipe = Recipe.model_validate(plan.study.recipes["main"].model_dump() | {"custom": [search]})
    study = plan.study.model_copy(update={"recipes": plan.study.recipes | {"main": recipe}})
    rows = {
        row.rule: row.note
        for row in measured_costs.predict(Plan(study, plan.machine, plan.name, plan.path), sample, titles)
    }
    note = "searches of one's own not counted: wide M=4"
    assert [rule for rule, told in rows.items() if told == note] == ["candidates", "similarity", "scores"]
    assert not any(row.note for row in measured_costs.predict(plan, sample, titles))


def written_ledger(results: Path, plan: Plan, *tables: str) -> tuple[pd.DataFrame, str, str]:
    """CSV, Markdown and page of the ledger over these tables."""
    folder = results / "demo"
    (folder / "study.json").write_text(plan.exhibit_study)
    files = [folder / f"ledger.{suffix}" for suffix in ("csv", "md", "html")]
    options = ["--study", str(folder / "study.json"), "--tables", *(str(folder / table) for table in tables)]
    options += ["--csv", str(files[0]), "--markdown", str(files[1]), "--html", str(files[2])]
    ledger_step.main(options)
    return pd.read_csv(files[0]), files[1].read_text(), files[2].read_text()


DECODED = "candidates/smollm2-135m-plain/coqa/main.parquet"


def test_the_ledger_is_written(results: Path, plan: Plan) -> None:
    frame, markdown, page = written_ledger(results, plan, DECODED)
    assert list(frame["rule"]) == ["candidates", "total"]
    assert frame["seconds"].tolist() == frame["gpu_seconds"].tolist() == [12, 12]
    assert frame["device"].tolist() == ["GPU (cuda)", "GPU (cuda)"]
    assert "| candidates | 1 | 12 | 12 | 3 | 2,046 | 2 | 4 | 0 |" in markdown
    assert "<td>GPU (cuda)</td>" in page
    assert "No benchmark" not in markdown + page


def test_rules_without_a_benchmark_are_named_and_nothing_fails(results: Path, plan: Plan) -> None:
    gone = [
        "candidates/smollm2-135m-plain/gone/main.parquet",
        "evaluation/lexical/smollm2-135m-plain/coqa/main.parquet",
    ]
    frame, markdown, page = written_ledger(results, plan, DECODED, *gone)
    assert list(frame["rule"]) == ["candidates", "evaluation", "total"]
    assert (frame["jobs"].tolist(), frame["tables"].tolist()) == ([1, 0, 1], [2, 1, 3])
    for text in (markdown, page):
        assert "No benchmark is beside the tables of: candidates (1 of 2 jobs), evaluation (1 of 1 jobs)." in text


def test_jobs_that_the_study_no_longer_has_do_not_count(results: Path, plan: Plan) -> None:
    frame, _, page = written_ledger(results, plan, "candidates/smollm2-135m-plain/gone/main.parquet")
    assert frame["seconds"].tolist() == [0, 0]
    assert "not measured" in page


def test_the_ledger_follows_benchmarks_and_asks_for_none_that_is_gone(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan(plan.study, plan.machine, plan.name, plan.path)
    fresh = plan.ledger_inputs(None)  # type: ignore[arg-type]
    assert len(fresh["benchmarks"]) == len(fresh["tables"]) == len(plan.measured)
    made, copied = (Path(fresh["tables"][place]) for place in (0, 1))
    for path in (made, copied, Path(fresh["benchmarks"][0])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert plan.ledger_inputs(None)["benchmarks"] == [fresh["benchmarks"][0], *fresh["benchmarks"][2:]]  # type: ignore[arg-type]


def test_a_prediction_says_that_it_is_one(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate_step.main(["--settings", '{"study": "paper", "device": "cuda"}', "--results", str(results)])
    told = capsys.readouterr().out
    assert "Study paper: 46 generations, " in told
    assert "To fetch: " in told
    assert "Weights of Llama 3.1 8B base in bfloat16: about 16.0 GB" in told
    assert "PREDICTION, not a measurement: scaled from 1 jobs of" in told
    assert "run on cuda" in told
    assert "without the rules that the sample cannot tell of" in told


def test_without_a_sample_the_rest_is_told_and_the_last_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    estimate_step.main(["--settings", '{"study": "paper", "device": "cuda"}', "--results", str(tmp_path)])
    told = capsys.readouterr().out
    assert "Study paper: 46 generations, " in told
    assert "PREDICTION" not in told
    assert told.rstrip().splitlines()[-1].startswith("No measured sample yet, so no time is predicted: run the demo")


def test_yaml_words_on_the_command_line_mean_what_they_mean_in_a_file() -> None:
    machine = load_machine({"offline": "true", "data_root": "null"})
    assert (machine.offline, machine.data_root) == (True, None)
