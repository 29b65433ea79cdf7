"""Work in batches: a fixed set of questions at a time, each kept as soon as it is done, none done twice."""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from beamuq import artifacts
from beamuq.decoding.finished_batches import open_parts
from beamuq.decoding.search_state import Prompt

FORMAT = 2
"""Raised by hand whenever the engine's numbers or its parts change: parts of an older engine are then refused."""
TERMINATED = 143

Json = Any


@dataclass(frozen=True)
class BatchResult:
    """The rows of a batch, the tokens that were run for it, and what the part should say about it."""

    rows: list[dict[str, Any]]
    tokens: int
    note: Mapping[str, Json] = field(default_factory=dict)


def compose_batches(prompts: Sequence[Prompt], size: int) -> list[list[Prompt]]:
    """Batches of at most ``size`` prompts, sorted by their tokens so that those that share prefixes meet.

    Depends on the prompts alone, not on the order in which they come.
    """
    ordered = sorted(prompts, key=lambda prompt: (prompt.token_ids, prompt.id))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


def run_batches(
    batches: Sequence[Sequence[Prompt]],
    run: Callable[[Sequence[Prompt]], BatchResult],
    *,
    folder: Path,
    kind: str,
    manifest: Mapping[str, Json],
) -> tuple[pa.Table, list[dict[str, Json]]]:
    """The rows of all batches, in their order, as a table of ``kind``, and the batches' notes.

    Batches that ``folder`` holds are not run again.

    ``manifest`` says what else decides the rows: model revision, tokenizer, recipe, seed, dtype, … The composition of
    the batches, their prompts' tokens and the engine's format are added to it. Parts stay until `discard_parts`. On
    SIGTERM the batch at hand is finished and kept, then the process exits with status 143.

    Raises
    ------
    BeamUQError
        If the folder is in use, or holds anything but whole parts of this very run.
    """
    composition = [[(prompt.id, prompt.token_ids) for prompt in batch] for batch in batches]
    described = {
        **manifest,
        "engine format": FORMAT,
        "batches": [len(batch) for batch in batches],
        "prompts": hashlib.sha256(json.dumps(composition).encode()).hexdigest(),
    }
    with open_parts(folder, kind, described, len(batches)) as parts, _patient() as asked_to_stop:
        done = parts.finished()
        with _progress(batches, set(done)) as report:
            for number, batch in enumerate(batches):
                if number not in done:
                    result = run(batch)
                    done[number] = parts.write(number, result.rows, result.note)
                    report(number, result.tokens)
                    if asked_to_stop.is_set():
                        print("stopped as asked; this batch is kept and the next run goes on after it", file=sys.stderr)
                        raise SystemExit(TERMINATED)
    nothing = artifacts.SCHEMAS[kind].empty_table()
    parts_in_order = [done[number] for number in range(len(batches))]
    table = pa.concat_tables([nothing, *(part.table for part in parts_in_order)])
    return table, [part.provenance["note"] for part in parts_in_order]


@contextmanager
def _patient() -> Iterator[threading.Event]:
    """Within the block, SIGTERM only sets the event."""
    asked = threading.Event()

    def note(_: int, __: FrameType | None) -> None:
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(batches: Sequence[Sequence[Prompt]], done: set[int]) -> Iterator[Callable[[int, int], None]]:
    """Tell of every batch: a bar on a terminal, a line in a log."""
    total, kept = sum(len(batch) for batch in batches), sum(len(batches[number]) for number in done)
    started, questions, tokens = time.monotonic(), 0, 0
    bar = tqdm(total=total, initial=kept, unit="question", disable=not sys.stderr.isatty())
    if kept and bar.disable:
        print(f"{kept} of {total} questions are there from an earlier run", file=sys.stderr, flush=True)

    def report(number: int, fresh: int) -> None:
        nonlocal questions, tokens
        questions, tokens = questions + len(batches[number]), tokens + fresh
        seconds = time.monotonic() - started
        rate = f"{tokens / seconds:.0f} tokens/s"
        bar.set_postfix_str(rate, refresh=False)
        bar.update(len(batches[number]))
        if bar.disable:
            left = (total - kept - questions) * seconds / questions
            print(
                f"batch {number + 1} of {len(batches)}: {kept + questions} of {total} questions, {rate}, "
                f"{int(left) // 60} min {int(left) % 60} s left",
                file=sys.stderr,
                flush=True,
            )

    with bar:
        yield report
