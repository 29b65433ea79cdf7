"""``tab:abl_other_methods``: PRR of Semantic Entropy, Degree Matrix, SAR and the five main methods in both forms."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import metric_tables, study_grid, wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.study import Study

LABEL, MODEL = "abl_other_methods", "gemma-3-4b-base"
METHODS = ("SemanticEntropy", "DegreeMatrix", "SAR", *wording.CONSISTENCY)


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of the main recipe, every dataset of one model; the further methods must be scored."""
    missing = [method for method in METHODS if method not in study.scoring[study.main.recipe].methods]
    if missing:
        raise BeamUQError(f"needs methods {', '.join(missing)}; add them to scoring.{study.main.recipe}.methods")
    return metric_tables.needs(study, metric_tables.one_model(study, MODEL), study.main.scorer)


def build(study: Study, inputs: Inputs) -> Table:
    """Values as evaluated; the mean's interval from the stored replicates."""
    cells = metric_tables.one_model(study, MODEL)
    return metric_tables.by_dataset(
        LABEL,
        study,
        inputs,
        cells=cells,
        body=metric_tables.pair_body(METHODS),
        what="PRR (higher is better) of further methods in both forms",
        scorer=study.main.scorer,
        sentences=[
            "Semantic Entropy: entropy of the clusters' counts (samples) or masses (beams).",
            "SAR + beamsearch is our reading, −Σ w_i log(q_i + (1/t) Σ_{k≠i} s_ik q_k): the paper gives no formula.",
            study_grid.shown_instead(study, [MODEL], list(cells)),
        ],
    )


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
