"""Unpack a release archive, whose manifest names every member: nothing else is read.

Nothing of it is believed. The manifest comes first and is checked before anything behind it. A
member must be a plain file that the manifest names, once; links, devices, FIFOs, folders and sparse
files are refused unread. Each is hashed as it is copied, into a folder that goes again if one of
them is not as the manifest says.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, reading

MANIFEST = "MANIFEST.json"
STUDY = "study.json"
MOST_BYTES = 10_000_000  # of a manifest: that of a study with 250 cells has 200,000
PIECE = 1 << 20
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
TAKE_ANOTHER = "take one that pack has written"

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(StrictModel):
    """Of which study an archive is, and the sha256 of each file by its path in the results."""

    study: Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=100)]
    sha256: Annotated[dict[Annotated[str, Field(max_length=500)], Sha256], Field(min_length=1)]


class _Header(tarfile.TarInfo):
    """A header of no negative size, which Python before 3.11.14 reads for ever (CVE-2025-8194)."""

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.ReadError("a negative size")
        return int(super()._block(count))  # type: ignore[misc]


def unpacked(archive: Path, into: Path) -> Manifest:
    """Copy the members of an archive into an empty folder, as its manifest says; the manifest.

    Raises BeamUQError in one line, naming archive and member: no tar or cut off, a manifest that is
    malformed or not the first member, a member that is no plain file, not in the manifest, there
    twice, missing or damaged.
    """
    if not archive.is_file():
        fault = "a folder or a device, no file" if archive.exists() else "no such file"
        raise BeamUQError(f"{archive}: {fault}")
    with (
        reading(archive, "a whole tar without compression", "fetch the archive again"),
        tarfile.open(archive, "r:", tarinfo=_Header) as tar,
    ):
        manifest = _manifest(archive, tar)
        unread = dict(manifest.sha256)
        for member in iter(tar.next, None):
            name = _name(archive, member, manifest)
            if name not in unread:
                why = "stands twice" if name in manifest.sha256 else f"is not in {MANIFEST}"
                raise BeamUQError(f"{archive}: {member.name}: {why}; {TAKE_ANOTHER}")
            _copy(archive, tar, member, into / name, unread.pop(name))
    if unread:
        raise BeamUQError(f"{archive}: {min(unread)}: damaged or missing; fetch the archive again")
    return manifest


def _manifest(archive: Path, tar: tarfile.TarFile) -> Manifest:
    """The first member, checked."""
    first = tar.next()
    if first is None or not _is_plain(first) or PurePosixPath(first.name).name != MANIFEST:
        raise BeamUQError(
            f"{archive}: no release archive: its first member is not {MANIFEST}; {TAKE_ANOTHER}"
        )
    if first.size > MOST_BYTES:
        raise BeamUQError(
            f"{archive}: {MANIFEST}: {first.size} bytes, more than {MOST_BYTES}; {TAKE_ANOTHER}"
        )
    file = tar.extractfile(first)
    assert file is not None  # of a plain file there is one
    manifest: Manifest = validated(Manifest, file.read(), f"{archive}: {MANIFEST}", is_json=True)
    if first.name != f"{manifest.study}/{MANIFEST}":
        raise BeamUQError(
            f"{archive}: {MANIFEST}: is of study {manifest.study!r}, and lies in {first.name!r}"
        )
    for name in manifest.sha256:
        _check_path(archive, name, manifest)
    if STUDY not in manifest.sha256:
        raise BeamUQError(f"{archive}: {MANIFEST}: names no {STUDY}; {TAKE_ANOTHER}")
    return manifest


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()


def _check_path(archive: Path, name: str, manifest: Manifest) -> None:
    """Raise BeamUQError where a name in a manifest is no path of a file in the results."""
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):
        raise BeamUQError(
            f"{archive}: {MANIFEST}: {name!r} leads out of the results; do not use this archive"
        )
    if not all(_PART.fullmatch(part) for part in parts):
        raise BeamUQError(f"{archive}: {MANIFEST}: {name!r}: no path of a result; {TAKE_ANOTHER}")
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if any(folder in manifest.sha256 for folder in folders):
        raise BeamUQError(f"{archive}: {MANIFEST}: {name!r} lies in another file; {TAKE_ANOTHER}")


def _name(archive: Path, member: tarfile.TarInfo, manifest: Manifest) -> str:
    """A member's path in the results."""
    if not _is_plain(member):
        kinds = {
            "folder": member.isdir(),
            "link": member.issym() or member.islnk(),
            "sparse file": member.issparse(),
        }
        kind = next((kind for kind, is_so in kinds.items() if is_so), "device or FIFO")
        raise BeamUQError(
            f"{archive}: {member.name}: a {kind}, where plain files alone may be; {TAKE_ANOTHER}"
        )
    folder, _, name = member.name.partition("/")
    if folder != manifest.study:
        raise BeamUQError(f"{archive}: {member.name}: is not in {MANIFEST}; {TAKE_ANOTHER}")
    return name


def _copy(
    archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, sha256: str
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    file = tar.extractfile(member)
    assert file is not None  # of a plain file there is one
    with path.open("xb") as copy:
        while piece := file.read(PIECE):
            digest.update(piece)
            copy.write(piece)
    if digest.hexdigest() != sha256:
        raise BeamUQError(f"{archive}: {member.name}: damaged or missing; fetch the archive again")
