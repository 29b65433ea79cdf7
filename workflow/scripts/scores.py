"""Candidates and similarities to uncertainty scores: every method, variant and setting of a cell."""

from pathlib import Path
from typing import Any

from beamuq_study import parquet_tables
from beamuq_study.provenance import provenance, read_cell
from beamuq_study.rule_programs import run_script
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.score_all_methods import ScoringSettings, score_cell


def run(
    *,
    questions: Path,
    candidates: Path,
    similarity: Path,
    judgements: Path | None,
    cross_similarity: Path | None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    scores: Path,
) -> None:
    """Read the tables of a cell, score it, write the scores.

    ``judgements``: for CCP, PTrue and SAR. ``cross_similarity``: the similarity of SAR's own scorer.
    """
    scoring = ScoringSettings.model_validate(settings, strict=False)
    files = {
        "candidates": ("candidates", candidates),
        "questions": ("questions", questions),
        "similarity": ("similarity", similarity),
        "judgements": ("judgements", judgements),
        "cross_similarity": ("similarity", cross_similarity),
    }
    tables = read_cell(files, made_with, seed=scoring.seed)
    cell = CellTables(
        tables["questions"].table,
        tables["candidates"].table,
        tables["similarity"].table,
        tables["judgements"].table if "judgements" in tables else None,
        tables["cross_similarity"].table if "cross_similarity" in tables else None,
        main_beam=scoring.main.beam,
        equivalence_threshold=scoring.equivalence_threshold,
        sar_similarity=scoring.sar_similarity,
    )
    parquet_tables.write(
        scores,
        "scores",
        score_cell(cell, scoring),
        cell=tables["candidates"].cell | tables["similarity"].cell,
        provenance=provenance(settings, {name: path for name, (_, path) in files.items()}),
    )


if __name__ == "__main__":
    run_script(run)
