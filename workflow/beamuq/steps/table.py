"""One table of the paper as CSV, LaTeX, Markdown and HTML."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits import html_table, latex_table, list_of_exhibits, markdown_table
from beamuq.exhibits.exhibit_inputs import Inputs, read_study
from beamuq.exhibits.exhibit_types import BuiltTable
from beamuq.plan.job_types import MachineOptions, TableJob


def run(job: TableJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what the table needs, build it, write it in every format."""
    study = read_study(job.study)
    exhibit = list_of_exhibits.exhibit(job.name, study)
    built = exhibit.built(study, Inputs.read(job.study.parent, exhibit.artifacts(study), study))
    if not isinstance(built, BuiltTable):
        raise BeamUQError(f"--job: name: {job.name!r} is a figure; ask for it under figures/")
    for path, text in (
        (job.csv, built.csv()),
        (job.tex, latex_table.render(built)),
        (job.markdown, markdown_table.render(built)),
        (job.html, html_table.render(built)),
    ):
        parquet_tables.write_text(path, text)
