"""Progress bars of long jobs."""

from __future__ import annotations

import sys
from typing import NoReturn

from tqdm import tqdm


def progress_bar(total: int, label: str, unit: str, done: int = 0) -> tqdm[NoReturn]:
    """A bar on a terminal; in a log a line every ten seconds, and none of a shorter job.

    ``done``: so many from before.
    """
    seconds = 0.1 if sys.stderr.isatty() else 10
    return tqdm(
        total=total, initial=done, desc=label, unit=unit, mininterval=seconds, delay=seconds
    )
