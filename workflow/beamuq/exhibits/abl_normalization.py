"""``tab:abl_normalization``: PRR of three methods over beams whose probabilities have a floor epsilon."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.exhibits import ablation_tables, wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.strategies import ablation, number
from beamuq.study import Study

LABEL = "abl_normalization"


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of every cell of the recipe that scores floors."""
    return ablation_tables.needs(study, _recipe(study))


def build(study: Study, inputs: Inputs) -> Table:
    """A row a floor, from uniform weights down to none."""
    recipe = _recipe(study)
    floors = sorted(study.scoring[recipe].epsilon, reverse=True)
    return ablation_tables.table(
        LABEL,
        study,
        inputs,
        chosen=recipe,
        methods=wording.GRAPH,
        stub=("Floor",),
        body=[ablation_tables.beam_line(f"ε={number(e)}", ablation("epsilon", e)) for e in floors],
        what="PRR (higher is better) for floors ε on the mass of each beam",
        sentences=[
            f"Weights of the {study.main.num_candidates} beams are proportional to max(ε, p): ε = 0 is the main "
            "text's, ε = 1 weighs all beams alike."
        ],
        stored=lambda at: at.setting,
    )


def _recipe(study: Study) -> str:
    return ablation_tables.recipe(study, "epsilon", wording.GRAPH, lambda scoring: bool(scoring.epsilon))


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
