"""Files of another run for the same cell are refused, by what the footers say of how they were made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import synthetic
from beamuq import parquet_tables
from beamuq.data.question import question
from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.parquet_tables import Artifact
from beamuq.plan.job_types import job_type
from beamuq.provenance import MadeWith, check_made_with, check_one_run, check_settings, read_cell
from beamuq.study_config import PROMPTS, load_study
from run_job import run_job

CELL = {"model": "smollm2-135m-plain", "dataset": "triviaqa", "recipe": "main"}
SCORER, METRIC = {"scorer": "embedding"}, {"metric": "answer_f1"}
OF = {
    "questions": {"dataset": CELL["dataset"]},
    "candidates": CELL,
    "similarity": CELL | SCORER,
    "quality": CELL | METRIC,
}
MAIN = {"sample": "sample T=1.0", "beam": "beam M=10"}
SCORING = {"methods": ["Prob", "Dissimilarity"], "answer_source": ["greedy", "top_beam"], "main": MAIN}
MEASURED = {"metrics": ["PRR"], "quality": "answer_f1", "resamples": 100}


def made(folder: Path, seed: int) -> dict[str, Path]:
    """The tables of one cell up to its evaluation, as a run with this seed leaves them."""
    found: dict[str, Path] = {}
    for kind, table in synthetic.cell(N=12, seed=seed).items():
        if kind in OF:
            found[kind] = folder / Artifact(kind, **OF[kind]).path
            settings = {"seed": seed} if kind in ("questions", "candidates") else METRIC if kind == "quality" else {}
            inputs = {
                name: parquet_tables.file_sha256(found[name])
                for name in ("candidates", "questions")
                if kind in ("similarity", "quality") and name in found
            }
            facts = {"settings": settings, "inputs": inputs}
            parquet_tables.write(found[kind], kind, table, cell=OF[kind], provenance=facts)
    for kind in ("scores", "evaluation", "replicates"):
        found[kind] = folder / Artifact(kind, **CELL, **SCORER).path
    score(found, seed)
    evaluate(found, seed)
    return found


def score(files: dict[str, Path], seed: int) -> None:
    read = {name: files[name] for name in ("questions", "candidates", "similarity", "scores")}
    run_job("scores", read | {"settings": SCORING | {"seed": seed}})


def evaluate(files: dict[str, Path], seed: int, **settings: Any) -> None:
    names = ("questions", "scores", "quality", "further_qualities", "evaluation", "replicates")
    read = {name: files[name] for name in names if name in files}
    run_job("evaluation", read | {"settings": MEASURED | {"seed": seed} | settings})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], dict[str, Path]]:
    folder = tmp_path_factory.mktemp("runs")
    return made(folder / "own", 1), made(folder / "other", 77)


@pytest.fixture
def own(runs: tuple[dict[str, Path], dict[str, Path]], tmp_path: Path) -> dict[str, Path]:
    """A copy of seed 1's files, to put a file of seed 77's into."""
    root = runs[0]["questions"].parents[1]
    shutil.copytree(root, tmp_path / "own")
    return {kind: tmp_path / "own" / path.relative_to(root) for kind, path in runs[0].items()}


def swap(own: dict[str, Path], runs: tuple[dict[str, Path], dict[str, Path]], kind: str) -> None:
    shutil.copy(runs[1][kind], own[kind])


def test_the_files_of_one_run_are_read_again(own: dict[str, Path]) -> None:
    before = own["evaluation"].read_bytes()
    score(own, 1)
    evaluate(own, 1)
    assert own["evaluation"].read_bytes() == before
    check_one_run(map(parquet_tables.read_footer, own.values()))


READ = {score: ("questions", "candidates", "similarity"), evaluate: ("questions", "scores", "quality")}


@pytest.mark.parametrize(("step", "kind"), [(step, kind) for step, kinds in READ.items() for kind in kinds])
def test_another_runs_file_is_neither_scored_nor_evaluated(
    step: Callable[[Any, int], None], kind: str, own: dict[str, Path], runs: Any
) -> None:
    swap(own, runs, kind)
    with pytest.raises(BeamUQError, match=r"\.parquet: was made with .* (run: )?delete it and run again"):
        step(own, 1)


def test_scores_and_quality_of_other_candidates_name_each_other(own: dict[str, Path], runs: Any) -> None:
    swap(own, runs, "quality")
    tables = [parquet_tables.read_footer(own[kind]) for kind in ("scores", "quality")]
    with pytest.raises(BeamUQError, match=rf"{own['quality']}: was made with another candidates file than .*/scores/"):
        check_one_run(tables)


def test_a_further_quality_of_another_run_is_not_read_with_the_evaluation(own: dict[str, Path], runs: Any) -> None:
    place = {"metric": "exact_match"}
    further = own["quality"].parents[4] / Artifact("quality", **CELL, **place).path
    for source in (own, runs[1]):
        table = parquet_tables.read(source["quality"], "quality")
        made = table.provenance | {"settings": place}
        parquet_tables.write(further, "quality", table.table, cell=CELL | place, provenance=made)
        if source is own:
            own["further_qualities"] = [further]  # type: ignore[assignment]
            evaluate(own, 1, further_qualities={"exact_match": 0.5})
            check_one_run(map(parquet_tables.read_footer, (own["evaluation"], further)))
    with pytest.raises(BeamUQError, match=r"evaluation.*: was made with another quality exact_match file than "):
        check_one_run(map(parquet_tables.read_footer, (further, own["evaluation"])))


def test_a_file_of_another_quality_is_not_evaluated(own: dict[str, Path]) -> None:
    with pytest.raises(BeamUQError, match=r"was made with metric 'answer_f1', 'alignscore' is asked for"):
        evaluate(own, 1, quality="alignscore")


@pytest.mark.parametrize("kind", ["candidates", "questions"])
def test_questions_and_candidates_of_two_runs_are_not_judged(kind: str, own: dict[str, Path], runs: Any) -> None:
    swap(own, runs, kind)
    with pytest.raises(BeamUQError, match="was made with another seed than"):
        read_cell({name: (name, own[name]) for name in ("candidates", "questions")}, {})


MODEL = {"source": "hub:a/b", "revision": "1", "content": "1" * 64}
READ_BY: dict[str, dict[str, Any]] = {
    "similarity": {"name": "embedding", "kind": "lexical", "source": None},
    "quality": {"metric": "answer_f1", "source": None, "backbone": None, "normalizer": "coqa"},
    "statistics": {"sample": None, "style": "base", "enable_thinking": None, "p_true": False, "ccp": None}
    | {"relevance": None},
    "scores": SCORING | {"seed": 1},
    "evaluation": MEASURED | {"seed": 1},
}  # settings of the steps that read tables


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ({"settings": {"max_new_tokens": 8, "newer": 1}}, "was made with max_new_tokens 16, 8 is asked for"),
        ({"folders": {"model": "2" * 64}}, "was made with another model from 'hub:a/b' .content 11.*2…"),
        ({"manifests": {"model": "fetched.json"}}, "was made with another model from 'hub:a/b'"),
    ],
)
@pytest.mark.parametrize(("step", "kind"), [(step, "candidates") for step in [*READ_BY][:4]] + [
    ("scores", "similarity"), ("evaluation", "scores"), ("evaluation", "quality")
])  # fmt: skip
def test_a_step_refuses_a_table_of_other_settings_or_another_model(
    step: str, kind: str, expected: dict[str, Any], told: str, own: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "fetched.json").write_text('{"files": {"model.safetensors": {"size": 1, "sha256": "3"}}}')
    manifests = {name: str(tmp_path / file) for name, file in expected.get("manifests", {}).items()}
    table = parquet_tables.read(own[kind], kind)
    facts = {"settings": {"max_new_tokens": 16}, "models": {"model": MODEL}}
    parquet_tables.write(own[kind], kind, table.table, cell=table.cell, provenance=facts)
    if kind == "candidates":  # or its hash would tell
        loaded = parquet_tables.read(own["similarity"], "similarity")
        parquet_tables.write(own["similarity"], "similarity", loaded.table, cell=loaded.cell)
    settings = READ_BY[step] | ({} if step in ("scores", "evaluation") else {"answer_source": ["greedy"]})
    settings |= {"beam": MAIN["beam"], "format": 1} if step in [*READ_BY][:3] else {}
    job: dict[str, Any] = {name: own[name] for name in job_type(step).model_fields if name in own}
    job |= {"settings": settings} | ({"device": "cpu", "dtype": "float32"} if step in [*READ_BY][:3] else {})
    job |= {step: tmp_path / f"{step}.parquet"}
    with pytest.raises(BeamUQError, match=f"{own[kind]}: {told}.*; delete it"):
        run_job(step, job, expected={kind: expected | {"manifests": manifests}})


def test_what_a_footer_or_a_manifest_does_not_say_is_not_compared(tmp_path: Path) -> None:
    footer = parquet_tables.Footer(Path("x"), "candidates", {}, {"settings": {"seed": 1}, "models": {"model": MODEL}})
    (tmp_path / "older.json").write_text('{"files": {"model.safetensors": {"size": 1}}}')
    for manifest in ("older.json", "away.json"):
        expected = {"settings": {"seed": 1, "newer": 2}, "manifests": {"model": tmp_path / manifest}}
        check_made_with(footer, MadeWith(**expected, folders={"other": "2"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*OF, "scores", "evaluation", "replicates"])
def test_the_overview_finds_every_file_of_another_run(kind: str, own: dict[str, Path], runs: Any) -> None:
    swap(own, runs, kind)
    with pytest.raises(BeamUQError, match="one of the two is of another run"):
        check_one_run(map(parquet_tables.read_footer, own.values()))


@pytest.mark.parametrize("kind", ["evaluation", "candidates"])
def test_an_exhibit_does_not_read_another_runs_file(kind: str, own: dict[str, Path], runs: Any) -> None:
    swap(own, runs, kind)
    study = load_study(PROMPTS.parents[1] / "studies/demo.yaml").model_copy(update={"seed": 1})
    evaluation = study.evaluation.model_copy(update={"resamples": 100, "metrics": ["PRR"]})
    study = study.model_copy(update={"evaluation": evaluation})
    artifact = Artifact(kind, **(CELL if kind == "candidates" else CELL | SCORER))
    with pytest.raises(BeamUQError, match=r"was made with seed 77, 1 is asked for; delete it"):
        Inputs.read(own["questions"].parents[1], [artifact], study)


def test_a_file_in_another_cells_place_is_refused(own: dict[str, Path]) -> None:
    other = own["candidates"].with_name("widths.parquet")
    own["candidates"].rename(other)
    with pytest.raises(BeamUQError, match=r"widths\.parquet: holds .*'main'.*, another cell than its path says"):
        read_cell({"candidates": ("candidates", other)}, {})


def test_a_file_without_a_record_is_read(own: dict[str, Path]) -> None:
    table = parquet_tables.read(own["quality"], "quality")
    parquet_tables.write(own["quality"], "quality", table.table, cell=table.cell)
    evaluate(own, 1)


@pytest.mark.parametrize("changed", ["questions", "shots"])
def test_prompts_of_another_run_are_not_decoded(changed: str, tmp_path: Path) -> None:
    files = {kind: tmp_path / Artifact(kind, "web").path for kind in ("questions", "shots")}
    prompts = tmp_path / Artifact("prompts", "web", style="base").path

    def write(kind: str, *names: str) -> None:
        rows = [dict(question(name, f"who is {name}?", ["x"])) for name in names]
        facts = {"settings": {"adapter": "trivia_qa", "seed": 1}}
        parquet_tables.write(files[kind], kind, rows, cell={"dataset": "web"}, provenance=facts)

    write("questions", "a", "b")
    write("shots", "s")
    template = PROMPTS / "base/trivia_qa.txt"
    job = {"template": template, "settings": {"style": "base", "dataset": "web"}, "format": 1, "prompts": prompts}
    run_job("prompts", job | files)
    write(changed, *("ba" if changed == "questions" else "t"))
    settings: dict[str, Any] = {
        "cell": CELL | {"dataset": "web"}, "recipe": {}, "questions": 2, "max_new_tokens": 4, "newline_stops": True,
        "merge_stop_tokens": False, "seed": 1, "batch_questions": 1, "style": "base", "enable_thinking": None,
        "format": 2,
    }  # fmt: skip
    decode = {"prompts": prompts, "model": tmp_path / "none/config.json", "candidates": tmp_path / "out.parquet"}
    with pytest.raises(BeamUQError, match=rf"{prompts}: not the prompts that .* give, but another run's; delete it"):
        run_job("candidates", decode | {"settings": settings, "device": "cpu", "dtype": "float32"})


@pytest.mark.parametrize(
    ("found", "asked", "agree"), [(0.5, [0.5], True), (0.5, (0.5, 1.0), False), (0.4, [0.4], True)]
)
def test_a_single_value_of_the_version_before_is_a_list_of_it(found: float, asked: Any, agree: bool) -> None:
    table = parquet_tables.Footer(Path("x.parquet"), "evaluation", {}, {"settings": {"max_rejection": found}})
    with nullcontext() if agree else pytest.raises(BeamUQError, match="max_rejection"):
        check_settings(table, {"max_rejection": asked})
