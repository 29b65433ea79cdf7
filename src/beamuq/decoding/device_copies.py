"""Numbers of the host on a device, without waiting for it."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray


def to_device(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """``array`` on ``device``; on the CPU it shares its memory.

    A copy that blocks would wait until a card has done all that was launched before. CUDA has read
    the host's memory, which is not pinned, when the other kind returns; not every kind of device
    has.
    """
    return torch.from_numpy(array).to(device, non_blocking=device.type == "cuda")
