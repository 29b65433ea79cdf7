"""A run held against print: every printed number, every claim, beam minus multinomial paired."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.comparison import beam_minus_multinomial, comparison_page
from beamuq.exhibits import figure_style
from beamuq.exhibits.inputs import read_study
from beamuq.plan.job_types import ComparisonJob, MachineOptions


def run(job: ComparisonJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read a study's results, compare them with the printed numbers, and write the tables, pages and figure."""
    study, outputs = read_study(job.study), job.outputs()
    found = comparison_page.compare_with_print(study, job.study, job.study.parent, partial=job.partial)
    figure = beam_minus_multinomial.figure(found.results, found.differences)
    forest = {name.removeprefix("forest_"): path for name, path in outputs.items() if name.startswith("forest_")}
    figure_style.save(figure, **forest)
    for name, content in comparison_page.contents(found, job.forest_svg.read_text(encoding="utf-8")).items():
        parquet_tables.write_text(outputs[name], content)
