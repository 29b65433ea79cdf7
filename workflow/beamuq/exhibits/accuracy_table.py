"""The share of greedy answers whose quality is strictly above the threshold, model × dataset."""

from __future__ import annotations

from dataclasses import dataclass

from beamuq.evaluation.intervals import accuracy
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableExhibit, TableGrid, TableRow
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study


@dataclass(frozen=True)
class AccuracyTable(TableExhibit):
    """Accuracy with an interval that knows stories: Wilson's, its n cut by the design effect."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Quality of the main recipe for every model × dataset, and the questions for their groups."""
        pairs = [_files(study, m, d) for m, datasets in exhibit_cells.main_cells(study).items() for d in datasets]
        return distinct([file for pair in pairs for file in pair])

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a model, a column a dataset."""
        cells = exhibit_cells.main_cells(study)
        datasets = exhibit_cells.datasets_of(study, cells)
        values: list[dict[str, str | float]] = []
        sizes: dict[str, list[int]] = {dataset: [] for dataset in datasets}
        body = []
        for model in cells:
            printed = []
            for dataset in datasets:
                if dataset not in cells[model]:
                    printed.append(TableCell("–"))
                    continue
                quality, questions = map(inputs.frame, _files(study, model, dataset))
                of = accuracy(quality, questions, study.main_quality.threshold, study.evaluation.confidence)
                place = {"model": model, "dataset": dataset, "metric": "accuracy"}
                values.append(place | {"value": of.value, "low": of.low, "high": of.high, "n": of.n})
                sizes[dataset].append(of.n)
                interval = f"[{100 * of.low:.0f}, {100 * of.high:.0f}]"
                printed.append(TableCell(number_format.percent(of.value), spread=interval))
            body.append(TableRow((study.models[model].title,), tuple(printed)))
        stories = [study.datasets[d].title for d in datasets if study.datasets[d].adapter == "coqa"]
        title = f"Accuracy of the greedy answer: {study.main_quality.title} > {study.main_quality.threshold:g}"
        sentences = [
            f"{title}, with {captions.confidence(study)} Wilson score intervals in brackets.",
            f"Questions of one {captions.listing(stories)} story depend on each other: there the interval's n is "
            "divided by the design effect, the cluster-robust variance over the binomial one."
            if stories
            else "",
            captions.sizes(study, sizes),
            "–: not in the study." if any(len(of_model) < len(datasets) for of_model in cells.values()) else "",
        ]
        grid = TableGrid(("Model",), captions.dataset_heads(study, datasets), tuple(body))
        return self.table(study, title, sentences, values, grid, scorers=())


def _files(study: Study, model: str, dataset: str) -> tuple[Artifact, Artifact]:
    """Quality of a cell, and its questions."""
    quality = Artifact("quality", dataset, model, study.main.recipe, metric=study.main_quality.metric)
    return quality, Artifact("questions", dataset)
