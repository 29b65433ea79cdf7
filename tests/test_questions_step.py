"""The step from a split's file to the tables of questions and of few-shot examples."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from run_job import run_job
from test_data_adapters import COQA, WEB, changed
from test_data_read_dataset_file import lines, parquet

SETTINGS = {"dataset": "web", "adapter": "web_questions", "seed": 1, "questions": 5, "few_shot": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet(
        tmp_path / "test.parquet", [changed(WEB, "question", f"who is {n}?") for n in range(20)]
    )
    lines(
        tmp_path / "train.jsonl", [changed(WEB, "question", f"who is {n}?") for n in range(17, 23)]
    )
    return tmp_path


def choose(folder: Path, out: str = "out", split: str = "test.parquet", **settings: Any) -> None:
    outputs = {name: folder / out / f"{name}.parquet" for name in ("questions", "shots")}
    splits = {"split": folder / split, "few_shot_split": folder / "train.jsonl"}
    run_job("questions", splits | outputs | {"settings": SETTINGS | settings})


def test_tables_hold_the_subset_and_examples_that_are_not_evaluated(folder: Path) -> None:
    choose(folder)
    questions = parquet_tables.read(folder / "out/questions.parquet", "questions")
    shots = parquet_tables.read(folder / "out/shots.parquet", "shots")
    assert questions.table.num_rows == 5
    assert questions.cell == shots.cell == {"dataset": "web"}
    assert {row["question"] for row in shots.table.to_pylist()} <= {
        "who is 20?",
        "who is 21?",
        "who is 22?",
    }
    assert shots.table.num_rows == 2


def test_larger_subset_begins_with_the_smaller_and_keeps_its_examples(folder: Path) -> None:
    choose(folder, "small")
    choose(folder, "again")
    assert (folder / "small/shots.parquet").read_bytes() == (
        folder / "again/shots.parquet"
    ).read_bytes()
    choose(folder, "large", questions=12)
    small, large = (
        parquet_tables.read(folder / name / "questions.parquet", "questions").table
        for name in ("small", "large")
    )
    assert large.slice(0, 5).equals(small)
    assert parquet_tables.read(folder / "small/shots.parquet", "shots").table.equals(
        parquet_tables.read(folder / "large/shots.parquet", "shots").table
    )


def test_footer_says_which_files_and_settings_made_the_table(folder: Path) -> None:
    choose(folder)
    provenance = parquet_tables.read(folder / "out/questions.parquet", "questions").provenance
    digest = hashlib.sha256((folder / "test.parquet").read_bytes()).hexdigest()
    assert provenance["settings"] == SETTINGS
    assert provenance["files"]["split"] == {
        "name": "test.parquet",
        "sha256": digest,
        "fetched": None,
    }
    assert provenance["files"]["few_shot_split"]["name"] == "train.jsonl"
    assert str(folder) not in json.dumps(provenance)


def test_coqa_turns_are_sampled_one_by_one_and_keep_their_story(folder: Path) -> None:
    parquet(
        folder / "validation.parquet", [changed(COQA, "story", f"Story {n}.") for n in range(30)]
    )
    choose(folder, split="validation.parquet", adapter="coqa", questions=10, few_shot=0)
    rows = parquet_tables.read(folder / "out/questions.parquet", "questions").table.to_pylist()
    assert {row["id"].rsplit("-", 1)[1] for row in rows} == {"0", "1", "2"}
    assert 5 < len({row["group"] for row in rows}) <= 10


def test_turns_of_a_pilot_are_asked_apart_from_the_others(folder: Path) -> None:
    parquet(
        folder / "validation.parquet", [changed(COQA, "story", f"Story {n}.") for n in range(6)]
    )
    of_coqa = {"split": "validation.parquet", "adapter": "coqa", "few_shot": 0}
    choose(folder, "others", **of_coqa, questions=12, turns_left_out=[2])
    choose(folder, "pilot", **of_coqa, questions=6, only_turns=[2])
    turns = {}
    for name in ("others", "pilot"):
        table = parquet_tables.read(folder / name / "questions.parquet", "questions").table
        turns[name] = {len(row["history"]) + 1 for row in table.to_pylist()}
    assert turns == {"others": {1, 3}, "pilot": {2}}


def test_more_questions_than_the_chosen_turns_hold_are_refused(folder: Path) -> None:
    parquet(folder / "validation.parquet", [changed(COQA, "story", f"{n}") for n in range(6)])
    with pytest.raises(BeamUQError, match="7 is more than the 6"):
        choose(
            folder,
            split="validation.parquet",
            adapter="coqa",
            few_shot=0,
            questions=7,
            only_turns=[2],
        )
