"""Every cell with its empty answers and without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation.estimates import MOST_EMPTY
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.estimates_table import Row, at_printed, records
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableExhibit, TableGrid, TableRow
from beamuq.exhibits.read_evaluation import read_estimates
from beamuq.exhibits.tables_of_prr import main_methods
from beamuq.parquet_tables import ALL, ANSWERED, Artifact
from beamuq.study_config import Study


@dataclass(frozen=True)
class EmptyAnswersTable(TableExhibit):
    """PRR of all questions and of the answered ones alone, in every cell of the main recipe.

    The CSV has every method of the main recipe; printed are the answer's probability, where it is scored, and the
    methods that have both forms.
    """

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of the main recipe for every model × dataset."""
        cells = exhibit_cells.main_cells(study)
        pairs = [(model, dataset) for model, datasets in cells.items() for dataset in datasets]
        return exhibit_cells.evaluation_artifacts(pairs, study.main.recipe, study.main.scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a cell: how many answers are empty, then by method PRR of all and of the answered questions."""
        found = read_estimates(study, inputs, self.artifacts(study)).where(metric="PRR", answer_source="greedy")
        rows = [item.keys for item in main_methods(study, study.main.recipe) if isinstance(item, Row)]
        printed = [keys for keys in rows if keys["method"] == "Prob" or "variant" in keys]
        body, values = [], []
        of_all = found.frame[found.frame["subset"] == ALL]
        for (model, dataset), part in of_all.groupby(["model", "dataset"], sort=False):
            share, n = float(part["empty"].iloc[0]), int(part["n"].iloc[0])
            place: dict[str, Any] = {"model": model, "dataset": dataset}
            known = not np.isnan(share)
            values.append(place | {"metric": "empty answers"} | ({"value": share, "n": n} if known else {}))
            places = [place | dict(keys) for keys in rows]
            each = {of: at_printed(study, found.where(subset=of), places) for of in (ALL, ANSWERED)}
            summaries = {of: one.summary(study.evaluation.confidence) for of, one in each.items()}
            for pair in zip(*(records(one.assign(setting=of)) for of, one in summaries.items()), strict=True):
                values += pair
            cells = [
                _cell([one.iloc[position] for one in summaries.values()])
                for position, keys in enumerate(rows)
                if keys in printed
            ]
            mark = MARK * (known and share > MOST_EMPTY)
            count = f"{round(share * n)} of {n}" if known else "not recorded"
            titles = (study.models[str(model)].title, study.datasets[str(dataset)].title + mark)
            body.append(TableRow(titles, (TableCell(count), *cells)))
        what = "PRR of all questions and of the answered ones alone"
        sentences = [
            f"{what}.",
            "The two stand as all / answered; empty: greedy answers without any text. Intervals are in the CSV file.",
        ]
        forms = {"multinomial": "samples", "beamsearch": "beams"}
        heads = (
            ("", *(captions.method_short(keys["method"]) for keys in printed)),
            ("Empty", *(forms.get(keys.get("variant", ""), "") for keys in printed)),
        )
        grid = TableGrid(("Model", "Dataset"), heads, tuple(body))
        return self.table(study, what, sentences, values, grid)


def _cell(pair: Sequence[pd.Series]) -> TableCell:
    text = " / ".join("n/a" if np.isnan(of["value"]) else number_format.decimal(of["value"]) for of in pair)
    told = " / ".join("–" if np.isnan(of["low"]) else number_format.interval(of["low"], of["high"]) for of in pair)
    note = "; ".join(dict.fromkeys(of["note"] for of in pair if np.isnan(of["value"])))
    return TableCell(text.replace("-", "−"), note=note, pointer=told)
