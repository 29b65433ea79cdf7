"""Download models from the hub, at the commit that the study's lock file names, into a plain local folder.

Transfer, resuming, checksums and most messages are ``huggingface_hub``'s. Here: which files, and at which commit.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError, reason
from beamuq.models.model_folder import fill_folder, missing_parts, wanted_files
from beamuq.models.revision_lock import Kind, locked_commit

TOKEN = "log in with `hf auth login`, or put a token into the environment as HF_TOKEN (never into a file of the study)"


def pinned_commit(lock: Path, kind: Kind, repo_id: str, *, offline: bool) -> str:
    """The commit of a repository that the lock names; the hub's present one is asked for once, and locked.

    Raises BeamUQError if the lock names none and the hub may not be asked (``offline``) or does not answer.
    """

    def ask() -> str:
        from huggingface_hub import HfApi

        if offline:
            raise BeamUQError(
                f"source hub:{repo_id}: its commit is not locked and offline is set; run once without offline"
            )
        with hub_errors(repo_id, kind):
            return str(HfApi().repo_info(repo_id, repo_type=kind.removesuffix("s")).sha)

    return locked_commit(lock, kind, repo_id, ask)


def fetch_hub(repo_id: str, folder: Path, lock: Path, *, file: str | None = None, offline: bool = False) -> None:
    """Fill ``folder`` with a hub model, or with one checkpoint ``file`` of a repository.

    What a broken download brought is kept for the next call. Files that are not those of the commit are refused and
    removed.

    Raises BeamUQError if the hub cannot be reached, access is refused, the repository holds no model or a hash differs.
    """
    commit = pinned_commit(lock, "models", repo_id, offline=offline)
    source = f"hub:{repo_id}" + (f"/{file}" if file else "")

    def bring(partial: Path) -> dict[str, Any]:
        from huggingface_hub import HfApi, snapshot_download

        with hub_errors(repo_id):
            info = HfApi().model_info(repo_id, revision=commit)
        names = [entry.rfilename for entry in info.siblings or []]
        missing = ("" if file in names else file) if file else missing_parts(names)
        if missing:
            raise BeamUQError(f"source hub:{repo_id}: has no {missing} at commit {commit}; correct the source")
        chosen = [file] if file else wanted_files(names)
        card: Any = info.card_data or {}
        licence = str(card.get("license_name") or card.get("license") or "unknown")
        print(f"{source} at {commit}: {len(chosen)} files, licence {licence}", file=sys.stderr, flush=True)
        with hub_errors(repo_id):
            snapshot_download(repo_id, revision=commit, local_dir=partial, allow_patterns=chosen)
            wrong = HfApi().verify_repo_checksums(repo_id, revision=commit, local_dir=partial).mismatches
        if wrong:
            shutil.rmtree(partial)  # a wrong file must not be kept for the next call
            raise BeamUQError(
                f"source {source}: {wrong[0]['path']} is not the file of commit {commit}; removed, run again"
            )
        return {"licence": licence, "upstream": f"{repo_id}@{commit}", "converted_from": None}

    fill_folder(folder, source, commit, bring, offline=offline)


@contextmanager
def hub_errors(repo_id: str, kind: Kind = "models") -> Iterator[None]:
    """Turn an exception of the hub's client into one line: the source, the fault and the fix."""
    from huggingface_hub.errors import GatedRepoError

    try:
        yield
    except Exception as error:
        causes: list[BaseException | None] = [error]
        while causes[-1] and len(causes) < 9:
            causes.append(causes[-1].__cause__ or causes[-1].__context__)
        text = f"{reason(error)}; correct the source, see to network and disk, or {TOKEN}; run again, what came is kept"
        # the library of datasets tells of the gate in words only
        if any(isinstance(cause, GatedRepoError) for cause in causes) or "is a gated dataset" in str(error):
            page = f"https://huggingface.co/{'datasets/' if kind == 'datasets' else ''}{repo_id}"
            text = f"access is gated: accept its licence at {page}, then {TOKEN}"
        raise BeamUQError(f"source hub:{repo_id}: {text}") from error
