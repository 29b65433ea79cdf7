"""Progress bars of long jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

SILENT_SECONDS = 2  # of a bar that somebody looks at: a shorter job shows none


def progress_bar(total: int, label: str, unit: str, done: int = 0) -> tqdm[NoReturn]:
    """A bar on a terminal; in a log a line every ten seconds, and none of a shorter job.

    ``done``: so many from before.
    """
    seconds = 0.1 if sys.stderr.isatty() else 10
    return tqdm(
        total=total, initial=done, desc=label, unit=unit, mininterval=seconds, delay=seconds
    )


@contextmanager
def watched_bar(total: int, label: str, unit: str) -> Iterator[tqdm[NoReturn]]:
    """A bar where somebody looks on, on a terminal or in a notebook; silent elsewhere.

    None of a job shorter than ``SILENT_SECONDS``, or without a ``label``.
    """
    silent = not (label and is_watched())
    with tqdm(total=total, desc=label, unit=unit, disable=silent, delay=SILENT_SECONDS) as bar:
        yield bar


def is_watched() -> bool:
    """Whether what is written to standard error is seen at once: a terminal or a notebook."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
