"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and replicates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import Loaded
from beamuq_study.produced_answers import produced_texts
from beamuq_study.provenance import check_settings, provenance, read_cell
from beamuq_study.rule_programs import run_program
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate_all


def run(
    *,
    settings: EvaluationSettings,
    beam: str | None,
    made_with: dict[str, Any],
    quality: Path,
    further_qualities: tuple[Path, ...],
    evaluation: Path,
    replicates: Path,
    **tables: Path | None,
) -> None:
    """Read the tables of a cell, measure every score by every quality, write what comes of it.

    ``candidates`` are read for the produced answers' texts; without them the answered questions are
    not measured apart.
    """
    names = _names_of_qualities(settings)
    files = tables | dict(zip(names, (quality, *further_qualities), strict=True))
    read = read_cell(files, made_with, seed=settings.seed)
    scores = read["scores"]
    measured, resampled = evaluate_all(
        scores.table,
        _qualities(read, settings),
        read["questions"].table,
        settings,
        scores.cell.get("dataset", ""),
        _empty_answers(read["candidates"], scores, beam) if "candidates" in read else None,
    )
    footer = provenance(settings, files, tables=read)
    parquet_tables.write(evaluation, "evaluation", measured, cell=scores.cell, provenance=footer)
    parquet_tables.write(replicates, "replicates", resampled, cell=scores.cell, provenance=footer)


def _names_of_qualities(settings: EvaluationSettings) -> list[str]:
    """What the job calls the tables of quality, the main one first."""
    return ["quality", *(f"quality {metric}" for metric in settings.further_qualities)]


def _qualities(read: Mapping[str, Loaded], settings: EvaluationSettings) -> dict[str, pa.Table]:
    """The tables of quality by metric. Raises BeamUQError if one is of another metric."""
    qualities = {}
    for name, metric in zip(_names_of_qualities(settings), settings.thresholds, strict=True):
        check_settings(read[name], {"metric": metric})
        qualities[metric] = read[name].table
    return qualities


def _empty_answers(candidates: Loaded, scores: Loaded, beam: str | None) -> dict[str, set[str]]:
    """By answer source the questions whose produced answer is empty."""
    sources = scores.table.column("answer_source").unique().to_pylist()
    produced = produced_texts(candidates.table, sources, beam)
    return {
        source: {question for question, text in texts.items() if not text}
        for source, texts in produced.items()
    }


if __name__ == "__main__":
    run_program(run, output="evaluation")
