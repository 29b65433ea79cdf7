"""``tab:qa_mean_prr``: PRR of every method, mean over the datasets, a column a model."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.exhibits import metric_tables, study_grid
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.study import Study

LABEL = "qa_mean_prr"


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of the main recipe, every model × dataset."""
    return metric_tables.needs(study, study_grid.main_cells(study), study.main.scorer)


def build(study: Study, inputs: Inputs) -> Table:
    """Means and their intervals from the stored replicates."""
    return metric_tables.by_model(LABEL, study, inputs, what="PRR (higher is better)")


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
