"""What a file says of how it was made: versions and hashes, never a time, host or path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq import __version__
from beamuq.models.causal_lm import model_identity
from beamuq.models.model_manifest import file_hash

if TYPE_CHECKING:
    import torch


def provenance(
    settings: Mapping[str, Any],
    inputs: Mapping[str, Path],
    models: Mapping[str, Path | None],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """The footer's provenance of a step that may load models.

    Parameters
    ----------
    settings
        The job's own parameters; where models come from is told by their identity instead, without a path.
    inputs
        Files read, by option name; their sha256 is kept.
    models
        Model folders by option name; None where the job loads none.
    """
    loaded = {name: model_identity(folder) for name, folder in models.items() if folder is not None}
    packages = ("numpy", "torch", "transformers", "tokenizers") if loaded else ("numpy",)
    facts: dict[str, Any] = {
        "settings": {key: value for key, value in settings.items() if key not in ("source", "backbone")},
        "inputs": {name: file_hash(path) for name, path in inputs.items()},
        "versions": {"beamuq": __version__} | {package: version(package) for package in packages},
        "models": loaded,
    }
    if loaded:
        facts |= {"dtype": str(dtype).removeprefix("torch."), "device": device.type if device else None}
    return facts
