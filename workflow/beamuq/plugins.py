"""Plug-ins: methods, scorers, quality metrics and strategies from outside, named ``module:attribute`` in a study.

Their modules lie in ``plugins/`` beside the study, or anywhere on PYTHONPATH.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from beamuq.errors import BeamUQError, hint, nearest

T = TypeVar("T")
FORM = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
FOLDER = "plugins"


def folder(study: Path) -> Path:
    """Where the plug-ins of a study lie: ``plugins/`` beside it."""
    return study.parent / FOLDER


def make_importable(study: Path) -> None:
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
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        fix = _fix(module) if error.name == module else "install it"
        raise BeamUQError(f"{what}: {name!r} cannot be imported ({error}); {fix}") from error
    except BeamUQError as error:  # such as a method whose needs are no parts of the evidence
        raise BeamUQError(f"{what}: {name!r} cannot be imported: {error}") from error
    except Exception as error:  # whatever someone's own module raises
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise BeamUQError(f"{what}: {name!r} cannot be imported ({told}); mend {module}") from error
    if not hasattr(found, attribute):
        public = [key for key in vars(found) if not key.startswith("_")]
        raise BeamUQError(
            f"{what}: {name!r} cannot be imported ({module} has no {attribute!r}); {hint(attribute, public)}"
        )
    return getattr(found, attribute)


def _fix(module: str) -> str:
    """What to do about a module that is not found."""
    folders = [place for place in sys.path if Path(place).name == FOLDER]
    near = nearest(module, [info.name for info in pkgutil.iter_modules(folders)])
    return f"did you mean {near!r}?" if near else f"put it in {FOLDER}/ beside the study, or on PYTHONPATH"


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
        raise BeamUQError(f"{what}: unknown name {name!r}; {hint(name, known, ', or module:attribute')}")
    found: T = load(what, name)
    return found


def source_files(names: Iterable[str]) -> list[str]:
    """The source files of the plug-ins among ``names``, for a rule's inputs; relative to the working directory.

    Raises
    ------
    BeamUQError
        If a plug-in's module is not to be found, or holds no such name. None is imported.
    """
    found = set()
    for name in names:
        module, colon, attribute = name.partition(":")
        if not colon:
            continue
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            raise BeamUQError(f"{name!r}: no module {module!r}; {_fix(module)}")
        if spec.origin.endswith(".py"):
            _check_named(name, attribute, Path(spec.origin))
        found.add(os.path.relpath(spec.origin))
    return sorted(found)


def _check_named(name: str, attribute: str, path: Path) -> None:
    """Refuse an attribute that stands nowhere in its module's source."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BeamUQError(f"{name!r}: {os.path.relpath(path)} is not valid Python ({error}); mend it") from error
    made = {node.name: None for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    made |= {node.id: None for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {
        alias.asname or alias.name: None for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    if attribute not in made and "*" not in made:
        raise BeamUQError(f"{name!r}: {os.path.relpath(path)} has no {attribute!r}; {hint(attribute, made)}")
