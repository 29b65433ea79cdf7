"""``tab:abl_prauc``: PR-AUC of every method, dataset by dataset, one model; incorrect answers are the positives."""

from __future__ import annotations

from beamuq.errors import BeamUQError
from beamuq.exhibits import grid, metric_tables
from beamuq.exhibits.core import Exhibit, Inputs, Table
from beamuq.needs import Need
from beamuq.study import Study

LABEL, METRIC, MODEL = "abl_prauc", "PR-AUC", "gemma-3-4b-base"


def needs(study: Study) -> list[Need]:
    """Evaluation and replicates of the main recipe, every dataset of one model."""
    if METRIC not in study.evaluation.metrics:
        raise BeamUQError(f"needs {METRIC}; add it to evaluation.metrics")
    return metric_tables.needs(study, metric_tables.one_model(study, MODEL), study.main.scorer)


def build(study: Study, inputs: Inputs) -> Table:
    """Values as evaluated; the mean's interval from the stored replicates."""
    cells = metric_tables.one_model(study, MODEL)
    model = next(iter(cells))
    return metric_tables.table(
        LABEL,
        study,
        inputs,
        cells=cells,
        columns=metric_tables.dataset_columns(study, model, cells[model]),
        body=metric_tables.main_body(study),
        what=f"{METRIC} (higher is better) on {len(cells[model])} datasets, {study.models[model].title}",
        scorer=study.main.scorer,
        metric=METRIC,
        sentences=[
            f"Incorrect answers ({study.quality.title} ≤ {study.quality.threshold}) are the positives.",
            grid.shown_instead(study, [MODEL], [model]),
        ],
    )


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
