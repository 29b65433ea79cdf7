"""What an exhibit is, and the tables and figures that exhibits build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.study import Study

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
