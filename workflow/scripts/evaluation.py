"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind them."""

from pathlib import Path
from typing import Any

from beamuq_study import parquet_tables
from beamuq_study.produced_answers import produced_texts
from beamuq_study.provenance import check_settings, provenance, read_cell
from beamuq_study.rule_programs import run_script
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate


def run(
    *,
    questions: Path,
    candidates: Path | None,
    scores: Path,
    quality: Path,
    further_qualities: tuple[Path, ...],
    settings: dict[str, Any],
    beam: str | None,
    made_with: dict[str, Any],
    evaluation: Path,
    replicates: Path,
) -> None:
    """Read the tables of a cell, measure every score by every quality, write the measurements and their replicates.

    ``further_qualities``: in the order of those of the settings. ``candidates``: for the texts of the produced answers,
    of which those of the search ``beam`` have its name; without them the answered questions are not measured apart.
    """
    measuring = EvaluationSettings.model_validate(settings, strict=False)
    names = {measuring.quality: "quality"} | {metric: f"quality {metric}" for metric in measuring.further_qualities}
    paths = dict(zip(names.values(), (quality, *further_qualities), strict=True))
    files = {
        "scores": ("scores", scores),
        "questions": ("questions", questions),
        "candidates": ("candidates", candidates),
    }
    tables = read_cell(
        files | {name: ("quality", path) for name, path in paths.items()}, made_with, seed=measuring.seed
    )
    cell, scored, questions_table = tables["scores"].cell, tables["scores"].table, tables["questions"].table
    sources = list(dict.fromkeys(scored.column("answer_source").to_pylist()))
    empty = None
    if "candidates" in tables:
        produced = produced_texts(tables["candidates"].table, sources, beam)
        empty = {name: {key for key, text in texts.items() if not text} for name, texts in produced.items()}
    measured, resampled = [], []
    thresholds = {measuring.quality: measuring.threshold} | measuring.further_qualities
    for metric, name in names.items():
        check_settings(tables[name], {"metric": metric})
        of_metric = measuring.model_copy(update={"quality": metric, "threshold": thresholds[metric]})
        rows = evaluate(scored, tables[name].table, questions_table, of_metric, cell.get("dataset", ""), empty)
        measured += rows[0]
        resampled += rows[1]
    footer = provenance(settings, {name: path for name, (_, path) in files.items()} | paths)
    parquet_tables.write(evaluation, "evaluation", measured, cell=cell, provenance=footer)
    parquet_tables.write(replicates, "replicates", resampled, cell=cell, provenance=footer)


if __name__ == "__main__":
    run_script(run)
