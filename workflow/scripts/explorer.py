"""The questions of a study's main cells as one HTML file, to be gone through in a browser."""

from pathlib import Path

from beamuq import io
from beamuq_study.overview.study_explorer_page import study_page
from beamuq_study.rule_programs import run_program


def run(*, study: Path, html: Path) -> None:
    """Read what lies beside the study, write the page."""
    io.write_text(html, study_page(study.parent, overview="overview.html"))


if __name__ == "__main__":
    run_program(run, output="html")
