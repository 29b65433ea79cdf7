"""Candidates and similarities to uncertainty scores of every method and setting of a cell."""

from pathlib import Path
from typing import Any

from beamuq_study import parquet_tables
from beamuq_study.provenance import provenance, read_cell
from beamuq_study.rule_programs import run_program
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.score_all_methods import ScoringSettings, score_cell


def run(
    *, settings: ScoringSettings, made_with: dict[str, Any], scores: Path, **tables: Path | None
) -> None:
    """Read the tables of a cell, score it, write the scores."""
    read = read_cell(tables, made_with, seed=settings.seed)
    cell = CellTables(
        **{name: loaded.table for name, loaded in read.items()},
        main_beam=settings.main.beam,
        equivalence_threshold=settings.equivalence_threshold,
    )
    place = read["candidates"].cell | read["similarity"].cell
    footer = provenance(settings, tables, tables=read)
    parquet_tables.write(
        scores, "scores", score_cell(cell, settings), cell=place, provenance=footer
    )


if __name__ == "__main__":
    run_program(run, output="scores")
