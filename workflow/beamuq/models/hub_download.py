"""Models from the hub, at the commit that the study's lock file names, into a plain local folder."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models import model_manifest
from beamuq.models.model_folder import check_folder, wanted_files
from beamuq.models.offline_and_secrets import masked
from beamuq.models.revision_lock import Kind, locked_commit, record, verify_files

UNKNOWN = "unknown"
LARGE = 10_000_000  # bytes; as much of a file may be lost where a download breaks off
GATES = {False: "not gated", "auto": "gated", "manual": "gated, access by request"}
TOKEN = "log in with `hf auth login`, or put a token into the environment as HF_TOKEN (never into a file of the study)"


def resolve_model(repo_id: str) -> str:
    """Ask the hub for the present commit of a model repository."""
    return str(_ask(repo_id).sha)


def resolve_dataset(repo_id: str) -> str:
    """Ask the hub for the present commit of a dataset repository."""
    return str(_ask_dataset(repo_id).sha)


def describe_dataset(repo_id: str, commit: str) -> dict[str, Any]:
    """Licence and gate of a dataset at a commit, and the bytes to download by configuration, where its card says."""
    info = _ask_dataset(repo_id, commit)
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

    A download that broke off is resumed by the next call. A file that differs from the lock is refused and removed.

    Raises
    ------
    BeamUQError
        If the hub cannot be reached, access is refused, the repository holds no model or a hash differs.
    """
    source = f"hub:{repo_id}" + (f"/{file}" if file else "")
    commit = locked_commit(lock, "models", repo_id, _refuse_offline if offline else resolve_model)
    pins = {"source": source, "revision": commit}
    if model_manifest.is_whole(folder, pins):
        model_manifest.publish(folder)
        return
    if offline:
        raise BeamUQError(f"source {source}: not in {folder} and offline is set; run once without offline")
    with model_manifest.new_folder(folder, keep_on_error=True) as site:
        licence = _download(repo_id, commit, site, lock, file)
        shutil.rmtree(site / ".cache", ignore_errors=True)  # the hub client's own notes, needed only to resume
        details = {"licence": licence, "upstream": f"{repo_id}@{commit}", "converted_from": None}
        model_manifest.write_manifest(site, {**pins, **details, "files": model_manifest.describe(site)})
    model_manifest.publish(folder)


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
    return masked(f"source hub:{repo_id}: {fix}")


def told_of(facts: Mapping[str, Any]) -> str:
    """Licence and gate in words."""
    return f"licence {facts.get('licence', UNKNOWN)}, {GATES.get(facts.get('gated'), UNKNOWN)}"


def readable(size: float) -> str:
    """Bytes for a reader: ``538 MB``, ``16.1 GB``."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _refuse_offline(repo_id: str) -> str:
    raise BeamUQError(f"source hub:{repo_id}: its commit is not locked and offline is set; run once without offline")


def _ask(repo_id: str, commit: str | None = None) -> Any:
    from huggingface_hub import HfApi

    try:
        return HfApi().model_info(repo_id, revision=commit, files_metadata=True)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error


def _ask_dataset(repo_id: str, commit: str | None = None) -> Any:
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(repo_id, revision=commit)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error, "datasets")) from error


def _bring_large_files(repo_id: str, commit: str, site: Path, sizes: Mapping[str, int]) -> None:
    """Bring the large ones of these files, each from where an earlier download broke off.

    The hub's own client begins a file anew each time. It checks what is brought here and gets the rest.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils._headers import build_hf_headers

    def bring(name: str) -> None:
        part = site / f".{name}.part"
        with part.open("ab") as stream:
            if stream.tell() > sizes[name]:
                stream.truncate(0)
                stream.seek(0)
            url = hf_hub_url(repo_id, name, revision=commit)
            http_get(url, stream, resume_size=stream.tell(), headers=build_hf_headers(), expected_size=sizes[name])
        part.replace(site / name)

    large = [name for name, size in sizes.items() if LARGE <= size <= constants.MAX_HTTP_DOWNLOAD_SIZE]
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(bring, [name for name in large if not (site / name).is_file()]))


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
    sizes = {name: size for name in chosen if (size := getattr(listed.get(name), "size", None)) is not None}
    facts = {"licence": licence_of(info), "gated": getattr(info, "gated", None), "sizes": sizes}
    record(lock, "models", repo_id, facts)
    announced_size = readable(sum(sizes.values())) if len(sizes) == len(chosen) else "size " + UNKNOWN
    print(
        f"hub:{repo_id} at {commit}: {len(chosen)} files, {announced_size}, {told_of(facts)}",
        file=sys.stderr,
        flush=True,
    )
    try:
        _bring_large_files(repo_id, commit, site, sizes)
        snapshot_download(repo_id, revision=commit, local_dir=site, allow_patterns=chosen)
    except Exception as error:  # connection errors are those of the client's HTTP library, which changes
        raise BeamUQError(explain(repo_id, error)) from error
    found = {
        name: {"sha256": model_manifest.file_hash(site / name), "size": (site / name).stat().st_size} for name in chosen
    }
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
    return licence_of(info)
