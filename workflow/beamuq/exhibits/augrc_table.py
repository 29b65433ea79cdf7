"""AUGRC, which unlike PRR and ROC-AUC can be compared where accuracies differ: between answers, and between models."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_counts
from beamuq.evaluation.estimates import MEAN
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.estimates_table import Row
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import BuiltTable, TableBody, TableCell, TableExhibit, TableGrid, TableRow, TableRule
from beamuq.exhibits.read_evaluation import Key, Measured, Measurements, difference, mean_of, read_measurements
from beamuq.exhibits.tables_of_prr import main_methods
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

GREEDY, TOP_BEAM, DIFFERENCE = "greedy", "top_beam", "top_beam - greedy"
ACCURACY = ("", "")  # method and variant
Place = tuple[str, str]
HEADS = {GREEDY: "Greedy", DIFFERENCE: "Δ top beam"}


@dataclass(frozen=True)
class AugrcTable(TableExhibit):
    """Methods in every form × models: AUGRC of the greedy answer, and what the top beam as the answer changes.

    Of one dataset, or the mean over those of the main recipe.
    """

    dataset: str = ""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation, replicates and quality of the main cells, and the questions for their groups."""
        if "ROC-AUC" not in study.evaluation.metrics:
            raise BeamUQError("needs ROC-AUC; add it to evaluation.metrics")
        if GREEDY not in study.answer_source:
            raise BeamUQError(f"needs the greedy answer scored; add {GREEDY} to answer_source")
        answers = [file for cell in self._cells(study) for file in exhibit_cells.score_artifacts(study, *cell)[1:]]
        return [*self._evaluations(study), *distinct(answers)]

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Accuracy above every form; differences are paired."""
        cells = self._cells(study)
        of_each: dict[str, list[str]] = {}
        for model, dataset in cells:
            of_each.setdefault(model, []).append(dataset)
        models, datasets = list(of_each), exhibit_cells.datasets_of(study, of_each)
        evaluations = read_measurements(study, inputs, self._evaluations(study))
        rows = main_methods(study, study.main.recipe)
        places = [ACCURACY, *(_place(item) for item in rows if isinstance(item, Row))]
        answers: list[str] = [answer for answer in (GREEDY, TOP_BEAM) if answer in study.answer_source]
        found: dict[tuple[str, str, str, Place], Measured] = {
            (*cell, answer, place): of
            for cell in cells
            for answer in answers
            for place, of in _cell(study, inputs, evaluations[cell], cell, answer, places).items()
        }
        for model in models if len(datasets) > 1 else []:
            kept = [d for d in of_each[model] if not any(map(evaluations[model, d].left_out, answers))]
            titles = [study.datasets[dataset].title for dataset in kept]
            for answer, place in itertools.product(answers, places):
                of_place = [found[model, dataset, answer, place] for dataset in kept]
                found[model, MEAN, answer, place] = mean_of(of_place, titles, study.evaluation.confidence)
        for model, dataset, answer, place in list(found):
            if answer == TOP_BEAM:
                top, greedy = (found[model, dataset, which, place] for which in (TOP_BEAM, GREEDY))
                found[model, dataset, DIFFERENCE, place] = difference(top, greedy, study.evaluation.confidence)
        shown = [GREEDY, DIFFERENCE][: len(answers)]
        of = datasets[0] if len(datasets) == 1 else MEAN

        def row(titles: tuple[str, ...], place: Place) -> TableRow:
            each = [(answer, found[model, of, answer, place]) for model in models for answer in shown]
            return TableRow(titles, tuple(_printed(answer == DIFFERENCE, one) for answer, one in each))

        body: TableBody = [row(("Accuracy",), ACCURACY), TableRule()]
        body += [row(item.titles, _place(item)) if isinstance(item, Row) else item for item in rows]
        marked = {model for (model, _), one in evaluations.items() if any(map(one.left_out, answers))}
        heads = tuple(
            study.models[model].title + MARK * (model in marked) + exhibit_cells.alone(study, of_each, model)
            for model in models
            for _ in shown
        )
        name = study.datasets[of].title if of in datasets else f"mean over {len(datasets)} datasets"
        title = f"AUGRC (lower is better), {name}"
        sizes = {d: [found[*cell, GREEDY, ACCURACY].n for cell in cells if cell[1] == d] for d in datasets}
        sentences = [
            f"{title}.",
            "The mean, over shares of answers shown, of the share of all answers that is shown and wrong "
            f"({study.main_quality.title} ≤ {study.main_quality.threshold:g}): ½(1 − a)² + a(1 − a)(1 − ROC-AUC), a "
            "the accuracy. Of the same answers it orders methods as ROC-AUC does; across a row answers differ, and "
            "more accurate ones have a lower value by that alone.",
            "Δ top beam: the first beam as the answer, minus the greedy one, paired." if DIFFERENCE in shown else "",
            captions.sizes(study, sizes),
            "Intervals are in the CSV file.",
        ]
        grid = TableGrid(("Method",), (heads, tuple(HEADS[answer] for _ in models for answer in shown)), tuple(body))
        values: list[dict[str, Any]] = [
            {"model": model, "dataset": dataset, "setting": answer, "method": place[0], "variant": place[1]}
            | {"metric": "accuracy" if place == ACCURACY else "AUGRC"}
            | one.numbers
            for (model, dataset, answer, place), one in found.items()
        ]
        return self.table(study, title, sentences, values, grid)

    def _cells(self, study: Study) -> list[exhibit_cells.Cell]:
        cells = exhibit_cells.main_cells(study)
        return [(model, d) for model, datasets in cells.items() for d in datasets if self.dataset in ("", d)]

    def _evaluations(self, study: Study) -> list[Artifact]:
        return exhibit_cells.evaluation_artifacts(self._cells(study), study.main.recipe, study.main.scorer)


def _place(row: Row) -> Place:
    return row.keys["method"], row.keys.get("variant", "")


def _cell(
    study: Study,
    inputs: Inputs,
    evaluation: Measurements,
    cell: exhibit_cells.Cell,
    answer: str,
    places: Sequence[Place],
) -> dict[Place, Measured]:
    """Accuracy and AUGRC of a cell, on the resamples that its evaluation drew."""
    quality, questions = (inputs.frame(file) for file in exhibit_cells.score_artifacts(study, *cell)[1:])
    answers = quality[quality["answer_source"] == answer]
    ids, groups = answers["id"].to_list(), questions.set_index("id")["group"].loc[answers["id"]].to_list()
    name = draws_name(cell[1], zip(ids, groups, strict=True))
    resamples = resample_counts(groups, study.evaluation.resamples, study.seed, name)
    counts = np.column_stack((np.ones(len(ids), dtype=np.int64), resamples))
    right = (answers["value"] > study.main_quality.threshold).to_numpy()
    accuracy = counts[right].sum(axis=0) / counts.sum(axis=0)
    measured = functools.partial(Measured.resampled, n=len(ids), confidence=study.evaluation.confidence)
    found = {ACCURACY: measured(float(accuracy[0]), accuracy[1:])}
    for place in places[1:]:
        of = evaluation[Key("ROC-AUC", *place, "", answer)]
        assert of.replicates is not None
        auc = np.append(np.nan if of.value is None else of.value, of.replicates)
        drawn = area_under_generalised_risk(accuracy, auc)
        found[place] = measured(float(drawn[0]), drawn[1:])
    return found


def _printed(signed: bool, of: Measured) -> TableCell:
    if of.value is None:
        return number_format.undefined(of.note)
    text = number_format.difference(of.value, None, None).text if signed else number_format.decimal(of.value)
    return number_format.with_interval(TableCell(text, note=of.note), of.low, of.high)
