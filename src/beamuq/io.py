"""Write files atomically, hash them, and read Parquet and JSON Lines row by row."""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from beamuq.config_errors import parse_json
from beamuq.errors import BeamUQError, check_ends, reading
from beamuq.written_texts import check_whole

JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (".parquet", *JSON_LINES)
"""Endings of files that are read and written row by row."""
Row = dict[str, Any]


def write_text(path: Path, content: str) -> None:
    """Write a text, atomically; nothing half-written is left.

    Raises BeamUQError if the disk is full, or the text holds half a surrogate pair.
    """
    check_whole(content, str(path))
    encoded = content.encode("utf-8")
    with atomic(path) as temporary:
        temporary.write_bytes(encoded)


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, hexadecimal, read in pieces.

    Raises BeamUQError as :func:`.check_ends`.
    """
    check_ends(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` for the body to write: renamed, or removed on failure.

    A device or a FIFO is written to as it is.

    Raises BeamUQError if the disk is full or read-only, or the folder may not be written; nothing
    half-written is left.
    """
    with writing(path):
        if path.exists() and not path.is_file():
            yield path
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn refusals of the file system into one line."""
    try:
        yield
    except OSError as error:
        raise BeamUQError(
            f"{path}: cannot be written ({error.strerror or error}); nothing was left behind; "
            "make room or give write access there, and run again"
        ) from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Only one process at a time is in here for ``path``; an empty ``.NAME.lock`` stays there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"{path}: another run is writing it; waiting for that", file=sys.stderr, flush=True
            )
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def rows_of(
    path: Path, names: Sequence[str] | None = None, first: int = 0
) -> Iterator[tuple[str, Row]]:
    """(place, row) of every row of a file in Parquet or JSON Lines.

    Of Parquet only the columns ``names`` are read. Rows of Parquet are numbered from ``first`` on.

    Raises BeamUQError if it is no such file or damaged, a column occurs twice, one of ``names`` is
    missing, or a line that is not empty is not a JSON object in UTF-8.
    """
    check_is_table(path)
    if path.suffix in JSON_LINES:
        return _json_lines(path)
    return _parquet(path, names, first)


def rows_or_errors(path: Path, first: int = 0) -> Iterator[tuple[str, Row | BeamUQError]]:
    """As :func:`rows_of`, with the error of a line that is no JSON object in its place."""
    check_is_table(path)
    if path.suffix in JSON_LINES:
        return _json_lines_or_errors(path)
    return _parquet(path, None, first)


def check_is_table(path: Path) -> None:
    """Refuse what is no file of rows, by its name and kind."""
    check_ending(path, SUFFIXES, of_array="write one object a line of its array, as .jsonl")
    if not path.is_file():
        problem = "a folder or a device, no file" if path.exists() else "no such file"
        raise BeamUQError(f"{path}: {problem}")


def check_ending(
    path: Path, endings: Sequence[str], *, setting: str = "", of_array: str = ""
) -> None:
    """Refuse a file of another ending.

    ``setting``: whose value it is. ``of_array``: the fix for ``.json``, which is no rows but one
    array of them.

    Raises BeamUQError naming the file and the endings.
    """
    if path.suffix in endings:
        return
    listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
    fix = f"; {of_array}" if path.suffix == ".json" and of_array else ""
    where = f"{setting}: {path}" if setting else str(path)
    raise BeamUQError(f"{where}: must end in {listed}{fix}")


def _json_lines(path: Path) -> Iterator[tuple[str, Row]]:
    for place, row in _json_lines_or_errors(path):
        if isinstance(row, BeamUQError):
            raise row
        yield place, row


def _json_lines_or_errors(path: Path) -> Iterator[tuple[str, Row | BeamUQError]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(codecs.BOM_UTF8).strip()
            if text:
                place = f"{path}: line {number}"
                yield place, _json_object_or_error(text, place)


def _json_object_or_error(text: bytes, place: str) -> Row | BeamUQError:
    try:
        row = parse_json(text, place, "write one object a line")
    except BeamUQError as error:
        return error
    if not isinstance(row, dict):
        return BeamUQError(f"{place}: not a JSON object; write one object a line")
    return row


def _parquet(path: Path, names: Sequence[str] | None, first: int) -> Iterator[tuple[str, Row]]:
    with (
        reading(path, "a readable Parquet file", "fetch or copy it again"),
        pq.ParquetFile(path) as file,
    ):
        present = file.schema_arrow.names
        for name in names or ():
            if name not in present:
                raise BeamUQError(
                    f"{path}: column '{name}' is missing (it has {', '.join(present)}); use a file "
                    "that has it"
                )
        twice = next((name for name in present if present.count(name) > 1), None)
        if twice is not None:
            raise BeamUQError(f"{path}: column '{twice}' stands twice; keep one")
        for batch in file.iter_batches(batch_size=1000, columns=names):
            for index, row in enumerate(batch.to_pylist(), start=first):
                yield f"{path}: row {index}", row
            first += batch.num_rows
