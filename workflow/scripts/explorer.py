"""The questions of a study's main cells as one HTML file, to be gone through in a browser."""

from pathlib import Path

from beamuq import io
from beamuq.explorer.explorer_page import page
from beamuq_study.exhibits.captions import titled
from beamuq_study.overview.study_explorer_page import read_cells
from beamuq_study.plan.cells_of_a_study import Grid
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study


def run(*, study: Path, html: Path) -> None:
    """Read what lies beside the study, write the page."""
    shown = load_study(study)
    cells, notes = read_cells(shown, study.parent, Grid(shown).explored)
    io.write_text(html, page(titled(shown, shown.title), notes, cells))


if __name__ == "__main__":
    run_script(run)
