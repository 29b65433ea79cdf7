"""Models from the hub, at the commit that the study's lock file names, into a plain local folder.

The download itself (transfer, etags, locks) is ``huggingface_hub``'s. Here: which files, at which commit, whether they
are those of the lock, and what is said when the hub refuses (a gated model, no such repository, no network).
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import FileFacts, check_folder, describe, fill_folder, wanted_files
from beamuq.models.revision_lock import Kind, locked_commit, record, verify_files

UNKNOWN = "unknown"
GATES = {False: "not gated", "auto": "gated", "manual": "gated, access by request"}
TOKEN = "log in with `hf auth login`, or put a token into the environment as HF_TOKEN (never into a file of the study)"


def pinned_commit(lock: Path, kind: Kind, repo_id: str, *, offline: bool) -> str:
    """The commit of a repository that the lock names; the hub's present one is asked for once, and locked.

    Raises BeamUQError if the lock names none and the hub may not be asked (``offline``) or does not tell.
    """

    def resolve(name: str) -> str:
        if offline:
            raise BeamUQError(
                f"source hub:{name}: its commit is not locked and offline is set; run once without offline"
            )
        return str(repository_info(kind, name).sha)

    return locked_commit(lock, kind, repo_id, resolve)


def repository_info(kind: Kind, repo_id: str, commit: str | None = None) -> Any:
    """What the hub says of a repository at a commit, None: at present; for models with the sizes of its files.

    Raises BeamUQError in one line, if the hub refuses or does not answer.
    """
    from huggingface_hub import HfApi

    try:
        if kind == "models":
            return HfApi().model_info(repo_id, revision=commit, files_metadata=True)
        return HfApi().dataset_info(repo_id, revision=commit)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error, kind)) from error


def describe_dataset(repo_id: str, commit: str) -> dict[str, Any]:
    """Licence and gate of a dataset at a commit, and the bytes to download by configuration, where its card says."""
    info = repository_info("datasets", repo_id, commit)
    told = getattr(getattr(info, "card_data", None), "dataset_info", None) or []
    configs = [config for config in (told if isinstance(told, list) else [told]) if config.get("download_size")]
    sizes = {str(config.get("config_name", "default")): int(config["download_size"]) for config in configs}
    return {"licence": licence_of(info), "gated": getattr(info, "gated", None), "sizes": sizes}


def licence_of(info: Any) -> str:
    """The licence that a repository's card names; unknown where it names none."""
    card = getattr(info, "card_data", None)
    named = getattr(card, "license", None) or []
    names = [str(name) for name in (named if isinstance(named, list) else [named])]
    if names == ["other"]:
        names = [str(getattr(card, "license_name", None) or "other, see its card")]
    return ", ".join(names) or UNKNOWN


def fetch_hub(repo_id: str, folder: Path, lock: Path, *, file: str | None = None, offline: bool = False) -> None:
    """Fill ``folder`` with a hub model, or with one checkpoint ``file`` of a repository.

    Files that a broken download brought whole are kept for the next call. A file that differs from the lock is refused
    and removed.

    Raises BeamUQError if the hub cannot be reached, access is refused, the repository holds no model or a hash differs.
    """
    commit = pinned_commit(lock, "models", repo_id, offline=offline)

    def bring(partial: Path) -> dict[str, Any]:
        licence, files = _download(repo_id, commit, partial, lock, file)
        return {"licence": licence, "upstream": f"{repo_id}@{commit}", "converted_from": None, "files": files}

    source = f"hub:{repo_id}" + (f"/{file}" if file else "")
    fill_folder(folder, source, commit, bring, offline=offline, keep_on_error=True)


def explain(repo_id: str, error: BaseException, kind: Kind = "models") -> str:
    """A hub error in one line, without any token: what was asked for, what went wrong, what to do."""
    from huggingface_hub import errors

    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    # the library of datasets tells of the gate in words only
    if any(isinstance(one, errors.GatedRepoError) for one in chain) or "is a gated dataset" in str(error):
        page = f"https://huggingface.co/{'datasets/' if kind == 'datasets' else ''}{repo_id}"
        fix = f"access is gated: accept its licence at {page}, then {TOKEN}"
    elif isinstance(error, errors.RepositoryNotFoundError):
        fix = f"the hub knows no such repository, or it needs a token: correct the id, or {TOKEN}"
    elif isinstance(error, errors.LocalTokenNotFoundError):
        fix = f"the hub asks for a token: {TOKEN}"
    elif isinstance(error, errors.RevisionNotFoundError):
        fix = "the locked commit is gone from the hub: remove its entry from the lock file to resolve it anew"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = f"cannot be written ({os.strerror(error.errno)}): make room and run again, what is there is kept"
    else:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        fix = f"the hub did not answer ({first}); check the network and run again, what is there is kept"
    return f"source hub:{repo_id}: {fix}"


def announce_download(what: str, size: int | None, facts: Mapping[str, Any]) -> None:
    """Say on stderr what is about to be downloaded, its bytes (None: unknown), its licence and its gate."""
    told = f"{readable(size)} to download" if size else f"size {UNKNOWN}"
    gate = GATES.get(facts.get("gated"), UNKNOWN)
    print(f"{what}: {told}, licence {facts.get('licence', UNKNOWN)}, {gate}", file=sys.stderr, flush=True)


def readable(size: float) -> str:
    """Bytes for a reader: ``538 MB``, ``16.1 GB``."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _download(repo_id: str, commit: str, partial: Path, lock: Path, file: str | None) -> tuple[str, FileFacts]:
    """Download the wanted files, or the one ``file``, into ``partial``: the licence the card names, and the files."""
    from huggingface_hub import snapshot_download

    info = repository_info("models", repo_id, commit)
    listed = {entry.rfilename: entry for entry in info.siblings or []}
    chosen = [name for name in ([file] if file else wanted_files(listed)) if name in listed]
    if not chosen:
        raise BeamUQError(
            f"source hub:{repo_id}: has no {file or 'model files'} at commit {commit}; correct the source"
        )
    sizes = {name: size for name in chosen if (size := getattr(listed[name], "size", None)) is not None}
    facts = {"licence": licence_of(info), "gated": getattr(info, "gated", None), "sizes": sizes}
    record(lock, "models", repo_id, facts)
    size = sum(sizes.values()) if len(sizes) == len(chosen) else None
    announce_download(f"hub:{repo_id} at {commit}, {len(chosen)} files", size, facts)
    try:
        snapshot_download(repo_id, revision=commit, local_dir=partial, allow_patterns=chosen)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error
    try:
        found = {name: entry for name, entry in describe(partial).items() if name in chosen}
        for name, entry in found.items():
            announced = getattr(listed[name].lfs, "sha256", None)
            if announced and announced != entry["sha256"]:
                told = f"{name} has sha256 {entry['sha256']}, the hub names {announced}"
                raise BeamUQError(f"source hub:{repo_id}: {told}; refused, run again")
        verify_files(lock, "models", repo_id, found)
        if file is None:
            check_folder(partial)
    except BeamUQError:
        shutil.rmtree(partial)  # a wrong file must not be kept for the next call
        raise
    shutil.rmtree(partial / ".cache", ignore_errors=True)  # the hub client's own notes, needed only to go on
    return licence_of(info), found
