"""Every cell with its empty answers and without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from beamuq.exhibits import best_marked_table, captions, exhibit_cells, method_tables, number_format
from beamuq.exhibits.best_marked_table import RankedRow
from beamuq.exhibits.empty_answers import MARK, of_answered
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableExhibit, TableGrid, TableRow
from beamuq.exhibits.read_evaluation import Key, Measured, read_measurements
from beamuq.parquet_tables import ALL, ANSWERED, Artifact
from beamuq.study_config import Study


@dataclass(frozen=True)
class EmptyAnswersTable(TableExhibit):
    """PRR of all questions and of the answered ones alone, in every cell of the main recipe.

    The CSV has every method of the main recipe; printed are the answer's probability, where it is scored, and the
    methods that have both forms.
    """

    of_answers = False  # it has both

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of the main recipe for every model × dataset."""
        cells = exhibit_cells.main_cells(study)
        pairs = [(model, dataset) for model, datasets in cells.items() for dataset in datasets]
        return exhibit_cells.evaluation_artifacts(pairs, study.main.recipe, study.main.scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a cell: how many answers are empty, then by method PRR of all and of the answered questions."""
        files = self.artifacts(study)
        of_each = {ALL: inputs, ANSWERED: of_answered(study, inputs, files)}
        of = {subset: read_measurements(study, read, files) for subset, read in of_each.items()}
        rows = [item.key for item in method_tables.main_body(study) if isinstance(item, RankedRow)]
        keys = [Key("PRR", place.method, place.variant) for place in rows]
        printed = [key for key in keys if key.method == "Prob" or key.variant]
        body, values = [], []
        for model, dataset in of[ALL]:
            empty = of[ALL][model, dataset].empty()
            place: dict[str, Any] = {"model": model, "dataset": dataset}
            share = empty.empty / empty.n if empty else None
            values.append(place | {"metric": "empty answers", "value": share, "n": empty.n if empty else None})
            both = {key: [of[subset][model, dataset][key] for subset in (ALL, ANSWERED)] for key in keys}
            values += [row for key, pair in both.items() for row in _values(place, key, pair)]
            titles = (study.models[model].title, study.datasets[dataset].title + MARK * bool(empty and empty.too_many))
            count = f"{empty.empty} of {empty.n}" if empty else "not recorded"
            body.append(TableRow(titles, (TableCell(count), *(_cell(both[key]) for key in printed))))
        what = "PRR of all questions and of the answered ones alone"
        sentences = [
            f"{what}.",
            "The two stand as all / answered; empty: greedy answers without any text.",
        ]
        resampled = best_marked_table.resampled(study, list(dict.fromkeys(d for _, d in of[ALL])))
        brackets = f"In brackets: {captions.confidence(study)} percentile intervals over {resampled}."
        heads = (
            ("", *(captions.method_short(key.method) for key in printed)),
            ("Empty", *({"multinomial": "samples", "beamsearch": "beams"}.get(key.variant, "") for key in printed)),
        )
        grid = TableGrid(("Model", "Dataset"), heads, tuple(body))
        return self.table(study, what, sentences, values, grid, brackets=brackets)


def _values(place: dict[str, Any], key: Key, pair: Sequence[Measured]) -> Iterator[dict[str, Any]]:
    for subset, found in zip((ALL, ANSWERED), pair, strict=True):
        named = {"metric": key.metric, "method": key.method, "variant": key.variant, "setting": subset}
        yield place | named | found.numbers


def _cell(pair: Sequence[Measured]) -> TableCell:
    text = " / ".join("n/a" if of.value is None else number_format.decimal(of.value).replace("-", "−") for of in pair)
    interval = " / ".join(number_format.interval(of.low, of.high) or "–" for of in pair)
    note = "; ".join(dict.fromkeys(of.note for of in pair if of.value is None))
    return TableCell(text, note=note, with_interval=TableCell(text, interval=interval, note=note))
