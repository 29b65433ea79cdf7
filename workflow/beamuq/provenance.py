"""What a table says of how it was made: settings, hashes of what was read, versions; never a time, host or path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq import __version__
from beamuq.parquet_tables import file_sha256

if TYPE_CHECKING:
    import torch


def provenance(
    settings: Mapping[str, Any],
    inputs: Mapping[str, Path | None],
    *,
    models: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    folders: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The provenance in a table's footer.

    Parameters
    ----------
    settings
        The job's own parameters; where models come from is told by their identity instead, without a path.
    inputs
        Files read, by the job's name for them; their sha256 is kept. None: not read.
    models
        Identity of each model loaded, by the job's name for it; None for a step that never loads any.
    dtype, device
        What the models ran in and on; kept only where one was loaded.
    folders
        The content that the plan saw of models in folders of one's own; kept only where there is one.
    """
    packages = ("numpy", "torch", "transformers", "tokenizers") if models else ("numpy",)
    facts: dict[str, Any] = {
        "settings": dict(settings),
        "inputs": {name: file_sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__} | {package: version(package) for package in packages},
    }
    if models is not None:
        facts["models"] = dict(models)
    if models:
        facts |= {"dtype": str(dtype).removeprefix("torch."), "device": device.type if device else None}
    return facts | ({"folders": dict(folders)} if folders else {})
