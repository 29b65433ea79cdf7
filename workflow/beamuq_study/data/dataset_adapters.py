"""Raw datasets to question rows: one adapter file a dataset, found by its name.

Adding a dataset is adding ``adapters/<name>.py`` (and its two templates): no list is kept.
"""

from __future__ import annotations

import importlib
import pkgutil

from beamuq.errors import BeamUQError
from beamuq_study.data import adapters
from beamuq_study.data.question import Adapter


def adapter_names() -> list[str]:
    """The adapters there are, without importing them, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(adapters.__path__))


def load_adapter(name: str) -> Adapter:
    """The adapter of file ``adapters/<name>.py``. Raises BeamUQError if there is none."""
    if name not in adapter_names():
        raise BeamUQError(f"adapter: unknown name {name!r}; known: {', '.join(adapter_names())}")
    adapter: Adapter = importlib.import_module(f"{adapters.__name__}.{name}").ADAPTER
    return adapter
