"""One figure of the paper, from the files it names: PDF, SVG, PNG, the data drawn as CSV, the
caption as text.
"""

from pathlib import Path

from beamuq_study.exhibits import figure_style, list_of_exhibits
from beamuq_study.result_files import Inputs
from beamuq_study.rule_programs import run_program
from beamuq_study.study_config import load_study


def run(*, name: str, study: Path, **outputs: Path) -> None:
    """Read what the figure needs, build it, draw it in every format."""
    content = load_study(study)
    exhibit = list_of_exhibits.exhibit(name, content)
    built = exhibit.built(content, Inputs.read(study.parent, exhibit.artifacts(content), content))
    figure_style.save(built, **outputs)


if __name__ == "__main__":
    run_program(run, output="pdf")
