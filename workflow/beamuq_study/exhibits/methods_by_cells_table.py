"""Tables of a metric, or of differences of it: rows of methods or settings, columns of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq_study import grid
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import EVALUATION, Exhibit, Row, Table
from beamuq_study.exhibits.numbers_of_cells import left_out, means, measured
from beamuq_study.exhibits.table_of_numbers import Column, Keys, table
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.produced_answers import AnswerSource
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

Cells = Callable[[Study], Sequence[Cell]]
Rows = Callable[[Study, str], Sequence[Row]]
"""The rows of a study's table, by the recipe of its cells."""
ColumnsOf = Literal["models", "datasets", "cells"]


def prr_table(
    label: str,
    shown: Cells,
    rows: Rows,
    *,
    stub: tuple[str, ...] = ("Method",),
    columns: ColumnsOf = "datasets",
    methods: tuple[str, ...] = ("",),
    metric: str = "PRR",
    minus: Keys | None = None,
    beside: Literal["", "std"] = "std",
    subset: str = ALL,
    answer_source: AnswerSource = "greedy",
    caption: str = "",
    beyond_paper: bool = False,
) -> Exhibit:
    """A metric of rows × columns of cells, all of one recipe and scorer; no rows, no table.

    A column is a model's mean over datasets; a dataset of a model, which the mean of several
    follows; or a cell; within each stand the ``methods``, a single "" where the rows name them.
    ``minus``: keys in which what is subtracted, paired, differs from a row. ``subset``: "all"
    questions or the "answered" ones.
    """
    specification = _MethodsByCells(
        shown, rows, stub, columns, methods, metric, minus, beside, subset, answer_source
    )
    return Exhibit(
        label,
        "table",
        specification.supplied,
        EVALUATION,
        specification.build,
        caption=caption,
        metric=metric,
        answer_source=answer_source,
        beyond_paper=beyond_paper,
    )


@dataclass(frozen=True)
class _MethodsByCells:
    """What :func:`prr_table` is told."""

    cells: Cells
    rows: Rows
    stub: tuple[str, ...]
    columns: ColumnsOf
    methods: tuple[str, ...]
    metric: str
    minus: Keys | None
    beside: Literal["", "std"]
    subset: str
    answer_source: AnswerSource

    def supplied(self, study: Study) -> Sequence[Cell]:
        """The cells; none where the table would have no rows."""
        chosen = self.cells(study)
        return chosen if chosen and self.rows(study, chosen[0].recipe) else []

    def build(self, study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
        """The table of the cells of one recipe and scorer."""
        rows = self.rows(study, chosen[0].recipe)
        estimates = self._estimates(study, chosen, inputs, rows)
        if self.minus is not None:
            rows = [replace(row, keys=_keys_of_difference(row.keys, self.minus)) for row in rows]
        columns = [
            self._column(place, titles, method)
            for place, titles in self._places(study, chosen, estimates)
            for method in self.methods
        ]
        if self.columns != "cells":
            estimates = joined([estimates, means(study, estimates)])
        counts = sorted({len(of_model) for of_model in grid.by_model(chosen).values()})
        return table(
            study,
            estimates,
            self.stub,
            rows,
            columns,
            arrows=self.beside == "std" and self.minus is None,
            facts={
                "metric": self.metric,
                "further_rejection": self.metric.partition("@")[2],
                "datasets": "–".join(map(str, counts)),
                "scorer": study.scorers[chosen[0].scorer].title,
            },
        )

    def _estimates(
        self, study: Study, chosen: Sequence[Cell], inputs: Inputs, rows: Sequence[Row]
    ) -> Estimates:
        """The metric of each row and method in each cell, or its differences."""
        forms: list[Keys] = [
            {"method": method, **row.keys} for row in rows for method in self.methods
        ]
        estimates = self._measured(study, chosen, inputs, forms)
        if self.minus is None:
            return estimates
        subtracted = [{**form, **self.minus} for form in forms]
        return estimates.minus(self._measured(study, chosen, inputs, subtracted))

    def _measured(
        self, study: Study, chosen: Sequence[Cell], inputs: Inputs, forms: Sequence[Keys]
    ) -> Estimates:
        return measured(
            study,
            inputs,
            chosen,
            forms,
            metric=self.metric,
            answer_source=self.answer_source,
            subset=self.subset,
        )

    def _column(self, place: Keys, titles: tuple[str, ...], method: str) -> Column:
        """The column of a method at a place; a method "" is named by the rows."""
        keys = {**place, "metric": self.metric}
        if method:
            keys["method"] = method
            titles = (*titles, captions.method_short(method))
        return Column(keys, titles, "ranked" if self.minus is None else "signed", self.beside)

    def _places(
        self, study: Study, chosen: Sequence[Cell], estimates: Estimates
    ) -> Iterator[tuple[Keys, tuple[str, ...]]]:
        """The keys and the titles of each model, dataset or cell that has columns."""
        # Titles of methods stand below those of datasets, which then need their model.
        by_model = self.methods != ("",)
        for model, of_model in grid.by_model(chosen).items():
            title = study.models[model].title
            mean = {"model": model, "dataset": MEAN}
            if self.columns == "models":
                yield mean, (title + left_out(estimates.where(model=model)),)
                continue
            for cell in of_model:
                dataset = study.datasets[cell.dataset]
                mark = ""
                if self.columns == "datasets":
                    mark = left_out(estimates.where(**cell.place))
                yield cell.place, (title if by_model else dataset.category, dataset.title + mark)
            # The mean of one dataset is that dataset's value again.
            if self.columns == "datasets" and len(of_model) > 1:
                yield mean, (title if by_model else "", "Mean")


def _keys_of_difference(keys: Keys, minus: Keys) -> Keys:
    """The keys under which rows of ``keys`` minus rows of ``minus`` are stored."""
    names = {}
    for name, value in keys.items():
        subtracted = minus.get(name, value)
        names[name] = value if subtracted == value else f"{value} - {subtracted}"
    return names
