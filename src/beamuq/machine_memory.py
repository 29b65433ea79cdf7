"""How much memory there is, and what surely needs more of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from beamuq.errors import BeamUQError

# a container's, of version 2 and of version 1
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """The machine's memory, or the limit of the container if that is less, in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # there is none, or "max"
            memory = min(memory, int(Path(limit).read_text(encoding="ascii")))
    return memory


def check_fits(what: str, needed: int, fix: str) -> None:
    """Refuse what needs more bytes than there are, before the system ends the process.

    Raises BeamUQError: ``what`` takes so much, how much there is, and the ``fix``.
    """
    memory = machine_memory()
    if needed > memory:
        raise BeamUQError(
            f"{what} takes at least {needed / 1e9:,.1f} GB, memory is {memory / 1e9:.1f} GB; {fix}"
        )
