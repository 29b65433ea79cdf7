"""Candidates and similarities to uncertainty scores: every method, variant and setting of a cell."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.methods.method_inputs_from_tables import CellTables
from beamuq.methods.score_all_methods import ScoringSettings, score_cell
from beamuq.plan.job_types import MachineOptions, ScoresJob
from beamuq.provenance import provenance, read_cell


def run(job: ScoresJob[ScoringSettings], machine: MachineOptions) -> None:
    """Read the tables of a cell, score it, write the scores."""
    settings = job.settings
    files = {
        "candidates": ("candidates", job.candidates),
        "questions": ("questions", job.questions),
        "similarity": ("similarity", job.similarity),
        "statistics": ("statistics", job.statistics),
        "cross_similarity": ("similarity", job.cross_similarity),
    }
    tables = read_cell(files, machine.expected, seed=settings.seed)
    cell = CellTables(
        tables["questions"].table,
        tables["candidates"].table,
        tables["similarity"].table,
        tables["statistics"].table if "statistics" in tables else None,
        tables["cross_similarity"].table if "cross_similarity" in tables else None,
        main_beam=settings.main.beam,
        equivalence_threshold=settings.equivalence_threshold,
        sar_similarity=settings.sar_similarity,
    )
    parquet_tables.write(
        job.scores,
        "scores",
        score_cell(cell, settings),
        cell=tables["candidates"].cell | tables["similarity"].cell,
        provenance=provenance(settings.model_dump(mode="json"), {name: path for name, (_, path) in files.items()}),
    )
