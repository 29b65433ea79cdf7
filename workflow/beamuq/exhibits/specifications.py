"""Every table and figure of the paper, by label."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import beamuq.exhibits
from beamuq.errors import BeamUQError, hint
from beamuq.exhibits.exhibit_types import Exhibit
from beamuq.study import Study


def labels(study: Study) -> list[str]:
    """Every label that exists for this study, whether or not its grid can supply it; tables first."""
    found = [item for module in _modules() for item in _exhibits(module, study)]
    return [item.label for item in sorted(found, key=lambda item: (item.kind != "table", item.label))]


def exhibit(name: str, study: Study) -> Exhibit:
    """The exhibit of this label.

    Raises
    ------
    BeamUQError
        If there is none; the message suggests the nearest.
    """
    found = {item.label: item for module in _modules() for item in _exhibits(module, study)}
    if name not in found:
        raise BeamUQError(f"{name!r}: no such exhibit; {hint(name, labels(study))}")
    return found[name]


@cache
def _modules() -> tuple[ModuleType, ...]:
    found = sorted(info.name for info in pkgutil.iter_modules(beamuq.exhibits.__path__))
    modules = (importlib.import_module(f"beamuq.exhibits.{name}") for name in found)
    return tuple(module for module in modules if hasattr(module, "EXHIBIT") or hasattr(module, "family"))


def _exhibits(module: ModuleType, study: Study) -> Iterator[Exhibit]:
    if hasattr(module, "EXHIBIT"):
        yield module.EXHIBIT
    if hasattr(module, "family"):
        yield from module.family(study)
