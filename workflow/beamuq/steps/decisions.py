"""What each score of a cell would decide under a guarantee, and the scores as ``beamuq calibrate`` reads them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from beamuq import parquet_tables
from beamuq.evaluation.decisions_of_scores import DecisionSettings, decisions
from beamuq.parquet_tables import Footer
from beamuq.plan.job_types import DecisionsJob, MachineOptions
from beamuq.provenance import check_one_run, check_settings, provenance, read_cell

CHANGING = (  # settings of candidates and scores that a method's scores depend on
    *("max_new_tokens", "newline_stops", "merge_stop_tokens", "enable_thinking"),
    *("main", "num_candidates", "alpha", "epsilon", "equivalence_threshold"),
)


def run(job: DecisionsJob[DecisionSettings], machine: MachineOptions) -> None:
    """Read the tables of a cell, calibrate on one half, test on the other, write both files."""
    settings = job.settings
    paths = {"scores": job.scores, "quality": job.quality, "questions": job.questions, "shots": job.shots}
    tables = read_cell({name: (name, path) for name, path in paths.items()}, machine.expected, seed=settings.seed)
    candidates, prompts = map(parquet_tables.read_footer, (job.candidates, job.prompts))
    check_settings(candidates, machine.expected.get("candidates", {}))
    check_one_run([*tables.values(), candidates, prompts])
    check_settings(tables["quality"], {"metric": settings.quality})
    cell, (scores, quality, questions, shots) = tables["scores"].cell, (tables[name].table for name in paths)
    found, scored = decisions(scores, quality, questions, settings, cell.get("dataset", ""))
    hashes = _hashes(candidates, tables["scores"], prompts, shots.to_pylist())
    lines = [json.dumps(row | hashes, ensure_ascii=False) + "\n" for row in scored]
    parquet_tables.write_text(job.scored, "".join(lines))
    made = provenance(settings.model_dump(mode="json", exclude={"similarity", "model"}), paths)
    made["empty"] = tables["quality"].provenance.get("empty", {})
    parquet_tables.write(job.decisions, "decisions", found, cell=cell, provenance=made)


def _hashes(candidates: Footer, scores: Footer, prompts: Footer, shots: list[dict[str, Any]]) -> dict[str, str]:
    """Of the model's files; of the template, its examples and settings."""
    settings = candidates.provenance.get("settings", {}) | scores.provenance.get("settings", {})
    found = {}
    if model := candidates.provenance.get("models", {}).get("model"):
        found["model_hash"] = model["content"]
    if template := prompts.provenance.get("template_sha256"):
        changing = {name: settings.get(name) for name in CHANGING}
        around = json.dumps([prompts.cell["style"], template, shots, changing], ensure_ascii=False)
        found["prompt_hash"] = hashlib.sha256(around.encode()).hexdigest()
    return found
