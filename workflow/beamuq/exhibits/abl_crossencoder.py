"""``tab:abl_crossencoder``: PRR of the five main methods with a cross-encoder as the similarity s."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import metric_tables, study_grid, wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Table
from beamuq.study import Study

LABEL, MODEL = "abl_crossencoder", "gemma-3-4b-base"


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of the main recipe under the second scorer, every dataset of one model."""
    scorer, cells = _cells(study)
    return metric_tables.needs(study, cells, scorer)


def build(study: Study, inputs: Inputs) -> Table:
    """Values as evaluated; the mean's interval from the stored replicates."""
    scorer, cells = _cells(study)
    return metric_tables.by_dataset(
        LABEL,
        study,
        inputs,
        cells=cells,
        body=metric_tables.pair_body(wording.CONSISTENCY),
        what=f"PRR (higher is better) with similarity {study.scorers[scorer].title}",
        scorer=scorer,
        sentences=[
            f"Everything but the similarity is as with {study.scorers[study.main.scorer].title}.",
            study_grid.shown_instead(study, [MODEL], list(cells)),
        ],
    )


def _cells(study: Study) -> tuple[str, dict[str, list[str]]]:
    recipe = study.main.recipe
    wanted = study_grid.datasets(study, recipe)
    for scorer, found in study.scorers.items():
        replaces = "cross-encoder" in (found.proxy_for or "").lower()
        if scorer == study.main.scorer or not (found.kind == "cross_encoder" or replaces):
            continue

        def usable(model: str, scorer: str = scorer) -> bool:
            return bool(wanted) and all(study_grid.covers(study, recipe, model, d, scorer) for d in wanted)

        if any(usable(model) for model in study.models):
            return scorer, {study_grid.first_model(study, MODEL, usable): wanted}
    raise BeamUQError(
        f"needs a model whose {recipe!r} cells all have a scorer of kind cross_encoder "
        "(or a stand-in for the cross-encoder); add it to the grid's scorers"
    )


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
