"""The lock file beside a study: each hub model and dataset is resolved once to a commit; afterwards the lock rules.

``studies/NAME.lock.json`` holds ``{"models": {"ORG/NAME": {"commit": ...}}, "datasets": {...}}``. A commit names the
content of every file of its repository.
"""

from __future__ import annotations

import fcntl
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from beamuq.config_errors import parse_json
from beamuq.errors import BeamUQError
from beamuq.parquet_tables import atomic

Kind = Literal["models", "datasets"]
COMMIT = re.compile(r"[0-9a-f]{40}")


def read_commit(lock: Path, kind: Kind, repo_id: str) -> str | None:
    """The commit that the lock names for a repository; None where it names none.

    Raises BeamUQError if the lock file is unreadable, or what it names is no full commit hash.
    """
    entry = _read(lock).get(kind, {}).get(repo_id)
    commit = entry.get("commit") if isinstance(entry, dict) else entry
    if entry is not None and not (isinstance(commit, str) and COMMIT.fullmatch(commit)):
        raise BeamUQError(f"{lock}: {kind}.{repo_id}.commit: {commit!r}: not a full commit hash; remove the entry")
    return commit


def locked_commit(lock: Path, kind: Kind, repo_id: str, resolve: Callable[[], str]) -> str:
    """The commit that a repository is locked to; the first call asks ``resolve`` and writes it down.

    Parallel jobs agree: one resolves while the others wait.

    Raises BeamUQError as :func:`read_commit`, or if ``resolve`` raises it or returns anything but a full commit hash.
    """
    if commit := read_commit(lock, kind, repo_id):
        return commit
    with exclusive(lock):
        if commit := read_commit(lock, kind, repo_id):
            return commit
        commit = resolve()
        if not COMMIT.fullmatch(commit):
            raise BeamUQError(f"{lock}: {kind}.{repo_id}: the hub answered {commit!r}, not a commit; try again")
        content = _read(lock)
        content.setdefault(kind, {})[repo_id] = {"commit": commit}
        with atomic(lock) as temporary:
            temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return commit


def _read(lock: Path) -> dict[str, Any]:
    fix = "restore it from version control"
    content = parse_json(lock.read_bytes(), lock, fix) if lock.is_file() else {}
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise BeamUQError(f"{lock}: not a lock file, which maps models and datasets to commits; {fix}")
    return content


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Only one process at a time is in here for ``path``; the empty file ``.NAME.lock`` beside it stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{path}: another run is writing it; waiting for that", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
