"""One table of the paper as CSV, LaTeX, Markdown and HTML."""

from pathlib import Path

from beamuq import io
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import list_of_exhibits, table_formats
from beamuq_study.result_files import Inputs
from beamuq_study.rule_programs import run_program
from beamuq_study.study_config import load_study


def run(*, name: str, study: Path, csv: Path, tex: Path, markdown: Path, html: Path) -> None:
    """Read what the table needs, build it, write it in every format."""
    content = load_study(study)
    exhibit = list_of_exhibits.exhibit(name, content)
    built = exhibit.built(content, Inputs.read(study.parent, exhibit.artifacts(content), content))
    io.write_text(csv, csv_text(built.frame))
    io.write_text(tex, table_formats.latex_fragment(built))
    io.write_text(markdown, table_formats.markdown(built))
    io.write_text(html, table_formats.html(built))


if __name__ == "__main__":
    run_program(run, output="csv")
