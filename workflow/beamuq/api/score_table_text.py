"""Tables of scores and decisions as text and as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from beamuq.api.server_responses import ANSWER_LABELS
from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_types import csv_text
from beamuq.exhibits.markdown_table import escape, line
from beamuq.parquet_tables import atomic, write_text

_PLAIN = re.compile(r"-?[\d.e+-]*|[\[(][-a-zA-Z0-9 .∞]+, [-a-zA-Z0-9 .∞]+[\])]")  # a number, or a range
FORMATS = ("markdown", "csv", "jsonl")
FILES = (".csv", ".jsonl", ".parquet")
FORMS = {"": "methods of one form", "multinomial": "over samples (multinomial)", "beamsearch": "over beams"}


def by_question(scores: pd.DataFrame, width: int) -> str:
    """Scores with a row a question and a column a method, in one table a form; below, once a reason, what has no value.

    Parameters
    ----------
    width
        Characters in which a table is to fit; one that is wider is cut into several.
    """
    name = scores["method"] + [f" {setting}" if setting else "" for setting in scores["setting"]]
    scores = scores.assign(name=name, full=name + [f" + {form}" if form else "" for form in scores["variant"]])
    labels = scores.drop_duplicates("id").set_index("id")[[each for each in ANSWER_LABELS if each in scores]]
    lines = [f"higher = more uncertain; similarity: {', '.join(scores['similarity'].unique())}", ""]
    for form, title in FORMS.items():
        part = scores[(scores["variant"] == form) & scores["value"].notna()]
        if len(part):
            values = part.pivot(index="id", columns="name", values="value")[part["name"].unique()]
            lines += [title, "", *_aligned(labels.join(values).reset_index(), 1 + len(labels.columns), width)]
    missing = scores[scores["value"].isna()]
    lines += ["no value:"] if len(missing) else []
    for reason, rows in missing.groupby("reason", sort=False):
        found, asked = rows["id"].nunique(), len(labels)
        where = "" if found == asked else f" ({found} of {asked} questions)"
        told = escape(str(reason)).replace("\\_", "_")  # keys are to be read
        lines.append(f"- {told}{where}: {', '.join(rows['full'].unique())}")
    return "\n".join(lines) + "\n"


def render(table: pd.DataFrame, form: str) -> str:
    """A table as ``markdown``, ``csv`` or ``jsonl``; a missing value is empty, in JSON ``null``."""
    if form == "csv":
        return csv_text(table)
    if form == "jsonl":
        return str(table.to_json(orient="records", lines=True, force_ascii=False))
    return "".join(f"{each}\n" for each in _aligned(table, 1, None))


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table to a file, as its ending says.

    Raises
    ------
    BeamUQError
        If that is none of :data:`FILES`, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in FILES:
        raise BeamUQError(f"output: {path}: must end in {', '.join(FILES)}")
    if path.suffix == ".parquet":
        with atomic(path) as temporary:
            table.to_parquet(temporary, index=False)
    else:
        write_text(path, render(table, path.suffix[1:]))


def number(value: float) -> str:
    """Four significant digits; "" for a missing value."""
    return "" if pd.isna(value) else f"{value:.4g}"


def _aligned(table: pd.DataFrame, stub: int, width: int | None) -> Iterator[str]:
    """A Markdown table, or several of at most ``width`` characters that all begin with the first ``stub`` columns."""
    columns = []
    for name, values in table.items():
        numbers = pd.api.types.is_float_dtype(values)
        cells = [_cell(number(value) if numbers else str(value)) for value in values]
        longest = max(len(str(name)), *map(len, cells), 3)
        rule = "-" * (longest - 1) + ("-:"[numbers])
        columns.append(
            [f"{each:>{longest}}" if numbers else f"{each:<{longest}}" for each in (str(name), rule, *cells)]
        )
    shared, rest = columns[:stub], columns[stub:]
    while rest:
        taken = 1
        while taken < len(rest) and (width is None or _width(shared + rest[: taken + 1]) <= width):
            taken += 1
        yield from map(line, zip(*shared, *rest[:taken], strict=True))
        rest = rest[taken:]
        if width is not None:
            yield ""


def _width(columns: list[list[str]]) -> int:
    return sum(len(column[0]) + 3 for column in columns) + 1


def _cell(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else escape(text)
