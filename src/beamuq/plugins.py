"""Plug-ins: methods, scorers, quality metrics and strategies from outside, named
``module:attribute`` in a study.

Their modules lie in ``plugins/`` beside the study, or anywhere on PYTHONPATH. The package calls a
plug-in's code by :func:`call` and takes its numbers by :func:`numbers`: a fault is one line that
names it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from beamuq.errors import BeamUQError, hint, nearest, reason

T = TypeVar("T")
P = ParamSpec("P")
FORM = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
FOLDER = "plugins"
ROUNDING = 1e-6  # how far a number may lie outside its range
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_NOT_THEIRS = ("<frozen", *(f"{folder}{os.sep}" for folder in (*_LIBRARIES, Path(__file__).parent)))


def folder(study: Path) -> Path:
    """Where the plug-ins of a study lie: ``plugins/`` beside it."""
    return study.parent / FOLDER


def make_importable(study: Path) -> None:
    """Make a study's plug-ins importable in this process."""
    place = str(folder(study).resolve())
    if place not in sys.path:
        sys.path.insert(0, place)


def load(what: str, name: str) -> Any:
    """The object ``module:attribute``. Raises BeamUQError if it cannot be imported; ``what`` says
    what was wanted.
    """
    module, _, attribute = name.partition(":")
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # whatever someone's own module raises
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        raise BeamUQError(
            f"{what}: {name!r} cannot be imported ({_one_line(error)}); "
            f"{_fix(module) if missing else 'mend it'}"
        ) from error
    if not hasattr(imported, attribute):
        public = [key for key in vars(imported) if not key.startswith("_")]
        raise BeamUQError(
            f"{what}: {name!r}: {module} has no {attribute!r}; {hint(attribute, public)}"
        )
    return getattr(imported, attribute)


def call(what: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of ``function``, which may be a plug-in's code.

    Raises BeamUQError if it raises anything: ``what`` it is, the exception, file and line. A
    BeamUQError passes as it is, and so does a failure of the package outside any plug-in: a bug,
    whose traceback is needed.
    """
    try:
        return function(*args, **kwargs)
    except BeamUQError:
        raise
    except Exception as error:
        if _is_ours(function) and not _line_of_theirs(error):
            raise
        raise BeamUQError(f"{what}: {_one_line(error)}; mend it") from error


def numbers(
    what: str,
    result: object,
    shape: tuple[int, ...],
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> npt.NDArray[np.float64]:
    """The result of a plug-in's code as finite float64 numbers of ``shape``, from ``lowest`` to
    ``highest``.

    Numbers outside by no more than rounding (1e-6) stay as they are.

    Raises BeamUQError if they are anything else; ``what`` gave them, and the message names the
    first bad one.
    """
    try:
        values = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BeamUQError(
            f"{what}: gave a {type(result).__name__}, no numbers ({reason(error)}); mend it"
        ) from error
    if values.shape != shape:
        raise BeamUQError(f"{what}: gave numbers of shape {values.shape}, not {shape}; mend it")
    bad = ~np.isfinite(values) | (values < lowest - ROUNDING) | (values > highest + ROUNDING)
    if bad.any():
        first = values[bad][0]
        raise BeamUQError(
            f"{what}: gave {first:g}, not finite and from {lowest:g} to {highest:g}, {bad.sum()} "
            f"of {bad.size} times; "
            "mend it"
        )
    return values


def _is_ours(function: Callable[..., Any]) -> bool:
    """Whether a function is the package's own, and not a local one that uses the result of a
    plug-in.
    """
    module = str(getattr(getattr(function, "__self__", function), "__module__", ""))
    return module.startswith("beamuq.") and "<locals>" not in getattr(function, "__qualname__", "")


def _one_line(error: BaseException) -> str:
    """An exception of a plug-in's code in one line, with the last line of that code on its way."""
    return f"{type(error).__name__}: {reason(error)}{_line_of_theirs(error)}"


def _line_of_theirs(error: BaseException) -> str:
    """The deepest file and line of an exception's way that is neither the package's nor a
    library's; "": none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    deepest = next(
        (frame for frame in reversed(frames) if not frame.filename.startswith(_NOT_THEIRS)), None
    )
    return f", {os.path.relpath(deepest.filename)}, line {deepest.lineno}" if deepest else ""


def _fix(module: str) -> str:
    """What to do about a module that is not found."""
    folders = [place for place in sys.path if Path(place).name == FOLDER]
    near = nearest(module, [info.name for info in pkgutil.iter_modules(folders)])
    return (
        f"did you mean {near!r}?"
        if near
        else f"put it in {FOLDER}/ beside the study, or on PYTHONPATH"
    )


def find(what: str, name: str, registered: Mapping[str, T]) -> T:
    """What is registered as ``name``, or the plug-in of that name. Raises BeamUQError if there is
    neither.
    """
    if name in registered:
        return registered[name]
    if ":" not in name:
        raise BeamUQError(
            f"{what}: unknown name {name!r}; {hint(name, registered, ', or module:attribute')}"
        )
    loaded: T = load(what, name)
    return loaded


def source_files(names: Iterable[str]) -> list[str]:
    """The source files of the plug-ins among ``names``, for a rule's inputs; relative to the
    working directory.

    With the modules that they import from their own folder or from ``plugins/``, and these in turn.

    Raises BeamUQError if a plug-in's module is not to be found, or holds no such name. None is
    imported.
    """
    files = set()
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
        file = os.path.relpath(spec.origin)
        text = Path(file).read_text(encoding="utf-8") if file.endswith(".py") else attribute
        if not re.search(rf"\b{attribute}\b|import \*", text):
            names = re.findall(r"^(?:class |def )?(\w+)", text, re.MULTILINE)
            raise BeamUQError(f"{name!r}: {file} has no {attribute!r}; {hint(attribute, names)}")
        files |= _with_modules_beside(Path(file))
    return sorted(map(str, files))


def _with_modules_beside(file: Path) -> set[Path]:
    """A module's file and those that it imports from beside it, and these in turn."""
    files, waiting = set(), [file]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        packages = [folder for folder in path.parents if (folder / "__init__.py").is_file()]
        waiting += [package / "__init__.py" for package in packages]
        top = packages[-1].parent if packages else path.parent
        for level, name in _imported_names(path):
            place = path.parents[level - 1] if level and level <= len(path.parents) else top
            for part in filter(None, name.split(".")):
                place /= part
                waiting += [
                    each
                    for each in (place.with_suffix(".py"), place / "__init__.py")
                    if each.is_file()
                ]
    return files


def _imported_names(path: Path) -> set[tuple[int, str]]:
    """Dotted names that a module may import, with the dots before; none if it is broken, which
    loading it says.
    """
    try:
        nodes = (
            list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            if path.suffix == ".py"
            else []
        )
    except (SyntaxError, ValueError):
        return set()
    names = {
        (0, alias.name) for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {(node.level, f"{node.module or ''}.{alias.name}") for alias in node.names}
    return names
