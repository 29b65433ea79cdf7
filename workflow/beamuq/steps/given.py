"""What a cheap step is given: its settings, checked, and its inputs, by the hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from beamuq import __version__
from beamuq.errors import BeamUQError

Model = TypeVar("Model", bound=BaseModel)


def parse_settings(model: type[Model], text: str) -> Model:
    """The JSON of ``--settings`` as a typed object. Raises BeamUQError naming the first bad key and its value."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole"
        raise BeamUQError(f"--settings: {key}: {json.dumps(first['input'], default=str)}: {first['msg']}") from error


def provenance(settings: BaseModel, inputs: Mapping[str, Path | None]) -> dict[str, Any]:
    """A footer's provenance: settings, sha256 of the inputs that are there, versions of what computed."""
    return {
        "settings": settings.model_dump(mode="json"),
        "inputs": {name: _sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__, "numpy": np.__version__},
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
