"""Dataset files in the hub's schema: tolerant of how a value is stored, strict about what it is.

A file is Parquet, as the hub and ``datasets`` write it, or JSON Lines with one object a row; its
stem is the split's name. Any of Arrow's string and list types will do, and a sequence of records
may be a record of lists or a list of records. A missing column, a null, or a value of another type
is refused with file, row and column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.errors import BeamUQError, reading
from beamuq.io import file_sha256, rows_of
from beamuq.row_ids import id_text
from beamuq.written_texts import check_whole
from beamuq_study.data.question import Adapter, Question, Row, questions_of

_FIX = "use a file in the schema of its adapter: the hub's, or of jsonl id, question and answers"
IDS = ("id", "question_id")  # columns that name a question
SOURCE = b"beamuq_source"  # in the footer of a split that was fetched from the hub: what it is


def read_questions(
    adapter: Adapter, path: Path, repeated: list[str] | None = None
) -> list[Question]:
    """Every question of a split's file, in file order; repeated ids go into ``repeated``.

    Raises BeamUQError if the file is missing, corrupt, foreign or empty, or any row is unusable.
    """
    return questions_of(
        adapter, read_rows(path, adapter.columns, adapter.unread), path.stem, repeated
    )


def read_rows(
    path: Path, columns: pa.Schema, unread: Sequence[str] = ()
) -> Iterator[tuple[str, Row]]:
    """(place, row) of every row, with exactly ``columns``; place: file, and row or line.

    Raises BeamUQError if it has one of the columns ``unread``, or as :func:`conform`.
    """
    place = ""
    for place, row in rows_of(path, columns.names):
        names = row if not unread or path.suffix != ".parquet" else pq.read_schema(path).names
        if lost := [name for name in unread if name in names]:
            fix = "drop it, or take the adapter and rows of coqa (stories) or ai2_arc (options)"
            raise BeamUQError(
                f"{place}: {lost[0]}: only {', '.join(columns.names)} are read; {fix}"
            )
        yield place, conform(row, columns, place)
    if not place:
        raise BeamUQError(f"{path}: holds no rows; put the whole split there")


def conform(row: Row, columns: pa.Schema, place: str) -> Row:
    """``row`` reduced to ``columns``, each value checked and in the form that adapters read.

    Raises BeamUQError for a missing column, a null, a value of another type or half a surrogate
    pair.
    """
    try:
        return {field.name: _column(_member(row, field.name, ""), field) for field in columns}
    except BeamUQError as error:
        raise BeamUQError(f"{place}: {error}") from error


def source_of(path: Path) -> dict[str, Any] | None:
    """What the fetch step wrote of a split; None for any other file."""
    if path.suffix != ".parquet":
        return None
    with reading(path, "a readable Parquet file", "fetch or copy it again"):
        encoded = (pq.read_schema(path).metadata or {}).get(SOURCE)
        return None if encoded is None else dict(json.loads(encoded))


def described(path: Path) -> dict[str, Any]:
    """A split's file as footers name it."""
    return {"name": path.name, "sha256": file_sha256(path), "fetched": source_of(path)}


def _column(value: Any, field: pa.Field) -> Any:
    if field.name in IDS:
        try:
            return id_text(value)
        except ValueError as error:
            raise BeamUQError(f"{field.name}: {value!r:.60}: {error}") from error
    return _conform(value, field.type, field.name)


def _conform(value: Any, kind: pa.DataType, where: str) -> Any:
    """A value as Arrow's type ``kind`` has it: a record, a list or a text, each part checked.

    ``where``: the column, and the place in it, for messages.

    Raises BeamUQError for a null, a value of another type or half a surrogate pair.
    """
    if value is None:
        raise BeamUQError(f"{where} is null; fill it in, or choose a split with answers")
    if pa.types.is_struct(kind):
        return _conform_record(value, kind, where)
    if pa.types.is_list(kind):
        return _conform_list(value, kind, where)
    if not isinstance(value, str):
        raise BeamUQError(f"{where} must be text, not {value!r:.60}; {_FIX}")
    check_whole(value, where)
    return value


def _conform_record(value: Any, kind: pa.StructType, where: str) -> Row:
    """A record with the fields of ``kind`` alone; a list of records becomes a record of lists."""
    record = value
    if isinstance(value, list):
        record = {
            field.name: [_member(item, field.name, where) for item in value] for field in kind
        }
    conformed = {}
    for field in kind:
        member = _member(record, field.name, where)
        conformed[field.name] = _conform(member, field.type, f"{where}.{field.name}")
    return conformed


def _conform_list(value: Any, kind: pa.ListType, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BeamUQError(f"{where} must be a list, not {value!r:.60}; {_FIX}")
    if pa.types.is_string(kind.value_type) and all(type(item) is str for item in value):
        check_whole("\n".join(value), where)  # all at once, which is faster
        return value
    return [
        _conform(item, kind.value_type, f"{where}[{index}]") for index, item in enumerate(value)
    ]


def _member(record: Any, name: str, where: str) -> Any:
    """What a record holds under ``name``. Raises BeamUQError if it is no record or lacks that."""
    full = f"{where}.{name}" if where else name
    if not isinstance(record, dict):
        raise BeamUQError(f"{where} must be a record with '{name}', not {record!r:.60}; {_FIX}")
    if name not in record:
        raise BeamUQError(f"{full} is missing; {_FIX}")
    return record[name]
