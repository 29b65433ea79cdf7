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
from types import FrameType
from typing import Any

from tqdm import tqdm

from beamuq.decoding.finished_batches import WHOLE, FinishedBatches, run_hash, share_of
from beamuq.decoding.search_state import Prompt

TERMINATED = 143

Json = Any


@dataclass(frozen=True)
class BatchResult:
    """The rows of a batch, the tokens that were run for it, and what its file should say beside them."""

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
        with _progress({number: len(batches[number]) for number in numbers}, done) as report:
            for number in numbers:
                if number not in done:
                    result = run(batches[number])
                    kept.write(number, result.rows, result.note)
                    report(number, result.tokens)
                    if asked_to_stop.is_set():
                        print("stopped as asked; this batch is kept and the next run goes on after it", file=sys.stderr)
                        raise SystemExit(TERMINATED)
    return kept


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
def _progress(sizes: Mapping[int, int], done: set[int]) -> Iterator[Callable[[int, int], None]]:
    """Tell of every batch, by its number and questions: a bar on a terminal, a line in a log."""
    total, kept = sum(sizes.values()), sum(sizes[number] for number in done)
    started, questions, tokens = time.monotonic(), 0, 0
    bar = tqdm(total=total, initial=kept, unit="question", disable=not sys.stderr.isatty())
    if kept and bar.disable:
        print(f"{kept} of {total} questions are there from an earlier run", file=sys.stderr, flush=True)

    def report(number: int, fresh: int) -> None:
        nonlocal questions, tokens
        questions, tokens = questions + sizes[number], tokens + fresh
        seconds = time.monotonic() - started
        rate = f"{tokens / seconds:.0f} tokens/s"
        bar.set_postfix_str(rate, refresh=False)
        bar.update(sizes[number])
        if bar.disable:
            left = (total - kept - questions) * seconds / questions
            print(
                f"batch {list(sizes).index(number) + 1} of {len(sizes)}: "
                f"{kept + questions} of {total} questions, {rate}, "
                f"{int(left) // 60} min {int(left) % 60} s left",
                file=sys.stderr,
                flush=True,
            )

    with bar:
        yield report
