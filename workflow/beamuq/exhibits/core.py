"""What an exhibit is, what it is given, and the registry that finds them by walking this package.

A module of this package that holds ``EXHIBIT`` (one exhibit) or ``family`` (a function of the study that gives several,
such as one a model) is an exhibit module: adding an exhibit is adding one file.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import pandas as pd

import beamuq.exhibits
from beamuq.artifacts import Artifact, Loaded, read
from beamuq.errors import BeamUQError, hint
from beamuq.study import Study, load_study

if TYPE_CHECKING:
    import matplotlib.figure

VALUE_COLUMNS = ("table", "model", "dataset", "metric", "method", "variant", "setting", "value", "std")
CSV_COLUMNS = (*VALUE_COLUMNS, "low", "high", "n")


@dataclass(frozen=True)
class Cell:
    """One printed cell.

    ``spread`` follows the text in small type, ``interval`` stands under it; ``mark`` is the rank within a column;
    ``better`` draws the arrow; ``note`` is the reason why a value is undefined; ``code`` keeps line breaks and uses a
    typewriter face. ``with_interval`` is the cell of the second style, which prints intervals; None: the same in both.
    """

    text: str
    spread: str = ""
    mark: Literal["", "best", "second"] = ""
    better: bool = False
    note: str = ""
    code: bool = False
    interval: str = ""
    with_interval: Cell | None = None


@dataclass(frozen=True)
class Row:
    """A body row: its titles, one a stub column, and its cells."""

    titles: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Heading:
    """A title across the whole width of the body."""

    title: str


class Rule:
    """A horizontal rule between groups of rows."""


@dataclass(frozen=True)
class Grid:
    """How a table looks. ``header[level][column]``; equal neighbours of a level above the last share one title."""

    stub: tuple[str, ...]
    header: tuple[tuple[str, ...], ...]
    body: tuple[Row | Heading | Rule, ...]


@dataclass(frozen=True)
class Table:
    """A built table: ``values`` is the long frame of :data:`CSV_COLUMNS`, ``grid`` what is printed of it.

    As it stands it has the paper's style; ``interval_caption`` is that of the style with intervals where it differs.
    """

    label: str
    title: str
    caption: str
    values: pd.DataFrame
    grid: Grid
    notes: tuple[str, ...] = ()
    interval_caption: str = ""

    def with_intervals(self) -> Table:
        """The same table in the second style: its cells with intervals, and the caption that explains them."""
        body = tuple(
            replace(item, cells=tuple(cell.with_interval or cell for cell in item.cells))
            if isinstance(item, Row)
            else item
            for item in self.grid.body
        )
        return replace(self, caption=self.interval_caption or self.caption, grid=replace(self.grid, body=body))


@dataclass(frozen=True)
class Figure:
    """A built figure: ``data`` is the frame drawn, ``draw`` makes a fresh matplotlib figure in the current style."""

    label: str
    title: str
    caption: str
    data: pd.DataFrame
    draw: Callable[[], matplotlib.figure.Figure]


class Inputs:
    """The files an exhibit asked for, by :class:`~beamuq.artifacts.Artifact`."""

    def __init__(self, loaded: dict[Artifact, Loaded]) -> None:
        self._loaded = loaded
        self._frames: dict[Artifact, pd.DataFrame] = {}

    @classmethod
    def read(cls, results_folder: Path, wanted: Iterable[Artifact]) -> Inputs:
        """Read each artifact of ``wanted`` from its own path under ``results_folder``, such as ``results/demo``.

        Raises
        ------
        BeamUQError
            If a file is missing, unreadable, of another kind, or its footer names another cell than its path.
        """
        return cls({artifact: read_artifact(results_folder / artifact.path, artifact) for artifact in wanted})

    def __getitem__(self, need: Artifact) -> Loaded:
        return self._loaded[need]

    def frame(self, need: Artifact) -> pd.DataFrame:
        """The table of ``need`` as a frame. Shared between calls: do not write into it."""
        if need not in self._frames:
            self._frames[need] = self._loaded[need].table.to_pandas()
        return self._frames[need]


def read_artifact(path: Path, artifact: Artifact) -> Loaded:
    """Read one file and check that it holds ``artifact``.

    Raises
    ------
    BeamUQError
        If the file is missing, unreadable, of another kind, or its footer names another cell.
    """
    loaded = read(path, artifact.kind)
    if loaded.cell != artifact.cell:
        raise BeamUQError(f"{path}: holds {loaded.cell}, expected {artifact.cell}; delete it and run again")
    return loaded


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure: its label (the paper's, without ``tab:`` or ``fig:``), what it reads, how it is built.

    ``artifacts`` raises :class:`BeamUQError` with a one-line reason where a study cannot supply the exhibit.
    ``module`` is the one that holds it, an input of the rule that draws it. ``files`` are further files read: prompt
    templates.
    """

    label: str
    kind: Literal["table", "figure"]
    artifacts: Callable[[Study], list[Artifact]]
    build: Callable[[Study, Inputs], Table | Figure]
    module: str
    files: Callable[[Study], list[Path]] = lambda study: []  # noqa: ARG005  (the name is part of the interface)


def names(study: Study) -> list[str]:
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
        raise BeamUQError(f"{name!r}: no such exhibit; {hint(name, names(study))}")
    return found[name]


def study_given(path: Path) -> Study:
    """The study of a step's ``--study``: a study file, or the JSON that the workflow writes of one.

    JSON is read as JSON: YAML would take its ``1e-05`` for a string.

    Raises
    ------
    BeamUQError
        If it is not a valid study.
    """
    if path.suffix != ".json":
        return load_study(path)
    try:
        return Study.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BeamUQError(f"{path}: not a study: {' '.join(str(error).split())}") from error


def unique(needs: Sequence[Artifact]) -> list[Artifact]:
    """``needs`` without repetitions, order kept."""
    return list(dict.fromkeys(needs))


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
