"""Progress of long jobs: bars, and lines in logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NoReturn, Protocol

from tqdm import tqdm

SILENT_SECONDS = 2  # of a bar that somebody looks at: a shorter job shows none
FIRST_LINE_SECONDS = 60  # of a log: a shorter job writes nothing
BETWEEN_LINES_SECONDS = 600


def progress_bar(total: int, label: str, unit: str, done: int = 0) -> tqdm[NoReturn]:
    """A bar on a terminal; in a log a line every ten seconds, and none of a shorter job.

    ``done``: so many from before.
    """
    seconds = 0.1 if sys.stderr.isatty() else 10
    return tqdm(
        total=total, initial=done, desc=label, unit=unit, mininterval=seconds, delay=seconds
    )


class Progress(Protocol):
    """What a long job tells its progress to."""

    def update(self, n: int) -> object:
        """So many more are done."""


@contextmanager
def job_progress(total: int, label: str, unit: str) -> Iterator[Progress]:
    """A bar where somebody looks on, on a terminal or in a notebook; a plain line now and then
    elsewhere (:class:`PlainLines`).

    No bar of a job shorter than ``SILENT_SECONDS``; nothing without a ``label``.
    """
    if label and not is_watched():
        yield PlainLines(total, label)
        return
    with tqdm(total=total, desc=label, unit=unit, disable=not label, delay=SILENT_SECONDS) as bar:
        yield bar


class PlainLines:
    """Progress in a log: a line once a job has run for a minute, then one every ten minutes.

    A line says how many are done of how many, the time since the start, and about how much is left.
    """

    def __init__(self, total: int, label: str) -> None:
        self._total = total
        self._label = label
        self._done = 0
        self._start = monotonic()
        self._next_line = self._start + FIRST_LINE_SECONDS

    def update(self, n: int) -> None:
        """So many more are done; a line where one is due and something is left."""
        self._done += n
        now = monotonic()
        if now < self._next_line or not 0 < self._done < self._total:
            return
        self._next_line = now + BETWEEN_LINES_SECONDS
        elapsed = now - self._start
        left = elapsed / self._done * (self._total - self._done)
        print(
            f"{self._label}: {self._done} of {self._total} done, "
            f"{tqdm.format_interval(elapsed)} elapsed, about {tqdm.format_interval(left)} left",
            file=sys.stderr,
            flush=True,
        )


def is_watched() -> bool:
    """Whether what is written to standard error is seen at once: a terminal or a notebook."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
