"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind them."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.evaluation.metrics_of_scores import EvaluationSettings, evaluate
from beamuq.judged_answer import produced_texts
from beamuq.plan.job_types import EvaluationJob, MachineOptions
from beamuq.provenance import check_settings, provenance, read_cell


def run(job: EvaluationJob[EvaluationSettings], machine: MachineOptions) -> None:
    """Read the tables of a cell, measure every score by every quality, write the measurements and their replicates."""
    settings = job.settings
    names = {settings.quality: "quality"} | {metric: f"quality {metric}" for metric in settings.further_qualities}
    paths = dict(zip(names.values(), (job.quality, *job.further_qualities), strict=True))
    files = {
        "scores": ("scores", job.scores),
        "questions": ("questions", job.questions),
        "candidates": ("candidates", job.candidates),
    }
    tables = read_cell(
        files | {name: ("quality", path) for name, path in paths.items()}, machine.expected, seed=settings.seed
    )
    cell, scores, questions = tables["scores"].cell, tables["scores"].table, tables["questions"].table
    sources = list(dict.fromkeys(scores.column("answer_source").to_pylist()))
    empty = None
    if "candidates" in tables:
        produced = produced_texts(tables["candidates"].table, sources, job.beam)
        empty = {name: {key for key, text in texts.items() if not text} for name, texts in produced.items()}
    measured, replicates = [], []
    thresholds = {settings.quality: settings.threshold} | settings.further_qualities
    for metric, name in names.items():
        check_settings(tables[name], {"metric": metric})
        of_metric = settings.model_copy(update={"quality": metric, "threshold": thresholds[metric]})
        rows = evaluate(scores, tables[name].table, questions, of_metric, cell.get("dataset", ""), empty)
        measured += rows[0]
        replicates += rows[1]
    made = provenance(settings.model_dump(mode="json"), {name: path for name, (_, path) in files.items()} | paths)
    parquet_tables.write(job.evaluation, "evaluation", measured, cell=cell, provenance=made)
    parquet_tables.write(job.replicates, "replicates", replicates, cell=cell, provenance=made)
