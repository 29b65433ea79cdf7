"""A model's folder: the files it needs, and ``fetched.json``, which tells what was fetched.

The manifest has no time, host or path, so the same model gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from beamuq.config_errors import validated
from beamuq.errors import BeamUQError, reading
from beamuq.io import exclusive, file_sha256, write_text

MANIFEST = "fetched.json"
HASHES = ".sha256.json"
SETTLED = 2 * 10**9
"""ns after a file's last change: file systems round times to two seconds, so a later one shows."""
MOST_OF_HASHES = 10_000_000
"""Bytes; the hashes of a model of thousands of files take one million."""
CONFIG = "config.json"
TOKENIZER = re.compile(
    r"(tokenizer.*\.(json|model)|vocab\.(json|txt)|merges\.txt|spiece\.model|sentencepiece.*\.model|special_tokens_map\.json"
    r"|added_tokens\.json|chat_template\.(jinja|json)|additional_chat_templates/.*|sentence_bert_config\.json)"
)
ANY_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
SAFETENSORS = re.compile(r"model([.-].*)?\.safetensors(\.index\.json)?")
PICKLED = re.compile(r"pytorch_model([.-].*)?\.bin(\.index\.json)?")
SINGLE = ("model.safetensors", "pytorch_model.bin")
ADAPTER = "adapter_config.json"
_COUNT = re.compile(r"(.*_)?(n_layer|layers|experts)")
MOST_LAYERS = 10_000  # or experts: more are a slip, and making them takes for ever


class _File(BaseModel):
    sha256: str


Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_STAMPED: TypeAdapter[dict[str, tuple[str, Sha256]]] = TypeAdapter(dict[str, tuple[str, Sha256]])


class Manifest(BaseModel):
    """What was fetched, every file with its hash, and from where."""

    source: str
    revision: str
    files: dict[str, _File]
    licence: str = ""
    upstream: str = ""
    converted_from: str | None = None
    weights: bool = True
    """Whether weights were fetched; a judge's backbone needs its config and tokenizer alone."""


@dataclass(frozen=True)
class Origin:
    """Where a model's files come from, and of which file they were made, if they were converted."""

    licence: str
    upstream: str
    converted_from: str | None = None


def wanted_files(names: Iterable[str], *, weights: bool = True) -> list[str]:
    """The files at a repository's root that loading needs: configs, tokenizer, one form of weights.

    Safetensors where there are any, pickled weights (read with weights only) otherwise; never a
    second copy in another format, never code. ``weights``: whether they are loaded at all.
    """
    root = sorted(name for name in names if "/" not in name)
    chosen = [
        name
        for name in root
        if name in (CONFIG, "generation_config.json") or TOKENIZER.fullmatch(name)
    ]
    if not weights:
        return chosen
    safetensors = [name for name in root if SAFETENSORS.fullmatch(name)]
    pickled = [name for name in root if PICKLED.fullmatch(name)]
    return sorted(chosen + (safetensors or pickled))


def missing_parts(names: Iterable[str], *, weights: bool = True) -> str:
    """The files that ``names`` lack for a model, in words; empty if none."""
    names = set(names)
    missing = [] if CONFIG in names else [CONFIG]
    if not names.intersection(ANY_TOKENIZER):
        missing.append("tokenizer (tokenizer.json, tokenizer.model or vocab)")
    if weights and not any(SAFETENSORS.fullmatch(n) or PICKLED.fullmatch(n) for n in names):
        missing.append("weights (model.safetensors)")
    return ", no ".join(missing)


def check_folder(folder: Path, *, weights: bool = True) -> None:
    """Refuse a folder that lacks a part of a model, or that would not load as it is.

    Raises BeamUQError naming the folder and what is missing or wrong.
    """
    if not folder.is_dir():
        raise BeamUQError(
            f"{folder}: no such model folder; fetch the model first, or correct its source"
        )
    names = [path.name for path in folder.iterdir() if path.is_file()]
    if missing := missing_parts(names, weights=weights):
        raise BeamUQError(
            f"{folder}: not a model folder, it has no {missing}; add it or fetch again"
        )
    if (folder / ADAPTER).exists():
        raise BeamUQError(
            f"{folder}: has an {ADAPTER}, and adapters are not loaded; merge it into the weights"
        )
    for key, number in _counts(_json(folder / CONFIG)):
        if number > MOST_LAYERS:
            raise BeamUQError(
                f"{folder / CONFIG}: {key}: {number}: there can be {MOST_LAYERS} at most; correct "
                "it"
            )


def _counts(config: Any) -> list[tuple[str, float]]:
    """How many layers and experts a config asks for, in its parts too."""
    if not isinstance(config, dict):
        return []
    counts: list[tuple[str, float]] = []
    for key, value in config.items():
        if _COUNT.fullmatch(key) and isinstance(value, int | float):
            counts.append((key, value))
    for part in config.values():
        counts += _counts(part)
    return counts


def loaded_weights(folder: Path) -> list[str]:
    """The files that a folder's weights are loaded from, as transformers prefers; none: empty.

    Raises BeamUQError if the config or an index of weights cannot be read, or names what is no file
    of the folder.
    """
    first = _first_weights(folder)
    weights = {first: CONFIG} if first else {}
    if first.endswith(".index.json"):
        with reading(folder / first, "an index of weights", "fetch the model again"):
            weights |= {str(name): first for name in _json(folder / first)["weight_map"].values()}
    for name, named_by in weights.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not (folder / path).is_file():
            raise BeamUQError(
                f"{folder / named_by}: names {name!r}, no file of this folder; put its weights here"
            )
    return list(weights)


def _first_weights(folder: Path) -> str:
    """The file of weights, or their index, that transformers reads first; "": there is none."""
    if (folder / CONFIG).is_file():
        named = _json(folder / CONFIG).get("transformers_weights")
        if named:
            return str(named)
    for name in SINGLE:
        for preferred in (name, f"{name}.index.json"):
            if (folder / preferred).is_file():
                return preferred
    return ""


def _json(path: Path) -> dict[str, Any]:
    with reading(path, "a JSON object", "fetch the model again"):
        return dict(json.loads(path.read_text(encoding="utf-8")))


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a model folder, or None for a folder that no fetch made.

    Raises BeamUQError if it is no manifest.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with reading(path, "a readable manifest", "delete its folder and fetch the model again"):
        return validated(Manifest, path.read_bytes(), path, is_json=True)


def check_content(folder: Path) -> Manifest | None:
    """:func:`read_manifest`, with the files of the folder compared with those that were fetched.

    Raises BeamUQError as :func:`read_manifest` and :func:`loaded_weights`; or if a file is missing,
    is not the one fetched, or was added where loading would read it.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    fetched = {name: file.sha256 for name, file in manifest.files.items()}
    present = {name for name in fetched if (folder / name).is_file()}
    hashes = _hashes(folder, _loaded(folder) | present)
    wrong = sorted(name for name, _ in fetched.items() ^ hashes.items())
    if wrong:
        raise BeamUQError(
            f"{folder / wrong[0]}: is not as it was fetched; delete the folder and fetch the model "
            "again"
        )
    return manifest


def model_identity(folder: Path, *, every_file: bool = False) -> dict[str, str]:
    """A model's identity: source, revision, and sha256 over all its files and its tokenizer's.

    In a folder that no fetch made those files count that loading reads, or with ``every_file`` all
    that are visible, of which a plug-in or AlignScore may read any.

    Raises BeamUQError as :func:`check_content`.
    """
    manifest = check_content(folder)
    names: Iterable[str]
    if manifest:
        names = manifest.files
    elif every_file:
        names = _visible(folder)
    else:
        names = sorted(_loaded(folder))
    hashes = _hashes(folder, names)
    of_tokenizer = {name: hashes[name] for name in hashes if TOKENIZER.fullmatch(name)}
    content = content_of(hashes)
    return {
        "source": manifest.source if manifest else f"folder:{folder.resolve().name}",
        "revision": manifest.revision if manifest else content,
        "content": content,
        "tokenizer": content_of(of_tokenizer),
    }


def tokenizer_hash(folder: Path) -> str:
    """sha256 over the files of a folder's tokenizer, as :func:`model_identity` has it.

    Raises BeamUQError if one of them, or a config, is not as it was fetched.
    """
    names = [name for name in _visible(folder) if TOKENIZER.fullmatch(name)]
    configs = [name for name in (CONFIG, "generation_config.json") if (folder / name).is_file()]
    hashes = _hashes(folder, [*names, *configs])
    manifest = read_manifest(folder)
    fetched = {} if manifest is None else manifest.files
    for name, sha256 in hashes.items():
        if manifest is not None and (name not in fetched or fetched[name].sha256 != sha256):
            raise BeamUQError(
                f"{folder / name}: is not as it was fetched; delete the folder and fetch the model "
                "again"
            )
    return content_of({name: hashes[name] for name in names})


def content_without_weights(folder: Path) -> str:
    """sha256 over the configs and the tokenizer of a folder, which may have no weights."""
    return content_of(_hashes(folder, wanted_files(_visible(folder), weights=False)))


def identities(
    folders: Mapping[str, Path | None], planned: Mapping[str, str], whole: Container[str] = ()
) -> dict[str, dict[str, str]]:
    """:func:`model_identity` of each model of a job, by its name; of ``whole`` every file counts.

    Raises BeamUQError as :func:`check_content`; or if a content is another than the job was
    ``planned`` with.
    """
    by_name = {
        name: model_identity(folder, every_file=name in whole)
        for name, folder in folders.items()
        if folder
    }
    for name, content in planned.items():
        if name in by_name and by_name[name]["content"] != content:
            raise BeamUQError(
                f"{folders[name]}: has changed since this run was planned; start the run again"
            )
    return by_name


def fill_folder(
    folder: Path,
    source: str,
    revision: str,
    bring: Callable[[Path], Origin],
    *,
    offline: bool,
    weights: bool = True,
) -> None:
    """Make ``folder`` hold what ``source`` is at ``revision``, with its manifest, if it does not.

    ``bring`` puts the files into a folder that is renamed to ``folder`` when all is done, and says
    where they come from. What it leaves there when it fails is there again at the next call.
    Studies may share a folder: one process at a time fills it. Without ``weights``, a folder that
    has them is whole too; one that was fetched without is not whole for who needs them.

    Raises BeamUQError if the folder is not whole and ``offline`` is set, or whatever ``bring``
    raises.
    """
    pins: dict[str, object] = {"source": source, "revision": revision}
    if weights:
        pins["weights"] = True
    if _is_whole(folder, pins):
        return
    if offline:
        raise BeamUQError(
            f"source {source}: not whole in {folder} and offline is set; run once without offline"
        )
    with exclusive(folder):
        if _is_whole(folder, pins):
            return
        partial = folder.parent / f".{folder.name}.{revision[:12]}.partial"
        partial.mkdir(exist_ok=True)
        manifest = {"source": source, "revision": revision, **asdict(bring(partial))}
        if not weights:
            manifest["weights"] = False
        hashes = _hashes(partial, _visible(partial))
        files = {name: {"sha256": sha256} for name, sha256 in hashes.items()}
        text = json.dumps({**manifest, "files": files}, indent=1, sort_keys=True)
        (partial / MANIFEST).write_text(text + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)


def _is_whole(folder: Path, pins: Mapping[str, object]) -> bool:
    """Whether the folder is what ``pins`` name, every file as it was fetched."""
    try:
        return pins.items() <= dict(check_content(folder) or ()).items()
    except BeamUQError:
        return False  # a damaged folder is fetched again


def _visible(folder: Path) -> list[str]:
    """The files of a folder and its subfolders, sorted; neither the manifest nor hidden ones."""
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    return [file.as_posix() for file in visible if file.as_posix() != MANIFEST]


def _loaded(folder: Path) -> set[str]:
    """The files of a folder that loading may read."""
    visible = _visible(folder)
    return {*wanted_files(visible), *filter(TOKENIZER.fullmatch, visible), *loaded_weights(folder)}


def _hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """sha256 of files of a folder, by name; one is read again when its inode, size or times change.

    Other processes find the hashes of settled files in ``.sha256.json`` of a folder that a fetch
    made.
    """
    is_fetched = (folder / MANIFEST).is_file()
    earlier = _read_stamped(folder / HASHES) if is_fetched else {}
    stamped = earlier.copy()
    hashes: dict[str, str] = {}
    now = time.time_ns()
    for name in names:
        facts = (folder / name).stat()
        stamp = f"{facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
        earlier_stamp, sha256 = earlier.get(name, ("", ""))
        hashes[name] = sha256 if earlier_stamp == stamp else _sha256(folder / name, stamp)
        if facts.st_ctime_ns < now - SETTLED:
            stamped[name] = (stamp, hashes[name])
    if is_fetched and stamped != earlier:
        _write_stamped(folder / HASHES, stamped)
    return hashes


def _read_stamped(path: Path) -> dict[str, tuple[str, str]]:
    """By file its stamp and sha256, as an earlier process wrote them; empty: it is no such file."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MOST_OF_HASHES:  # a FIFO would never end
            stamped: dict[str, tuple[str, str]] = _STAMPED.validate_json(path.read_bytes())
            return stamped
    return {}


def _write_stamped(path: Path, stamped: Mapping[str, tuple[str, str]]) -> None:
    """Write them for other processes, where that can be: else each process reads the files."""
    if path.exists() and not path.is_file():
        return  # a FIFO, which nobody reads
    with suppress(BeamUQError):
        write_text(path, json.dumps(stamped, indent=1, sort_keys=True) + "\n")


@cache
def _sha256(path: Path, stamp: str) -> str:  # noqa: ARG001
    """sha256 of a file, read once by a process until its ``stamp`` changes."""
    return file_sha256(path)


def content_of(hashes: Mapping[str, str]) -> str:
    """The content of a model: one sha256 over the names and hashes of its files."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
