"""A run held against print: every printed number, every claim, beam minus multinomial paired."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.comparison import comparison_page, paired_forest_plot
from beamuq.comparison.compare_with_print import compare_with_print
from beamuq.exhibits import exhibit_inputs, figure_style
from beamuq.plan.job_types import ComparisonJob, MachineOptions


def run(job: ComparisonJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read a study's results, compare them with the printed numbers, and write the tables, pages and figure."""
    study, outputs = exhibit_inputs.read_study(job.study), job.outputs()
    found = compare_with_print(study, job.study, job.study.parent, partial=job.partial)
    figure = paired_forest_plot.figure(study, found.differences, found.rules)
    forest = {name.removeprefix("forest_"): path for name, path in outputs.items() if name.startswith("forest_")}
    figure_style.save(figure, **forest)
    for name, content in comparison_page.contents(found, job.forest_svg.read_text(encoding="utf-8")).items():
        parquet_tables.write_text(outputs[name], content)
