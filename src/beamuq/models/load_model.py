"""Load models and tokenizers from a local folder, whole or not at all, and none of its code."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq.errors import BeamUQError, reading, reason
from beamuq.machine_memory import machine_memory
from beamuq.models.earlier_checks import checked_before
from beamuq.models.model_folder import CONFIG, check_content, check_folder, loaded_weights
from beamuq.own_program import PROGRAM

if TYPE_CHECKING:
    import torch

# Constants that older checkpoints keep among their weights: masks of attention modules, which have
# no bias themselves.
_OLD_BUFFERS = re.compile(
    r".*\.(attn|attention|self_attn|self_attention)\.(bias|masked_bias)|.*\.inv_freq"
)


def load_causal(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1
) -> tuple[Any, Any]:
    """Load ``(model, tokenizer)`` in evaluation mode from a folder, whose code never runs.

    On cuda, the layers are spread over so many ``cards``. The model has been checked
    (:mod:`beamuq.decoding.self_check`).

    Raises BeamUQError if the folder lacks config, tokenizer or weights, is not the one fetched, or
    the weights are incomplete; or if the engine cannot decode the model.
    """
    from transformers import AutoModelForCausalLM

    check_folder(folder)
    model = load_whole(AutoModelForCausalLM, folder, dtype=dtype, device=device, cards=cards)
    tokenizer = load_tokenizer(folder)
    checked_before(model, folder, device=device)
    return model, tokenizer


def import_transformers() -> None:
    """In the command, import transformers' models as where there is no scipy.

    Where there is, they import it for their losses of object detection: a fifth of a second that
    nobody should wait for. It can be imported afterwards. Where one of both was imported before,
    nothing is done.
    """
    is_first = sys.modules.keys().isdisjoint({"transformers", "scipy"})
    if not PROGRAM.is_command or not is_first:
        return
    sys.modules["scipy"] = None  # type: ignore[assignment]  # Python's way to say: there is none
    try:
        importlib.import_module("transformers.modeling_utils")
    finally:
        del sys.modules["scipy"]


def temper(model: Any, T: float) -> None:
    """Divide a model's logits by ``T`` from now on: each distribution becomes p^(1/T) / Z."""

    def divided(_module: Any, _arguments: Any, output: Any) -> Any:
        output.logits = output.logits / T
        return output

    model.register_forward_hook(divided)


def load_whole(
    auto_class: Any, folder: Path, *, dtype: torch.dtype, device: torch.device, cards: int = 1
) -> Any:
    """Load a model of a transformers auto class, with every weight in its place.

    Raises BeamUQError as :func:`~beamuq.models.model_folder.check_content` and
    :func:`check_report`, or if it cannot be loaded: it does not fit into memory, or its weights are
    quantised and a package for that is missing.
    """
    check_content(folder)
    loaded_weights(folder)  # all of them lie in it
    if device.type == "cpu":
        _check_memory(folder, dtype)
    placement = _placement(device, cards)
    try:
        model, report = auto_class.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told in the report, and refused
            **placement,
        )
    except Exception as error:  # readers of damaged or foreign files raise whatever they like
        raise BeamUQError(
            f"{folder}: cannot be loaded as {auto_class.__name__} ({reason(error)[:200]}); "
            f"{_fix_of_loading(error)}"
        ) from error
    if cards > 1 and device.type != "cpu":
        _check_spread(folder, model, cards)
    check_report(folder, model, report)
    return model.eval()


def _placement(device: torch.device, cards: int) -> dict[str, object]:
    """Arguments that place a model: on a card, or its layers on so many; none for the CPU."""
    import torch

    if device.type == "cpu":
        return {}
    if cards == 1:
        return {"device_map": {"": device}}
    memory = {card: torch.cuda.get_device_properties(card).total_memory for card in range(cards)}
    return {"device_map": "balanced", "max_memory": memory}


def _fix_of_loading(error: Exception) -> str:
    """What to do about an error of loading."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "offload" in str(error):
        return (
            "memory ran out; choose a smaller model or dtype, more cards for the model, or a "
            "larger machine"
        )
    if isinstance(error, ImportError):  # such as one that quantised weights need
        return "install the package that reads its weights"
    return "fetch it again"


def _check_spread(folder: Path, model: Any, cards: int) -> None:
    """Refuse a model whose layers do not lie on just so many ``cards``."""
    places = {*model.hf_device_map.values()}
    lies_elsewhere = bool(places & {"cpu", "disk"})
    if lies_elsewhere or len(places) < cards:
        problem = "do not fit onto" if lies_elsewhere else "do not fill"
        raise BeamUQError(
            f"cards: {cards}: the layers of {folder} {problem} as many; choose another number"
        )


def _check_memory(folder: Path, dtype: torch.dtype) -> None:
    """Refuse a model whose safetensors, as ``dtype``, are more than the memory: it would swap."""
    from safetensors import safe_open

    if '"quantization_config"' in (folder / CONFIG).read_text(encoding="utf-8"):
        return  # what they take is not told by their shapes
    numbers = 0
    for path in (folder / name for name in loaded_weights(folder) if name.endswith(".safetensors")):
        with (
            reading(path, "a readable safetensors file", "fetch it again"),
            safe_open(path, "pt") as weights,
        ):
            for name in weights.keys():  # noqa: SIM118
                numbers += math.prod(weights.get_slice(name).get_shape())
    memory = machine_memory()
    needed = numbers * dtype.itemsize
    if needed > memory:
        raise BeamUQError(
            f"{folder}: its weights take {needed / 1e9:.1f} GB in {str(dtype)[6:]}, memory is "
            f"{memory / 1e9:.1f} GB; choose a smaller model, dtype: bfloat16 or a larger machine"
        )


def check_report(file: Path, model: Any, report: Mapping[str, Any]) -> None:
    """Refuse a model whose checkpoint has not just the weights that its config says.

    A part that the model has not (a pooler, another task's head, a training script's notes) may
    stay unused. What lies in a part that it has may not: a layer more, a bias more. The report is
    without what transformers knows to ignore.

    Raises BeamUQError naming the folder and the first such weights.
    """
    parts = _parts(model)
    prefix = f"{model.base_model_prefix}."
    if prefix.strip(".") in parts:
        prefix = ""
    unexpected = [
        key
        for key in map(str, report["unexpected_keys"])
        if _lies_in_a_part(key.removeprefix(prefix), parts) and not _OLD_BUFFERS.fullmatch(key)
    ]
    problems = {
        "lack": sorted(map(str, report["missing_keys"])),
        "have, beyond its config.json,": sorted(unexpected),
        "have in another shape": sorted(str(key[0]) for key in report["mismatched_keys"]),
    }
    for problem, keys in problems.items():
        if keys:
            more = ", …" if len(keys) > 3 else ""
            raise BeamUQError(
                f"{file}: its weights {problem} {', '.join(keys[:3])}{more}; they are not those of "
                f"the {type(model).__name__} that config.json describes: correct config.json, or "
                "fetch it again"
            )


def _parts(model: Any) -> set[str]:
    """The names of a model's modules, with an N for the number of a layer."""
    from torch.nn import ModuleList

    parts: set[str] = set()
    for name, module in model.named_modules():
        if name:
            parts.add(_any_layer(name))
        if name and isinstance(module, ModuleList):  # one without a layer has a part for layers too
            parts.add(f"{_any_layer(name)}.N")
    return parts


def _lies_in_a_part(key: str, parts: set[str]) -> bool:
    """Whether a weight belongs to one of a model's parts, or to a layer of one."""
    words = _any_layer(key).split(".")
    outer = [".".join(words[:end]) for end in range(1, len(words))]
    return any(name in parts and (name == outer[-1] or name.endswith(".N")) for name in outer)


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
    except Exception as error:  # of a corrupt tokenizer.json the Rust side raises a bare Exception
        raise BeamUQError(
            f"{folder}: its tokenizer cannot be loaded ({reason(error)}); fetch it again"
        ) from error
    if type(tokenizer).__name__ == "DebertaTokenizer":
        # It was trained with one separator, and transformers 5 writes two.
        first = tokenizer.cls_token
        last = tokenizer.sep_token
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} $B {last}",
            special_tokens=[(first, tokenizer.cls_token_id), (last, tokenizer.sep_token_id)],
        )
    return tokenizer
