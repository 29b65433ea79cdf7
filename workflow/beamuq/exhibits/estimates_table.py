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
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Table, TableCell, TableGrid, TableRow
from beamuq.exhibits.inputs import Inputs
from beamuq.judged_answer import AnswerSource
from beamuq.methods import registry
from beamuq.parquet_tables import ALL
from beamuq.strategy_names import from_print
from beamuq.study_config import Study

PLACE = ("model", "dataset", "metric", "method", "variant", "setting")
LEVEL = 0.05
"""Of tests after Holm."""
ABSENT = TableCell("–")
Keys = Mapping[str, str]
Style = Literal["ranked", "signed", "plain"]
Value = Mapping[str, Any]
"""A summarised estimate: its keys, ``value``, ``low``, ``high``, ``std``, ``n``, ``note``, ``p_holm``, ``mark``."""


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, its keys, and the group whose title stands above its rows.

    ``signed``: of differences, shown with their intervals.
    """

    titles: tuple[str, ...]
    keys: Keys = field(default_factory=dict)
    group: str = ""
    signed: bool = False


@dataclass(frozen=True)
class Column:
    """A column: its keys, and its titles from the upper header level to the last.

    Attributes
    ----------
    style
        "ranked": the best and the second best of a column are marked. "signed": a difference, with its sign.
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
    family
        Differences of equal keys are corrected together, by Holm, and bold where p is below .05 then. Without a family
        all of the table are, and bold where the interval excludes 0.
    arrows
        Whether an arrow marks a beam form above its multinomial one.
    further
        Estimates that the CSV has beside those shown.
    """

    estimates: Estimates
    stub: tuple[str, ...]
    rows: Sequence[Row]
    columns: Sequence[Column]
    family: tuple[str, ...] = ()
    arrows: bool = False
    further: Sequence[Estimates] = ()


def table(study: Study, made: Layout, facts: Mapping[str, Any]) -> Table:
    """Print a layout. ``facts`` fill the caption, beside those of the layout: ``bold`` differences of how many."""
    signed_columns = [replace(column, style="signed", beside="interval", show=None) for column in made.columns]
    pairs = [(row, column) for row in made.rows for column in (signed_columns if row.signed else made.columns)]
    places = frame_of([_place(column.keys, row.keys) for row, column in pairs])
    there = pd.MultiIndex.from_frame(places).isin(pd.MultiIndex.from_frame(made.estimates.frame[list(PLACE)]))
    values = _marked(study, made, places[there], np.array([column.style for _, column in pairs])[there])
    shown, columns = iter(records(values)), [column for _, column in pairs]
    cells = iter([_printed(next(shown), of) if known else ABSENT for of, known in zip(columns, there, strict=True)])
    rows = [TableRow(row.titles, tuple(next(cells) for _ in made.columns), row.group) for row in made.rows]
    grid = TableGrid(made.stub, tuple(zip(*(of.titles for of in made.columns), strict=True)), tuple(rows))
    signed = values[values["style"] == "signed"]
    told = {
        "bold": f"{int((signed['mark'] == 'best').sum())} of {int(signed['value'].notna().sum())}",
        "arrows": captions.ARROWS * bool(values["better"].any()),
    }
    further = [of.summary(study.evaluation.confidence) for of in made.further]
    published = pd.concat([values, *further], ignore_index=True).drop_duplicates(list(PLACE))
    defined = [{name: value for name, value in row.items() if value == value} for row in records(published)]
    with_interval = np.array([bool(column.beside) for column in columns])[there]
    lacking = values["value"].isna() | (with_interval & values["low"].isna())
    reasons = values.loc[lacking & (values["note"] != ""), "note"]
    return Table(defined, grid, told | dict(facts), list(dict.fromkeys(reasons)))


def _marked(study: Study, made: Layout, places: pd.DataFrame, styles: Any) -> pd.DataFrame:
    """The values at some places with intervals, ``mark``, ``better``, ``style`` and ``p_holm``."""
    shown = made.estimates.at(places)
    values = shown.summary(study.evaluation.confidence).assign(mark="", better=False, p_holm=np.nan)
    values["style"] = styles
    ranked, signed = (values["style"].to_numpy() == style for style in ("ranked", "signed"))
    if ranked.any():
        values.loc[ranked, ["mark", "p_holm"]] = shown.rows(ranked).best(tuple(made.columns[0].keys)).to_numpy()
    if signed.any():
        values.loc[signed, "p_holm"] = shown.rows(signed).holm(made.family)
        clear = values["p_holm"] < LEVEL if made.family else (values["low"] > 0) | (values["high"] < 0)
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
    beside = {"": "", "std": std, "interval": around}[column.beside]
    return TableCell(text, beside, row["mark"], row["better"], f"{around} n = {row['n']}".strip())


def undefined(reason: str) -> TableCell:
    """A value that does not exist, with why."""
    return TableCell("n/a", pointer=reason)


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
    rows: Callable[[Study, str], Sequence[Row]],
    *,
    stub: tuple[str, ...] = ("Method",),
    columns: Literal["models", "datasets", "cells"] = "datasets",
    methods: tuple[str, ...] = ("",),
    metric: str = "PRR",
    minus: Keys | None = None,
    beside: Literal["", "std"] = "std",
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
    methods
        Columns within each of these; a single "" where the rows name the method.
    minus
        Keys in which what is subtracted, paired, differs from a row; None: nothing is.
    subset
        "all" questions, or those "answered" alone, whose produced answer is not empty.
    more
        Further fields of the exhibit.
    """

    def chosen(study: Study) -> Sequence[Cell]:
        cells.check_measured(study, metric, answer_source)
        found = shown(study)
        recipe = found[0].recipe
        if not rows(study, recipe):
            raise BeamUQError(f"has no row in recipe {recipe!r}; score there what it shows, or drop the exhibit")
        return found

    def build(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
        listed = rows(study, chosen[0].recipe)
        keys = [{"method": of, **row.keys} for row in listed for of in methods]
        answers = {"metric": metric, "answer_source": answer_source, "subset": subset}
        each = measured(study, inputs, chosen, keys, **answers)
        if minus is not None:
            each = each.minus(measured(study, inputs, chosen, [{**of, **minus} for of in keys], **answers))
            listed = [replace(row, keys=_difference(row.keys, minus)) for row in listed]
        shown_columns = [
            Column({**place, "metric": metric} | of, (*titles, *name), "ranked" if minus is None else "signed", beside)
            for place, titles in _columns(study, chosen, each, columns, by_model=methods != ("",))
            for of, name in [({"method": m}, (captions.method_short(m),)) if m else ({}, ()) for m in methods]
        ]
        every = each if columns == "cells" else joined([each, means(study, each)])
        layout = Layout(every, stub, listed, shown_columns, arrows=beside == "std" and minus is None)
        counts = {str(len(of_model)) for of_model in cells.by_model(chosen).values()}
        facts = {
            "metric": metric,
            "further_rejection": metric.partition("@")[2],
            "model": study.models[chosen[0].model].title,
            "datasets": "–".join(sorted(counts, key=int)),
            "scorer": study.scorers[chosen[0].scorer].title,
        }
        return table(study, layout, table_facts(study, each) | facts)

    return Exhibit(label, "table", chosen, EVALUATION, build, answer_source=answer_source, **more)


def _difference(keys: Keys, minus: Keys) -> Keys:
    """The keys of a difference."""
    return {name: f"{of} - {minus[name]}" if minus.get(name, of) != of else of for name, of in keys.items()}


def _columns(
    study: Study, chosen: Sequence[Cell], each: Estimates, columns: str, *, by_model: bool
) -> Iterator[tuple[Keys, tuple[str, ...]]]:
    """Model and dataset of each column, and its titles; † marks what is left out of means."""
    for model, of_model in cells.by_model(chosen).items():
        title, mean = study.models[model].title, {"model": model, "dataset": MEAN}
        if columns == "models":
            yield mean, (mean_head(study, each, model),)
            continue
        for cell in of_model:
            of, mark = study.datasets[cell.dataset], "" if columns == "cells" else _mark(each.where(**cell.place))
            yield cell.place, (title if by_model else of.category, of.title + mark)
        if columns == "datasets":
            yield mean, (title if by_model else "", "Mean")


def mean_head(study: Study, each: Estimates, model: str) -> str:
    """The heading of a model's means: † where they leave out a cell."""
    return study.models[model].title + _mark(each.where(model=model))


def _mark(estimates: Estimates) -> str:
    return MARK * bool((estimates.frame["empty"] > MOST_EMPTY).any())


def means(study: Study, each: Estimates) -> Estimates:
    """Means over datasets, whose notes call them by their titles."""
    return each.mean_over_datasets({name: of.title for name, of in study.datasets.items()})


def with_mean(study: Study, each: Estimates) -> tuple[Estimates, str, str]:
    """Estimates, and their means where they are of several datasets; the dataset to print, and what titles call it."""
    datasets = list(each.frame["dataset"].unique())
    if len(datasets) == 1:
        return each, datasets[0], study.datasets[datasets[0]].title
    return joined([each, means(study, each)]), MEAN, f"mean over {len(datasets)} datasets"


def measured(
    study: Study,
    inputs: Inputs,
    chosen: Sequence[Cell],
    keys: Sequence[Keys],
    *,
    metric: str = "PRR",
    answer_source: str = "greedy",
    subset: str = ALL,
    quality: str = "",
) -> Estimates:
    """A metric in each of the cells of each of ``keys``: those of a method, its printed variant and setting."""
    found = inputs.estimates(chosen, quality).where(metric=metric, answer_source=answer_source, subset=subset)
    return at_printed(study, found, [{**cell.place, "metric": metric, **of} for of in keys for cell in chosen])


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
    """What captions of tables of estimates say of cells: sizes and resamples."""
    sizes = {str(dataset): list(n) for dataset, n in each.frame.groupby("dataset", sort=False)["n"].unique().items()}
    return captions.question_facts(study, sizes)
