"""``tab:base_accs``: the share of greedy answers whose quality is strictly above the threshold, model × dataset."""

from __future__ import annotations

import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.evaluation import intervals
from beamuq.exhibits import figure_style, number_format, ranked_table, study_grid, wording
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Exhibit, Grid, Row, Table
from beamuq.study import Study

LABEL = "base_accs"


def needs(study: Study) -> list[Artifact]:
    """Quality of the main recipe for every model × dataset, and the questions for their groups."""
    recipe, metric = study.main.recipe, study.quality.metric
    return distinct(
        [
            need
            for model, datasets in study_grid.main_cells(study).items()
            for dataset in datasets
            for need in (
                Artifact("quality", model=model, dataset=dataset, recipe=recipe, metric=metric),
                Artifact("questions", dataset=dataset),
            )
        ]
    )


def build(study: Study, inputs: Inputs) -> Table:
    """Accuracy with an interval that knows stories: Wilson's, its n cut by the design effect."""
    cells = study_grid.main_cells(study)
    datasets = list(next(iter(cells.values())))
    rows = []
    sizes: dict[str, list[int]] = {dataset: [] for dataset in datasets}
    body = []
    for model in cells:
        printed = []
        for dataset in datasets:
            of = _accuracy(study, inputs, model, dataset)
            rows.append((f"tab:{LABEL}", model, dataset, "accuracy", "", "", "", of.value, None, of.low, of.high, of.n))
            sizes[dataset].append(of.n)
            printed.append(Cell(number_format.percent(of.value), spread=f"[{100 * of.low:.0f}, {100 * of.high:.0f}]"))
        body.append(Row((study.models[model].title,), tuple(printed)))
    stories = [study.datasets[d].title for d in datasets if study.datasets[d].adapter == "coqa"]
    title = f"Accuracy of the greedy answer: {study.quality.title} > {study.quality.threshold:g}"
    caption = wording.caption(
        study,
        [
            f"{title}, with {figure_style.confidence(study)} Wilson score intervals in brackets.",
            f"Questions of one {wording.listing(stories)} story depend on each other: there the interval's n is divided "
            "by the design effect, the cluster-robust variance over the binomial one."
            if stories
            else "",
            ranked_table.size_sentence(study, sizes),
        ],
        quality=True,
    )
    header = (
        tuple(study.datasets[d].category for d in datasets),
        tuple(study.datasets[d].title for d in datasets),
    )
    values = pd.DataFrame(rows, columns=list(CSV_COLUMNS))
    return Table(LABEL, wording.titled(study, title), caption, values, Grid(("Model",), header, tuple(body)))


def _accuracy(study: Study, inputs: Inputs, model: str, dataset: str) -> intervals.Accuracy:
    return intervals.accuracy(
        inputs.frame(
            Artifact("quality", model=model, dataset=dataset, recipe=study.main.recipe, metric=study.quality.metric)
        ),
        inputs.frame(Artifact("questions", dataset=dataset)),
        study.quality.threshold,
        study.evaluation.confidence,
    )


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
