"""Models and tokenizers from a local folder: whole or not at all, and no code of the folder ever runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import check_folder, read_manifest

if TYPE_CHECKING:
    import torch


# What the loaders raise for weights that are damaged, foreign, or code in the guise of weights.
UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, ImportError, pickle.UnpicklingError)


def load_causal(folder: Path, *, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """Load ``(model, tokenizer)`` in evaluation mode from a local folder; code in the folder never runs.

    The attention implementation is left to the caller.

    Raises
    ------
    BeamUQError
        If the folder lacks config, tokenizer or weights, is not the one fetched, or the weights are incomplete.
    """
    from transformers import AutoModelForCausalLM

    check_folder(folder)
    read_manifest(folder)
    return load_whole(AutoModelForCausalLM, folder, dtype=dtype, device=device), load_tokenizer(folder)


def load_whole(auto_class: Any, folder: Path, *, dtype: torch.dtype, device: torch.device) -> Any:
    """Load a model of a transformers auto class; a parameter that the checkpoint lacks is refused, never random.

    Raises
    ------
    BeamUQError
        Naming the folder and the first missing parameters.
    """
    from safetensors import SafetensorError

    placed = {"device_map": {"": device}} if device.type != "cpu" else {}
    try:
        model, report = auto_class.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, output_loading_info=True, **placed
        )
    except (*UNREADABLE, SafetensorError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BeamUQError(f"{folder}: cannot be loaded as {auto_class.__name__} ({first}); fetch it again") from error
    missing = sorted(str(key) for key in report["missing_keys"])
    if missing:
        raise BeamUQError(f"{folder}: its weights lack {', '.join(missing[:3])}; it is not a {type(model).__name__}")
    return model.eval()


def load_tokenizer(folder: Path) -> Any:
    """Load a folder's tokenizer.

    Raises
    ------
    BeamUQError
        If it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a corrupt tokenizer.json raises a bare Exception from the Rust side
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BeamUQError(f"{folder}: its tokenizer cannot be loaded ({first}); fetch it again") from error
    if type(tokenizer).__name__ == "DebertaTokenizer":
        _join_as_trained(tokenizer)
    return tokenizer


def _join_as_trained(tokenizer: Any) -> None:
    """Give DeBERTa back the one separator between two texts: transformers 5 writes two, whatever the files say."""
    from tokenizers.processors import TemplateProcessing

    first, last = tokenizer.cls_token, tokenizer.sep_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(first, tokenizer.cls_token_id), (last, tokenizer.sep_token_id)],
    )
