"""The questions of a study's main cells as one HTML file, to be gone through in a browser."""

from pathlib import Path

from beamuq import io
from beamuq.exhibits.captions import titled
from beamuq.exhibits.inputs import read_study
from beamuq.explorer.explorer_page import page
from beamuq.overview.explored_study import read_cells
from beamuq.plan.cells_of_a_study import Grid
from beamuq.rule_programs import run_script


def run(*, study: Path, html: Path) -> None:
    """Read what lies beside the study, write the page."""
    shown = read_study(study)
    cells, notes = read_cells(shown, study.parent, Grid(shown).explored)
    io.write_text(html, page(titled(shown, shown.title), notes, cells))


if __name__ == "__main__":
    run_script(run)
