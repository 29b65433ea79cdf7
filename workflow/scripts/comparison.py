"""Compare a run with the paper: every number, every claim, beam minus multinomial paired."""

from pathlib import Path

from beamuq import io
from beamuq_study.comparison import beam_minus_multinomial, comparison_page
from beamuq_study.exhibits import figure_style
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study


def run(
    *,
    study: Path,
    csv: Path,
    claims: Path,
    html: Path,
    forest_pdf: Path,
    forest_svg: Path,
    forest_png: Path,
    forest_csv: Path,
    forest_caption: Path,
    partial: bool = False,
) -> None:
    """Read a study's results, compare them with the paper's numbers, and write the tables, pages and figure.

    ``partial``: files that do not exist yet count as "not run".
    """
    comparison = comparison_page.compare_with_paper(load_study(study), study, study.parent, partial=partial)
    figure = beam_minus_multinomial.figure(comparison.results, comparison.differences)
    figure_style.save(figure, pdf=forest_pdf, svg=forest_svg, png=forest_png, csv=forest_csv, caption=forest_caption)
    outputs = {"csv": csv, "claims": claims, "html": html}
    for name, content in comparison_page.contents(comparison, forest_svg.read_text(encoding="utf-8")).items():
        io.write_text(outputs[name], content)


if __name__ == "__main__":
    run_script(run)
