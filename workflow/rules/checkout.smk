# Finds the files of the project, also where another workflow reads this one from a repository.

import os
import tarfile
import tempfile
from pathlib import Path

from snakemake.sourcecache import LocalSourceFile


def checkout_of(folder):
    """The checkout whose `folder` (as Snakemake knows it) is `workflow`.

    Snakemake reads a module from a repository file by file. The programs need all files, so that commit is unpacked,
    once, below `.snakemake` of the folder where the run was started.
    """
    if isinstance(folder, LocalSourceFile):
        return Path(folder.get_path_or_uri(secret_free=False)).parent
    repository = _repository_of(folder)
    commit = repository.commit(folder.ref)
    checkout = Path(".snakemake", "beamuq", commit.hexsha).resolve()
    if not checkout.is_dir():
        checkout.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=checkout.parent) as unfinished:
            files = _unpacked(repository, commit, Path(unfinished))
            _rename_unless_there(files, checkout)
    return checkout


def _repository_of(folder):
    if hasattr(folder, "hosted_repo"):
        return folder.hosted_repo.repo
    from git import Repo  # GitPython comes with Snakemake

    return Repo(folder.repo_path)


def _unpacked(repository, commit, folder):
    archive = folder / "archive.tar"
    with archive.open("wb") as stream:
        repository.archive(stream, commit.hexsha)
    files = folder / "files"
    with tarfile.open(archive) as members:
        members.extractall(files, filter="data")
    return files


def _rename_unless_there(files, checkout):
    try:
        files.rename(checkout)
    except OSError:
        if not checkout.is_dir():  # otherwise another job of this run was first
            raise
