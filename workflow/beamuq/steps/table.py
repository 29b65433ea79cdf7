"""One table of the paper as CSV, LaTeX, Markdown and HTML."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits import list_of_exhibits, table_formats
from beamuq.exhibits.inputs import Inputs, read_study
from beamuq.plan.job_types import MachineOptions, TableJob


def run(job: TableJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what the table needs, build it, write it in every format."""
    study = read_study(job.study)
    exhibit = list_of_exhibits.exhibit(job.name, study)
    built = exhibit.built(study, Inputs.read(job.study.parent, exhibit.artifacts(study), study))
    if exhibit.kind != "table":
        raise BeamUQError(f"--job: name: {job.name!r} is a figure; ask for it under figures/")
    for path, text in (
        (job.csv, table_formats.csv_text(built.frame)),
        (job.tex, table_formats.latex_fragment(built)),
        (job.markdown, table_formats.markdown(built)),
        (job.html, table_formats.html(built)),
    ):
        parquet_tables.write_text(path, text)
