"""The tables of an area under a curve: every method, dataset by dataset, one model; incorrect answers are positives."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import metric_tables, study_grid
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Table
from beamuq.study import Study

MODEL = "gemma-3-4b-base"


def needs(study: Study, *, metric: str) -> list[Artifact]:
    """Evaluation and replicates of the main recipe, every dataset of one model."""
    if metric not in study.evaluation.metrics:
        raise BeamUQError(f"needs {metric}; add it to evaluation.metrics")
    return metric_tables.needs(study, metric_tables.one_model(study, MODEL), study.main.scorer)


def build(study: Study, inputs: Inputs, *, label: str, metric: str) -> Table:
    """Values as evaluated; the mean's interval from the stored replicates."""
    cells = metric_tables.one_model(study, MODEL)
    return metric_tables.by_dataset(
        label,
        study,
        inputs,
        cells=cells,
        body=metric_tables.main_body(study),
        what=f"{metric} (higher is better) on {len(next(iter(cells.values())))} datasets",
        scorer=study.main.scorer,
        metric=metric,
        sentences=[
            f"Incorrect answers ({study.quality.title} ≤ {study.quality.threshold}) are the positives.",
            study_grid.shown_instead(study, [MODEL], list(cells)),
        ],
    )
