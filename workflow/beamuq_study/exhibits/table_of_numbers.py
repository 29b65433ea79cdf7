"""The maker of all tables of estimates: what stands in rows and columns, and how it is printed.

A specification hands estimates, rows and columns to :func:`table`; one of a metric of methods by
cells is shorter in :mod:`~beamuq_study.exhibits.methods_by_cells_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools
from beamuq.evaluation.estimates import TIE, Estimates
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.captions import Facts
from beamuq_study.exhibits.exhibit import PLACE, Row, Table, TableCell
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.table_formats import decimal, interval, signed
from beamuq_study.study_config import Study

LEVEL = 0.05  # of tests after Holm
ABSENT = "–"
Keys = Mapping[str, str]
Style = Literal["ranked", "signed", "plain"]
Value = Mapping[str, Any]
"""A summarised estimate: its keys, ``value``, ``low``, ``high``, ``std``, ``n``, ``note``,
``p_holm``, ``mark``, ``better``.
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
    facts: Facts = MappingProxyType({}),
) -> Table:
    """The estimates that a row's and a column's keys together name; a dash where there is none.

    ``stub`` titles the columns of row titles. Differences of equal keys ``family`` are corrected
    together, by Holm, and bold where p is below .05 then; without one all are, and bold where the
    interval excludes 0. ``arrows`` mark beam forms above their multinomial ones. The CSV has
    ``further`` estimates; ``facts`` fill the caption, beside ``bold`` differences of how many,
    ``ranking``, and those of questions.
    """
    confidence = study.evaluation.confidence
    grid = _grid(rows, columns, estimates)
    shown = estimates.at(grid.places[grid.filled])
    values = _marked(shown, confidence, grid.shown_columns, tuple(columns[0].keys), family)
    if arrows:
        values["better"] = _better_than_samples(values)
    caption = {
        **captions.question_facts(study, estimates.frame),
        "bold": _count_of_bold(values, grid.shown_columns),
        "ranking": captions.ranking(arrows=bool(values["better"].any())),
        **facts,
    }
    return Table(
        values=_published(values, further, confidence),
        stub=stub,
        header=_header(columns),
        rows=_filled_rows(rows, grid, values),
        facts=caption,
        reasons=_reasons(values, grid.shown_columns),
    )


def _published(
    values: pd.DataFrame, further: Sequence[Estimates], confidence: float
) -> list[dict[str, Any]]:
    """The rows of the CSV: the values shown, then further ones, a place once."""
    summaries = [estimates.summary(confidence) for estimates in further]
    rows = pd.concat([values, *summaries], ignore_index=True)
    return records(rows.drop_duplicates(list(PLACE)))


def _header(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """The titles of each header level."""
    return list(zip(*(column.titles for column in columns), strict=True))


@dataclass(frozen=True)
class _Grid:
    """The places of a table, row by row."""

    places: pd.DataFrame  # the keys of each
    columns: Sequence[Column]  # of each place
    filled: Bools  # whether a place has an estimate

    @property
    def shown_columns(self) -> list[Column]:
        """The column of each place with an estimate."""
        return list(compress(self.columns, self.filled))


def _grid(rows: Sequence[Row], columns: Sequence[Column], estimates: Estimates) -> _Grid:
    of_differences = [
        replace(column, style="signed", beside="interval", show=None) for column in columns
    ]
    place_columns = []
    keys = []
    for row in rows:
        for column in of_differences if row.signed else columns:
            place_columns.append(column)
            keys.append(_place(column.keys, row.keys))
    places = frame_of(keys)
    estimated = pd.MultiIndex.from_frame(estimates.frame[list(PLACE)])
    filled = pd.MultiIndex.from_frame(places).isin(estimated)
    return _Grid(places, place_columns, filled)


def _place(column: Keys, row: Keys) -> Keys:
    """The keys of a column and a row; a setting that both name is the column's, then the row's."""
    both = {**column, **row}
    if "setting" in column and "setting" in row:
        both["setting"] = f"{column['setting']} {row['setting']}"
    return both


def _marked(
    shown: Estimates,
    confidence: float,
    columns: Sequence[Column],
    within: tuple[str, ...],
    family: tuple[str, ...],
) -> pd.DataFrame:
    """The values with intervals, ``mark``, ``better`` and ``p_holm``; ranks are ``within`` keys."""
    values = shown.summary(confidence).assign(mark="", better=False, p_holm=np.nan)
    ranked = _have_style(columns, "ranked")
    if ranked.any():
        values.loc[ranked, ["mark", "p_holm"]] = shown.rows(ranked).best(within).to_numpy()
    differences = _have_style(columns, "signed")
    if differences.any():
        values.loc[differences, "p_holm"] = shown.rows(differences).holm(family)
        excludes_zero = (values["low"] > 0) | (values["high"] < 0)
        clear = values["p_holm"] < LEVEL if family else excludes_zero
        values.loc[differences & clear, "mark"] = "best"
    return values


def _have_style(columns: Sequence[Column], style: Style) -> Bools:
    return np.array([column.style == style for column in columns], dtype=bool)


def _better_than_samples(values: pd.DataFrame) -> pd.Series[bool]:
    """Whether each value is of a beam form, and above that of its multinomial form."""
    keys = list(PLACE)
    samples = values[values["variant"] == OVER_SAMPLES].assign(variant=OVER_BEAMS)
    paired = values[keys].merge(samples[[*keys, "value"]], on=keys, how="left")["value"]
    above: npt.NDArray[np.bool_] = values["value"].to_numpy() > paired.to_numpy() + TIE
    return (values["variant"] == OVER_BEAMS) & above


def _count_of_bold(values: pd.DataFrame, columns: Sequence[Column]) -> str:
    """``3 of 12`` differences are bold."""
    differences = values[_have_style(columns, "signed")]
    bold = int((differences["mark"] == "best").sum())
    return f"{bold} of {int(differences['value'].notna().sum())}"


def _filled_rows(rows: Sequence[Row], grid: _Grid, values: pd.DataFrame) -> list[Row]:
    """The rows with their cells, a dash at a place without an estimate."""
    printed = map(_table_cell, records(values), grid.shown_columns)
    cells = [next(printed) if filled else TableCell(ABSENT) for filled in grid.filled]
    width = len(cells) // max(1, len(rows))
    return [
        replace(row, cells=tuple(cells[number * width : (number + 1) * width]))
        for number, row in enumerate(rows)
    ]


def _table_cell(value: Value, column: Column) -> TableCell:
    if column.show:
        return column.show(value)
    if np.isnan(value["value"]):
        return TableCell("n/a", pointer=value["note"])
    as_text = signed if column.style == "signed" else decimal
    around = interval(value["low"], value["high"], column.digits)
    spread = ""
    if column.beside == "std" and not np.isnan(value["std"]):
        spread = f"± {decimal(value['std'])}"
    elif column.beside == "interval":
        spread = around
    return TableCell(
        as_text(value["value"], column.digits),
        spread,
        value["mark"],
        value["better"],
        pointer=f"{around} n = {value['n']}".strip(),
    )


def _reasons(values: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Why values, or intervals that would be shown, are lacking."""
    with_spread = np.array([column.beside != "" for column in columns], dtype=bool)
    incomplete = values["value"].isna() | (values["low"].isna() & with_spread)
    notes = values.loc[incomplete & (values["note"] != ""), "note"]
    # Each value has another number of undefined resamples.
    return list(notes.str.replace(r"^\d+ of", "some of", regex=True).unique())


def frame_of(places: Sequence[Keys]) -> pd.DataFrame:
    """A row a place, with its keys; "" where it has none."""
    rows = [{**dict.fromkeys(PLACE, ""), **place} for place in places]
    return pd.DataFrame(rows, columns=list(PLACE))


def records(values: pd.DataFrame) -> list[dict[str, Any]]:
    """A mapping from column to value a row."""
    return [{str(name): value for name, value in row.items()} for row in values.to_dict("records")]
