"""Rows and settings that functions and commands take, read and checked in one place; and tables as
they are written.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import numpy as np
import pandas as pd
from pydantic import Field, Strict

from beamuq.api.server_forms import vllm_output
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError, reading
from beamuq.io import atomic, rows_of, write_text
from beamuq.strategy_names import LEAST_TEMPERATURE

Rows = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]
FILES = (".csv", ".jsonl", ".parquet")
FORMS = {
    "": "methods of one form",
    "multinomial": "over samples (multinomial)",
    "beamsearch": "over beams",
}
ANSWER_LABELS = ("correct", "quality", "group")
# all controls but \t and \n; characters of width 0 that join no letters; lines' ends; of direction
COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("width", "max_new_tokens", "batch", "threads"), Annotated[int, Field(ge=1)]),
    **dict.fromkeys(("samples", "beams"), Annotated[int, Field(ge=0)]),
    **dict.fromkeys(("risk", "confidence"), Annotated[float, Field(ge=1e-6, le=1 - 1e-6)]),
    "tried": Annotated[int, Field(ge=1, le=10**9)],
    "questions": Annotated[int, Field(ge=1, le=40_000)],
    "epsilon": Annotated[float, Field(ge=0, le=1)],
    "threshold": Annotated[float, Field(ge=0, le=1)] | None,
    "alpha": Annotated[float, Field(gt=0, le=2)],
    "equivalence_threshold": Annotated[float, Field(gt=0, le=1)],
    "temperature": Annotated[float, Field(ge=LEAST_TEMPERATURE, le=10)],
}
"""The type and range of each setting that is a number, wherever it is taken."""


def check_settings(**settings: Any) -> None:
    """Refuse a number outside its range; raises BeamUQError naming it."""
    for name, value in settings.items():
        validated(Annotated[SETTINGS[name], Strict()], plain(value), name)


def named(rows: Rows) -> str:
    """What rows are called: their file, or ``rows``."""
    return str(rows) if isinstance(rows, str | Path) else "rows"


def no_question(rows: Rows) -> BeamUQError:
    """What is told of rows among which there is none."""
    return BeamUQError(f"{named(rows)}: no question; give one row a question")


def placed_rows(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row with its place: file and line or row, or its number, from 1.

    Of CSV, which ``score`` writes for ``calibrate``, every cell is a text, and an empty one is left
    out.
    """
    where, content = "", cast(Any, rows)
    if isinstance(rows, str | Path):
        path, where = Path(rows), f"{rows}: "
        if path.suffix not in READERS:
            yield from rows_of(path, first=1)
            return
        what, fix, read = READERS[path.suffix]
        with reading(path, f"{what} in UTF-8", fix):
            content = read(path)
    if isinstance(content, pd.DataFrame):
        mappings = content.to_dict("records")
        content = [_said(row) for row in mappings]
    if not isinstance(content, Iterable) or _is_object(content):
        raise BeamUQError(
            f"{where or 'rows: '}a {type(content).__name__}; give a list of mappings, one a "
            "question"
        )
    for number, row in enumerate(content, start=1):
        mapping = plain(row)
        if not isinstance(mapping, Mapping):
            raise BeamUQError(
                f"{where}row {number}: a {type(row).__name__}; give a list of mappings, one a "
                "question"
            )
        yield f"{where}row {number}", mapping


def _csv(path: Path) -> pd.DataFrame:
    table = pd.read_csv(
        path,
        dtype=str,
        keep_default_na=False,
        na_values=[""],
        index_col=False,
        header=None,
        encoding="utf-8-sig",
    )
    table.columns = pd.Index(table.iloc[0])
    if twice := list(table.columns[table.columns.duplicated() & table.columns.notna()]):
        raise BeamUQError(f"{path}: column {twice[0]!r} stands twice; keep one")
    return table.iloc[1:]


READERS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    ".json": (
        "valid JSON",
        "give an array of objects",
        lambda path: json.loads(path.read_bytes().decode("utf-8-sig")),
    ),
    ".csv": ("CSV", "give what score writes", _csv),
}


def _said(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What a row of a frame says; a hole among ids is one, so that it is told."""
    return {
        str(key): None if _absent(value) else value
        for key, value in row.items()
        if key == "id" or not _absent(value)
    }


def _absent(value: Any) -> bool:
    """Whether a frame says nothing here: it fills the holes of a column with None, NaN or NA."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


PLAIN = (str, int, float, bool)  # most of all, which nothing need be asked of


def _is_object(value: Any) -> bool:
    """Whether it is a client's object, of a kind that has parts with names."""
    named_parts = hasattr(value, "model_dump") or isinstance(value, SimpleNamespace)
    return named_parts or (is_dataclass(value) and not isinstance(value, type))


def plain(value: Any) -> Any:
    """Arrays, tuples, numpy's numbers and clients' objects, as a frame or a list holds them, as
    JSON would.
    """
    if value is None or type(value) in PLAIN:
        return value
    output = None if isinstance(value, dict | list) else vllm_output.as_mapping(value)
    if output is not None:
        value = output
    elif _is_object(value):
        value = _named_parts(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def _named_parts(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, SimpleNamespace):
        return vars(value)
    return {
        part.name: getattr(value, part.name) for part in fields(value) if hasattr(value, part.name)
    }


def by_question(scores: pd.DataFrame) -> str:
    """Scores with a row a question and a column a method, in one table a form; below, by reason,
    what has no value.
    """
    name = scores["method"] + [f" {setting}" if setting else "" for setting in scores["setting"]]
    scores = scores.assign(
        name=name, full=name + [f" + {form}" if form else "" for form in scores["variant"]]
    )
    labels = scores.drop_duplicates("id").set_index("id")[
        [each for each in ANSWER_LABELS if each in scores]
    ]
    log_p = "; Prob is −log p" if "Prob" in set(scores["method"]) else ""
    lines = [
        f"higher = more uncertain{log_p}; similarity: {', '.join(scores['similarity'].unique())}",
        "",
    ]
    for form, title in FORMS.items():
        part = scores[(scores["variant"] == form) & scores["value"].notna()]
        if len(part):
            values = part.pivot(index="id", columns="name", values="value")[part["name"].unique()]
            lines += [title, "", markdown(labels.join(values).reset_index())]
    for column, heading in (("reason", "no value:"), ("note", "with a note:")):
        told = scores[scores[column] != ""]
        lines += [heading] if len(told) else []
        for text, rows in told.groupby(column, sort=False):
            found, asked = rows["id"].nunique(), len(labels)
            where = "" if found == asked else f" ({found} of {asked} questions)"
            lines.append(f"- {text}{where}: {', '.join(rows['full'].unique())}")
    return "\n".join(lines) + "\n"


def render(table: pd.DataFrame, form: str) -> str:
    """A table as ``markdown``, ``csv`` or ``jsonl``, numbers exact; a missing value is empty, in
    JSON ``null``.
    """
    if form not in ("csv", "jsonl"):
        return markdown(table)
    if form == "csv":
        return _csv_text(table)
    rows = [
        {str(key): None if _absent(value) else value for key, value in row.items()}
        for row in table.to_dict("records")
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return lines.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is no UTF-8


def _csv_text(table: pd.DataFrame) -> str:
    """As CSV; where a text holds a carriage return all texts are quoted, as one alone would end its
    row.
    """
    texts = table.select_dtypes(exclude="number")
    returns = any(
        "\r" in value for name in texts for value in texts[name] if isinstance(value, str)
    )
    return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def visible(text: str) -> str:
    """A text whose control characters, among them a terminal's commands, and what does not show are
    escaped.
    """
    return COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table to a file, as its ending says.

    Raises BeamUQError if that is none of :data:`FILES`, or the file cannot be written.
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
        shown = [
            number(each) if numbers else visible(" ".join(str(each).split())) for each in values
        ]
        cells = [each.replace("|", "\\|") for each in shown]
        longest = max(len(str(name)), *map(len, cells), 3)
        rule = "-" * (longest - 1) + "-:"[numbers]
        columns.append([f"{each:{'<>'[numbers]}{longest}}" for each in (str(name), rule, *cells)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in zip(*columns, strict=True))
