"""Every job of a study whose cost the ledger counts: all but those that fetch, and the two pages that come after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan.cells_of_a_study import Grid

PAGES = ("comparison", "explorer")
"""Pages that are made before the ledger."""


@dataclass(frozen=True)
class Job:
    """One job. ``file``: the one that stands for all it makes; ``table``: the same, where that is a Parquet table."""

    rule: str
    file: Path
    table: Artifact | None = None

    def place(self, name: str) -> str:
        """Its model, dataset, recipe; "" where it has none."""
        return getattr(self.table, name) if self.table else ""


def jobs(grid: Grid, results: Path) -> list[Job]:
    """The jobs of a study, in the order of the pipeline; ``results``: its folder, ``results/<study>``."""
    tables = (*grid.questions, *grid.prompts, *grid.measured, *grid.decisions)
    return [
        Job("study", results / "study.json"),
        *(Job(table.kind, results / table.path, table) for table in tables),
        *_exhibits(grid, results),
        *(Job(page, results / f"{page}.html") for page in PAGES),
    ]


def _exhibits(grid: Grid, results: Path) -> Iterable[Job]:
    figures = results.parents[1] / "figures" / results.name
    for name in grid.study.exhibits:
        if list_of_exhibits.exhibit(name, grid.study).kind == "table":
            yield Job("table", results / "tables" / f"{name}.csv")
        else:
            yield Job("figure", figures / f"{name}.pdf")
