"""Models and similarity scorers, by name or in memory, each with a hash of its content."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from beamuq.api.answer_identity import IN_MEMORY
from beamuq.api.server_identity import read_server
from beamuq.errors import BeamUQError, hint
from beamuq.installation import install_command
from beamuq.io import file_sha256
from beamuq.models import devices
from beamuq.models.load_model import import_transformers, load_causal, load_tokenizer
from beamuq.models.model_folder import (
    CONFIG,
    MANIFEST,
    check_folder,
    model_identity,
    read_manifest,
    tokenizer_hash,
)
from beamuq.models.model_source import fetch_model, parse_source
from beamuq.models.offline import is_offline
from beamuq.models.packaged_weights import PACKAGED
from beamuq.models.served.server_address import GIVE_FOLDER, PREFIX, is_server, parse_address
from beamuq.plugins import source_files
from beamuq.scorers.scorer_protocol import SimilarityScorer
from beamuq.scorers.similarity_by_kind import FOLDED_WORDS, SCORERS, load_scorer

MINILM = "packaged:all-minilm-l6-v2"
HASHED_VALUES = 64  # of each parameter of a model in memory
GIVE = (
    "give a folder, hub:ORG/NAME, packaged:NAME, server:ADDRESS, or (model, tokenizer) of "
    "transformers"
)
CHECKOUT = Path(__file__).resolve().parents[3]
"""The project's folder, where the package is installed from one and not from a wheel."""
LOCK = "ask.lock.json"
"""In the models' folder: the hub's commits that were resolved outside a study."""


def fetched_models() -> Path:
    """Where fetched models are kept: the first of these that is set, or that is there.

    ``$BEAMUQ_MODELS``; ``resources/models`` of the working folder, or of the checkout that the
    package is installed from; the user's cache.
    """
    folder = os.environ.get("BEAMUQ_MODELS")
    if folder:
        return Path(folder).expanduser()
    in_working_folder = Path("resources/models")
    if in_working_folder.is_dir():
        return in_working_folder
    in_checkout = CHECKOUT / "resources/models"
    if (CHECKOUT / "Snakefile").is_file() and in_checkout.is_dir():
        return in_checkout
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "beamuq" / "models"


def check_models_extra() -> None:
    """Raise BeamUQError where torch or transformers is missing, as in a wheel's core."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise BeamUQError(
                f"a model needs {name}, which is not installed; {install_command('models')}"
            )


def model_folder(source: str, *, weights: bool = True) -> Path:
    """The folder of a model: a local one, or one fetched by hash to :func:`fetched_models`.

    Parameters
    ----------
    source
        A folder (with or without ``folder:`` before it), ``hub:ORG/NAME`` or ``packaged:NAME``.
        ``ORG/NAME`` alone is a folder, or a model of the hub that was fetched before: a misspelt
        folder asks no network.
    weights
        Whether they are needed, beside config and tokenizer.

    Returns
    -------
    The folder.

    Raises BeamUQError if it is none of these, or cannot be fetched; if torch is not installed.

    Examples
    --------
    >>> str(beamuq.model_folder("folder:my-model"))
    'my-model'
    """
    check_models_extra()
    local = Path(source.removeprefix("folder:")).expanduser()
    if source and (source.startswith("folder:") or local.is_dir()):
        return local
    if ":" not in source:
        _check_was_fetched(source)
        source = f"hub:{source}"
    parsed = parse_source(source)
    if parsed.kind == "packaged" and parsed.name not in PACKAGED:
        raise BeamUQError(f"model {source!r}: unknown; {hint(parsed.name, PACKAGED)}")
    folder = _fetched_folder(parsed.name)
    manifest = read_manifest(folder)
    if manifest is None or (weights and not manifest.weights):
        print(f"fetching {source} to {folder}", file=sys.stderr, flush=True)
        lock = fetched_models() / LOCK
        fetch_model(source, folder, lock=lock, offline=is_offline(os.environ), weights=weights)
    return folder


def _fetched_folder(name: str) -> Path:
    return fetched_models() / name.replace("/", "--")


def _check_was_fetched(name: str) -> None:
    """Raise BeamUQError unless this is ORG/NAME of a model of the hub that was fetched before."""
    if name.count("/") == 1 and (_fetched_folder(name) / MANIFEST).is_file():
        return
    looks_like_hub = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name)
    hub = f"hub:{name}" if looks_like_hub else "hub:ORG/NAME"
    raise BeamUQError(
        f"model {name!r}: no such folder; give a folder, {hub} of the hub, or packaged:NAME"
    )


@dataclass(frozen=True)
class LoadedModel:
    """A language model in memory or behind a server, its tokenizer, and what tells it from others.

    Its name, and the hash of its files or of what is in memory (behind ``IN_MEMORY``), or
    ``server``, what is known of a server, in JSON.
    """

    model: Any
    tokenizer: Any
    name: str
    content: str | None
    server: str | None = None


def open_model(
    model: Any,
    *,
    tokenizer: Any = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> LoadedModel:
    """A model by name or folder, kept in memory for the next call; or ``(model, tokenizer)``.

    ``server:ADDRESS`` needs its ``tokenizer``: a folder, hub:ORG/NAME, packaged:NAME, or one of
    transformers that was read from a folder.

    Raises BeamUQError if it is neither.
    """
    check_models_extra()
    if isinstance(model, LoadedModel):
        return model
    if is_server(model):
        return open_served(model, tokenizer)
    if tokenizer is not None:
        raise BeamUQError(
            "tokenizer: is of model server:ADDRESS; leave it out, this model has its own"
        )
    if isinstance(model, str | Path):
        torch_device, torch_dtype = devices.prepare(device, dtype, threads)
        folder = model_folder(str(model))
        content = model_identity(folder)["content"]
        return _read_model(str(model), folder, torch_dtype, torch_device, content)
    if not isinstance(model, tuple) or len(model) != 2:
        raise BeamUQError(f"model: {type(model).__name__}: {GIVE}")
    check_pair(*model)
    name = str(getattr(model[0], "name_or_path", "")) or type(model[0]).__name__
    return LoadedModel(*model, name, _content(model[0]))


def open_served(source: str, tokenizer: Any) -> LoadedModel:
    """A model behind ``server:ADDRESS``, checked once, with the tokenizer that is its model's.

    Raises BeamUQError in one line: no tokenizer, one without its folder's configs, or as
    :func:`beamuq.models.served.opened_server.open_server`.
    """
    from beamuq.models.served.opened_server import open_server

    parse_address(source)
    folder = _folder_of_tokenizer(tokenizer)
    content = tokenizer_hash(folder)
    used = load_tokenizer(folder) if isinstance(tokenizer, str | Path) else tokenizer
    key = (source, str(folder), content, len(used))
    server = _SERVERS.get(key)
    if server is None or not server.is_still_as_checked():
        server = open_server(source, used, folder, content)
        print(server.handshake.summary, file=sys.stderr, flush=True)
        _SERVERS.clear()
        _SERVERS[key] = server
    return LoadedModel(server, used, server.name, None, read_server(server.identity).as_json())


_SERVERS: dict[tuple[str, str, str, int], Any] = {}
"""The server that was checked last, for the next call; without its key."""


def _folder_of_tokenizer(tokenizer: Any) -> Path:
    """The folder that has a tokenizer's files and its model's configs."""
    if tokenizer is None or tokenizer == "":
        raise BeamUQError(f"tokenizer: missing: {PREFIX}ADDRESS has none; {GIVE_FOLDER}")
    if isinstance(tokenizer, str | Path):
        folder = model_folder(str(tokenizer), weights=False)
        check_folder(folder, weights=False)
        return folder
    if not callable(tokenizer):
        raise BeamUQError(f"tokenizer: {type(tokenizer).__name__}: no tokenizer; {GIVE_FOLDER}")
    folder = Path(str(getattr(tokenizer, "name_or_path", "")))
    if not (folder / CONFIG).is_file():
        raise BeamUQError(
            f"tokenizer: {str(folder)!r:.80}: not read from a folder that has its model's "
            f"{CONFIG}; {GIVE_FOLDER}"
        )
    return folder


def check_pair(model: Any, tokenizer: Any) -> None:
    """Raise BeamUQError unless these are a model and a tokenizer of transformers."""
    if not hasattr(model, "get_input_embeddings") or not callable(tokenizer):
        raise BeamUQError(
            f"model: {type(model).__name__}, tokenizer: {type(tokenizer).__name__}: {GIVE}"
        )


@lru_cache(maxsize=1)
def _read_model(name: str, folder: Path, dtype: Any, device: Any, content: str) -> LoadedModel:
    import_transformers()
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model, tokenizer = load_causal(folder, dtype=dtype, device=device)
    return LoadedModel(model, tokenizer, name, content)


def _content(model: Any) -> str | None:
    """A hash of a model in memory: its parameters' names, shapes, types and some of the values.

    None: some values are elsewhere (offloaded), and it is not known.
    """
    digest = hashlib.sha256()
    for name, values in model.state_dict().items():
        if getattr(values, "is_meta", False):
            return None
        if hasattr(values, "flatten"):
            flat = values.detach().flatten()
            distance = max(1, len(flat) // HASHED_VALUES)
            hashed = flat[::distance][:HASHED_VALUES].cpu().tolist()
            digest.update(f"{name} {tuple(values.shape)} {values.dtype} {hashed}".encode())
    return IN_MEMORY + digest.hexdigest()


@dataclass(frozen=True)
class Similarity:
    """A scorer, the name that tables print, and a hash of its model, or of your own scorer's files.

    Of ``lexical``, which has neither, ``content`` is what words are for it.
    """

    name: str
    scorer: SimilarityScorer
    content: str = ""


def open_similarity(
    name: str | Similarity, *, device: str = "auto", dtype: str = "auto", threads: int = 1
) -> Similarity:
    """A similarity by name; one that is open already is given back.

    Parameters
    ----------
    name
        ``lexical`` (ROUGE-L of folded words, no model); ``minilm`` (cosine of the packaged
        embeddings); ``nli:MODEL``, ``cross_encoder:MODEL``, ``embedding:MODEL`` with a model as
        :func:`model_folder` takes it; ``module:attribute`` of a scorer outside the package;
        ``auto``: ``minilm`` where its folder is there, else ``lexical``, which is warned of once.
    dtype
        ``float32``, ``bfloat16``; ``auto``: float32, as in the official release.

    Raises BeamUQError if the name or the model is unknown.
    """
    if isinstance(name, Similarity):
        return name
    if name == "auto":
        name = _similarity_at_hand()
    if name == "lexical":
        return Similarity(name, load_scorer(name), FOLDED_WORDS)
    kind, _, source = name.partition(":")
    if name == "minilm":
        kind = "embedding"
        source = MINILM
    if kind not in SCORERS:
        return _own_similarity(name)
    check_models_extra()
    if not source:
        raise BeamUQError(
            f"similarity {name!r}: needs a model; write {kind}:FOLDER or {kind}:hub:ORG/NAME"
        )
    if dtype == "auto":
        dtype = "float32"
    torch_device, torch_dtype = devices.prepare(device, dtype, threads)
    folder = model_folder(source)
    content = model_identity(folder)["content"]
    return _read_similarity(name, kind, folder, torch_dtype, torch_device, content)


_REASONS_TOLD: set[str] = set()
"""Why ``auto`` was no ``minilm``, as was warned of in this process."""


def _similarity_at_hand() -> str:
    """What ``auto`` is here; warns, once for each reason, where that is not ``minilm``."""
    reason = _why_no_minilm()
    if not reason:
        return "minilm"
    if reason not in _REASONS_TOLD:
        _REASONS_TOLD.add(reason)
        warnings.warn(
            f"similarity auto: ROUGE-L of words (lexical) is used, not MiniLM's embeddings: "
            f"{reason}; scores of one are not comparable with the other's: name the one that you "
            "want, similarity='minilm' or 'lexical' (--similarity minilm)",
            stacklevel=4,
        )
    return "lexical"


def _why_no_minilm() -> str:
    """Why MiniLM is not at hand; "": it is."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed ({install_command('models')})"
    folder = fetched_models() / "all-minilm-l6-v2"
    if not (folder / MANIFEST).is_file():
        return f"{folder} is not there (minilm fetches it)"
    return ""


def _own_similarity(name: str) -> Similarity:
    """A scorer outside the package, by ``module:attribute``."""
    kind, _, attribute = name.partition(":")
    if not attribute:
        fix = hint(kind, ("auto", "minilm", *SCORERS), ", or module:attribute")
        raise BeamUQError(f"similarity: unknown name {name!r}; {fix}")
    scorer = load_scorer(name)
    hashes = [file_sha256(Path(file)) for file in source_files([name])]
    return Similarity(name, scorer, hashlib.sha256("".join(hashes).encode()).hexdigest())


@lru_cache(maxsize=1)
def _read_similarity(
    name: str, kind: str, folder: Path, dtype: Any, device: Any, content: str
) -> Similarity:
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return Similarity(name, load_scorer(kind, folder, dtype=dtype, device=device), content)
