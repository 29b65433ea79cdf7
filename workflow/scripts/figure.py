"""One figure of the paper, from the files it names: PDF, SVG, PNG, the data drawn as CSV, the caption as text."""

from pathlib import Path

from beamuq.errors import BeamUQError
from beamuq_study.exhibits import figure_style, list_of_exhibits
from beamuq_study.result_files import Inputs
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study


def run(*, name: str, study: Path, pdf: Path, svg: Path, png: Path, csv: Path, caption: Path) -> None:
    """Read what the figure needs, build it, draw it in every format."""
    of = load_study(study)
    item = list_of_exhibits.exhibit(name, of)
    built = item.built(of, Inputs.read(study.parent, item.artifacts(of), of))
    if item.kind != "figure":
        raise BeamUQError(f"{name!r} is a table; ask for it under results/")
    figure_style.save(built, pdf=pdf, svg=svg, png=png, csv=csv, caption=caption)


if __name__ == "__main__":
    run_script(run)
