"""``tab:qa_<label>``: PRR of every method on each dataset, one table a model."""

from __future__ import annotations

from functools import partial

from beamuq.artifacts import Artifact
from beamuq.exhibits import metric_tables, study_grid
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.study import Study


def needs(study: Study, *, model: str) -> list[Artifact]:
    """Evaluation and replicates of the main recipe, every dataset of one model."""
    return metric_tables.needs(study, study_grid.main_cells(study, [model]), study.main.scorer)


def build(study: Study, inputs: Inputs, *, model: str) -> Table:
    """Values as evaluated; the mean's interval from the stored replicates."""
    cells = study_grid.main_cells(study, [model])
    return metric_tables.by_dataset(
        _label(study, model),
        study,
        inputs,
        cells=cells,
        body=metric_tables.main_body(study),
        what=f"PRR (higher is better) on {len(cells[model])} datasets",
        scorer=study.main.scorer,
    )


def family(study: Study) -> list[Exhibit]:
    """One exhibit a model of the study."""
    return [
        Exhibit(_label(study, model), "table", partial(needs, model=model), partial(build, model=model), __name__)
        for model in study.models
    ]


def _label(study: Study, model: str) -> str:
    return f"qa_{study.models[model].label}"
