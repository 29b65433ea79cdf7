"""Which files of a model repository or folder are wanted, and whether a folder is a model at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from beamuq.errors import BeamUQError

CONFIG = "config.json"
TOKENIZER = re.compile(
    r"(tokenizer.*\.(json|model)|vocab\.(json|txt)|merges\.txt|spiece\.model|sentencepiece.*\.model|special_tokens_map\.json"
    r"|added_tokens\.json|chat_template\.(jinja|json)|sentence_bert_config\.json)"
)
ANY_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
SAFETENSORS = re.compile(r"model([.-].*)?\.safetensors(\.index\.json)?")
PICKLED = re.compile(r"pytorch_model([.-].*)?\.bin(\.index\.json)?")


def is_tokenizer_file(name: str) -> bool:
    """Whether a file is part of a tokenizer (its chat template and length limit included)."""
    return TOKENIZER.fullmatch(name) is not None


def wanted_files(names: Iterable[str], *, weights: bool = True) -> list[str]:
    """The files at the root of a repository that loading needs: configs, tokenizer and one form of the weights.

    Safetensors where there are any, pickled weights (read with weights only) otherwise; never a second copy in another
    format, never code.
    """
    root = sorted(name for name in names if "/" not in name)
    chosen = [name for name in root if name in (CONFIG, "generation_config.json") or is_tokenizer_file(name)]
    if weights:
        chosen += [n for n in root if SAFETENSORS.fullmatch(n)] or [n for n in root if PICKLED.fullmatch(n)]
    return sorted(chosen)


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
