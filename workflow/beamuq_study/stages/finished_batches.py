"""Finished batches of questions on disk: what a killed run goes on from, and what several workers
fill together.

Each finished batch is one Parquet file, written at once or not at all, in a folder named by the
hash of everything that decides its rows. So batches of different runs (another model, recipe, seed,
dtype, composition, engine) never meet. A cell that is spread over several cards has a worker for
each share of its batches, all with the same folder; a worker that is done leaves a *marker*, a
table without rows whose footer names the run. Whoever writes the whole table deletes the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq.progress import progress_bar
from beamuq_study import parquet_tables

if TYPE_CHECKING:
    from beamuq.decoding.search_state import Prompt

FORMAT = 3
"""Raised by hand whenever the engine's numbers or the batches' files change: what an older one left
is then unused.
"""

WHOLE = "1-of-1"
TERMINATED = 143

Json = Any


@dataclass(frozen=True)
class BatchResult:
    """The rows of a batch, the tokens that were run for it, and a note that its file keeps."""

    rows: list[dict[str, Json]]
    tokens: int
    note: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class FinishedBatches:
    """The finished batches of one run, ``count`` when complete, as tables of candidates.

    ``parent`` holds one folder for each run, which is called like the first letters of its hash
    ``run``.
    """

    parent: Path
    run: str
    count: int

    @property
    def folder(self) -> Path:
        return self.parent / self.run[:16]

    @contextmanager
    def locked(self, share: str = WHOLE) -> Iterator[None]:
        """The folder, for a worker with its share of the batches, or for one that needs all.

        Raises BeamUQError if another process is at work on this share or, with the whole, on any.
        """
        with ExitStack() as opened:
            with io.writing(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                names = (".lock", f".lock-{share}")
                everyone, same_share = (
                    opened.enter_context((self.folder / name).open("a")) for name in names
                )
                try:
                    fcntl.flock(
                        everyone,
                        (fcntl.LOCK_EX if share == WHOLE else fcntl.LOCK_SH) | fcntl.LOCK_NB,
                    )
                    fcntl.flock(same_share, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise BeamUQError(
                        f"{self.folder}: another process is decoding batches here; wait for it or "
                        "stop it"
                    ) from error
            yield

    def finished(self) -> set[int]:
        """The numbers of the batches that are there."""
        return {number for number in range(self.count) if self._path(number).exists()}

    def write(self, number: int, rows: list[dict[str, Json]], note: Mapping[str, Json]) -> None:
        """Keep the rows of a batch (temporary name, fsync, rename), and its note."""
        path = self._path(number)
        for leftover in self.folder.glob(
            f".{path.name}.*.tmp"
        ):  # of a worker that was killed while it wrote
            leftover.unlink()
        content = {"run": self.run, "batch": number, "note": dict(note)}
        parquet_tables.write(path, "candidates", rows, provenance=content)

    def read(self, number: int) -> parquet_tables.Loaded:
        """One batch. Raises BeamUQError if it is not whole, of another run or of another batch."""
        loaded = parquet_tables.read(self._path(number), "candidates")
        if (loaded.provenance.get("run"), loaded.provenance.get("batch")) != (self.run, number):
            raise BeamUQError(
                f"{loaded.path}: is of another run, or another batch than its name says; delete "
                f"{self.folder}"
            )
        return loaded

    def collected(self) -> tuple[pa.Table, dict[int, dict[str, Json]]]:
        """The rows of all batches in their order, and the notes that are not empty, by batch."""
        loaded = [self.read(number) for number in range(self.count)]
        nothing = parquet_tables.SCHEMAS["candidates"].empty_table()
        table = pa.concat_tables([nothing, *(batch.table for batch in loaded)])
        return table, {
            n: batch.provenance["note"]
            for n, batch in enumerate(loaded)
            if batch.provenance["note"]
        }

    def discard(self) -> None:
        """Remove the folder, with what other runs left in it: the output is written."""
        shutil.rmtree(self.parent, ignore_errors=True)

    def write_marker(self, path: Path, share: str, provenance: Mapping[str, Json]) -> None:
        """Leave the marker of a finished share; ``provenance``: what the whole table's will be."""
        content = {
            "provenance": dict(provenance),
            "share": share,
            "run": self.run,
            "count": self.count,
        }
        parquet_tables.write(path, "candidates", [], provenance=content)

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number:05}.parquet"


def run_batches(
    batches: Sequence[Sequence[Prompt]],
    run: Callable[[Sequence[Prompt]], BatchResult],
    *,
    folder: Path,
    described: Mapping[str, Json],
    share: str = WHOLE,
) -> FinishedBatches:
    """Run a share of the batches, all by default, but for those that ``folder`` holds already.

    ``described`` says what decides the rows beside the prompts: model revision, tokenizer, recipe,
    seed, dtype, … On SIGTERM the batch at hand is finished and kept, then the process exits with
    status 143.

    Raises BeamUQError if another process is at work on this share, or the folder of this run holds
    anything but whole batches of it.
    """
    composition = [[(prompt.id, prompt.token_ids) for prompt in batch] for batch in batches]
    text = json.dumps([described, composition, FORMAT], sort_keys=True, ensure_ascii=False)
    finished = FinishedBatches(folder, hashlib.sha256(text.encode()).hexdigest(), len(batches))
    own = {number: batches[number] for number in share_of(share, len(batches))}
    with finished.locked(share), _sigterm_noted() as stop_asked:
        earlier = finished.finished() & own.keys()
        for number in earlier:
            finished.read(number)  # damage is said now, not after hours of decoding
        _run_missing(own, earlier, run, finished, stop_asked)
    return finished


def _run_missing(
    batches: Mapping[int, Sequence[Prompt]],
    earlier: set[int],
    run: Callable[[Sequence[Prompt]], BatchResult],
    finished: FinishedBatches,
    stop_asked: threading.Event,
) -> None:
    """Run the batches, by number, that an ``earlier`` run did not finish, and keep each."""
    total = sum(len(batch) for batch in batches.values())
    before = sum(len(batches[number]) for number in earlier)
    if before:
        print(
            f"{before} of {total} questions are there from an earlier run",
            file=sys.stderr,
            flush=True,
        )
    started = time.monotonic()
    tokens = 0
    with progress_bar(total, "decoding", "question", before) as progress:
        for number in sorted(batches.keys() - earlier):
            result = run(batches[number])
            finished.write(number, result.rows, result.note)
            tokens += result.tokens
            rate = tokens / (time.monotonic() - started)
            progress.set_postfix_str(f"{rate:.0f} tokens/s", refresh=False)
            progress.update(len(batches[number]))
            if stop_asked.is_set():
                print(
                    "stopped as asked; this batch is kept and the next run goes on after it",
                    file=sys.stderr,
                )
                raise SystemExit(TERMINATED)


def share_of(share: str, count: int) -> list[int]:
    """The batches of ``"2-of-4"``: every fourth from the second, to mix long and short ones.

    Raises BeamUQError if that is no share.
    """
    number, shares = map(int, re.findall(r"\d+", share))
    if not 1 <= number <= shares:
        raise BeamUQError(f"shard {share!r}: not a shard; write 1-of-4, 2-of-4, … 4-of-4")
    return list(range(count))[number - 1 :: shares]


def marked(folder: Path, markers: Sequence[Path]) -> tuple[FinishedBatches, dict[str, Json]]:
    """The batches that these markers' workers finished, and the provenance of their table.

    Raises BeamUQError if the markers are not of all shares of one run, each once.
    """
    marks = [parquet_tables.read(marker, "candidates").provenance for marker in markers]
    parts = sorted(str(mark.get("share")) for mark in marks)
    whole = sorted(f"{n}-of-{len(marks)}" for n in range(1, len(marks) + 1))
    if parts != whole:
        raise BeamUQError(f"{markers[0].parent}: holds the shards {parts}, not {whole}")
    first = marks[0]
    for marker, mark in zip(markers, marks, strict=True):
        if mark["run"] != first["run"]:
            differing = _differing(first["provenance"], mark["provenance"]) or ["prompts"]
            raise BeamUQError(
                f"{marker}: differs from {markers[0].name} in {', '.join(differing)}; delete both"
            )
    return FinishedBatches(folder, first["run"], first["count"]), first["provenance"]


def _differing(one: Mapping[str, Json], other: Mapping[str, Json]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


@contextmanager
def _sigterm_noted() -> Iterator[threading.Event]:
    """Within the block, SIGTERM only sets the event."""
    stop_asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop_asked.set())
    try:
        yield stop_asked
    finally:
        signal.signal(signal.SIGTERM, before)
