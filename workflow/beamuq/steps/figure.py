"""One figure of the paper, from the files it names: PDF, SVG, PNG, the data drawn as CSV, the caption as text."""

from __future__ import annotations

from beamuq.errors import BeamUQError
from beamuq.exhibits import exhibit_inputs, exhibit_types, figure_style, list_of_exhibits
from beamuq.plan.job_types import FigureJob, MachineOptions


def run(job: FigureJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read what the figure needs, build it, draw it in every format."""
    study = exhibit_inputs.read_study(job.study)
    item = list_of_exhibits.exhibit(job.name, study)
    built = item.built(study, exhibit_inputs.Inputs.read(job.study.parent, item.artifacts(study), study))
    if not isinstance(built, exhibit_types.BuiltFigure):
        raise BeamUQError(f"--job: name: {job.name!r} is a table; ask for it under results/")
    figure_style.save(built, **job.outputs())
