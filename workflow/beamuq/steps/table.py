"""One table of the paper as CSV, LaTeX, Markdown and HTML, and all but the CSV again with intervals printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.exhibits import exhibit_inputs, exhibit_types, render_table, specifications
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read, build, write."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.table", description=__doc__)
    parser.add_argument("--name", required=True, help="the label, such as qa_mean_prr")
    parser.add_argument("--study", required=True, type=Path, help="study.json in the folder of the study's results")
    for kind in ("csv", "tex", "markdown", "html", "intervals-tex", "intervals-markdown", "intervals-html"):
        parser.add_argument(f"--{kind}", required=True, type=Path)
    options = parser.parse_args(argv)

    study = exhibit_inputs.read_study(options.study)
    item = specifications.exhibit(options.name, study)
    built = item.build(study, exhibit_inputs.Inputs.read(options.study.parent, item.artifacts(study)))
    if not isinstance(built, exhibit_types.Table):
        raise BeamUQError(f"--name: {options.name!r} is a figure; use beamuq.steps.figure")
    intervals = built.with_intervals()
    outputs: list[tuple[Path, Callable[[exhibit_types.Table], str], exhibit_types.Table]] = [
        (options.csv, render_table.csv, built),
        (options.tex, render_table.latex, built),
        (options.markdown, render_table.markdown, built),
        (options.html, render_table.html, built),
        (options.intervals_tex, render_table.latex, intervals),
        (options.intervals_markdown, render_table.markdown, intervals),
        (options.intervals_html, render_table.html, intervals),
    ]
    for path, render, table in outputs:
        with artifacts.atomic(path) as temporary:
            temporary.write_text(render(table), encoding="utf-8")


if __name__ == "__main__":
    run(main)
