"""Rows and settings that functions and commands take, and tables as they are written."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, Strict

from beamuq.api.inspect_log_file import ENDING, is_content_of_log
from beamuq.api.inspect_logs import from_inspect
from beamuq.api.server_forms import vllm_output
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError, reading
from beamuq.io import JSON_LINES, SUFFIXES, atomic, check_ending, rows_or_errors, write_text
from beamuq.made_date import made
from beamuq.strategy_names import LEAST_TEMPERATURE

Rows = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]
FILES = (".csv", *SUFFIXES)
FORMS = {
    "": "methods of one form",
    "multinomial": "over samples (multinomial)",
    "beamsearch": "over beams",
}
ANSWER_LABELS = ("correct", "quality", "group")
SAID_WHERE_EMPTY = ("id", "correct", "quality")
"""Columns of a frame whose holes are kept, as null."""
# all controls but \t and \n; characters of width 0 that join no letters; lines' ends; of direction
COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
SETTINGS: Mapping[str, Any] = {
    **dict.fromkeys(("width", "max_new_tokens", "batch", "threads"), Annotated[int, Field(ge=1)]),
    **dict.fromkeys(("samples", "beams"), Annotated[int, Field(ge=0)]),
    **dict.fromkeys(("risk", "confidence"), Annotated[float, Field(ge=1e-6, le=1 - 1e-6)]),
    "max_rejection": Annotated[float, Field(gt=0, le=1)],
    "resamples": Annotated[int, Field(ge=2)],
    "seed": Annotated[int, Field()],
    "tried": Annotated[int, Field(ge=1, le=10**9)],
    "questions": Annotated[int, Field(ge=1, le=40_000)],
    "epsilon": Annotated[float, Field(ge=0, le=1)],
    "threshold": Annotated[float, Field(ge=0, le=1)] | None,
    "alpha": Annotated[float, Field(gt=0, le=2)],
    "draw_size": Annotated[int, Field(ge=1)] | None,
    "equivalence_threshold": Annotated[float, Field(gt=0, le=1)],
    "temperature": Annotated[float, Field(ge=LEAST_TEMPERATURE, le=10)],
    "quality_threshold": Annotated[float, Field(allow_inf_nan=False)] | None,
}
"""The type and range of each setting that is a number, wherever it is taken."""

SHARES = ("risk", "confidence", "max_rejection")
"""Settings that are shares, which may be taken for percents."""
SHARES_TO_ONE = ("max_rejection",)
"""Shares that may be all: 1 is no percent of them."""


def check_settings(**settings: Any) -> None:
    """Refuse a number outside its range; raises BeamUQError naming it."""
    for name, value in settings.items():
        if name in SHARES:
            _refuse_percent(name, plain(value))
        validated(Annotated[SETTINGS[name], Strict()], plain(value), name)


def _refuse_percent(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_all = name in SHARES_TO_ONE and value == 1
    if is_number and 1 <= value < 100 and not is_all:
        raise BeamUQError(
            f"{name}: {value:g}: must lie between 0 and 1; {value / 100:g} is {value:g} %"
        )


def named(rows: Rows) -> str:
    """What rows are called: their file, or ``rows``."""
    return str(rows) if isinstance(rows, str | Path) else "rows"


def no_question(rows: Rows) -> BeamUQError:
    """The error of rows among which there is none."""
    return BeamUQError(f"{named(rows)}: no question; give one row a question")


def placed_rows(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row with its place: file and line or row, or its number, from 1.

    Of CSV, which ``score`` writes for ``calibrate``, every cell is a text, and an empty one is left
    out.
    """
    for place, row in placed_rows_or_errors(rows):
        if isinstance(row, BeamUQError):
            raise row
        yield place, row


def placed_rows_or_errors(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any] | BeamUQError]]:
    """As :func:`placed_rows`, with the error of a row that is no mapping in its place."""
    if not isinstance(rows, str | Path):
        yield from _placed_mappings(rows, "")
        return
    path = Path(rows)
    if path.suffix in READERS:
        yield from _placed_mappings(READERS[path.suffix].read_file(path), f"{rows}: ")
    else:
        check_ending(path, [*READERS, *SUFFIXES])
        yield from rows_or_errors(path, first=1)


def _placed_mappings(
    content: Any, where: str
) -> Iterator[tuple[str, Mapping[str, Any] | BeamUQError]]:
    if isinstance(content, pd.DataFrame):
        content = [_without_holes(row) for row in with_ids(content).to_dict("records")]
    if not isinstance(content, Iterable) or is_object(content):
        raise BeamUQError(
            f"{where or 'rows: '}a {type(content).__name__}; give a list of mappings, one a "
            "question"
        )
    for number, row in enumerate(content, start=1):
        mapping = plain(row)
        place = f"{where}row {number}"
        if isinstance(mapping, Mapping):
            yield place, mapping
        else:
            yield (
                place,
                BeamUQError(
                    f"{place}: a {type(row).__name__}; give a list of mappings, one a question"
                ),
            )


@dataclass(frozen=True)
class Reader:
    """How a file of rows is read: its kind, in words, the fix where it is not, and the content."""

    kind: str
    fix: str
    read: Callable[[Path], Any]

    def read_file(self, path: Path) -> Any:
        """The content of a file; raises BeamUQError naming it."""
        with reading(path, f"{self.kind} in UTF-8", self.fix):
            return self.read(path)


def _read_json(path: Path) -> Any:
    content = json.loads(path.read_bytes().decode("utf-8-sig"))
    return from_inspect(path) if is_content_of_log(content) else content


def _read_csv(path: Path) -> pd.DataFrame:
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
    repeated = list(table.columns[table.columns.duplicated() & table.columns.notna()])
    if repeated:
        raise BeamUQError(f"{path}: column {repeated[0]!r} stands twice; keep one")
    return table.iloc[1:]


READERS = {
    ".json": Reader("valid JSON", "give an array of objects", _read_json),
    ".csv": Reader("CSV", "give what score writes", _read_csv),
    ENDING: Reader("a log of Inspect", "give one that Inspect wrote", from_inspect),
}


def with_ids(table: pd.DataFrame) -> pd.DataFrame:
    """A frame with the ids that its index names, if it does, in a column."""
    if table.index.name == "id" and "id" not in table.columns:
        return table.reset_index()
    return table


def _without_holes(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What a row of a frame says; without an id or a label it says so.

    An error then names the row, and a label that is not known is told from one that has no column.
    """
    return {
        str(key): none_if_hole(value)
        for key, value in row.items()
        if key in SAID_WHERE_EMPTY or not _is_hole(value)
    }


def none_if_hole(value: Any) -> Any:
    """A value of a frame; None where it says nothing."""
    return None if _is_hole(value) else value


def _is_hole(value: Any) -> bool:
    """Whether a frame says nothing here: it fills the holes of a column with None, NaN or NA."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


PLAIN = (str, int, float, bool)  # of most values, which are taken as they are


def is_object(value: Any) -> bool:
    """Whether it is a client's object, of a kind that has parts with names."""
    named_parts = hasattr(value, "model_dump") or isinstance(value, SimpleNamespace)
    return named_parts or (is_dataclass(value) and not isinstance(value, type))


def plain(value: Any) -> Any:
    """Arrays, tuples, numpy's numbers and clients' objects as JSON has them; pandas' NA is null."""
    if value is None or type(value) in PLAIN:
        return value
    if value is pd.NA or value is pd.NaT:
        return None
    value = _without_client_type(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def _without_client_type(value: Any) -> Any:
    """A client's object as a mapping; of any other value the value."""
    output = None if isinstance(value, dict | list) else vllm_output.as_mapping(value)
    if output is not None:
        return output
    return _named_parts(value) if is_object(value) else value


def _named_parts(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, SimpleNamespace):
        return vars(value)
    return {
        part.name: getattr(value, part.name) for part in fields(value) if hasattr(value, part.name)
    }


def by_question(scores: pd.DataFrame) -> str:
    """Scores with a row a question and a column a method, in one table a form.

    Below, by reason, what has no value, and by note what has one.
    """
    name = scores["method"] + _after_if_any(" ", scores["setting"])
    scores = scores.assign(name=name, full_name=score_names(scores))
    label_columns = [column for column in ANSWER_LABELS if column in scores]
    labels = scores.drop_duplicates("id").set_index("id")[label_columns]
    log_p = "; Prob is −log p" if "Prob" in set(scores["method"]) else ""
    similarity = ", ".join(scores["similarity"].unique())
    lines = [f"higher = more uncertain{log_p}; similarity: {similarity}", ""]
    for form, title in FORMS.items():
        rows = scores[(scores["variant"] == form) & scores["value"].notna()]
        if len(rows):
            values = rows.pivot(index="id", columns="name", values="value")[rows["name"].unique()]
            lines += [title, "", markdown(labels.join(values).reset_index())]
    lines += _methods_by_text(scores, "reason", "no value:")
    lines += _methods_by_text(scores, "note", "with a note:")
    return "\n".join(lines) + "\n"


def score_names(scores: pd.DataFrame) -> pd.Series[str]:
    """What each row's score is called: ``Prob``, ``Dissimilarity + beamsearch``."""
    name = scores["method"] + _after_if_any(" ", scores["setting"])
    return name + _after_if_any(" + ", scores["variant"])


def _after_if_any(separator: str, texts: pd.Series[str]) -> list[str]:
    """Each text after the separator; an empty text stays empty."""
    return [separator + text if text else "" for text in texts]


def _methods_by_text(scores: pd.DataFrame, column: str, heading: str) -> list[str]:
    """A line for each reason or note, with the methods that have it; nothing where none does."""
    with_text = scores[scores[column] != ""]
    if with_text.empty:
        return []
    all_questions = scores["id"].nunique()
    lines = [heading]
    for text, rows in with_text.groupby(column, sort=False):
        questions = rows["id"].nunique()
        where = "" if questions == all_questions else f" ({questions} of {all_questions} questions)"
        lines.append(f"- {text}{where}: {', '.join(rows['full_name'].unique())}")
    return lines


def render(table: pd.DataFrame, form: str) -> str:
    """A table as ``csv`` or ``jsonl``, numbers exact, or else as Markdown.

    A missing value is empty, in JSON ``null``.
    """
    if form not in ("csv", "jsonl"):
        return markdown(table)
    if form == "csv":
        return _csv_text(table)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in json_values(table))
    return lines.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is no UTF-8


def json_values(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as JSON has them; a missing value is None."""
    return [
        {str(key): none_if_hole(value) for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def _csv_text(table: pd.DataFrame) -> str:
    """As CSV, with all texts in quotes where one holds a carriage return, which ends a row."""
    columns = table.select_dtypes(exclude="number")
    texts = (value for name in columns for value in columns[name] if isinstance(value, str))
    needs_quotes = any("\r" in text for text in texts)
    return table.to_csv(
        index=False, quoting=csv.QUOTE_NONNUMERIC if needs_quotes else csv.QUOTE_MINIMAL
    )


def visible(text: str) -> str:
    """A text with control characters, such as a terminal's commands, and invisible ones escaped."""
    return COMMANDS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table to a file, as its ending says.

    Parquet has the date and the version too: ``attrs`` of the frame that pandas reads. JSON Lines
    and CSV are rows alone.

    Raises BeamUQError if that is none of :data:`FILES`, or the file cannot be written.
    """
    path = Path(path)
    check_ending(path, FILES, setting="output", of_array="give .jsonl, which has one object a line")
    if path.suffix == ".parquet":
        dated = table.copy(deep=False)
        dated.attrs = dict(table.attrs)
        for name, value in made().items():
            dated.attrs[name] = value
        with atomic(path) as temporary:
            dated.to_parquet(temporary, index=False)
    else:
        write_text(path, render(table, "jsonl" if path.suffix in JSON_LINES else "csv"))


def number(value: float) -> str:
    """Four significant digits; "" for a missing value."""
    return "" if pd.isna(value) else f"{value:.4g}"


def markdown(table: pd.DataFrame) -> str:
    """A Markdown table whose columns are aligned as text too, numbers to the right."""
    columns = [_markdown_column(str(name), values) for name, values in table.items()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in zip(*columns, strict=True))


def _markdown_column(name: str, values: pd.Series[Any]) -> list[str]:
    """The cells of a column: its name, the rule below, and the values, all of one width."""
    if pd.api.types.is_float_dtype(values):
        cells = [number(value) for value in values]
        width = max(len(name), *map(len, cells), 3)
        rule = "-" * (width - 1) + ":"
        return [cell.rjust(width) for cell in (name, rule, *cells)]
    cells = [_markdown_text(value) for value in values]
    width = max(len(name), *map(len, cells), 3)
    return [cell.ljust(width) for cell in (name, "-" * width, *cells)]


def _markdown_text(value: object) -> str:
    """On one line, with nothing that ends a cell."""
    return visible(" ".join(str(value).split())).replace("|", "\\|")
