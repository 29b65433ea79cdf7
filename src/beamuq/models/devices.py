"""Resolve the device and dtype that a machine's settings name."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from beamuq.errors import BeamUQError
from beamuq.models import wait_for_gpu

if TYPE_CHECKING:
    import torch

DEVICES, DTYPES = ("auto", "cpu", "cuda"), ("auto", "float32", "bfloat16")
MOST_THREADS = 1024


def resolve(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """``auto`` becomes cuda where there is one, and bfloat16 on cuda, float32 on a CPU.

    Raises BeamUQError if the name is unknown, or cuda is asked for on a machine without.
    """
    import torch

    if device not in DEVICES or dtype not in DTYPES:
        raise BeamUQError(f"device {device!r}, dtype {dtype!r}: choose from {DEVICES} and {DTYPES}")
    if device == "cuda" and not torch.cuda.is_available():
        raise BeamUQError("device 'cuda': this machine has no usable GPU; set device: cpu in config.yaml")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device == "cuda" else "float32"
    return torch.device(device), getattr(torch, dtype)


def present() -> str:
    """The device that ``auto`` means in a machine's plan, without loading torch: cuda where a job could use a card.

    A card has to be listed, visible, and of use to the torch installed here; where none is (a thin environment that
    plans for others), the card alone decides.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    try:
        build = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        build = ""
    return "cuda" if not build.endswith("+cpu") and wait_for_gpu.usable_cards() else "cpu"


def prepare(device: str, dtype: str, threads: int, cards: int = 1) -> tuple[torch.device, torch.dtype]:
    """:func:`resolve`, on a card (or on ``cards``) that no other job uses, and so many torch threads.

    One thread by default, since more gain little and change sums' order. Never waits for a card that this torch could
    not use.

    Raises BeamUQError if the name is unknown, or cuda is asked for without a torch or the cards for it, or
    ``nvidia-smi`` hangs.
    """
    import torch

    if not 1 <= threads <= MOST_THREADS:
        raise BeamUQError(f"threads: {threads}: must be from 1 to {MOST_THREADS}")
    torch.set_num_threads(threads)
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        wait_for_gpu.bind(device, cards=cards)
    elif device == "cuda":
        raise BeamUQError(
            f"device 'cuda': torch {torch.__version__} is built without CUDA; set device: cpu in config.yaml, or "
            "install a torch with CUDA"
        )
    chosen = resolve(device, dtype)
    if cards > 1 and chosen[0].type == "cuda" and torch.cuda.device_count() < cards:
        raise BeamUQError(
            f"cards: {cards}: this job has {torch.cuda.device_count()}; ask for fewer, or give the job more"
        )
    return chosen
