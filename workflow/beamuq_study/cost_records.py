"""What each job took, written by the job itself: one JSON line for each attempt.

Snakemake's own benchmark samples a process from outside, twice a second, then every 30 seconds: it
misses short jobs whole and the end of all others. A process knows exactly what it took.

A record lies in ``results/<study>/costs``, outside of what Snakemake knows, which deletes the
declared files of a job before it runs it again: the attempts that were killed stay known. It holds
the last finished attempt and those before it that did not finish: what the present file cost.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from beamuq import io

COSTS = "costs"
FETCHED = "fetched"

FINISHED = "finished"
STOPPED = "stopped"
RUNNING = "running"
LONGEST_SILENCE = 30.0
"""Seconds between two looks at a job that runs long: at most this much of a killed attempt is not
known.
"""

STARTED = time.monotonic()


class Attempt(TypedDict):
    """One attempt of a job. ``state``: RUNNING is also what a killed one leaves; peak memory in MB
    of 10^6 bytes.
    """

    state: str
    seconds: float
    cpu_seconds: float
    peak_memory_mb: float


def taken(state: str) -> Attempt:
    """What this process and the children that it waited for took so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    peak = max(_own_peak(own.ru_maxrss), _in_bytes(children.ru_maxrss))
    return {
        "state": state,
        "seconds": round(_seconds_since_start(), 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_memory_mb": round(peak / 1e6, 1),
    }


def record_of(file: Path) -> Path | None:
    """Where the job that makes a study's file writes what it took; None for a file outside of a
    study's folders.

    ``results/demo/tables/base_accs.csv`` → ``results/demo/costs/tables/base_accs.jsonl``, and
    ``figures/demo/redundancy.pdf`` → ``results/demo/costs/figures/redundancy.jsonl``.
    """
    parts = file.parts
    roots = [place for place, part in enumerate(parts[:-2]) if part in ("results", "figures")]
    if file.is_absolute() or not roots:
        return None
    root = roots[0]
    results = Path(*parts[:root], "results", parts[root + 1])
    inside = Path(*parts[root + 2 :])
    kind = "figures" if parts[root] == "figures" else ""
    return (results / COSTS / kind / inside).with_suffix(".jsonl")


def record_of_fetched(fetched: Path, lock: Path) -> Path:
    """Where the job that fetches a file for the study of a lock file writes what it took."""
    study = lock.name.removesuffix(".lock.json")
    return Path("results", study, COSTS, FETCHED, fetched.parent.name, f"{fetched.stem}.jsonl")


def of_shards(record: Path) -> list[Path]:
    """The records of the jobs that decoded the shards of a table of candidates."""
    return sorted(record.with_suffix(".shards").glob("*.jsonl"))


@contextmanager
def recorded(path: Path | None) -> Iterator[None]:
    """Write what the process takes while the body runs and at the end, behind earlier attempts.

    None: no record.
    """
    if path is None:
        yield
        return
    earlier = [] if is_finished(attempts := read(path)) else attempts
    _write(path, [*earlier, taken(RUNNING)])
    ended = threading.Event()
    watching = threading.Thread(
        target=_look_from_time_to_time, args=(path, earlier, ended), daemon=True
    )
    watching.start()
    state = STOPPED
    try:
        yield
        state = FINISHED
    finally:
        ended.set()
        watching.join()
        _write(path, [*earlier, taken(state)])


def read(path: Path) -> list[Attempt]:
    """The attempts in a record, none if there is no such file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def total(attempts: Iterable[Attempt]) -> Attempt:
    """What several attempts took together: summed times, the largest memory."""
    attempts = list(attempts)
    return {
        "state": FINISHED if is_finished(attempts) else RUNNING,
        "seconds": sum(attempt["seconds"] for attempt in attempts),
        "cpu_seconds": sum(attempt["cpu_seconds"] for attempt in attempts),
        "peak_memory_mb": max((attempt["peak_memory_mb"] for attempt in attempts), default=0.0),
    }


def is_finished(attempts: list[Attempt]) -> bool:
    """Whether the last attempt came to its end: the next one makes the file anew."""
    return bool(attempts) and attempts[-1]["state"] == FINISHED


def _look_from_time_to_time(path: Path, earlier: list[Attempt], ended: threading.Event) -> None:
    """Write the record, at first often, so that little is lost of a short job either."""
    pause = 1.0
    while not ended.wait(pause):
        _write(path, [*earlier, taken(RUNNING)])
        pause = min(2 * pause, LONGEST_SILENCE)


def _write(path: Path, attempts: list[Attempt]) -> None:
    io.write_text(path, "".join(json.dumps(attempt) + "\n" for attempt in attempts))


def _own_peak(largest_ever: int) -> int:
    """The peak of this program in bytes.

    The system's ``largest_ever`` also counts what the process held before it became this program: a
    shell's, or Snakemake's own memory.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return _in_bytes(largest_ever)


def _in_bytes(largest: int) -> int:
    return largest if sys.platform == "darwin" else largest * 1024


def _seconds_since_start() -> float:
    """Wall time since the process started, imports included where the system tells when."""
    stat = Path("/proc/self/stat")
    if not stat.is_file():
        return time.monotonic() - STARTED
    after_name = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    ticks = int(after_name.split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
