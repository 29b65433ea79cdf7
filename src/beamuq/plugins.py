"""Plug-ins: methods, scorers, quality metrics and strategies, named ``module:attribute``.

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
    """The object ``module:attribute``; ``what`` says what was wanted.

    Raises BeamUQError if it cannot be imported.
    """
    module, _, attribute = name.partition(":")
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # whatever someone's own module raises
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        fix = _fix(module) if missing else "mend it"
        raise BeamUQError(
            f"{what}: {name!r} cannot be imported ({_one_line(error)}); {fix}"
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
    """The result of a plug-in's code as finite float64 numbers of ``shape``, in a range.

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
            f"of {bad.size} times; mend it"
        )
    return values


def _is_ours(function: Callable[..., Any]) -> bool:
    """Whether a function is the package's own, and no local one that uses a plug-in's result."""
    module = str(getattr(getattr(function, "__self__", function), "__module__", ""))
    return module.startswith("beamuq.") and "<locals>" not in getattr(function, "__qualname__", "")


def _one_line(error: BaseException) -> str:
    """An exception of a plug-in's code in one line, with the last line of that code on its way."""
    return f"{type(error).__name__}: {reason(error)}{_line_of_theirs(error)}"


def _line_of_theirs(error: BaseException) -> str:
    """The deepest file and line of an exception that is no library's and not ours; "": none."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if not frame.filename.startswith(_NOT_THEIRS):
            return f", {os.path.relpath(frame.filename)}, line {frame.lineno}"
    return ""


def _fix(module: str) -> str:
    """What to do about a module that is not found."""
    folders = [place for place in sys.path if Path(place).name == FOLDER]
    near = nearest(module, [info.name for info in pkgutil.iter_modules(folders)])
    if near:
        return f"did you mean {near!r}?"
    return f"put it in {FOLDER}/ beside the study, or on PYTHONPATH"


def find(what: str, name: str, registered: Mapping[str, T]) -> T:
    """What is registered as ``name``, or the plug-in of that name.

    Raises BeamUQError if there is neither.
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
    """The source files of the plug-ins among ``names``, for a rule's inputs.

    Relative to the working directory. With the modules that they import from their own folder or
    from ``plugins/``, and these in turn.

    Raises BeamUQError if a plug-in's module is not to be found, or holds no such name. None is
    imported.
    """
    files: set[Path] = set()
    for name in names:
        if ":" in name:
            files |= _with_modules_beside(_source_file(name))
    return sorted(map(str, files))


def _source_file(name: str) -> Path:
    """The file of the module of ``module:attribute``, which mentions the attribute."""
    module, _, attribute = name.partition(":")
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise BeamUQError(f"{name!r}: no module {module!r}; {_fix(module)}")
    file = os.path.relpath(spec.origin)
    text = Path(file).read_text(encoding="utf-8") if file.endswith(".py") else attribute
    if not re.search(rf"\b{attribute}\b|import \*", text):
        defined = re.findall(r"^(?:class |def )?(\w+)", text, re.MULTILINE)
        raise BeamUQError(f"{name!r}: {file} has no {attribute!r}; {hint(attribute, defined)}")
    return Path(file)


def _with_modules_beside(file: Path) -> set[Path]:
    """A module's file and those that it imports from beside it, and these in turn."""
    files: set[Path] = set()
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.add(path)
            waiting += _modules_beside(path)
    return files


def _modules_beside(path: Path) -> list[Path]:
    """The packages that a module is in, and what it imports from beside it."""
    packages = [folder for folder in path.parents if (folder / "__init__.py").is_file()]
    modules = [package / "__init__.py" for package in packages]
    top = packages[-1].parent if packages else path.parent
    for level, name in _imported_names(path):
        place = path.parents[level - 1] if level and level <= len(path.parents) else top
        for part in filter(None, name.split(".")):
            place /= part
            candidates = (place.with_suffix(".py"), place / "__init__.py")
            modules += [candidate for candidate in candidates if candidate.is_file()]
    return modules


def _imported_names(path: Path) -> set[tuple[int, str]]:
    """Dotted names that a module may import, with the number of dots before them.

    None if it is broken, which loading it says.
    """
    if path.suffix != ".py":
        return set()
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return set()
    names: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.level, f"{node.module or ''}.{alias.name}") for alias in node.names}
    return names
