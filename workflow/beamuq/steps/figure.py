"""One figure of the paper, from the files it names: PDF, SVG, PNG, the data drawn as CSV, the caption as text."""

from __future__ import annotations

from beamuq.errors import BeamUQError
from beamuq.exhibits import figure_style, list_of_exhibits
from beamuq.exhibits.inputs import Inputs, read_study
from beamuq.plan.job_types import FigureJob, MachineOptions


def run(job: FigureJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what the figure needs, build it, draw it in every format."""
    study = read_study(job.study)
    item = list_of_exhibits.exhibit(job.name, study)
    built = item.built(study, Inputs.read(job.study.parent, item.artifacts(study), study))
    if item.kind != "figure":
        raise BeamUQError(f"--job: name: {job.name!r} is a table; ask for it under results/")
    figure_style.save(built, **job.outputs())
