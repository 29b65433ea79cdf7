"""A model's folder: which files it needs, and its manifest ``fetched.json``: what was fetched, from where, its licence.

The manifest has no time, host or path, so the same model gives the same bytes everywhere. A hidden copy of it in the
folder lets a later job see that the folder is whole although Snakemake has removed the manifest itself, as it does with
an output before it runs the rule again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.parquet_tables import atomic, file_sha256

MANIFEST, HIDDEN_COPY = "fetched.json", ".fetched.json"
CONFIG = "config.json"
TOKENIZER = re.compile(
    r"(tokenizer.*\.(json|model)|vocab\.(json|txt)|merges\.txt|spiece\.model|sentencepiece.*\.model|special_tokens_map\.json"
    r"|added_tokens\.json|chat_template\.(jinja|json)|sentence_bert_config\.json)"
)
ANY_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
SAFETENSORS = re.compile(r"model([.-].*)?\.safetensors(\.index\.json)?")
PICKLED = re.compile(r"pytorch_model([.-].*)?\.bin(\.index\.json)?")

FileFacts = dict[str, dict[str, Any]]  # {name: {"sha256", "size" in bytes}}


def is_tokenizer_file(name: str) -> bool:
    """Whether a file is part of a tokenizer (its chat template and length limit included)."""
    return TOKENIZER.fullmatch(name) is not None


def wanted_files(names: Iterable[str]) -> list[str]:
    """The files at the root of a repository that loading needs: configs, tokenizer and one form of the weights.

    Safetensors where there are any, pickled weights (read with weights only) otherwise; never a second copy in another
    format, never code.
    """
    root = sorted(name for name in names if "/" not in name)
    chosen = [name for name in root if name in (CONFIG, "generation_config.json") or is_tokenizer_file(name)]
    weights = [n for n in root if SAFETENSORS.fullmatch(n)] or [n for n in root if PICKLED.fullmatch(n)]
    return sorted(chosen + weights)


def check_folder(folder: Path, *, weights: bool = True) -> None:
    """Refuse a folder that lacks config, tokenizer or weights.

    Raises
    ------
    BeamUQError
        Naming the folder and what is missing.
    """
    if not folder.is_dir():
        raise BeamUQError(f"{folder}: no such model folder; fetch the model first, or correct its source")
    names = {path.name for path in folder.iterdir() if path.is_file()}
    missing = []
    if CONFIG not in names:
        missing.append(CONFIG)
    if not names.intersection(ANY_TOKENIZER):
        missing.append("tokenizer (tokenizer.json, tokenizer.model or vocab)")
    if weights and not any(SAFETENSORS.fullmatch(n) or PICKLED.fullmatch(n) for n in names):
        missing.append("weights (model.safetensors)")
    if missing:
        raise BeamUQError(f"{folder}: not a model folder, it has no {', no '.join(missing)}; add it or fetch again")


def describe(folder: Path) -> FileFacts:
    """Hash and size of each visible file of ``folder`` but the manifest, sorted by name."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: {"sha256": file_sha256(path), "size": path.stat().st_size}
        for name, path in files.items()
        if name != MANIFEST and not any(part.startswith(".") for part in Path(name).parts)
    }


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


def fill_folder(
    folder: Path,
    source: str,
    revision: str,
    bring: Callable[[Path], Mapping[str, Any]],
    *,
    offline: bool,
    keep_on_error: bool = False,
) -> None:
    """Make ``folder`` hold what ``source`` is at ``revision``, with its manifest; a whole one is not fetched again.

    Parameters
    ----------
    bring
        Puts the files into the folder that it is given, which is renamed to ``folder`` when all is done, and returns
        the manifest's other keys: ``licence``, ``upstream``, ``converted_from``, ``files``.
    keep_on_error
        Keep what was brought before an error, so that a download can go on from there.

    Raises
    ------
    BeamUQError
        If the folder is not whole and ``offline`` is set, or whatever ``bring`` raises.
    """
    pins = {"source": source, "revision": revision}
    if not _is_whole(folder, pins):
        if offline:
            raise BeamUQError(f"source {source}: not in {folder} and offline is set; run once without offline")
        with _new_folder(folder, keep_on_error=keep_on_error) as partial:
            write_manifest(partial, {**pins, **bring(partial)})
    publish_manifest(folder)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the hidden copy of ``manifest``; :func:`publish_manifest` shows it when the folder is in its place."""
    (folder / HIDDEN_COPY).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def publish_manifest(folder: Path) -> None:
    """Show the manifest of a whole folder: copy the hidden one to ``fetched.json``."""
    with atomic(folder / MANIFEST) as temporary:
        shutil.copyfile(folder / HIDDEN_COPY, temporary)


def _hash_of(hashes: Mapping[str, str]) -> str:
    """One sha256 over names and hashes of files."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _is_whole(folder: Path, pins: Mapping[str, str]) -> bool:
    """Whether the folder's hidden manifest has these pins and each file it names is there with its hash."""
    if not (folder / HIDDEN_COPY).is_file():
        return False
    manifest = _parse(folder / HIDDEN_COPY)
    return pins.items() <= manifest.items() and manifest["files"].items() <= describe(folder).items()


@contextmanager
def _new_folder(folder: Path, *, keep_on_error: bool) -> Iterator[Path]:
    """A folder under a fixed hidden name beside ``folder``, renamed to it on success."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.partial"
    if not keep_on_error:
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(exist_ok=True)
    try:
        yield partial
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except BaseException:
        if not keep_on_error:
            shutil.rmtree(partial, ignore_errors=True)
        raise


def _parse(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["files"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BeamUQError(f"{path}: not a readable manifest; delete its folder and fetch the model again") from error
    return dict(manifest)
