"""Every job whose cost the ledger counts: not those that fetch, nor two later pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from beamuq_study.grid import Grid
from beamuq_study.parquet_tables import Artifact

PAGES = ("comparison", "explorer")
"""Pages that are made before the ledger."""


@dataclass(frozen=True)
class Job:
    """One job. ``file`` stands for all that it makes; ``table``: the same, if a Parquet table."""

    rule: str
    file: Path
    table: Artifact | None = None

    def place(self, name: str) -> str:
        """Its model, dataset, recipe; "" where it has none."""
        return getattr(self.table, name) if self.table else ""


def jobs(grid: Grid, results: Path, exhibits: Iterable[Path]) -> list[Job]:
    """The jobs of a study, in the order of the pipeline.

    ``results``: its folder, ``results/<study>``; ``exhibits``: a file of each table and figure.
    """
    tables = (*grid.questions, *grid.prompts, *grid.measured, *grid.decisions)
    return [
        Job("study", results / "study.json"),
        *(Job(table.kind, results / table.path, table) for table in tables),
        *(Job("table" if file.is_relative_to(results) else "figure", file) for file in exhibits),
        *(Job(page, results / f"{page}.html") for page in PAGES),
    ]
