"""Tables of scores and decisions as text and as files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from beamuq.api.candidate_records import ANSWER_LABELS
from beamuq.errors import BeamUQError
from beamuq.io import atomic, write_text

FORMATS = ("markdown", "csv", "jsonl")
FILES = (".csv", ".jsonl", ".parquet")
FORMS = {"": "methods of one form", "multinomial": "over samples (multinomial)", "beamsearch": "over beams"}


def by_question(scores: pd.DataFrame) -> str:
    """Scores with a row a question and a column a method, in one table a form; below, by reason, what has no value."""
    name = scores["method"] + [f" {setting}" if setting else "" for setting in scores["setting"]]
    scores = scores.assign(name=name, full=name + [f" + {form}" if form else "" for form in scores["variant"]])
    labels = scores.drop_duplicates("id").set_index("id")[[each for each in ANSWER_LABELS if each in scores]]
    lines = [f"higher = more uncertain; similarity: {', '.join(scores['similarity'].unique())}", ""]
    for form, title in FORMS.items():
        part = scores[(scores["variant"] == form) & scores["value"].notna()]
        if len(part):
            values = part.pivot(index="id", columns="name", values="value")[part["name"].unique()]
            lines += [title, "", markdown(labels.join(values).reset_index())]
    missing = scores[scores["value"].isna()]
    lines += ["no value:"] if len(missing) else []
    for reason, rows in missing.groupby("reason", sort=False):
        found, asked = rows["id"].nunique(), len(labels)
        where = "" if found == asked else f" ({found} of {asked} questions)"
        lines.append(f"- {reason}{where}: {', '.join(rows['full'].unique())}")
    return "\n".join(lines) + "\n"


def render(table: pd.DataFrame, form: str) -> str:
    """A table as ``markdown``, ``csv`` or ``jsonl``; a missing value is empty, in JSON ``null``."""
    if form == "csv":
        return str(table.to_csv(index=False))
    if form == "jsonl":
        return str(table.to_json(orient="records", lines=True, force_ascii=False))
    return markdown(table)


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


def markdown(table: pd.DataFrame) -> str:
    """A Markdown table whose columns are aligned as text too, numbers to the right."""
    columns = []
    for name, values in table.items():
        numbers = pd.api.types.is_float_dtype(values)
        cells = [number(value) if numbers else " ".join(str(value).split()).replace("|", "\\|") for value in values]
        longest = max(len(str(name)), *map(len, cells), 3)
        rule = "-" * (longest - 1) + "-:"[numbers]
        columns.append([f"{each:{'<>'[numbers]}{longest}}" for each in (str(name), rule, *cells)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in zip(*columns, strict=True))
