"""A dataset's split to the questions that are asked and the few-shot examples shown before them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beamuq_study import parquet_tables
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.question import Question
from beamuq_study.data.question_and_example_choice import (
    choose_questions,
    choose_shots,
    with_turns,
)
from beamuq_study.data.read_dataset_file import described, read_questions
from beamuq_study.rule_programs import run_program


def run(
    *,
    split: Path,
    few_shot_split: Path | None,
    settings: dict[str, Any],
    questions: Path,
    shots: Path,
) -> None:
    """Choose both and write them, questions in the subset's order.

    ``few_shot_split``: where any examples are shown.
    """
    seed = settings["seed"]
    dataset = settings["dataset"]
    repeated: list[str] = []
    everything = read_questions(ADAPTERS[settings["adapter"]], split, repeated)
    asked = with_turns(everything, settings.get("only_turns"), settings.get("turns_left_out"))
    chosen = choose_questions(asked, settings["questions"], seed=seed, dataset=dataset)
    files = {"split": described(split)}
    examples: list[Question] = []
    if settings["few_shot"] and few_shot_split:
        files["few_shot_split"] = described(few_shot_split)
        shown = read_questions(ADAPTERS[settings["adapter"]], few_shot_split)
        examples = choose_shots(shown, everything, settings["few_shot"], seed=seed, dataset=dataset)
    footer = {
        "settings": settings,
        "files": files,
        "read": {"questions": len(everything), "repeated_rows": len(repeated)},
        "versions": {"numpy": np.__version__, "pyarrow": pa.__version__},
    }
    _write(questions, "questions", chosen, footer)
    _write(shots, "shots", examples, footer)
    print(f"{dataset}: {len(chosen)} of {len(asked)} questions, {len(examples)} few-shot examples")


def _write(path: Path, kind: str, chosen: list[Question], footer: dict[str, Any]) -> None:
    rows = [dict(question) for question in chosen]
    cell = {"dataset": footer["settings"]["dataset"]}
    parquet_tables.write(path, kind, rows, cell=cell, provenance=footer)


if __name__ == "__main__":
    run_program(run, output="questions")
