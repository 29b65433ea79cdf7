"""``tab:topbeam_scoring``: PRR, mean over the datasets, with the top beam as the answer whose quality is ranked."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import metric_tables, study_grid
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.study import Study

LABEL = "topbeam_scoring"


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of the main recipe, every model × dataset, scored for the top beam too."""
    if "top_beam" not in study.answer_source:
        raise BeamUQError("needs the top beam scored; add top_beam to answer_source")
    return metric_tables.needs(study, study_grid.main_cells(study), study.main.scorer)


def build(study: Study, inputs: Inputs) -> Table:
    """Means and their intervals from the stored replicates."""
    return metric_tables.by_model(
        LABEL,
        study,
        inputs,
        what="PRR (higher is better) of the top beam",
        answer_source="top_beam",
        sentences=["Quality and every method are those of the search's first beam instead of the greedy answer."],
    )


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
