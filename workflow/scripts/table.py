"""One table of the paper as CSV, LaTeX, Markdown and HTML."""

from pathlib import Path

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import list_of_exhibits, table_formats
from beamuq_study.result_files import Inputs
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study


def run(*, name: str, study: Path, csv: Path, tex: Path, markdown: Path, html: Path) -> None:
    """Read what the table needs, build it, write it in every format."""
    of = load_study(study)
    exhibit = list_of_exhibits.exhibit(name, of)
    built = exhibit.built(of, Inputs.read(study.parent, exhibit.artifacts(of), of))
    if exhibit.kind != "table":
        raise BeamUQError(f"{name!r} is a figure; ask for it under figures/")
    for path, text in (
        (csv, csv_text(built.frame)),
        (tex, table_formats.latex_fragment(built)),
        (markdown, table_formats.markdown(built)),
        (html, table_formats.html(built)),
    ):
        io.write_text(path, text)


if __name__ == "__main__":
    run_script(run)
