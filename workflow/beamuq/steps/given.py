"""What a cheap step is given: its settings, checked, and its inputs, by the hash of their content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from beamuq import __version__
from beamuq.artifacts import file_sha256
from beamuq.validation import validated_json

Model = TypeVar("Model", bound=BaseModel)


def parse_settings(model: type[Model], text: str) -> Model:
    """The JSON of ``--settings`` as a typed object. Raises BeamUQError naming the first bad key and its value."""
    return validated_json(model, text, "--settings")


def provenance(settings: BaseModel, inputs: Mapping[str, Path | None]) -> dict[str, Any]:
    """A footer's provenance: settings, sha256 of the inputs that are there, versions of what computed."""
    return {
        "settings": settings.model_dump(mode="json"),
        "inputs": {name: file_sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__, "numpy": np.__version__},
    }
