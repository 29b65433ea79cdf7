"""The lock file beside a study: each hub id resolved once to a commit, each file to a hash; afterwards the lock rules.

``studies/NAME.lock.json`` holds ``{"models": {"ORG/NAME": {"commit": ..., "files": {NAME: {"sha256", "size"}}}}}`` and
the same for ``"datasets"``; beside them ``licence``, ``gated`` and ``sizes`` (bytes to download, by file or by a
dataset's configuration), as the hub named them at that commit before the download.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

from beamuq.config_errors import parse_json
from beamuq.errors import BeamUQError
from beamuq.parquet_tables import atomic

Kind = Literal["models", "datasets"]
COMMIT = re.compile(r"[0-9a-f]{40}")


def locked_commit(lock: Path, kind: Kind, repo_id: str, resolver: Callable[[str], str]) -> str:
    """The commit that ``repo_id`` is locked to; the first call asks ``resolver`` and writes it down.

    Parallel jobs agree: one resolves while the others wait.

    Raises BeamUQError if the lock file is unreadable, or the resolver raises one or answers anything but a full commit
    hash.
    """
    with _open(lock) as content:
        entry = content.setdefault(kind, {}).setdefault(repo_id, {})
        if "commit" not in entry:
            commit = resolver(repo_id)
            if not COMMIT.fullmatch(commit):
                raise BeamUQError(f"{lock}: {kind}.{repo_id}: the hub answered {commit!r}, not a commit; try again")
            entry["commit"] = commit
        return str(entry["commit"])


def record(lock: Path, kind: Kind, repo_id: str, facts: Mapping[str, Any]) -> None:
    """Write down what the hub says of a locked repository: ``licence``, ``gated``, and ``sizes``, which add up."""
    with _open(lock) as content:
        entry = content.setdefault(kind, {}).setdefault(repo_id, {})
        sizes = entry.get("sizes", {}) | facts["sizes"]
        entry.update({**facts, "sizes": sizes})


def entry_of(lock: Path, kind: Kind, repo_id: str) -> dict[str, Any]:
    """What the lock holds of a repository, without waiting for those who write it; empty where nothing is locked.

    Raises BeamUQError if the lock file is unreadable.
    """
    if not lock.is_file():
        return {}
    return dict(_parse(lock, lock.read_bytes()).get(kind, {}).get(repo_id, {}))


def _parse(lock: Path, text: str | bytes) -> dict[str, Any]:
    fix = "restore it from version control"
    content = parse_json(text, lock, fix) if text.strip() else {}
    if not isinstance(content, dict):
        raise BeamUQError(f"{lock}: not a readable lock file (not an object); {fix}")
    return content


def verify_files(lock: Path, kind: Kind, repo_id: str, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse any of ``files`` (``{name: {"sha256", "size"}}``) that differs from the lock; lock those it does not know.

    Raises BeamUQError naming the repository, the file and both hashes.
    """
    with _open(lock) as content:
        known = content.setdefault(kind, {}).setdefault(repo_id, {}).setdefault("files", {})
        for name, entry in files.items():
            locked = known.setdefault(name, {"sha256": entry["sha256"], "size": entry["size"]})
            if locked["sha256"] != entry["sha256"]:
                told = f"{name} has sha256 {entry['sha256']}, locked is {locked['sha256']}"
                raise BeamUQError(f"{lock}: {kind}.{repo_id}: {told}; refused")


@contextmanager
def _open(lock: Path) -> Iterator[dict[str, Any]]:
    """The lock's content under an exclusive flock; what the body changed is written atomically, unless it raised."""
    with exclusive(lock) as handle:
        handle.seek(0)
        text = handle.read()
        content = _parse(lock, text)
        try:
            yield content
            encoded = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            if encoded != text:
                with atomic(lock) as temporary:
                    temporary.write_text(encoded, encoding="utf-8")
        except BaseException:
            if not text:
                lock.unlink(missing_ok=True)  # made by opening it: a failure leaves no empty lock behind
            raise


@contextmanager
def exclusive(path: Path, waiting: str = "") -> Iterator[TextIO]:
    """The file at ``path``, made if it is not there, under an exclusive flock; ``waiting`` is told before a wait.

    The holder may rename another file over it or delete it: who waited then opens the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                break
        handle.close()
    with handle:
        yield handle
