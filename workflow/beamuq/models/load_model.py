"""Models and tokenizers from a local folder: whole or not at all, and no code of the folder ever runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import CONFIG, check_content, check_folder, model_identity, user_cache
from beamuq.models.place_on_cards import check_memory, quantisation, spread_over
from beamuq.parquet_tables import atomic, file_sha256

if TYPE_CHECKING:
    import torch

# constants that older checkpoints keep among their weights: masks of attention modules, which have no bias themselves
_OLD_BUFFERS = re.compile(r".*\.(attn|attention|self_attn|self_attention)\.(bias|masked_bias)|.*\.inv_freq")


def load_causal(folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1) -> tuple[Any, Any]:
    """Load ``(model, tokenizer)`` in evaluation mode from a local folder; code in the folder never runs.

    On cuda, the layers are spread over so many ``cards``. The model has been checked
    (:mod:`beamuq.decoding.self_check`): now, or by an earlier run on the same weights.

    Raises BeamUQError if the folder lacks config, tokenizer or weights, is not the one fetched, or the weights are
    incomplete; or if the engine cannot decode the model.
    """
    from transformers import AutoModelForCausalLM

    check_folder(folder)
    model = load_whole(AutoModelForCausalLM, folder, dtype=dtype, device=device, cards=cards)
    tokenizer = load_tokenizer(folder)
    _check_decoding(folder, model, dtype=dtype, device=device)
    return model, tokenizer


def _check_decoding(folder: Path, model: Any, *, dtype: torch.dtype, device: torch.device) -> None:
    """Check how ``model`` is decoded, or remember what was found of the same weights, dtype, device and versions."""
    import torch

    from beamuq.decoding import self_check

    card = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    engine = [file_sha256(path) for path in sorted(Path(self_check.__file__).parent.glob("*.py"))]
    versions = [version(package) for package in ("torch", "transformers")]
    about = [model_identity(folder)["content"], str(dtype), device.type, card, versions, engine]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    store = user_cache("self_checks.json")
    try:
        known = dict(json.loads(store.read_text(encoding="utf-8")))
        self_check.remember(model, self_check.SelfCheck(**known[key]))
    except (OSError, ValueError, TypeError, KeyError):  # not there, or not ours
        known = {}
    found = self_check.checked(model)
    if key not in known:
        with contextlib.suppress(OSError, BeamUQError), atomic(store) as temporary:
            temporary.write_text(json.dumps(known | {key: asdict(found)}), encoding="utf-8")


def load_whole(auto_class: Any, folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1) -> Any:
    """Load a model of a transformers auto class, from the files that were fetched and with every weight in its place.

    Raises BeamUQError as :func:`~beamuq.models.model_folder.check_content` and :func:`check_report`, or if it cannot be
    loaded: it does not fit into memory, or its weights are quantised and a package for that is missing.
    """
    import torch

    check_content(folder)
    method = quantisation(folder)
    if method is not None:
        _check_quantisation(folder, method)
    check_memory(folder, dtype, device, cards)
    try:
        placed: dict[str, Any] = {} if device.type == "cpu" else {"device_map": {"": device}}
        if placed and cards > 1:
            placed["device_map"] = _spread(auto_class, folder, [f"cuda:{card}" for card in range(cards)])
        model, report = auto_class.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told in the report, and refused
            **placed,
        )
    except BeamUQError:
        raise
    except Exception as error:  # damaged or foreign weights and configs raise whatever their readers raise
        told = " ".join(str(error).split())[:200] or type(error).__name__
        if method is not None and isinstance(error, ImportError):
            raise BeamUQError(
                f"{folder}: its weights are quantised ({method}), and a package to read them is missing ({told}); "
                "install it"
            ) from error
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            raise BeamUQError(
                f"{folder}: memory ran out while it was loaded ({told}); choose a smaller model or dtype, several "
                "cards for the model, or a larger machine"
            ) from error
        raise BeamUQError(f"{folder}: cannot be loaded as {auto_class.__name__} ({told}); fetch it again") from error
    check_report(folder, model, report)
    return model.eval()


def _check_quantisation(folder: Path, method: str) -> None:
    """Refuse a method that this transformers would pass over, taking packed numbers for weights."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    known = {name.removesuffix("_4bit").removesuffix("_8bit") for name in AUTO_QUANTIZATION_CONFIG_MAPPING}
    if method not in known:
        raise BeamUQError(
            f"{folder / CONFIG}: quantization_config.quant_method: {method!r}: unknown to the transformers installed "
            f"here; known: {', '.join(sorted(known))}"
        )


def _spread(auto_class: Any, folder: Path, devices: Sequence[Any]) -> dict[str, Any]:
    """Where each part of a folder's model goes; it is built without its weights to see its layers."""
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        return spread_over(auto_class.from_config(config), devices)


def check_report(file: Path, model: Any, report: Mapping[str, Any]) -> None:
    """Refuse a model that lacks weights, or whose checkpoint has more of them or others than its config says.

    A part that the model has not (a pooler, another task's head, a training script's notes) may stay unused. What lies
    in a part that it has may not: a layer more, a bias more. The report is without what transformers knows to ignore.

    Raises BeamUQError naming the folder and the first such weights.
    """
    parts = {_any_layer(name) for name, _ in model.named_modules() if name}
    prefix = f"{model.base_model_prefix}."

    def in_a_part(key: str) -> bool:
        words = _any_layer(key.removeprefix(prefix) if prefix.strip(".") not in parts else key).split(".")
        outer = [".".join(words[:end]) for end in range(1, len(words))]
        return any(name in parts and (name == outer[-1] or name.endswith(".N")) for name in outer)

    wrong = {
        "lack": sorted(map(str, report["missing_keys"])),
        "have, beyond its config.json,": sorted(
            key for key in map(str, report["unexpected_keys"]) if in_a_part(key) and not _OLD_BUFFERS.fullmatch(key)
        ),
        "have in another shape": sorted(str(key[0]) for key in report["mismatched_keys"]),
    }
    for told, keys in wrong.items():
        if keys:
            raise BeamUQError(
                f"{file}: its weights {told} {', '.join(keys[:3])}{', …' * (len(keys) > 3)}; they are not those of the "
                f"{type(model).__name__} that config.json describes: correct config.json, or fetch it again"
            )


def _any_layer(name: str) -> str:
    """A weight's name with an N for the number of its layer."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "N", name)


def load_tokenizer(folder: Path) -> Any:
    """Load a folder's tokenizer. Raises BeamUQError if it cannot be read."""
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
