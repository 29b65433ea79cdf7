"""What each score of a cell would decide under a guarantee, and the scores as ``beamuq calibrate`` reads them."""

from __future__ import annotations

import json

from beamuq import parquet_tables
from beamuq.evaluation.decisions_of_scores import DecisionSettings, decisions
from beamuq.plan.job_types import DecisionsJob, MachineOptions
from beamuq.provenance import check_settings, provenance, read_cell


def run(job: DecisionsJob[DecisionSettings], machine: MachineOptions) -> None:
    """Read the tables of a cell, calibrate on one half, test on the other, write both files."""
    settings = job.settings
    paths = {"scores": job.scores, "quality": job.quality, "questions": job.questions}
    tables = read_cell({name: (name, path) for name, path in paths.items()}, machine.expected, seed=settings.seed)
    check_settings(tables["quality"], {"metric": settings.quality})
    cell, (scores, quality, questions) = tables["scores"].cell, (tables[name].table for name in paths)
    found, scored = decisions(scores, quality, questions, settings, cell.get("dataset", ""))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in scored]
    parquet_tables.write_text(job.scored, "".join(lines))
    made = provenance(settings.model_dump(mode="json", exclude={"similarity", "model"}), paths)
    made["empty"] = tables["quality"].provenance.get("empty", {})
    parquet_tables.write(job.decisions, "decisions", found, cell=cell, provenance=made)
