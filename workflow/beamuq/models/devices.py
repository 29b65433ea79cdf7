"""Device and dtype as the machine's settings name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beamuq import gpu_slot
from beamuq.errors import BeamUQError

if TYPE_CHECKING:
    import torch

DEVICES, DTYPES = ("auto", "cpu", "cuda"), ("auto", "float32", "bfloat16")


def resolve(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """``auto`` becomes cuda where there is one, and bfloat16 on cuda, float32 on a CPU.

    Raises
    ------
    BeamUQError
        If the name is unknown, or cuda is asked for on a machine without.
    """
    import torch

    if device not in DEVICES or dtype not in DTYPES:
        raise BeamUQError(f"device {device!r}, dtype {dtype!r}: choose from {DEVICES} and {DTYPES}")
    if device == "cuda" and not torch.cuda.is_available():
        raise BeamUQError("device 'cuda': this machine has no usable GPU; set device: cpu or auto in config.yaml")
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    if dtype == "auto":
        return torch.device(chosen), torch.bfloat16 if chosen == "cuda" else torch.float32
    return torch.device(chosen), {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]


def prepare(device: str, dtype: str, threads: int) -> tuple[torch.device, torch.dtype]:
    """:func:`resolve`, on a card that no other job uses, and so many torch threads.

    One thread by default, since more gain little and change sums' order.
    """
    import torch

    torch.set_num_threads(threads)
    gpu_slot.bind(device)
    return resolve(device, dtype)


def settings(given: Any, option: str, keys: Sequence[str]) -> dict[str, Any]:
    """A JSON option that must be an object with these keys at least.

    Raises
    ------
    BeamUQError
        Naming the option and the first missing key.
    """
    if not isinstance(given, dict):
        raise BeamUQError(f"{option}: must be a JSON object, found {type(given).__name__}")
    for key in keys:
        if key not in given:
            raise BeamUQError(f"{option}: lacks {key!r}; give it")
    return given
