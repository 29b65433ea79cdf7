"""Load models and tokenizers from a local folder, whole or not at all, without running code of the
folder.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq.errors import BeamUQError, reading, reason
from beamuq.models.model_folder import CONFIG, check_content, check_folder, loaded_weights

if TYPE_CHECKING:
    import torch

# constants that older checkpoints keep among their weights: masks of attention modules, which have
# no bias themselves
_OLD_BUFFERS = re.compile(
    r".*\.(attn|attention|self_attn|self_attention)\.(bias|masked_bias)|.*\.inv_freq"
)


def load_causal(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1
) -> tuple[Any, Any]:
    """Load ``(model, tokenizer)`` in evaluation mode from a local folder; code in the folder never
    runs.

    On cuda, the layers are spread over so many ``cards``. The model has been checked
    (:mod:`beamuq.decoding.self_check`).

    Raises BeamUQError if the folder lacks config, tokenizer or weights, is not the one fetched, or
    the weights are incomplete; or if the engine cannot decode the model.
    """
    from transformers import AutoModelForCausalLM

    from beamuq.decoding.self_check import checked

    check_folder(folder)
    model = load_whole(AutoModelForCausalLM, folder, dtype=dtype, device=device, cards=cards)
    tokenizer = load_tokenizer(folder)
    checked(model)
    return model, tokenizer


def temper(model: Any, T: float) -> None:
    """Divide a model's logits by ``T`` from now on: each next-token distribution becomes p^(1/T) /
    Z, its own.
    """

    def divided(_module: Any, _arguments: Any, output: Any) -> Any:
        output.logits = output.logits / T
        return output

    model.register_forward_hook(divided)


def load_whole(
    auto_class: Any, folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1
) -> Any:
    """Load a model of a transformers auto class, from the files that were fetched and with every
    weight in its place.

    Raises BeamUQError as :func:`~beamuq.models.model_folder.check_content` and
    :func:`check_report`, or if it cannot be loaded: it does not fit into memory, or its weights are
    quantised and a package for that is missing.
    """
    import torch

    check_content(folder)
    loaded_weights(folder)  # all of them lie in it
    placed: dict[str, Any] = {}
    if device.type == "cpu":
        _check_memory(folder, dtype)
    elif cards == 1:
        placed = {"device_map": {"": device}}
    else:
        memory = {
            card: torch.cuda.get_device_properties(card).total_memory for card in range(cards)
        }
        placed = {"device_map": "balanced", "max_memory": memory}
    try:
        model, report = auto_class.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told in the report, and refused
            **placed,
        )
    except (
        Exception
    ) as error:  # damaged or foreign weights and configs raise whatever their readers raise
        fix = "fetch it again"
        if isinstance(error, ImportError):  # such as one that quantised weights need
            fix = "install the package that reads its weights"
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "offload" in str(error):
            fix = (
                "memory ran out; choose a smaller model or dtype, more cards for the model, or a "
                "larger machine"
            )
        because = reason(error)[:200]
        raise BeamUQError(
            f"{folder}: cannot be loaded as {auto_class.__name__} ({because}); {fix}"
        ) from error
    if cards > 1 and placed:
        used = {*model.hf_device_map.values()}
        if used & {"cpu", "disk"} or len(used) < cards:
            wrong = "do not fit onto" if used & {"cpu", "disk"} else "do not fill"
            raise BeamUQError(
                f"cards: {cards}: the layers of {folder} {wrong} as many; choose another number"
            )
    check_report(folder, model, report)
    return model.eval()


def _check_memory(folder: Path, dtype: torch.dtype) -> None:
    """Refuse a model whose safetensors alone, as ``dtype``, are more than the machine's memory,
    which would swap.
    """
    from safetensors import safe_open

    if '"quantization_config"' in (folder / CONFIG).read_text(encoding="utf-8"):
        return  # what they take is not told by their shapes
    needed, there = 0, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in (folder / name for name in loaded_weights(folder) if name.endswith(".safetensors")):
        with (
            reading(path, "a readable safetensors file", "fetch it again"),
            safe_open(path, "pt") as weights,
        ):
            needed += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    if needed * dtype.itemsize > there:
        raise BeamUQError(
            f"{folder}: its weights take {needed * dtype.itemsize / 1e9:.1f} GB in "
            f"{str(dtype)[6:]}, memory is "
            f"{there / 1e9:.1f} GB; choose a smaller model, dtype: bfloat16 or a larger machine"
        )


def check_report(file: Path, model: Any, report: Mapping[str, Any]) -> None:
    """Refuse a model that lacks weights, or whose checkpoint has more of them or others than its
    config says.

    A part that the model has not (a pooler, another task's head, a training script's notes) may
    stay unused. What lies in a part that it has may not: a layer more, a bias more. The report is
    without what transformers knows to ignore.

    Raises BeamUQError naming the folder and the first such weights.
    """
    from torch.nn import ModuleList  # one without a layer has a part for layers too

    modules = [(_any_layer(name), module) for name, module in model.named_modules() if name]
    parts = {name for name, _ in modules} | {
        f"{name}.N" for name, part in modules if isinstance(part, ModuleList)
    }
    prefix = f"{model.base_model_prefix}."

    def in_a_part(key: str) -> bool:
        words = _any_layer(
            key.removeprefix(prefix) if prefix.strip(".") not in parts else key
        ).split(".")
        outer = [".".join(words[:end]) for end in range(1, len(words))]
        return any(name in parts and (name == outer[-1] or name.endswith(".N")) for name in outer)

    wrong = {
        "lack": sorted(map(str, report["missing_keys"])),
        "have, beyond its config.json,": sorted(
            key
            for key in map(str, report["unexpected_keys"])
            if in_a_part(key) and not _OLD_BUFFERS.fullmatch(key)
        ),
        "have in another shape": sorted(str(key[0]) for key in report["mismatched_keys"]),
    }
    for problem, keys in wrong.items():
        if keys:
            raise BeamUQError(
                f"{file}: its weights {problem} {', '.join(keys[:3])}{', …' * (len(keys) > 3)}; "
                "they are not those of "
                f"the {type(model).__name__} that config.json describes: correct config.json, or "
                "fetch it again"
            )


def _any_layer(name: str) -> str:
    """A weight's name with an N for the number of its layer."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "N", name)


def load_tokenizer(folder: Path) -> Any:
    """Load a folder's tokenizer. Raises BeamUQError if it cannot be read."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (
        Exception
    ) as error:  # a corrupt tokenizer.json raises a bare Exception from the Rust side
        raise BeamUQError(
            f"{folder}: its tokenizer cannot be loaded ({reason(error)}); fetch it again"
        ) from error
    if (
        type(tokenizer).__name__ == "DebertaTokenizer"
    ):  # it was trained with one separator, transformers 5 writes two
        first, last = tokenizer.cls_token, tokenizer.sep_token
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} $B {last}",
            special_tokens=[(first, tokenizer.cls_token_id), (last, tokenizer.sep_token_id)],
        )
    return tokenizer
