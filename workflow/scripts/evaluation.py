"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind
them.
"""

from pathlib import Path
from typing import Any

from beamuq_study import parquet_tables
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
    """Read the tables of a cell, measure every score by every quality, write the measurements and
    their replicates.

    ``candidates`` are read for the produced answers' texts; without them the answered questions are
    not measured apart.
    """
    names = ["quality", *(f"quality {metric}" for metric in settings.further_qualities)]
    files = tables | dict(zip(names, (quality, *further_qualities), strict=True))
    read = read_cell(files, made_with, seed=settings.seed)
    cell, scored, questions = read["scores"].cell, read["scores"].table, read["questions"].table
    empty = None
    if "candidates" in read:
        sources = scored.column("answer_source").unique().to_pylist()
        produced = produced_texts(read["candidates"].table, sources, beam)
        empty = {
            name: {key for key, text in texts.items() if not text}
            for name, texts in produced.items()
        }
    qualities = {}
    for name, metric in zip(names, settings.thresholds, strict=True):
        check_settings(read[name], {"metric": metric})
        qualities[metric] = read[name].table
    measured, resampled = evaluate_all(
        scored, qualities, questions, settings, cell.get("dataset", ""), empty
    )
    footer = provenance(settings, files, tables=read)
    parquet_tables.write(evaluation, "evaluation", measured, cell=cell, provenance=footer)
    parquet_tables.write(replicates, "replicates", resampled, cell=cell, provenance=footer)


if __name__ == "__main__":
    run_program(run, made="evaluation")
