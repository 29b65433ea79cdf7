"""The step from questions and examples to prompts, on the demo's own questions too."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study import parquet_tables
from beamuq_study.data.question import Question, question
from beamuq_study.study_config import ROOT, STUDIES, load_study
from run_job import run_job

TEMPLATE = PROMPTS / "base" / "trivia_qa.txt"
DEMO = load_study(STUDIES / "demo.yaml")


def table(path: Path, kind: str, rows: list[Question], dataset: str = "web") -> Path:
    parquet_tables.write(path, kind, [dict(row) for row in rows], cell={"dataset": dataset})
    return path


def make(
    folder: Path, questions: Path, shots: Path, settings: dict[str, str], template: Path = TEMPLATE
) -> Path:
    out = folder / "prompts.parquet"
    job = {"template": template, "questions": questions, "shots": shots, "prompts": out}
    run_job("prompts", job | settings)
    return out


def test_prompts_keep_the_order_and_ids_of_the_questions(tmp_path: Path) -> None:
    asked = [question(name, f"who is {name}?", ["x"]) for name in ("z", "a", "m")]
    out = make(
        tmp_path,
        table(tmp_path / "q.parquet", "questions", asked),
        table(tmp_path / "s.parquet", "shots", [question("s", "who?", ["you"])]),
        {"style": "base", "dataset": "web"},
    )
    loaded = parquet_tables.read(out, "prompts")
    assert [row["id"] for row in loaded.table.to_pylist()] == ["z", "a", "m"]
    assert (
        loaded.table.to_pylist()[1]["prompt"]
        == "Question: who?\nAnswer: you\n\nQuestion: who is a?\nAnswer:"
    )
    assert loaded.cell == {"style": "base", "dataset": "web"}
    assert loaded.provenance["template_sha256"] == hashlib.sha256(TEMPLATE.read_bytes()).hexdigest()


def test_questions_of_another_dataset_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    questions = table(tmp_path / "q.parquet", "questions", [question("a", "who?", ["x"])])
    shots = table(tmp_path / "s.parquet", "shots", [])
    with pytest.raises(
        BeamUQError, match=r"q\.parquet: holds questions of {'dataset': 'web'}, not of 'coqa'"
    ):
        make(tmp_path, questions, shots, {"style": "base", "dataset": "coqa"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.parquet", "s.parquet"]


@pytest.mark.parametrize("key", sorted(DEMO.datasets))
def test_demo_questions_become_prompts_of_both_styles(tmp_path: Path, key: str) -> None:
    dataset = DEMO.datasets[key]
    folder = ROOT / "workflow" / "demo" / dataset.adapter
    settings = {"dataset": key, "seed": DEMO.seed} | dataset.model_dump(
        include={"adapter", "questions", "few_shot"}
    )
    questions, shots = tmp_path / "q.parquet", tmp_path / "s.parquet"
    splits = {
        "split": f"{dataset.split}.jsonl",
        "few_shot_split": f"{dataset.few_shot_split}.jsonl",
    }
    job = {name: folder / file for name, file in splits.items()} | {"settings": settings}
    run_job("questions", job | {"questions": questions, "shots": shots})
    for style in ("base", "instruct"):
        template = PROMPTS / style / f"{dataset.adapter}.txt"
        out = make(tmp_path, questions, shots, {"style": style, "dataset": key}, template)
        prompts = parquet_tables.read(out, "prompts").table["prompt"].to_pylist()
        assert len(set(prompts)) == dataset.questions
        assert all(prompt.endswith(("nswer:", "\nA:")) for prompt in prompts)
