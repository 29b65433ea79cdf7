"""What a file says of the models that made it: versions and hashes, never a time, host or path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from beamuq.models.model_folder import describe, is_tokenizer_file, read_manifest


def model_identity(folder: Path) -> dict[str, str]:
    """What a provenance says of a model: source, revision, sha256 over all its files and over its tokenizer's.

    Hashes come from the manifest; a folder that no fetch made is hashed whole.
    """
    manifest = read_manifest(folder)
    files = manifest["files"] if manifest else describe(folder)
    hashes = {name: entry["sha256"] for name, entry in files.items()}
    content = _hash_of(hashes)
    return {
        "source": manifest["source"] if manifest else f"folder:{folder.resolve().name}",
        "revision": manifest["revision"] if manifest else content,
        "content": content,
        "tokenizer": _hash_of({name: found for name, found in hashes.items() if is_tokenizer_file(name)}),
    }


def _hash_of(hashes: Mapping[str, str]) -> str:
    """One sha256 over names and hashes of files."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
