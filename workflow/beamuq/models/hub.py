"""Models from the hub, at the commit that the study's lock file names, into a plain local folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.lock import locked_commit, verify_files
from beamuq.models import manifest
from beamuq.models.folders import check_folder, wanted_files


def resolve_model(repo_id: str) -> str:
    """Ask the hub for the present commit of a model repository."""
    return str(_ask(repo_id).sha)


def resolve_dataset(repo_id: str) -> str:
    """Ask the hub for the present commit of a dataset repository: a resolver for :func:`beamuq.lock.locked_commit`."""
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(repo_id).sha)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error


def fetch_hub(repo_id: str, folder: Path, lock: Path, *, file: str | None = None, offline: bool = False) -> None:
    """Fill ``folder`` with a hub model, or with one checkpoint ``file`` of a repository.

    A download that broke off is resumed by the next call. A file that differs from the lock is refused and removed.

    Raises
    ------
    BeamUQError
        If the hub cannot be reached, access is refused, the repository holds no model or a hash differs.
    """
    source = f"hub:{repo_id}" + (f"/{file}" if file else "")
    commit = locked_commit(lock, "models", repo_id, _refuse_offline if offline else resolve_model)
    pins = {"source": source, "revision": commit}
    if manifest.is_whole(folder, pins):
        manifest.publish(folder)
        return
    if offline:
        raise BeamUQError(f"source {source}: not in {folder} and offline is set; run once without offline")
    with manifest.new_folder(folder, keep_on_error=True) as site:
        licence = _download(repo_id, commit, site, lock, file)
        shutil.rmtree(site / ".cache", ignore_errors=True)  # the hub client's own notes, needed only to resume
        details = {"licence": licence, "upstream": f"{repo_id}@{commit}", "converted_from": None}
        manifest.write_manifest(site, {**pins, **details, "files": manifest.describe(site)})
    manifest.publish(folder)


def explain(repo_id: str, error: BaseException) -> str:
    """A hub error in one line: what was asked for, what went wrong, what to do."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        fix = "access is gated: accept its terms on the hub, then log in with `hf auth login`"
    elif isinstance(error, errors.RepositoryNotFoundError):
        fix = "the hub knows no such repository, or it needs a token: correct the id, or log in with `hf auth login`"
    elif isinstance(error, errors.LocalTokenNotFoundError):
        fix = "the hub asks for a token: log in with `hf auth login`"
    elif isinstance(error, errors.RevisionNotFoundError):
        fix = "the locked commit is gone from the hub: remove its entry from the lock file to resolve it anew"
    else:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        fix = f"the hub did not answer ({first}); check the network and run again, what is there is kept"
    return f"source hub:{repo_id}: {fix}"


def _refuse_offline(repo_id: str) -> str:
    raise BeamUQError(f"source hub:{repo_id}: its commit is not locked and offline is set; run once without offline")


def _ask(repo_id: str, commit: str | None = None) -> Any:
    from huggingface_hub import HfApi

    try:
        return HfApi().model_info(repo_id, revision=commit, files_metadata=True)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error


def _download(repo_id: str, commit: str, site: Path, lock: Path, file: str | None) -> str:
    """Download the wanted files, or the one ``file``, into ``site``; returns the licence named by the model's card."""
    from huggingface_hub import snapshot_download

    info = _ask(repo_id, commit)
    listed = {entry.rfilename: entry for entry in info.siblings or []}
    chosen = [file] if file else wanted_files(listed)
    if not set(chosen) & set(listed):
        raise BeamUQError(
            f"source hub:{repo_id}: has no {file or 'model files'} at commit {commit}; correct the source"
        )
    try:
        snapshot_download(repo_id, revision=commit, local_dir=site, allow_patterns=chosen)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error
    found = {name: {"sha256": manifest.file_hash(site / name), "size": (site / name).stat().st_size} for name in chosen}
    try:
        for name, entry in found.items():
            announced = getattr(listed[name].lfs, "sha256", None)
            if announced and announced != entry["sha256"]:
                told = f"{name} has sha256 {entry['sha256']}, the hub names {announced}"
                raise BeamUQError(f"source hub:{repo_id}: {told}; refused, run again")
        verify_files(lock, "models", repo_id, found)
        if file is None:
            check_folder(site)
    except BeamUQError:
        shutil.rmtree(site)  # a wrong file must not be resumed from
        raise
    card = getattr(info, "card_data", None)
    return str(getattr(card, "license", None) or "see the model's card")
