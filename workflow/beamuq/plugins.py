"""Things of one's own, named ``module:attribute`` where a study names a method, scorer, quality metric or strategy.

Their modules lie in ``plugins/`` beside the study, or anywhere on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from beamuq.errors import BeamUQError

T = TypeVar("T")
FORM = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


def folder(study: Path) -> Path:
    """Where the plug-ins of a study lie: ``plugins/`` beside it."""
    return study.parent / "plugins"


def add(study: Path) -> None:
    """Make a study's plug-ins importable in this process."""
    place = str(folder(study).resolve())
    if place not in sys.path:
        sys.path.insert(0, place)


def load(what: str, name: str) -> Any:
    """The object ``module:attribute``.

    Raises
    ------
    BeamUQError
        If it cannot be imported; ``what`` says what was wanted.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BeamUQError(
            f"{what}: {name!r} cannot be imported ({error}); put it in plugins/ beside the study, or on PYTHONPATH"
        ) from error


def find(what: str, name: str, known: Mapping[str, T]) -> T:
    """What is registered as ``name``, or the plug-in of that name.

    Raises
    ------
    BeamUQError
        If there is neither.
    """
    if name in known:
        return known[name]
    if ":" not in name:
        raise BeamUQError(f"{what} {name!r}: unknown; choose from {', '.join(known)}, or name module:attribute")
    found: T = load(what, name)
    return found


def files(names: Iterable[str]) -> list[str]:
    """The source files of the plug-ins among ``names``, for a rule's inputs; relative to the working directory.

    Raises
    ------
    BeamUQError
        If a plug-in's module is not to be found. None is imported.
    """
    found = set()
    for name in names:
        module, colon, _ = name.partition(":")
        if not colon:
            continue
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            raise BeamUQError(f"{name!r}: no module {module!r}; put it in plugins/ beside the study, or on PYTHONPATH")
        found.add(os.path.relpath(spec.origin))
    return sorted(found)
