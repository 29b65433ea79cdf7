"""Tables of estimates: what stands in rows and columns, and how; one maker prints them all.

A specification names its cells, rows and columns. :func:`prr_table` is a metric of methods × cells,
or differences of it; any other table hands estimates, rows and columns to :func:`table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import KEYS, MEAN, TIE, Estimates, joined
from beamuq_study import grid as cells
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.exhibit import EVALUATION, PLACE, Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.table_formats import decimal, interval, signed
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.result_files import MARK, Inputs, as_stored
from beamuq_study.study_config import Study

GAIN = f"{BEAMSEARCH} - {MULTINOMIAL}"
LEVEL = 0.05  # of tests after Holm
ABSENT = "–"
Keys = Mapping[str, str]
Style = Literal["ranked", "signed", "plain"]
Value = Mapping[str, Any]
"""A summarised estimate: its keys, ``value``, ``low``, ``high``, ``std``, ``n``, ``note``,
``p_holm``, ``mark``.
"""


@dataclass(frozen=True)
class Column:
    """A column: its keys, and its titles from the upper header level to the last.

    "ranked" marks the best and the second best of a column, "signed" is a difference with its sign.
    """

    keys: Keys
    titles: tuple[str, ...]
    style: Style = "plain"
    beside: Literal["", "std", "interval"] = ""  # what stands beside a value in small type
    digits: int = 3
    show: Callable[[Value], TableCell] | None = None  # prints a value in another way


def table(
    study: Study,
    estimates: Estimates,
    stub: tuple[str, ...],
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    family: tuple[str, ...] = (),
    arrows: bool = False,
    further: Sequence[Estimates] = (),
    **facts: Any,
) -> Table:
    """Estimates under the keys that tables name; a row's and a column's keys together name one, a
    dash: there is none.

    ``stub`` titles the columns of row titles. Differences of equal keys ``family`` are corrected
    together, by Holm, and bold where p is below .05 then; without one all are, and bold where the
    interval excludes 0. ``arrows`` mark beam forms above their multinomial ones. The CSV has
    ``further`` estimates; ``facts`` fill the caption, beside ``bold`` differences of how many,
    ``arrows``, and those of questions.
    """
    confidence = study.evaluation.confidence
    of_differences = [
        replace(column, style="signed", beside="interval", show=None) for column in columns
    ]
    shown = [
        (row, column) for row in rows for column in (of_differences if row.signed else columns)
    ]
    places, every = frame_of([_place(column.keys, row.keys) for row, column in shown]), list(PLACE)
    there = pd.MultiIndex.from_frame(places).isin(pd.MultiIndex.from_frame(estimates.frame[every]))
    shown_columns = [column for (_, column), is_there in zip(shown, there, strict=True) if is_there]
    values = _marked(
        estimates.at(places[there]), confidence, shown_columns, tuple(columns[0].keys), family
    )
    if arrows:
        samples = values[values["variant"] == MULTINOMIAL].assign(variant=BEAMSEARCH)
        paired = (
            values[every]
            .merge(samples[[*every, "value"]], on=every, how="left")["value"]
            .to_numpy()
        )
        values["better"] = (values["variant"] == BEAMSEARCH) & (values["value"] > paired + TIE)
    printed = map(_table_cell, records(values), shown_columns)
    cells = iter([next(printed) if is_there else TableCell(ABSENT) for is_there in there])
    body = [replace(row, cells=tuple(next(cells) for _ in columns)) for row in rows]
    differences = values[[column.style == "signed" for column in shown_columns]]
    caption: dict[str, Any] = captions.question_facts(study, estimates.frame) | {
        "bold": (
            f"{int((differences['mark'] == 'best').sum())} of "
            f"{int(differences['value'].notna().sum())}"
        ),
        "arrows": captions.ARROWS * bool(values["better"].any()),
    }
    published = pd.concat([values, *(of.summary(confidence) for of in further)], ignore_index=True)
    lacking = values["value"].isna() | (
        values["low"].isna() & np.array([of.beside != "" for of in shown_columns])
    )
    notes = values.loc[lacking & (values["note"] != ""), "note"]
    reasons = notes.str.replace(
        r"^\d+ of", "some of", regex=True
    ).unique()  # resamples, of each value other numbers
    header = list(zip(*(column.titles for column in columns), strict=True))
    return Table(
        records(published.drop_duplicates(every)),
        stub,
        header,
        body,
        caption | facts,
        list(reasons),
    )


def _marked(
    shown: Estimates,
    confidence: float,
    columns: Sequence[Column],
    within: tuple[str, ...],
    family: tuple[str, ...],
) -> pd.DataFrame:
    """The values shown with intervals, ``mark``, ``better`` and ``p_holm``; ranks are ``within``
    keys.
    """
    values = shown.summary(confidence).assign(mark="", better=False, p_holm=np.nan)
    ranked, differences = (
        np.array([of.style == style for of in columns]) for style in ("ranked", "signed")
    )
    if ranked.any():
        values.loc[ranked, ["mark", "p_holm"]] = shown.rows(ranked).best(within).to_numpy()
    if differences.any():
        values.loc[differences, "p_holm"] = shown.rows(differences).holm(family)
        clear = values["p_holm"] < LEVEL if family else (values["low"] > 0) | (values["high"] < 0)
        values.loc[differences & clear, "mark"] = "best"
    return values


def _place(column: Keys, row: Keys) -> Keys:
    """The keys of a column and a row; a setting that both name is the column's, then the row's."""
    both = (
        {"setting": f"{column['setting']} {row['setting']}"}
        if {"setting"} <= set(column) & set(row)
        else {}
    )
    return {**column, **row, **both}


def _table_cell(row: Value, column: Column) -> TableCell:
    if column.show:
        return column.show(row)
    if np.isnan(row["value"]):
        return TableCell("n/a", pointer=row["note"])
    text = (signed if column.style == "signed" else decimal)(row["value"], column.digits)
    around = interval(row["low"], row["high"], column.digits)
    std = "" if np.isnan(row["std"]) else f"± {decimal(row['std'])}"
    beside = {"": "", "std": std, "interval": around}[column.beside]
    return TableCell(text, beside, row["mark"], row["better"], f"{around} n = {row['n']}".strip())


def frame_of(places: Sequence[Keys]) -> pd.DataFrame:
    return pd.DataFrame(
        [{**dict.fromkeys(PLACE, ""), **place} for place in places], columns=list(PLACE)
    )


def records(values: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in values.to_dict("records")]


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
    **more: Any,
) -> Exhibit:
    """A metric of rows × columns of cells, all of one recipe and scorer; without ``rows`` of it
    there is no table.

    A column is a model's mean over datasets; a dataset of a model, which the mean of several
    follows; or a cell; within each stand the ``methods``, a single "" where the rows name them.
    ``minus``: keys in which what is subtracted, paired, differs from a row. ``subset``: "all"
    questions or the "answered" ones. ``more``: further fields of the exhibit.
    """

    def supplied(study: Study) -> Sequence[Cell]:
        cells = shown(study)
        return cells if cells and rows(study, cells[0].recipe) else []

    def build(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
        listed = rows(study, chosen[0].recipe)
        keys = [{"method": of, **row.keys} for row in listed for of in methods]
        answers = {
            "metric": metric,
            "answer_source": more.get("answer_source", "greedy"),
            "subset": subset,
        }
        each = measured(study, inputs, chosen, keys, **answers)
        if minus is not None:
            each = each.minus(
                measured(study, inputs, chosen, [{**of, **minus} for of in keys], **answers)
            )
            listed = [replace(row, keys=_difference(row.keys, minus)) for row in listed]
        shown_columns = [
            Column(
                {**place, "metric": metric} | of,
                (*titles, *name),
                "ranked" if minus is None else "signed",
                beside,
            )
            for place, titles in _columns(study, chosen, each, columns, by_model=methods != ("",))
            for of, name in [
                ({"method": m}, (captions.method_short(m),)) if m else ({}, ()) for m in methods
            ]
        ]
        datasets = "–".join(map(str, sorted({len(of) for of in cells.by_model(chosen).values()})))
        facts: dict[str, Any] = {
            "metric": metric,
            "further_rejection": metric.partition("@")[2],
            "datasets": datasets,
        }
        facts |= {"scorer": study.scorers[chosen[0].scorer].title}
        every = each if columns == "cells" else joined([each, means(study, each)])
        return table(
            study,
            every,
            stub,
            listed,
            shown_columns,
            arrows=beside == "std" and minus is None,
            **facts,
        )

    return Exhibit(label, "table", supplied, EVALUATION, build, metric=metric, **more)


def _difference(keys: Keys, minus: Keys) -> Keys:
    return {
        name: f"{of} - {minus[name]}" if minus.get(name, of) != of else of
        for name, of in keys.items()
    }


def _columns(
    study: Study, chosen: Sequence[Cell], each: Estimates, columns: str, *, by_model: bool
) -> Iterator[tuple[Keys, tuple[str, ...]]]:
    for model, of_model in cells.by_model(chosen).items():
        title, mean = study.models[model].title, {"model": model, "dataset": MEAN}
        if columns == "models":
            yield mean, (title + left_out(each.where(model=model)),)
            continue
        for cell in of_model:
            of, mark = (
                study.datasets[cell.dataset],
                left_out(each.where(**cell.place)) * (columns == "datasets"),
            )
            yield cell.place, (title if by_model else of.category, of.title + mark)
        if columns == "datasets" and len(of_model) > 1:  # of one it is that dataset's value again
            yield mean, (title if by_model else "", "Mean")


def beam_gains(estimates: Estimates) -> Estimates:
    beams, samples = (estimates.where(variant=form) for form in (BEAMSEARCH, MULTINOMIAL))
    return beams.minus(samples, on=set(KEYS) - {"variant"})


def left_out(estimates: Estimates) -> str:
    """† where a cell of too many empty answers is left out of means."""
    return MARK * bool(estimates.too_empty.any())


def means(study: Study, each: Estimates) -> Estimates:
    """Means over datasets, whose notes call them by their titles."""
    return each.mean_over_datasets({name: of.title for name, of in study.datasets.items()})


def with_mean(study: Study, each: Estimates) -> tuple[Estimates, str, str]:
    """Estimates, and their means where they are of several datasets; the dataset to print, and what
    titles call it.
    """
    datasets = list(each.frame["dataset"].unique())
    if len(datasets) == 1:
        return each, datasets[0], study.datasets[datasets[0]].title
    return joined([each, means(study, each)]), MEAN, f"mean over {len(datasets)} datasets"


def measured(
    study: Study,
    inputs: Inputs,
    chosen: Sequence[Cell],
    forms: Sequence[Keys],
    *,
    quality: str = "",
    **of: str,
) -> Estimates:
    """PRR of greedy answers to all questions, or what ``of`` says, in each cell of ``forms``, as
    tables name them.
    """
    of = {"metric": "PRR", "answer_source": "greedy", "subset": ALL} | of
    places = frame_of(
        [{**cell.place, "metric": of["metric"], **form} for form in forms for cell in chosen]
    )
    stored = as_stored(study, places)
    shown = {name: set(stored[name]) for name in ("method", "variant", "setting")}
    try:
        values = inputs.estimates(chosen, quality, **of, **shown).at(stored)
    except KeyError as error:
        raise BeamUQError(
            f"evaluation: no row for {error.args[0]}; add it to scoring, or evaluate again"
        ) from error
    return values.assign(variant=places["variant"].tolist(), setting=places["setting"].tolist())
