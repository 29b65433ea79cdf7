"""Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind them."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.evaluation.metrics_of_scores import EvaluationSettings, evaluate
from beamuq.plan.job_types import EvaluationJob, MachineOptions
from beamuq.provenance import provenance, read_cell


def run(job: EvaluationJob[EvaluationSettings], machine: MachineOptions) -> None:
    """Read the tables of a cell, measure every score, write the measurements and their replicates."""
    files = {name: (name, getattr(job, name)) for name in ("scores", "quality", "questions")}
    tables = read_cell(files, machine.expected, seed=job.settings.seed, metric=job.settings.quality)
    cell = tables["scores"].cell
    scores, quality, questions = (tables[name].table for name in ("scores", "quality", "questions"))
    measured, replicates = evaluate(scores, quality, questions, job.settings, cell.get("dataset", ""))
    made = provenance(
        job.settings.model_dump(mode="json"),
        {"scores": job.scores, "quality": job.quality, "questions": job.questions},
    )
    parquet_tables.write(job.evaluation, "evaluation", measured, cell=cell, provenance=made)
    parquet_tables.write(job.replicates, "replicates", replicates, cell=cell, provenance=made)
