"""One figure of the paper, from the results it names: PDF, SVG, PNG, the data drawn as CSV, the caption as text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beamuq.errors import BeamUQError
from beamuq.exhibits import exhibit_inputs, exhibit_types, figure_style, specifications
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read, build, draw."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.figure", description=__doc__)
    parser.add_argument("--name", required=True, help="the label, such as prr_curves")
    parser.add_argument("--study", required=True, type=Path, help="study.json in the folder of the study's results")
    for kind in ("pdf", "svg", "png", "csv", "caption"):
        parser.add_argument(f"--{kind}", required=True, type=Path)
    options = parser.parse_args(argv)

    study = exhibit_inputs.read_study(options.study)
    item = specifications.exhibit(options.name, study)
    built = item.build(study, exhibit_inputs.Inputs.read(options.study.parent, item.artifacts(study)))
    if not isinstance(built, exhibit_types.Figure):
        raise BeamUQError(f"--name: {options.name!r} is a table; use beamuq.steps.table")
    paths = {kind: getattr(options, kind) for kind in ("pdf", "svg", "png", "csv", "caption")}
    figure_style.save(built, **paths)


if __name__ == "__main__":
    run(main)
