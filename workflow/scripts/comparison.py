"""Compare a run with the paper: every number, every claim, beam minus multinomial paired."""

from pathlib import Path

from beamuq import io
from beamuq_study.comparison import beams_minus_samples, comparison_page
from beamuq_study.exhibits import figure_style
from beamuq_study.html_pages import Drawing
from beamuq_study.rule_programs import run_program
from beamuq_study.study_config import load_study


def run(*, study: Path, **outputs: Path) -> None:
    """Read the study's results, compare them, write tables, page and figure."""
    comparison = comparison_page.compare_with_paper(load_study(study), study, study.parent)
    figure = beams_minus_samples.figure(comparison.results, comparison.differences)
    names = ("pdf", "svg", "png", "csv", "caption")
    figure_style.save(figure, **{name: outputs[f"forest_{name}"] for name in names})
    for name, content in comparison_page.contents(
        comparison, Drawing.read(outputs["forest_svg"])
    ).items():
        io.write_text(outputs[name], content)


if __name__ == "__main__":
    run_program(run, output="csv")
