"""Finished batches on disk: one Parquet file each, under a manifest that says what run they belong to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamuq import artifacts
from beamuq.errors import BeamUQError

_NAME = re.compile(r"part-(\d{5})\.parquet")
_MANIFEST, _LOCK = "manifest.json", ".lock"

Json = Any


class Parts:
    """The parts of one run in ``folder``. Use inside `locked`; open with `open_parts`."""

    def __init__(self, folder: Path, kind: str, identity: str, batches: int) -> None:
        self._folder = folder
        self._kind = kind
        self._identity = identity
        self._waves = batches

    def finished(self) -> dict[int, artifacts.Loaded]:
        """The parts of finished batches by number, every one of them checked.

        Raises
        ------
        BeamUQError
            For a file that is not a part of this run, or not whole: foreign, truncated, altered, of another manifest.
        """
        found = {}
        for path in sorted(self._folder.iterdir()):
            if path.name in (_MANIFEST, _LOCK):
                continue
            match = _NAME.fullmatch(path.name)
            if not match or int(match[1]) >= self._waves:
                raise BeamUQError(f"{path}: not a part of this run; move it out of the folder of parts")
            found[int(match[1])] = self._checked(path, int(match[1]))
        return found

    def write(self, batch: int, rows: list[dict[str, Any]], note: Mapping[str, Json]) -> artifacts.Loaded:
        """Write the part of ``batch`` (temporary name, fsync, rename) and return it as read back."""
        path = self._folder / f"part-{batch:05}.parquet"
        table = pa.Table.from_pylist(rows, schema=artifacts.SCHEMAS[self._kind])
        provenance = {"manifest": self._identity, "batch": batch, "content": _content(table), "note": dict(note)}
        artifacts.write(path, self._kind, table, provenance=provenance)
        return self._checked(path, batch)

    def _checked(self, path: Path, batch: int) -> artifacts.Loaded:
        part = artifacts.read(path, self._kind)
        said = part.provenance
        if said.get("manifest") != self._identity:
            raise BeamUQError(
                f"{path}: belongs to another run (another model, prompts, recipe, seed or engine); "
                f"delete {self._folder} to start over"
            )
        if said.get("batch") != batch or said.get("content") != _content(part.table):
            raise BeamUQError(f"{path}: its content is not what was written; delete it and run again")
        return part


@contextmanager
def open_parts(folder: Path, kind: str, manifest: Mapping[str, Json], batches: int) -> Iterator[Parts]:
    """The parts in ``folder`` of the run that ``manifest`` describes, with the folder locked for this process.

    Raises
    ------
    BeamUQError
        If another process holds the folder, or it belongs to another run: the message names what differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BeamUQError(f"{folder}: another process is writing parts here; wait for it or stop it") from error
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink()
        described = json.loads(json.dumps(manifest))
        _compare(folder, described)
        text = json.dumps(described, sort_keys=True, ensure_ascii=False, indent=1)
        with artifacts.atomic(folder / _MANIFEST) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
        yield Parts(folder, kind, hashlib.sha256(text.encode()).hexdigest(), batches)


def discard_parts(folder: Path) -> None:
    """Remove the parts of a run whose output is written."""
    shutil.rmtree(folder, ignore_errors=True)


def _compare(folder: Path, manifest: dict[str, Json]) -> None:
    path = folder / _MANIFEST
    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        differing = sorted(key for key in {*before, *manifest} if before.get(key) != manifest.get(key))
    except (ValueError, TypeError, AttributeError) as error:
        raise BeamUQError(f"{path}: not a manifest; delete {folder} to start over") from error
    if differing:
        raise BeamUQError(
            f"{path}: belongs to another run, which differs in {', '.join(differing)}; delete {folder} to start over"
        )


def _content(table: pa.Table) -> str:
    digest = hashlib.sha256()
    for column in table.columns:
        _digest(pa.concat_arrays(column.chunks or [pa.array([], column.type)]), digest)
    return digest.hexdigest()


def _digest(values: pa.Array, digest: Any) -> None:
    """Add the values to the digest, however Arrow lays them out: nulls and offsets differ between equal tables."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    digest.update(len(there).to_bytes(8, "little") + np.packbits(there).tobytes())
    values = values.drop_null()
    if pa.types.is_list(values.type):
        digest.update(pc.list_value_length(values).to_numpy().tobytes())
        _digest(values.flatten(), digest)
    elif pa.types.is_string(values.type):
        digest.update(pc.binary_length(values).to_numpy().tobytes())
        digest.update("".join(values.to_pylist()).encode())
    else:
        digest.update(values.to_numpy(zero_copy_only=False).tobytes())
