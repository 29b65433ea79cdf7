"""Whether a model fits, told before it is read, and which of its layers lie on which card."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq.errors import BeamUQError, reading
from beamuq.models.model_folder import CONFIG

if TYPE_CHECKING:
    import torch

LARGEST_HEADER = 100_000_000  # bytes; the format's own limit
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_memory(folder: Path, dtype: torch.dtype, device: torch.device, cards: int) -> None:
    """Refuse a model whose weights alone are more than all memory there is: of the machine, or of its cards.

    That much is certain; what decoding takes beside the weights comes on top. Pickled weights are not looked at.

    Raises BeamUQError with both sizes, and what would do.
    """
    needed, there = weight_bytes(folder, dtype), memory_bytes(device, cards)
    if needed <= there:
        return
    where = "memory" if device.type == "cpu" else "the card's memory" if cards == 1 else f"the memory of {cards} cards"
    more = "" if device.type == "cpu" else f", cards: {math.ceil(needed * cards / there)} for the model"
    smaller = ", dtype: bfloat16" if dtype.itemsize > 2 else ""
    raise BeamUQError(
        f"{folder}: its weights take {needed / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')}, {where} is "
        f"{there / 1e9:.1f} GB; choose a smaller model{smaller}{more}, or a larger machine"
    )


def weight_bytes(folder: Path, dtype: torch.dtype) -> int:
    """What the weights of a folder's safetensors take once loaded: numbers in ``dtype``, quantised ones as stored."""
    quantised = quantisation(folder) is not None
    total = 0
    whole = folder / "model.safetensors"
    for path in [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors")):
        for entry in _header(path):
            stored = entry["data_offsets"][1] - entry["data_offsets"][0]
            as_dtype = not quantised and re.fullmatch(r"B?F\d+", entry["dtype"])
            total += math.prod(entry["shape"]) * dtype.itemsize if as_dtype else stored
    return total


def _header(path: Path) -> list[dict[str, Any]]:
    with reading(path, "a readable safetensors file", "fetch it again"), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > LARGEST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        content = json.loads(file.read(length))
        return [entry for name, entry in content.items() if name != "__metadata__"]


def memory_bytes(device: torch.device, cards: int) -> int:
    """All memory of the first ``cards`` cards, or of the machine as far as its control group allows."""
    import torch

    if device.type == "cuda":
        return sum(torch.cuda.get_device_properties(card).total_memory for card in range(cards))
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += [int(path.read_text()) for path in CGROUP_LIMITS if path.is_file() and path.read_text().strip().isdigit()]
    return min(limits)


def quantisation(folder: Path) -> str | None:
    """The method that a checkpoint says its weights are quantised by; None: they are not."""
    with reading(folder / CONFIG, "a readable config", "fetch it again"):
        settings = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("quantization_config")
        old = settings and (settings.get("load_in_4bit") or settings.get("load_in_8bit"))  # as older checkpoints say it
        return None if not settings else str(settings.get("quant_method") or ("bitsandbytes" if old else "unnamed"))


def spread_over(model: torch.nn.Module, devices: Sequence[Any]) -> dict[str, Any]:
    """Which device each part of ``model`` lies on: layers in order, in shares of equal bytes, all else on the first.

    So what a pass begins and ends with, the embedding and the output layer, lies together (tied weights too), and only
    hidden states cross from card to card.
    """
    from torch import nn

    lists = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.ModuleList)]
    found, layers = max(lists, key=lambda named: _bytes(named[1]), default=("", nn.ModuleList()))
    if len(layers) < len(devices):
        raise BeamUQError(f"cards: {len(devices)}: the model has {len(layers)} layers to spread; ask for fewer")
    total, before = _bytes(model), _bytes(model) - _bytes(layers)
    placed: dict[str, Any] = {}
    for number, layer in enumerate(layers):
        size = _bytes(layer)
        placed[f"{found}.{number}"] = devices[min(len(devices) - 1, int((before + size / 2) / total * len(devices)))]
        before += size
    outer = {found.rsplit(".", cut)[0] for cut in range(1, found.count(".") + 1)} | {""}
    for name, part in model.named_modules():
        if name in outer:
            own = [*part._parameters, *part._buffers, *part._modules]
            inner = {f"{name}.{each}".lstrip(".") for each in own} - outer - {found}
            placed |= dict.fromkeys(sorted(inner), devices[0])
    return placed


def _bytes(part: torch.nn.Module) -> int:
    return sum(weight.numel() * weight.element_size() for weight in part.parameters())
