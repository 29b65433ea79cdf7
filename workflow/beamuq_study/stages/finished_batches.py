"""Finished batches of questions on disk: what a killed run goes on from, and what several workers fill together.

Each finished batch is one Parquet file, written at once or not at all, in a folder named by the hash of everything that
decides its rows. So batches of different runs (another model, recipe, seed, dtype, composition, engine) never meet. A
cell that is spread over several cards has a worker for each share of its batches, all with the same folder; a worker
that is done leaves a *marker*, a table without rows whose footer names the run. Whoever writes the whole table deletes
the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables

FORMAT = 3
"""Raised by hand whenever the engine's numbers or the batches' files change: what an older one left is then unused."""

_SHARE = re.compile(r"(\d+)-of-(\d+)")
WHOLE = "1-of-1"

Json = Any


class FinishedBatches:
    """The finished batches of one run, ``count`` when complete, as tables of ``kind``.

    Parameters
    ----------
    folder
        Holds one folder a run, which is called like the first letters of its hash.
    run
        The hash of everything that decides the rows (`run_hash`).
    """

    def __init__(self, folder: Path, kind: str, run: str, count: int) -> None:
        self.parent = folder
        self.folder = folder / run[:16]
        self.run = run
        self.count = count
        self._kind = kind

    @contextmanager
    def locked(self, share: str = WHOLE) -> Iterator[None]:
        """The folder, for a worker with its share of the batches, or for one that needs all of them.

        Raises BeamUQError if another process is at work on this share or, with the whole, on any.
        """
        with io.writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with (
            _lock(self.folder / ".lock", fcntl.LOCK_EX if share == WHOLE else fcntl.LOCK_SH),
            _lock(self.folder / f".lock-{share}", fcntl.LOCK_EX),
        ):
            yield

    def finished(self) -> set[int]:
        """The numbers of the batches that are there."""
        return {number for number in range(self.count) if self._path(number).exists()}

    def write(self, number: int, rows: list[dict[str, Any]], note: Mapping[str, Json]) -> None:
        """Keep the rows of a batch (temporary name, fsync, rename), and what its file should say beside them."""
        path = self._path(number)
        for leftover in self.folder.glob(f".{path.name}.*.tmp"):  # of a worker that was killed while it wrote
            leftover.unlink()
        parquet_tables.write(path, self._kind, rows, provenance={"run": self.run, "batch": number, "note": dict(note)})

    def read(self, number: int) -> parquet_tables.Loaded:
        """One batch; its provenance holds the ``note``.

        Raises BeamUQError if the file is not whole, of another run or another batch.
        """
        path = self._path(number)
        loaded = parquet_tables.read(path, self._kind)
        if (loaded.provenance.get("run"), loaded.provenance.get("batch")) != (self.run, number):
            raise BeamUQError(f"{path}: is of another run, or another batch than its name says; delete {self.folder}")
        return loaded

    def collected(self) -> tuple[pa.Table, dict[int, dict[str, Json]]]:
        """The rows of all batches in their order, and the notes that are not empty, by batch."""
        loaded = [self.read(number) for number in range(self.count)]
        nothing = parquet_tables.SCHEMAS[self._kind].empty_table()
        table = pa.concat_tables([nothing, *(batch.table for batch in loaded)])
        return table, {n: batch.provenance["note"] for n, batch in enumerate(loaded) if batch.provenance["note"]}

    def discard(self) -> None:
        """Remove the folder, with what other runs left in it: the output is written."""
        shutil.rmtree(self.parent, ignore_errors=True)

    def write_marker(self, path: Path, share: str, provenance: Mapping[str, Json]) -> None:
        """Leave the marker of a finished share; ``provenance`` is what the whole table's will be."""
        content = {"provenance": dict(provenance), "share": share, "run": self.run, "count": self.count}
        parquet_tables.write(path, self._kind, [], provenance=content)

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number:05}.parquet"


def run_hash(described: Mapping[str, Json], composition: Json) -> str:
    """The hash of everything that decides a run's rows: ``described``, which prompts each batch holds, the engine."""
    text = json.dumps([described, composition, FORMAT], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def share_of(share: str, count: int) -> list[int]:
    """The batches of ``"2-of-4"``, the second of four shares: every fourth, which mixes long and short ones.

    Raises BeamUQError if that is no share.
    """
    match = _SHARE.fullmatch(share)
    number, shares = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= shares:
        raise BeamUQError(f"shard {share!r}: not a shard; write 1-of-4, 2-of-4, … 4-of-4")
    return list(range(count))[number - 1 :: shares]


def marked(folder: Path, kind: str, markers: Sequence[Path]) -> tuple[FinishedBatches, dict[str, Json]]:
    """The batches that the workers of these markers finished, and the provenance of the table to be made of them.

    Raises BeamUQError if the markers are not of all shares of one run, each once.
    """
    marks = [parquet_tables.read(marker, kind).provenance for marker in markers]
    parts, whole = [each.get("share") for each in marks], [f"{n}-of-{len(marks)}" for n in range(1, len(marks) + 1)]
    if sorted(map(str, parts)) != sorted(whole):
        raise BeamUQError(f"{markers[0].parent}: holds the shards {sorted(map(str, parts))}, not {sorted(whole)}")
    for marker, each in zip(markers, marks, strict=True):
        if each["run"] != marks[0]["run"]:
            ours, theirs = marks[0]["provenance"], each["provenance"]
            differing = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)) or ["prompts"]
            raise BeamUQError(f"{marker}: differs from {markers[0].name} in {', '.join(differing)}; delete both")
    return FinishedBatches(folder, kind, marks[0]["run"], marks[0]["count"]), marks[0]["provenance"]


@contextmanager
def _lock(path: Path, how: int) -> Iterator[None]:
    with ExitStack() as opened:
        with io.writing(path):
            file = opened.enter_context(path.open("a"))
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BeamUQError(
                    f"{path.parent}: another process is decoding batches here; wait for it or stop it"
                ) from error
        yield
