"""The questions of a study's main cells as one HTML file, to be gone through in a browser."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.exhibits.captions import titled
from beamuq.exhibits.inputs import read_study
from beamuq.explorer.explorer_page import page
from beamuq.explorer.read_results import read_cells
from beamuq.plan.cells_of_a_study import Grid
from beamuq.plan.job_types import ExplorerJob, MachineOptions


def run(job: ExplorerJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what lies beside the study, write the page."""
    study = read_study(job.study)
    cells, notes = read_cells(study, job.study.parent, Grid(study).explored)
    parquet_tables.write_text(job.html, page(titled(study, study.title), notes, cells))
