"""``tab:abl_ecc_params``: PRR of the two spectral methods by eigenvalue threshold alpha or fixed dimension K."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.exhibits import ablation_tables
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Heading, Rule, Table
from beamuq.exhibits.ranked_table import Line
from beamuq.strategies import ablation
from beamuq.study import Study

LABEL = "abl_ecc_params"
METHODS = ("Eccentricity", "EigVecDissimilarity")


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of every cell of the recipe that scores thresholds and dimensions."""
    return ablation_tables.needs(study, _recipe(study))


def build(study: Study, inputs: Inputs) -> Table:
    """Thresholds first, then fixed dimensions, both over beams."""
    recipe = _recipe(study)
    scoring = study.scoring[recipe]
    thresholds = [ablation("alpha", a) for a in sorted(scoring.alpha)]
    body: list[Line | Heading | Rule] = [ablation_tables.beam_line(s.replace("alpha", "α"), s) for s in thresholds]
    body += [Rule()]
    body += [ablation_tables.beam_line(f"K={k}", ablation("K", k)) for k in sorted(scoring.fixed_k)]
    return ablation_tables.table(
        LABEL,
        study,
        inputs,
        chosen=recipe,
        methods=METHODS,
        stub=("Embedding",),
        body=body,
        what="PRR (higher is better) for different embeddings by the graph Laplacian",
        sentences=[
            "Beam form. Above: eigenvectors with eigenvalue below α are kept; below: the first K, where a K that cuts "
            "an eigenspace weighs its projector."
        ],
        stored=lambda at: at.setting,
    )


def _recipe(study: Study) -> str:
    return ablation_tables.recipe(study, "alpha and fixed_k", METHODS, lambda s: bool(s.alpha and s.fixed_k))


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
