"""Models and similarity scorers by the names that a person types: a folder, a hub id, a packaged model."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beamuq.errors import BeamUQError, hint
from beamuq.models.offline import is_offline

if TYPE_CHECKING:
    from beamuq.scorers.scorer_protocol import SimilarityScorer

MINILM = "packaged:all-minilm-l6-v2"
LOCK = "ask.lock.json"  # in the models' folder: the hub's commits that were resolved outside a study


def fetched_models() -> Path:
    """Where fetched models are kept: ``$BEAMUQ_MODELS``, else ``resources/models`` here, else the user's cache."""
    if folder := os.environ.get("BEAMUQ_MODELS"):
        return Path(folder).expanduser()
    if (here := Path("resources/models")).is_dir():
        return here
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "beamuq" / "models"


def check_models_extra() -> None:
    """Raise BeamUQError where torch or transformers is not installed: a wheel's core comes without them."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise BeamUQError(f"a model needs {name}, which is not installed; pip install 'beamuq[models]'")


def model_folder(source: str) -> Path:
    """The folder of a model: a local one, or one fetched by hash to :func:`fetched_models`.

    Parameters
    ----------
    source
        A folder (with or without ``folder:`` before it), ``hub:ORG/NAME`` or ``packaged:NAME``. ``ORG/NAME`` alone is
        a folder, or a model of the hub that was fetched before: a misspelt folder asks no network.

    Raises
    ------
    BeamUQError
        If it is none of these, or cannot be fetched; if torch is not installed.
    """
    check_models_extra()
    from beamuq.models.model_folder import MANIFEST
    from beamuq.models.model_source import fetch_model, parse_source
    from beamuq.models.packaged_weights import PACKAGED

    root = fetched_models()
    local = Path(source.removeprefix("folder:")).expanduser()
    if source and (source.startswith("folder:") or local.is_dir()):
        return local
    if ":" not in source:
        if source.count("/") != 1 or not (root / source.replace("/", "--") / MANIFEST).is_file():
            hub = f"hub:{source}" if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", source) else "hub:ORG/NAME"
            raise BeamUQError(f"model {source!r}: no such folder; give a folder, {hub} of the hub, or packaged:NAME")
        source = f"hub:{source}"
    parsed = parse_source(source)
    if parsed.kind == "packaged" and parsed.name not in PACKAGED:
        raise BeamUQError(f"model {source!r}: unknown; {hint(parsed.name, PACKAGED)}")
    folder = root / parsed.name.replace("/", "--")
    if not (folder / MANIFEST).is_file():
        print(f"fetching {source} to {folder}", file=sys.stderr, flush=True)
        fetch_model(source, folder, lock=root / LOCK, offline=is_offline(os.environ))
    return folder


@dataclass(frozen=True)
class Similarity:
    """A scorer under the name that tables print."""

    name: str
    scorer: SimilarityScorer


def open_similarity(
    name: str | Similarity, *, device: str = "auto", dtype: str = "auto", threads: int = 1
) -> Similarity:
    """A similarity by name; one that is open already is given back.

    Parameters
    ----------
    name
        ``lexical`` (ROUGE-L, no model); ``minilm`` (cosine of the packaged embeddings); ``nli:MODEL``,
        ``cross_encoder:MODEL``, ``embedding:MODEL`` with a model as :func:`model_folder` takes it; ``module:attribute``
        of a scorer outside the package; ``auto``: ``minilm`` where its folder is there, else ``lexical``.
    dtype
        ``float32``, ``bfloat16``; ``auto``: float32, as in the official release.

    Raises
    ------
    BeamUQError
        If the name or the model is unknown.
    """
    if isinstance(name, Similarity):
        return name
    if name == "auto":
        folder = fetched_models() / "all-minilm-l6-v2"
        there = importlib.util.find_spec("transformers") is not None and (folder / "fetched.json").is_file()
        name = "minilm" if there else "lexical"
    if name == "lexical":
        from beamuq.scorers.similarity_by_kind import Lexical

        return Similarity("lexical", Lexical())
    from beamuq.models import devices
    from beamuq.scorers.similarity_by_kind import SCORERS, load_scorer

    kind, _, source = ("embedding", ":", MINILM) if name == "minilm" else name.partition(":")
    if kind not in SCORERS:
        if not source:
            fix = hint(kind, ("auto", "minilm", *SCORERS), ", or module:attribute")
            raise BeamUQError(f"similarity: unknown name {name!r}; {fix}")
        return Similarity(name, load_scorer(name))
    check_models_extra()
    if not source:
        raise BeamUQError(f"similarity {name!r}: needs a model; write {kind}:FOLDER or {kind}:hub:ORG/NAME")
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    on, precision = devices.prepare(device, "float32" if dtype == "auto" else dtype, threads)
    return Similarity(name, load_scorer(kind, model_folder(source), dtype=precision, device=on))
