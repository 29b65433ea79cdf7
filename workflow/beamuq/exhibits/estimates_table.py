"""Tables of estimates: a specification says which cells, rows, columns and differences; one builder makes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY, TIE, Estimates, joined
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableCell,
    TableExhibit,
    TableGrid,
    TableHeading,
    TableRow,
    TableRule,
)
from beamuq.exhibits.read_evaluation import read_estimates
from beamuq.methods import registry
from beamuq.parquet_tables import ALL, Artifact
from beamuq.strategy_names import from_print
from beamuq.study_config import Study

PLACE = ("model", "dataset", "method", "variant", "setting")


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, and its keys (method, variant, setting, as printed)."""

    titles: tuple[str, ...]
    keys: Mapping[str, str]


Keys = Mapping[str, str]
Body = Sequence[Row | TableHeading | TableRule]
Columns = Sequence[tuple[Keys, tuple[str, ...]]]
"""Keys and titles of each column, the titles from the upper header level to the last."""


@dataclass(frozen=True)
class Shown:
    """What a table is of: a recipe's cells, model → datasets, under a scorer."""

    recipe: str
    scorer: str
    cells: Mapping[str, Sequence[str]]

    @property
    def pairs(self) -> list[exhibit_cells.Cell]:
        """Model and dataset of each cell."""
        return [(model, dataset) for model, datasets in self.cells.items() for dataset in datasets]


@dataclass(frozen=True)
class Layout:
    """Estimates under their printed keys, and how rows and columns show them.

    ``style``, ``within``, ``spread`` and ``arrows`` are those of :func:`laid_out`.
    """

    found: Estimates
    stub: tuple[str, ...]
    body: Body
    columns: Columns
    style: Literal["ranked", "signed", "plain"] = "plain"
    within: tuple[str, ...] = ("model", "dataset")
    spread: bool = False
    arrows: bool = False


@dataclass(frozen=True)
class EstimatesTable(TableExhibit):
    """A metric, or its difference to a baseline, of rows × columns of cells.

    Attributes
    ----------
    shown
        The cells. Raises BeamUQError, with the fix, where the study has none.
    rows
        Of the study and the recipe: the rows.
    columns
        "models": a column a model, its mean over datasets. "datasets": a column a dataset and their mean, of one model
        or of each. "cells": a column a cell.
    heads
        What stands above a dataset.
    methods
        Columns within each of these; a single "" where the rows name the method.
    minus
        The keys of what is subtracted from a row's keys, paired; None: nothing. A difference is bold where its interval
        excludes 0; any other value where it is the best of its column, and underlined where it is the second best.
    spread, arrows
        Of values: whether ± is printed, and whether an arrow marks a beam form better than its multinomial one.
    wants
        Models that the paper shows; the caption says where others stand in.
    caption
        The label of its template; "": its own.
    subset
        "all" questions, or those "answered" alone, whose produced answer is not empty.
    facts
        What the caption's template takes beside the facts of every table.
    """

    shown: Callable[[Study], Shown]
    rows: Callable[[Study, str], Body]
    stub: tuple[str, ...] = ("Method",)
    columns: Literal["models", "datasets", "cells"] = "datasets"
    heads: Literal["category", "model", ""] = "category"
    methods: tuple[str, ...] = ("",)
    metric: str = "PRR"
    minus: Callable[[Keys], Keys] | None = None
    spread: bool = True
    arrows: bool = True
    wants: tuple[str, ...] = ()
    caption: str = ""
    subset: str = ALL
    facts: Callable[[Study, Shown], Mapping[str, Any]] = field(default=lambda *_: {})

    @property
    def module(self) -> str:
        """The specifications', which import this one."""
        return "beamuq.exhibits.tables_of_prr"

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of every cell shown."""
        if self.metric.partition("@")[0] not in study.evaluation.metrics:
            raise BeamUQError(f"needs {self.metric}; add it to evaluation.metrics")
        if self.answer_source not in study.answer_source:
            raise BeamUQError(f"needs the top beam scored; add {self.answer_source} to answer_source")
        shown = self.shown(study)
        if not any(isinstance(item, Row) for item in self.rows(study, shown.recipe)):
            raise BeamUQError(f"has no row in recipe {shown.recipe!r}; score there what it shows, or drop the exhibit")
        return exhibit_cells.evaluation_artifacts(shown.pairs, shown.recipe, shown.scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Select, subtract, average, mark."""
        shown = self.shown(study)
        body, evaluations = self.rows(study, shown.recipe), self.artifacts(study)
        found = read_estimates(study, inputs, evaluations).where(
            metric=self.metric, answer_source=self.answer_source, subset=self.subset
        )
        cells = [{"model": model, "dataset": d, "method": of} for model, d in shown.pairs for of in self.methods]
        lines = [item for item in body if isinstance(item, Row)]
        each = self._values(study, found, [{**cell, **line.keys} for line in lines for cell in cells])
        every = each if self.columns == "cells" else with_means(study, each)
        columns = self._columns(study, shown, each)
        made = Layout(
            every,
            self.stub,
            body,
            columns,
            "ranked" if self.minus is None else "signed",
            ("model", "dataset", *(["method"] if self.methods != ("",) else [])),
            self.spread,
            self.arrows,
        )
        grid, values = laid_out(study, made)
        facts = table_facts(study, each, values) | {
            "metric": self.metric,
            "model": study.models[next(iter(shown.cells))].title,
            "datasets": max(map(len, shown.cells.values())),
            "scorer": study.scorers[shown.scorer].title,
            "instead": exhibit_cells.shown_instead(study, self.wants, list(shown.cells)),
        }
        title, *sentences = captions.text(self.caption or self.label, {**facts, **self.facts(study, shown)})
        rows = records(self._published(values))
        return self.table(study, title, [f"{title}.", *sentences], rows, grid, [shown.scorer])

    def _values(self, study: Study, found: Estimates, places: Sequence[Keys]) -> Estimates:
        """What stands at each place of a dataset, under the printed keys of its row."""
        values = at_printed(study, found, places)
        if self.minus is None:
            return values
        gains = values.minus(at_printed(study, found, [self.minus(place) for place in places]))
        return gains.assign(**{name: values.frame[name].tolist() for name in ("variant", "setting")})

    def _published(self, values: pd.DataFrame) -> pd.DataFrame:
        """Under the keys of the CSV: a difference's variant and setting are ``row - baseline`` where the two differ."""
        if self.minus is None:
            return values
        baselines = _frame([self.minus(place) for place in _rows(values[list(PLACE)])])
        named = {
            name: [row if row == of else f"{row} - {of}" for row, of in zip(values[name], baselines[name], strict=True)]
            for name in ("variant", "setting")
        }
        return values.assign(**named)

    def _columns(self, study: Study, shown: Shown, each: Estimates) -> Columns:
        """† marks what is left out of means."""
        cells = each.frame.groupby(["model", "dataset"], sort=False)["empty"].max()
        marked = {cell: MARK * bool(empty > MOST_EMPTY) for cell, empty in cells.items()}
        found: list[tuple[str, str, tuple[str, ...]]] = []
        for model, datasets in shown.cells.items():
            title = study.models[model].title
            if self.columns == "models":
                mark = max(marked[model, dataset] for dataset in datasets)
                found.append((model, MEAN, (f"{title}{mark}{exhibit_cells.alone(study, shown.cells, model)}",)))
                continue
            for dataset in datasets:
                of = study.datasets[dataset]
                head = {"category": (of.category,), "model": (title,), "": ()}[self.heads]
                found.append((model, dataset, (*head, of.title + marked[model, dataset] * (self.columns != "cells"))))
            if self.columns == "datasets" and (len(datasets) > 1 or self.minus is None):
                found.append((model, MEAN, (*{"category": ("",), "model": (title,), "": ()}[self.heads], "Mean")))
        return [
            (
                {"model": model, "dataset": dataset} | ({"method": method} if method else {}),
                (*titles, *((captions.method_short(method),) if method else ())),
            )
            for model, dataset, titles in found
            for method in self.methods
        ]


def with_means(study: Study, each: Estimates) -> Estimates:
    """The rows, and their means over datasets."""
    return joined([each, each.mean_over_datasets({name: of.title for name, of in study.datasets.items()})])


def at_printed(study: Study, found: Estimates, places: Sequence[Keys]) -> Estimates:
    """The estimate at each printed place, under its printed keys.

    Some methods are printed without the variant that they are stored under, and the main line as a strategy.

    Raises BeamUQError, naming the place, if there is none.
    """
    frame = _frame(places)
    stored = frame.assign(
        variant=[registry.stored_variant(*pair) for pair in zip(frame["method"], frame["variant"], strict=True)],
        setting=["" if name in ("beam", study.main.sample) else name for name in map(from_print, frame["setting"])],
    )
    try:
        values = found.at(stored)
    except KeyError as error:
        raise BeamUQError(f"evaluation: no row for {error.args[0]}; run the evaluation again") from error
    return values.assign(variant=frame["variant"].tolist(), setting=frame["setting"].tolist())


def laid_out(study: Study, made: Layout) -> tuple[TableGrid, pd.DataFrame]:
    """Rows × columns as a grid, and the values behind it with intervals, marks and ``p_holm``.

    A row's and a column's keys together name an estimate; where there is none the cell has a dash. "ranked": best and
    second of equal keys ``within`` are marked, p is of the lead of the best, ``arrows`` mark a beam form above its
    multinomial one. "signed": bold where the interval excludes 0, p of the value itself over the whole table. "plain":
    neither. ``spread``: ± is printed.
    """
    found, columns, style = made.found, made.columns, made.style
    lines = [item for item in made.body if isinstance(item, Row)]
    places = _frame([{**keys, **line.keys} for line in lines for keys, _ in columns])
    there = pd.MultiIndex.from_frame(places).isin(pd.MultiIndex.from_frame(found.frame[list(PLACE)]))
    shown = found.at(places[there])
    values = shown.summary(study.evaluation.confidence).assign(mark="", better=False, p_holm=np.nan)
    if style == "ranked":
        values[["mark", "p_holm"]] = shown.best(made.within).to_numpy()
        samples = values[values["variant"] == captions.MULTINOMIAL].assign(variant=captions.BEAMSEARCH)
        paired = values[list(PLACE)].merge(samples[[*PLACE, "value"]], on=list(PLACE), how="left")["value"].to_numpy()
        values["better"] = made.arrows & (values["variant"] == captions.BEAMSEARCH) & (values["value"] > paired + TIE)
    elif style == "signed":
        values["mark"] = np.where((values["low"] > 0) | (values["high"] < 0), "best", "")
        tests = int(values["value"].notna().sum())
        values["p_holm"] = np.where(values["value"].isna(), np.nan, shown.holm(tests))
    printed = iter([_cell(row, style, made.spread) for row in _rows(values)])
    cells = [next(printed) if known else TableCell("–") for known in there]
    rows = iter([tuple(cells[n : n + len(columns)]) for n in range(0, len(cells), len(columns))])
    grid = TableGrid(
        made.stub,
        tuple(zip(*(titles for _, titles in columns), strict=True)),
        tuple(TableRow(item.titles, next(rows)) if isinstance(item, Row) else item for item in made.body),
    )
    return grid, values


def table_facts(study: Study, each: Estimates, values: pd.DataFrame) -> dict[str, Any]:
    """What every caption may say: M, sizes, marks and intervals, of the cells in ``each`` and what is shown of them."""
    sizes = each.frame.groupby("dataset", sort=False)["n"].unique()
    resampled = captions.resampled(study, [str(dataset) for dataset in sizes.index])
    bold = f"{int((values['mark'] == 'best').sum())} of {int(values['value'].notna().sum())}"
    return {
        "M": study.main.num_candidates,
        "main_scorer": study.scorers[study.main.scorer].title,
        "quality": f"{study.main_quality.title} ≤ {study.main_quality.threshold}",
        "sizes": captions.sizes(study, {str(dataset): list(n) for dataset, n in sizes.items()}),
        "ranked": captions.RANKED + captions.ARROWS * bool(values["better"].any()) + ".",
        "spread": f"± is the standard deviation over {resampled}.",
        "gains": "Differences are of the same questions and resamples. Bold: the interval excludes 0, uncorrected for "
        f"how many there are: {bold}. Intervals are {captions.confidence(study)} percentiles over {resampled}.",
    }


def records(values: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of the CSV, without what is undefined."""
    return [{name: of for name, of in row.items() if of == of} for row in _rows(values)]


def _cell(row: Mapping[str, Any], style: str, spread: bool) -> TableCell:
    if np.isnan(row["value"]):
        return number_format.undefined(row["note"])
    text = number_format.signed(row["value"]) if style == "signed" else number_format.decimal(row["value"])
    std = f"± {number_format.decimal(row['std'])}" if spread and not np.isnan(row["std"]) else ""
    low, high = (None if np.isnan(row[end]) else row[end] for end in ("low", "high"))
    told = f"{number_format.interval(low, high)} n = {row['n']}".strip()
    note = row["note"] if spread or style != "ranked" else ""
    return TableCell(text, spread=std, mark=row["mark"], better=row["better"], note=note, pointer=told)


def _rows(values: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): of for name, of in row.items()} for row in values.to_dict("records")]


def _frame(places: Sequence[Keys]) -> pd.DataFrame:
    return pd.DataFrame([dict.fromkeys(PLACE, "") | dict(place) for place in places], columns=list(PLACE))
