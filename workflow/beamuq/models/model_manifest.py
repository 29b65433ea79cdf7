"""A fetched model folder and its ``fetched.json``: what it holds, where it came from, under which licence.

The manifest has no time, host or path, so the same model gives the same bytes everywhere. A hidden twin of it in the
folder lets a later job see that the folder is whole although the workflow engine has removed the manifest itself.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamuq.artifacts import atomic
from beamuq.errors import BeamUQError

MANIFEST, TWIN = "fetched.json", ".fetched.json"


def file_hash(path: Path) -> str:
    """sha256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(folder: Path) -> dict[str, dict[str, Any]]:
    """Each visible file of ``folder`` but the manifest: ``{name: {"sha256", "size"}}``, sorted by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    relative = {path.relative_to(folder).as_posix(): path for path in files}
    return {
        name: {"sha256": file_hash(path), "size": path.stat().st_size}
        for name, path in relative.items()
        if name != MANIFEST and not any(part.startswith(".") for part in Path(name).parts)
    }


def content_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """One sha256 over names and hashes of a described folder."""
    return hashlib.sha256(json.dumps({k: v["sha256"] for k, v in files.items()}, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a model folder, or None for a folder that no fetch made.

    Raises
    ------
    BeamUQError
        If the manifest is unreadable, or a file it names is missing or of another size.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    manifest = _parse(path)
    for name, entry in manifest["files"].items():
        file = folder / name
        if not file.is_file():
            raise BeamUQError(f"{folder}: {name} is missing; delete the folder and fetch the model again")
        if file.stat().st_size != entry["size"]:
            raise BeamUQError(
                f"{file}: is not the file that was fetched (size differs); delete its folder and fetch again"
            )
    return manifest


def is_whole(folder: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether ``folder`` already holds what was fetched for the same pins: each file is hashed, none is downloaded.

    ``wanted`` are the manifest's keys that the caller knows beforehand (source, revision, ...).
    """
    twin = folder / TWIN
    if not twin.is_file():
        return False
    manifest = _parse(twin)
    if any(manifest.get(key) != value for key, value in wanted.items()):
        return False
    return all(
        (folder / name).is_file()
        and (folder / name).stat().st_size == entry["size"]
        and file_hash(folder / name) == entry["sha256"]
        for name, entry in manifest["files"].items()
    )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the hidden twin of ``manifest`` into ``folder``; :func:`publish` shows it when the folder is in place."""
    (folder / TWIN).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def publish(folder: Path) -> None:
    """Show the manifest of a whole folder: copy its twin to ``fetched.json``."""
    with atomic(folder / MANIFEST) as temporary:
        shutil.copyfile(folder / TWIN, temporary)


@contextmanager
def new_folder(folder: Path, *, keep_on_error: bool = False) -> Iterator[Path]:
    """A building site beside ``folder``, renamed to it on success and removed on failure.

    ``keep_on_error`` keeps it under its fixed name for a resumable download.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    site = folder.parent / f".{folder.name}.partial"
    if not keep_on_error:
        shutil.rmtree(site, ignore_errors=True)
    site.mkdir(exist_ok=True)
    try:
        yield site
        if folder.exists():
            shutil.rmtree(folder)
        site.rename(folder)
    except BaseException:
        if not keep_on_error:
            shutil.rmtree(site, ignore_errors=True)
        raise


def _parse(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["files"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BeamUQError(f"{path}: not a readable manifest; delete its folder and fetch the model again") from error
    return dict(manifest)
