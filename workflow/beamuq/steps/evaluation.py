"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.evaluation.evaluate_cell import EvaluationSettings, evaluate
from beamuq.steps.entry import run
from beamuq.steps.given import parse_settings, provenance


def main(argv: Sequence[str] | None = None) -> None:
    """Read the tables of a cell, measure every score, write the measurements and their replicates."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.evaluation", description=__doc__)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--quality", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--settings", required=True, help="JSON: metrics, quality, resamples, seed, …")
    parser.add_argument("--evaluation", type=Path, required=True, help="table to write")
    parser.add_argument("--replicates", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)

    settings = parse_settings(EvaluationSettings, options.settings)
    scores = artifacts.read(options.scores, "scores")
    quality = artifacts.read(options.quality, "quality")
    questions = artifacts.read(options.questions, "questions")
    for path, found, keys in (
        (options.quality, quality.cell, ("model", "dataset", "recipe")),
        (options.questions, questions.cell, ("dataset",)),
    ):
        for key in keys:
            if scores.cell.get(key) != found.get(key):
                raise BeamUQError(
                    f"{path}: is of {key} {found.get(key)!r}, {options.scores} of {scores.cell.get(key)!r}; "
                    "give files of one cell"
                )
    dataset = scores.cell.get("dataset", "")
    measured, replicates = evaluate(scores.table, quality.table, questions.table, settings, dataset)
    made = provenance(settings, {"scores": options.scores, "quality": options.quality, "questions": options.questions})
    for path, kind, rows in (
        (options.evaluation, "evaluation", measured),
        (options.replicates, "replicates", replicates),
    ):
        artifacts.write(path, kind, rows, cell=scores.cell, provenance=made)


if __name__ == "__main__":
    run(main)
