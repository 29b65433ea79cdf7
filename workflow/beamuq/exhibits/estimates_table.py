"""Tables of estimates: what stands in rows and columns, and how; one maker prints them all.

A specification names its cells, rows and columns. :func:`prr_table` is a metric of methods × cells, or differences of
it; any other table hands estimates and a :class:`Layout` to :func:`table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY, TIE, Estimates, joined
from beamuq.exhibits import captions, cells, number_format
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Table, TableCell, TableGrid, TableHeading, TableRow, TableRule
from beamuq.exhibits.inputs import Inputs
from beamuq.judged_answer import AnswerSource
from beamuq.methods import registry
from beamuq.parquet_tables import ALL
from beamuq.strategy_names import from_print, of_kind, parse
from beamuq.study_config import Study

PLACE = ("model", "dataset", "metric", "method", "variant", "setting")
LEVEL = 0.05
"""Of tests after Holm."""
Keys = Mapping[str, str]
Style = Literal["ranked", "signed", "plain"]
Value = Mapping[str, Any]
"""A summarised estimate: its keys, ``value``, ``low``, ``high``, ``std``, ``n``, ``note``, ``p_holm``, ``mark``."""


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, and its keys; ``signed``: of differences, shown with their intervals."""

    titles: tuple[str, ...]
    keys: Keys = field(default_factory=dict)
    signed: bool = False


Body = Sequence[Row | TableHeading | TableRule]


@dataclass(frozen=True)
class Column:
    """A column: its keys, and its titles from the upper header level to the last.

    Attributes
    ----------
    style
        "ranked": the best and the second best are marked. "signed": a difference, with its sign. "plain": neither.
    beside
        What stands beside a value in small type: its standard deviation, its interval, or nothing.
    digits
        Behind the point.
    show
        Prints a value in another way.
    """

    keys: Keys
    titles: tuple[str, ...]
    style: Style = "plain"
    beside: Literal["", "std", "interval"] = ""
    digits: int = 3
    show: Callable[[Value], TableCell] | None = None


@dataclass(frozen=True)
class Layout:
    """Estimates under their printed keys, and how rows and columns show them.

    A row's and a column's keys together name an estimate; where there is none the cell has a dash.

    Attributes
    ----------
    stub
        Titles of the columns of row titles.
    within
        Values of equal keys are ranked together.
    family
        Differences of equal keys are corrected together, by Holm; (): all of the table.
    bold
        When a difference is bold: its "interval" excludes 0, or its p after "holm" is below .05.
    arrows
        Whether an arrow marks a beam form above its multinomial one.
    further
        Estimates that the CSV has beside those shown.
    """

    estimates: Estimates
    stub: tuple[str, ...]
    body: Body
    columns: Sequence[Column]
    within: tuple[str, ...] = ("model", "dataset", "metric")
    family: tuple[str, ...] = ()
    bold: Literal["interval", "holm"] = "interval"
    arrows: bool = False
    further: Sequence[Estimates] = ()


def table(study: Study, made: Layout, facts: Mapping[str, Any], scorers: Sequence[str] | None = None) -> Table:
    """Print a layout. ``facts`` fill the caption, beside those of the layout: ``bold`` differences of how many."""
    lines = [item for item in made.body if isinstance(item, Row)]
    differences = [replace(column, style="signed", beside="interval", show=None) for column in made.columns]
    pairs = [(line, column) for line in lines for column in (differences if line.signed else made.columns)]
    places = frame_of([_place(column.keys, line.keys) for line, column in pairs])
    there = pd.MultiIndex.from_frame(places).isin(pd.MultiIndex.from_frame(made.estimates.frame[list(PLACE)]))
    values = _marked(study, made, places[there], np.array([column.style for _, column in pairs])[there])
    shown, width = iter(records(values)), len(made.columns)
    flat = [
        _printed(next(shown), column) if known else TableCell("–")
        for (_, column), known in zip(pairs, there, strict=True)
    ]
    rows = iter([tuple(flat[start : start + width]) for start in range(0, len(flat), width)])
    grid = TableGrid(
        made.stub,
        tuple(zip(*(column.titles for column in made.columns), strict=True)),
        tuple(TableRow(item.titles, next(rows)) if isinstance(item, Row) else item for item in made.body),
    )
    signed = values[values["style"] == "signed"]
    told = {
        "bold": f"{int((signed['mark'] == 'best').sum())} of {int(signed['value'].notna().sum())}",
        "arrows": captions.ARROWS * bool(values["better"].any()),
    }
    further = [of.summary(study.evaluation.confidence) for of in made.further]
    published = pd.concat([values, *further], ignore_index=True).drop_duplicates(list(PLACE))
    defined = [{name: value for name, value in row.items() if value == value} for row in records(published)]
    return Table(defined, grid, told | dict(facts), scorers)


def _marked(study: Study, made: Layout, places: pd.DataFrame, styles: Any) -> pd.DataFrame:
    """The values at some places with intervals, ``mark``, ``better``, ``style`` and ``p_holm``."""
    shown = made.estimates.at(places)
    values = shown.summary(study.evaluation.confidence).assign(mark="", better=False, p_holm=np.nan)
    values["style"] = styles
    ranked, signed = (values["style"].to_numpy() == style for style in ("ranked", "signed"))
    if ranked.any():
        values.loc[ranked, ["mark", "p_holm"]] = shown.rows(ranked).best(made.within).to_numpy()
    if signed.any():
        values.loc[signed, "p_holm"] = shown.rows(signed).holm(made.family)
        clear = (values["low"] > 0) | (values["high"] < 0) if made.bold == "interval" else values["p_holm"] < LEVEL
        values.loc[signed & clear, "mark"] = "best"
    if made.arrows:
        samples = values[values["variant"] == captions.MULTINOMIAL].assign(variant=captions.BEAMSEARCH)
        paired = values[list(PLACE)].merge(samples[[*PLACE, "value"]], on=list(PLACE), how="left")["value"].to_numpy()
        values["better"] = (values["variant"] == captions.BEAMSEARCH) & (values["value"] > paired + TIE)
    return values


def _place(column: Keys, row: Keys) -> Keys:
    """The keys of a column and a row; a setting that both name is the column's, then the row's."""
    both = {"setting": f"{column['setting']} {row['setting']}"} if {"setting"} <= set(column) & set(row) else {}
    return {**column, **row, **both}


def _printed(row: Value, column: Column) -> TableCell:
    """A value as its column shows it."""
    if column.show:
        return column.show(row)
    if np.isnan(row["value"]):
        return undefined(row["note"])
    text = (number_format.signed if column.style == "signed" else number_format.decimal)(row["value"], column.digits)
    around = number_format.interval(row["low"], row["high"], column.digits)
    std = "" if np.isnan(row["std"]) else f"± {number_format.decimal(row['std'])}"
    note = row["note"] if column.beside else ""
    beside = {"": "", "std": std, "interval": around}[column.beside]
    pointer = f"{around} n = {row['n']}".strip()
    return TableCell(text, spread=beside, mark=row["mark"], better=row["better"], note=note, pointer=pointer)


def undefined(reason: str) -> TableCell:
    """A value that does not exist, with why."""
    return TableCell("n/a", note=reason)


def frame_of(places: Sequence[Keys]) -> pd.DataFrame:
    """A frame of :data:`PLACE`."""
    return pd.DataFrame([dict.fromkeys(PLACE, "") | dict(place) for place in places], columns=list(PLACE))


def records(values: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame."""
    return [{str(name): value for name, value in row.items()} for row in values.to_dict("records")]


# -- a metric of methods, as the paper prints it -----------------------------------------------------------------------


def prr_table(
    label: str,
    shown: Callable[[Study], Sequence[Cell]],
    rows: Callable[[Study, str], Body],
    *,
    stub: tuple[str, ...] = ("Method",),
    columns: Literal["models", "datasets", "cells"] = "datasets",
    heads: Literal["category", "model", ""] = "category",
    methods: tuple[str, ...] = ("",),
    metric: str = "PRR",
    minus: Callable[[Keys], Keys] | None = None,
    beside: Literal["", "std"] = "std",
    wants: tuple[str, ...] = (),
    subset: str = ALL,
    answer_source: AnswerSource = "greedy",
    **more: Any,
) -> Exhibit:
    """A metric, or its difference to a baseline, of rows × columns of cells.

    Parameters
    ----------
    shown
        The cells, all of one recipe and scorer.
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
        The keys of what is subtracted from a row's keys, paired; None: nothing.
    wants
        Models that the paper shows; the caption says where others stand in.
    subset
        "all" questions, or those "answered" alone, whose produced answer is not empty.
    more
        Further fields of the exhibit.
    """

    def chosen(study: Study) -> Sequence[Cell]:
        if metric.partition("@")[0] not in study.evaluation.metrics:
            raise BeamUQError(f"needs {metric}; add it to evaluation.metrics")
        if answer_source not in study.answer_source:
            raise BeamUQError(f"needs the top beam scored; add {answer_source} to answer_source")
        found = shown(study)
        recipe = found[0].recipe
        if not any(isinstance(item, Row) for item in rows(study, recipe)):
            raise BeamUQError(f"has no row in recipe {recipe!r}; score there what it shows, or drop the exhibit")
        return found

    def build(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
        recipe = chosen[0].recipe
        body = rows(study, recipe)
        found = inputs.estimates(chosen).where(metric=metric, answer_source=answer_source, subset=subset)
        keys = [
            {"metric": metric, "method": of, **item.keys} for item in body if isinstance(item, Row) for of in methods
        ]
        places = [cell.place | of_row for of_row in keys for cell in chosen]
        each = at_printed(study, found, places)
        if minus is not None:
            others = at_printed(study, found, [minus(place) for place in places])
            each = each.minus(others)
            body = [_difference_row(item, minus) for item in body]
        style: Literal["ranked", "signed"] = "ranked" if minus is None else "signed"
        shown_columns = []
        for place, titles in _columns(study, chosen, each, columns, heads, minus is not None):
            for method in methods:
                of_method = {"method": method} if method else {}
                name = (captions.method_short(method),) if method else ()
                shown_columns.append(Column({**place, "metric": metric, **of_method}, (*titles, *name), style, beside))
        layout = Layout(
            each if columns == "cells" else joined([each, means(study, each)]),
            stub,
            body,
            shown_columns,
            within=("model", "dataset", *(["method"] if methods != ("",) else [])),
            arrows=beside == "std" and minus is None,
        )
        told = table_facts(study, each) | scoring_facts(study, recipe)
        told |= {
            "metric": metric,
            "further_rejection": metric.partition("@")[2],
            "model": study.models[chosen[0].model].title,
            "datasets": max(map(len, cells.by_model(chosen).values())),
            "scorer": study.scorers[chosen[0].scorer].title,
            "instead": cells.shown_instead(study, wants, chosen),
        }
        return table(study, layout, told, [chosen[0].scorer])

    return Exhibit(label, "table", chosen, EVALUATION, build, answer_source=answer_source, **more)


def _difference_row(item: Any, minus: Callable[[Keys], Keys]) -> Any:
    """A row under the keys of its difference."""
    if not isinstance(item, Row):
        return item
    pairs = {name: (value, minus(item.keys).get(name, "")) for name, value in item.keys.items()}
    return replace(item, keys={name: a if a == b else f"{a} - {b}" for name, (a, b) in pairs.items()})


def _columns(
    study: Study, chosen: Sequence[Cell], each: Estimates, columns: str, heads: str, signed: bool
) -> Iterator[tuple[Keys, tuple[str, ...]]]:
    """Model and dataset of each column, and its titles; † marks what is left out of means."""
    marked = marks(each)
    for model, of_model in cells.by_model(chosen).items():
        if columns == "models":
            yield {"model": model, "dataset": MEAN}, (mean_head(study, chosen, each, model),)
            continue
        above = {"model": (study.models[model].title,), "": ()}
        for cell in of_model:
            of, mark = study.datasets[cell.dataset], marked[model, cell.dataset] if columns == "datasets" else ""
            yield cell.place, (*above.get(heads, (of.category,)), of.title + mark)
        if columns == "datasets" and (len(of_model) > 1 or not signed):
            yield {"model": model, "dataset": MEAN}, (*above.get(heads, ("",)), "Mean")


def mean_head(study: Study, chosen: Sequence[Cell], each: Estimates, model: str) -> str:
    """The heading of a model's means: † where they leave out a cell, and its datasets where others have more."""
    mark = max(marks(each)[model, cell.dataset] for cell in chosen if cell.model == model)
    return f"{study.models[model].title}{mark}{cells.alone(study, chosen, model)}"


def marks(estimates: Estimates) -> dict[tuple[Any, Any], str]:
    """† for each model and dataset that no mean may have."""
    shares = estimates.frame.groupby(["model", "dataset"], sort=False)["empty"].max()
    return {cell: MARK * bool(share > MOST_EMPTY) for cell, share in shares.items()}  # type: ignore[misc]


def means(study: Study, each: Estimates) -> Estimates:
    """Means over datasets, whose notes call them by their titles."""
    return each.mean_over_datasets({name: of.title for name, of in study.datasets.items()})


def at_printed(study: Study, found: Estimates, places: Sequence[Keys]) -> Estimates:
    """The estimate at each printed place, under its printed keys.

    Some methods are printed without the variant that they are stored under, and the main line as a strategy.

    Raises BeamUQError, naming the place, if there is none.
    """
    frame = frame_of(places)
    stored = frame.assign(
        variant=[registry.stored_variant(*pair) for pair in zip(frame["method"], frame["variant"], strict=True)],
        setting=["" if name in ("beam", study.main.sample) else name for name in map(from_print, frame["setting"])],
    )
    try:
        values = found.at(stored)
    except KeyError as error:
        raise BeamUQError(f"evaluation: no row for {error.args[0]}; run the evaluation again") from error
    return values.assign(variant=frame["variant"].tolist(), setting=frame["setting"].tolist())


def table_facts(study: Study, each: Estimates) -> dict[str, Any]:
    """What captions of tables of estimates say of cells: sizes, resamples, and what marks mean."""
    sizes = {str(dataset): list(n) for dataset, n in each.frame.groupby("dataset", sort=False)["n"].unique().items()}
    return captions.question_facts(study, sizes)


def scoring_facts(study: Study, recipe: str) -> dict[str, str | None]:
    """Begin sentences that hold of some recipes alone: "" where this one has what they are about, else None."""
    scored, decoded = study.scoring[recipe], study.recipes[recipe]
    has = {
        "entropy": "SemanticEntropy" in scored.methods,
        "sar": "SAR" in scored.methods,
        "floors": scored.epsilon,
        "diverse": decoded.diverse,
        "exact": any(parse(name)[1]["T"] != 1 for name in of_kind(decoded.strategies(), "sample")),
    }
    return {name: "" if of else None for name, of in has.items()}
