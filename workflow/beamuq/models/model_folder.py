"""A model's folder: which files it needs, and its manifest ``fetched.json``: what was fetched, from where, its licence.

The manifest has no time, host or path, so the same model gives the same bytes everywhere. A hidden copy of it in the
folder lets a later job see that the folder is whole although Snakemake has removed the manifest itself, as it does with
an output before it runs the rule again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models.revision_lock import exclusive
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

SETTLED = 2.0  # seconds: a file younger than this may change again within one tick of its time stamps

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

    Raises BeamUQError naming the folder and what is missing.
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
    """Hash and size of each visible file of ``folder`` but the manifest, sorted by name; always read anew."""
    files = {name: folder / name for name in _visible(folder)}
    return {name: {"sha256": file_sha256(path), "size": path.stat().st_size} for name, path in files.items()}


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a model folder, or None for a folder that no fetch made.

    Raises BeamUQError if the manifest is unreadable, or a file it names is missing or of another size.
    """
    path = folder / MANIFEST
    if not path.is_file():  # a workflow engine removes it while it fetches for another study; the folder may be whole
        path = folder / HIDDEN_COPY
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


def check_content(folder: Path) -> dict[str, Any] | None:
    """:func:`read_manifest`, with the sha256 of every file compared as well; what hashes to what is remembered.

    Raises BeamUQError as :func:`read_manifest`; or if a file is not the one fetched, or one was added that loading
    would read.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    hashes = _hashes(folder, manifest["files"])
    for name, entry in manifest["files"].items():
        if hashes[name] != entry["sha256"]:
            told = f"sha256 {hashes[name][:12]}…, {MANIFEST} names {entry['sha256'][:12]}…"
            raise BeamUQError(
                f"{folder / name}: is not the file that was fetched ({told}); delete its folder and fetch again"
            )
    added = sorted(set(wanted_files(_visible(folder))) - set(manifest["files"]))
    if added:
        raise BeamUQError(f"{folder / added[0]}: is not among the files that were fetched; move it out of the folder")
    return manifest


def model_identity(folder: Path, *, every_file: bool = False) -> dict[str, str]:
    """What a provenance says of a model: source, revision, sha256 over all its files and over its tokenizer's.

    Every file was hashed, this time or since it last changed. In a folder that no fetch made those count that loading
    reads, or ``every_file`` that is visible, of which a plug-in or AlignScore may read any.

    Raises BeamUQError as :func:`check_content`.
    """
    manifest = check_content(folder)
    visible = _visible(folder)
    loaded = {*wanted_files(visible), *(name for name in visible if name.startswith("adapter_"))}
    hashes = _hashes(folder, manifest["files"] if manifest else visible if every_file else loaded)
    content = _hash_of(hashes)
    return {
        "source": manifest["source"] if manifest else f"folder:{folder.resolve().name}",
        "revision": manifest["revision"] if manifest else content,
        "content": content,
        "tokenizer": _hash_of({name: found for name, found in hashes.items() if is_tokenizer_file(name)}),
    }


def identities(
    folders: Mapping[str, Path | None], planned: Mapping[str, str], whole: Container[str] = ()
) -> dict[str, dict[str, str]]:
    """:func:`model_identity` of each model that a job loads, by the job's name for it.

    Parameters
    ----------
    planned
        The ``content`` that some had when the job was planned (`Job.folders`).
    whole
        Those of which every file counts.

    Raises
    ------
    BeamUQError
        As :func:`check_content`; or if a content is another now.
    """
    found = {name: model_identity(folder, every_file=name in whole) for name, folder in folders.items() if folder}
    for name, content in planned.items():
        if name in found and found[name]["content"] != content:
            raise BeamUQError(f"{folders[name]}: has changed since this run was planned; start the run again")
    return found


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
        with _alone(folder):
            if not _is_whole(folder, pins):
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


def _visible(folder: Path) -> list[str]:
    """The files of a folder and its subfolders, sorted, without the manifest and whatever is hidden."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    return [name for name in names if name != MANIFEST and not any(part.startswith(".") for part in name.split("/"))]


def _hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """sha256 of files of a folder, by name, each read again only when its size or a time stamp has changed.

    They are remembered in this process and in the user's cache, where that can be written.
    """
    store = user_cache("sha256.json")
    known = _stored(store) | _hashed
    found, new = {}, {}
    try:
        for name in names:
            path = folder.resolve() / name
            facts = path.stat()
            stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
            *before, found[name] = known.get(str(path), [""])
            if before != stamp:
                found[name] = file_sha256(path)
                if time.time() - max(facts.st_mtime, facts.st_ctime) > SETTLED:
                    new[str(path)] = [*stamp, found[name]]
    except OSError as error:
        raise BeamUQError(f"{folder}: cannot be read ({error}); correct its rights, or fetch again") from error
    if new:
        _hashed.update(new)
        with contextlib.suppress(OSError, ValueError, BeamUQError), atomic(store) as temporary:
            kept = {path: entry for path, entry in (known | new).items() if Path(path).exists()}
            temporary.write_text(json.dumps(kept), encoding="utf-8")
    return found


_hashed: dict[str, list[Any]] = {}  # path: size, time of change, time of the last change of any kind, sha256


def user_cache(name: str) -> Path:
    """A file of what is worth remembering from one run to the next; nothing is lost with it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (no home: no error)
    return Path(cache, "beamuq", name)


def _stored(store: Path) -> dict[str, list[Any]]:
    """What was remembered; a file that is not there, or not ours, remembers nothing."""
    try:
        entries = json.loads(store.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError):
        return {}
    return {path: entry for path, entry in entries if isinstance(entry, list) and len(entry) == 4}


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
def _alone(folder: Path) -> Iterator[None]:
    """Only one process at a time fills ``folder``: studies in other working directories may share it."""
    lock = folder.parent / f".{folder.name}.lock"
    with exclusive(lock, f"{folder}: another run is filling it; waiting for that"):
        try:
            yield
        finally:
            lock.unlink()


@contextmanager
def _new_folder(folder: Path, *, keep_on_error: bool) -> Iterator[Path]:
    """A folder under a fixed hidden name beside ``folder``, renamed to it on success."""
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
