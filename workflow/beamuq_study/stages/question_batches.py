"""Work in batches: a fixed set of questions at a time, each kept as soon as it is done, none done twice."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beamuq.decoding.search_state import Prompt
from beamuq.progress import progress_bar
from beamuq_study.stages.finished_batches import WHOLE, FinishedBatches, run_hash, share_of

TERMINATED = 143

Json = Any


@dataclass(frozen=True)
class BatchResult:
    """The rows of a batch, the tokens that were run for it, and what its file should say beside them."""

    rows: list[dict[str, Any]]
    tokens: int
    note: Mapping[str, Json] = field(default_factory=dict)


def run_batches(
    batches: Sequence[Sequence[Prompt]],
    run: Callable[[Sequence[Prompt]], BatchResult],
    *,
    folder: Path,
    kind: str,
    described: Mapping[str, Json],
    share: str = WHOLE,
) -> FinishedBatches:
    """Run a share of the batches, all by default, but for those that ``folder`` holds already.

    ``described`` says what decides the rows beside the prompts: model revision, tokenizer, recipe, seed, dtype, … On
    SIGTERM the batch at hand is finished and kept, then the process exits with status 143.

    Raises BeamUQError if another process is at work on this share, or the folder of this run holds anything but whole
    batches of it.
    """
    composition = [[(prompt.id, prompt.token_ids) for prompt in batch] for batch in batches]
    kept = FinishedBatches(folder, kind, run_hash(described, composition), len(batches))
    numbers = share_of(share, len(batches))
    with kept.locked(share), _patient() as asked_to_stop:
        done = kept.finished() & set(numbers)
        for number in done:
            kept.read(number)  # told now if it is damaged, not after hours of decoding
        started, tokens = time.monotonic(), 0
        total, before = (sum(len(batches[number]) for number in of) for of in (numbers, done))
        if before:
            print(f"{before} of {total} questions are there from an earlier run", file=sys.stderr, flush=True)
        with progress_bar(total, "decoding", "question", before) as progress:
            for number in numbers:
                if number in done:
                    continue
                result = run(batches[number])
                kept.write(number, result.rows, result.note)
                tokens += result.tokens
                progress.set_postfix_str(f"{tokens / (time.monotonic() - started):.0f} tokens/s", refresh=False)
                progress.update(len(batches[number]))
                if asked_to_stop.is_set():
                    print("stopped as asked; this batch is kept and the next run goes on after it", file=sys.stderr)
                    raise SystemExit(TERMINATED)
    return kept


@contextmanager
def _patient() -> Iterator[threading.Event]:
    """Within the block, SIGTERM only sets the event."""
    stop_asked = threading.Event()

    before = signal.signal(signal.SIGTERM, lambda *_: stop_asked.set())
    try:
        yield stop_asked
    finally:
        signal.signal(signal.SIGTERM, before)
