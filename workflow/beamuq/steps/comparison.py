"""A run held against print: every printed number, every claim, beam minus multinomial paired."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.comparison import comparison_page, paired_forest_plot
from beamuq.comparison.compare_with_print import compare_with_print
from beamuq.exhibits import exhibit_inputs, figure_style
from beamuq.steps.entry import run

FOREST = ("pdf", "svg", "png", "csv", "caption")


def main(argv: Sequence[str] | None = None) -> None:
    """Read a study's results, compare them with the printed numbers, and write the tables, pages and figure."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.comparison", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="a study file, or one written as .json")
    parser.add_argument("--results", required=True, type=Path, help="the folder that holds the study's results")
    parser.add_argument("--partial", action="store_true", help="results that do not exist yet are 'not run'")
    for name in comparison_page.OUTPUTS:
        parser.add_argument(f"--{name}", required=True, type=Path)
    for kind in FOREST:
        parser.add_argument(f"--forest-{kind}", required=True, type=Path)
    options = parser.parse_args(argv)

    study = exhibit_inputs.read_study(options.study)
    found = compare_with_print(study, options.study, options.results, partial=options.partial)
    figure = paired_forest_plot.figure(study, found.differences, found.rules)
    figure_style.save(figure, **{kind: getattr(options, f"forest_{kind}") for kind in FOREST})
    for name, content in comparison_page.contents(found, options.forest_svg.read_text(encoding="utf-8")).items():
        with artifacts.atomic(getattr(options, name)) as temporary:
            temporary.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    run(main)
