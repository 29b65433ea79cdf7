"""A dataset's split to the questions that are asked and the few-shot examples shown before them."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from beamuq import artifacts
from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.question import Question
from beamuq.data.question_subset import choose_questions, choose_shots
from beamuq.data.split_file import read_questions, source_of
from beamuq.errors import BeamUQError
from beamuq.steps.entry import run
from beamuq.steps.given import parse_settings


class Settings(BaseModel):
    """What the study says of the dataset; nothing else but the files can change the questions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    dataset: str
    adapter: str
    seed: int
    questions: Annotated[int, Field(ge=1)]
    few_shot: Annotated[int, Field(ge=0)]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, choose and write both tables."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.questions", description=__doc__)
    parser.add_argument("--split", type=Path, required=True, help="the split's file, Parquet or JSON Lines")
    parser.add_argument("--few-shot-split", type=Path, help="opened only if settings.few_shot is above 0")
    parser.add_argument("--settings", required=True, help="JSON: dataset, adapter, seed, questions, few_shot")
    parser.add_argument("--questions", type=Path, required=True, help="table to write, in the subset's order")
    parser.add_argument("--shots", type=Path, required=True, help="table of few-shot examples to write")
    options = parser.parse_args(argv)
    settings = parse_settings(Settings, options.settings)

    reader = load_adapter(settings.adapter)
    repeated: list[str] = []
    everything = read_questions(reader, options.split, repeated)
    files = {"split": _describe(options.split)}
    chosen = choose_questions(everything, settings.questions, seed=settings.seed, dataset=settings.dataset)
    shots: list[Question] = []
    if settings.few_shot:
        if options.few_shot_split is None:
            raise BeamUQError(f"datasets.{settings.dataset}.few_shot: {settings.few_shot}, but no --few-shot-split")
        pool = read_questions(reader, options.few_shot_split)
        files["few_shot_split"] = _describe(options.few_shot_split)
        shots = choose_shots(pool, everything, settings.few_shot, seed=settings.seed, dataset=settings.dataset)

    provenance = {
        "settings": settings.model_dump(),
        "files": files,
        "read": {"questions": len(everything), "repeated_rows": len(repeated)},
        "versions": {"numpy": np.__version__, "pyarrow": pa.__version__},
    }
    for path, kind, rows in ((options.questions, "questions", chosen), (options.shots, "shots", shots)):
        artifacts.write(
            path, kind, [dict(row) for row in rows], cell={"dataset": settings.dataset}, provenance=provenance
        )
    print(f"{settings.dataset}: {len(chosen)} of {len(everything)} questions, {len(shots)} few-shot examples")


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "sha256": digest, "fetched": source_of(path)}


if __name__ == "__main__":
    run(main)
