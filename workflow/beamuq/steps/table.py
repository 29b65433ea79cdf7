"""One table of the paper, from the files it names: CSV, LaTeX, Markdown, HTML, and all but the CSV with intervals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.exhibits import exhibit_inputs, exhibit_types, render_table, specifications
from beamuq.plan.job_types import MachineOptions, TableJob


def run(job: TableJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what the table needs, build it, write it in every format."""
    study = exhibit_inputs.read_study(job.study)
    item = specifications.exhibit(job.name, study)
    built = item.build(study, exhibit_inputs.Inputs.read(job.study.parent, item.artifacts(study)))
    if not isinstance(built, exhibit_types.Table):
        raise BeamUQError(f"--job: name: {job.name!r} is a figure; ask for it under figures/")
    intervals = built.with_intervals()
    outputs: list[tuple[Path, Callable[[exhibit_types.Table], str], exhibit_types.Table]] = [
        (job.csv, render_table.csv, built),
        (job.tex, render_table.latex, built),
        (job.markdown, render_table.markdown, built),
        (job.html, render_table.html, built),
        (job.intervals_tex, render_table.latex, intervals),
        (job.intervals_markdown, render_table.markdown, intervals),
        (job.intervals_html, render_table.html, intervals),
    ]
    for path, render, table in outputs:
        artifacts.write_text(path, render(table))
