"""The lock file beside a study: each hub model and dataset is resolved once to a commit; afterwards the lock rules.

``studies/NAME.lock.json`` holds ``{"models": {"ORG/NAME": {"commit": ...}}, "datasets": {...}}``. A commit names the
content of every file of its repository.
"""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from beamuq.config_errors import StrictModel, validated_json
from beamuq.io import write_text

Kind = Literal["models", "datasets"]


class _Entry(StrictModel):
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


Lock = dict[Kind, dict[str, _Entry]]


def read_commit(lock: Path, kind: Kind, repo_id: str) -> str | None:
    """The commit that the lock names for a repository; None where it names none.

    Raises BeamUQError if the lock file is no such file, or what it names is no full commit hash.
    """
    content: Lock = validated_json(Lock, lock.read_bytes(), lock) if lock.is_file() else {}
    entry = content.get(kind, {}).get(repo_id)
    return entry.commit if entry else None


def locked_commit(lock: Path, kind: Kind, repo_id: str, resolve: Callable[[], str]) -> str:
    """The commit that a repository is locked to; the first call asks ``resolve`` and writes it down.

    Parallel jobs agree: one resolves while the others wait. Raises BeamUQError as :func:`read_commit`.
    """
    if commit := read_commit(lock, kind, repo_id):
        return commit
    with exclusive(lock):
        if commit := read_commit(lock, kind, repo_id):
            return commit
        content = json.loads(lock.read_bytes()) if lock.is_file() else {}
        content.setdefault(kind, {})[repo_id] = {"commit": resolve()}
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        validated_json(Lock, text, f"{lock}: what the hub answered")
        write_text(lock, text)
        return str(content[kind][repo_id]["commit"])


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
