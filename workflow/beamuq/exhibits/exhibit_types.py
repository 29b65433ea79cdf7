"""What an exhibit is, and the tables and figures that exhibits build."""

from __future__ import annotations

import itertools
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import pandas as pd

from beamuq.exhibits import captions, empty_answers
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.judged_answer import AnswerSource
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

VALUE_COLUMNS = ("table", "model", "dataset", "metric", "method", "variant", "setting", "value", "std")
CSV_COLUMNS = (*VALUE_COLUMNS, "low", "high", "n", "p_holm")
FORMULA = re.compile(r"[=+\-@\t\n\r＝＋－＠]")  # beginnings of formulas; the wide ones in some languages
_NUMBER = re.compile(r"[+-]|[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_KEYS = ("model", "dataset", "metric", "method", "variant", "setting")


@dataclass(frozen=True)
class Exhibit(ABC):
    """A table or a figure of the paper, under the paper's label without ``tab:`` or ``fig:``, or one of our own.

    ``beyond_paper``: print has nothing like it; the report shows it in a section of its own. ``answer_source``: whose
    answers are judged and scored.
    """

    label: str
    beyond_paper: bool = field(default=False, kw_only=True)
    answer_source: AnswerSource = field(default="greedy", kw_only=True)
    kind: ClassVar[Literal["table", "figure"]]

    @abstractmethod
    def artifacts(self, study: Study) -> list[Artifact]:
        """The files that it shows. Raises BeamUQError, with the fix, where the study cannot supply the exhibit."""

    @abstractmethod
    def build(self, study: Study, inputs: Inputs) -> BuiltTable | BuiltFigure:
        """The table or figure, from the files that :meth:`artifacts` names."""

    def built(self, study: Study, inputs: Inputs) -> BuiltTable | BuiltFigure:
        """The table or figure, from the files that :meth:`artifacts` names; its caption says what is empty."""
        said = empty_answers.sentence(study, inputs, self.artifacts(study), self.answer_source)
        return self.build(study, inputs).saying(said)

    def files(self, study: Study) -> list[Path]:  # noqa: ARG002  (most exhibits have none)
        """What it reads besides: prompt templates."""
        return []

    @property
    def module(self) -> str:
        """The module of its builder, an input of the rule that draws it."""
        return type(self).__module__


class TableExhibit(Exhibit):
    """An exhibit that is a table."""

    kind: ClassVar[Literal["table", "figure"]] = "table"

    @abstractmethod
    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """The table, from the files that :meth:`artifacts` names."""

    def table(
        self,
        study: Study,
        title: str,
        sentences: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        grid: TableGrid,
        scorers: Sequence[str] | None = None,
        *,
        quality: bool = True,
    ) -> BuiltTable:
        """The table with its caption; ``scorers`` (None: the main one) and ``quality``: what its numbers rest on."""
        used = [study.main.scorer] if scorers is None else scorers
        caption = captions.caption(study, sentences, scorers=used, quality=quality)
        return BuiltTable(self.label, captions.titled(study, title), caption, long_frame(self.label, values), grid)


class FigureExhibit(Exhibit):
    """An exhibit that is a figure."""

    kind: ClassVar[Literal["table", "figure"]] = "figure"

    @abstractmethod
    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """The figure, from the files that :meth:`artifacts` names."""

    def figure(
        self,
        study: Study,
        title: str,
        sentences: Sequence[str],
        data: pd.DataFrame,
        draw: Callable[[str, str], matplotlib.figure.Figure],
        scorers: Sequence[str] | None = None,
        *,
        quality: bool = True,
    ) -> BuiltFigure:
        """The figure with its caption, drawn of its title and footnote; the rest as in :meth:`TableExhibit.table`."""
        used, title = [study.main.scorer] if scorers is None else scorers, captions.titled(study, title)
        caption = captions.caption(study, sentences, scorers=used, quality=quality)
        note = captions.footnote(study, used, quality=quality)
        return BuiltFigure(self.label, title, caption, data, lambda: draw(title, note))


@dataclass(frozen=True)
class TableCell:
    """One printed cell.

    ``spread`` follows the text in small type; ``mark`` is the rank within a column; ``better`` draws the arrow;
    ``note`` is the reason why a value is undefined; ``code`` keeps line breaks and uses a typewriter face;
    ``pointer`` is what HTML shows at the pointer: interval and n.
    """

    text: str
    spread: str = ""
    mark: Literal["", "best", "second"] = ""
    better: bool = False
    note: str = ""
    code: bool = False
    pointer: str = ""


@dataclass(frozen=True)
class TableRow:
    """A body row: its titles, one a stub column, and its cells."""

    titles: tuple[str, ...]
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class TableHeading:
    """A title across the whole width of the body."""

    title: str


class TableRule:
    """A horizontal rule between groups of rows."""


TableBody: TypeAlias = list[TableRow | TableHeading | TableRule]


def block(title: str, before: Sequence[object]) -> TableBody:
    """The heading of a block of rows, ruled off from what stands ``before`` it, if anything, and from its rows."""
    return [*([TableRule()] if before else []), TableHeading(title), TableRule()]


@dataclass(frozen=True)
class TableGrid:
    """How a table looks. ``header[level][column]``; equal neighbours of a level above the last share one title."""

    stub: tuple[str, ...]
    header: tuple[tuple[str, ...], ...]
    body: tuple[TableRow | TableHeading | TableRule, ...]

    @property
    def width(self) -> int:
        """How many columns there are, those of titles among them."""
        return len(self.stub) + len(self.header[-1])

    @property
    def cells(self) -> Iterator[TableCell]:
        """Every cell, in the order of reading."""
        return (cell for item in self.body if isinstance(item, TableRow) for cell in item.cells)

    def levels(self) -> list[tuple[tuple[str, ...], list[tuple[str, int]]]]:
        """Each header level: the stub's titles (on the last alone), and titles with how many columns each spans.

        Equal neighbours under equal titles share one.
        """
        found: list[tuple[tuple[str, ...], list[tuple[str, int]]]] = []
        for level in range(len(self.header)):
            paths = list(zip(*self.header[: level + 1], strict=True))
            if level == len(self.header) - 1:
                found.append((self.stub, [(path[-1], 1) for path in paths]))
            else:
                spans = [(path[-1], len(list(group))) for path, group in itertools.groupby(paths)]
                found.append((("",) * len(self.stub), spans))
        return found


@dataclass(frozen=True)
class BuiltTable:
    """A built table: ``values`` is the long frame of :data:`CSV_COLUMNS`, ``grid`` what is printed of it."""

    label: str
    title: str
    caption: str
    values: pd.DataFrame
    grid: TableGrid

    def saying(self, sentence: str) -> BuiltTable:
        """The same table with a further sentence in its caption."""
        return replace(self, caption=f"{self.caption} {sentence}".strip())

    def csv(self) -> str:
        """The long frame: every value unrounded (shortest text that reads back the same), undefined ones empty."""
        return csv_text(self.values[list(CSV_COLUMNS)])

    @property
    def letters(self) -> dict[str, str]:
        """A mark for each distinct reason why a value is undefined, in the order of reading: a, …, z, aa, ab, …"""
        reasons = dict.fromkeys(cell.note for cell in self.grid.cells if cell.note)
        return {reason: _letter(position) for position, reason in enumerate(reasons)}

    @property
    def notes(self) -> list[str]:
        """The reasons behind their marks, to stand below the table."""
        return [f"({letter}) {reason}" for reason, letter in self.letters.items()]


@dataclass(frozen=True)
class BuiltFigure:
    """A built figure: ``data`` is the frame drawn, ``draw`` makes a fresh matplotlib figure in the current style."""

    label: str
    title: str
    caption: str
    data: pd.DataFrame
    draw: Callable[[], matplotlib.figure.Figure]

    def saying(self, sentence: str) -> BuiltFigure:
        """The same figure with a further sentence in its caption."""
        return replace(self, caption=f"{self.caption} {sentence}".strip())


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV in which no text is a formula: spreadsheets run a cell that begins with =, +, - or @.

    An apostrophe before such a text makes them show it. A carriage return, which would end a row, becomes a line break.
    Numbers, those written as texts among them, and all other texts stay as they are.
    """
    cells = {name: pd.Series(map(_inert, frame[name]), frame.index, frame[name].dtype) for name in frame}
    return pd.DataFrame(cells, columns=frame.columns).to_csv(index=False, lineterminator="\n")


def _inert(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    begins = "'" if FORMULA.match(value) and not _NUMBER.fullmatch(value) else ""
    return begins + value.replace("\r\n", "\n").replace("\r", "\n")


def long_frame(label: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The values of a table, a row a value; a key column that a row does not name is "", another is None."""
    empty: dict[str, Any] = dict.fromkeys(CSV_COLUMNS) | dict.fromkeys(_KEYS, "") | {"table": f"tab:{label}"}
    return pd.DataFrame(
        [{name: row.get(name, empty[name]) for name in CSV_COLUMNS} for row in rows], columns=list(CSV_COLUMNS)
    )


def _letter(position: int) -> str:
    letters = string.ascii_lowercase
    return letters[position] if position < 26 else _letter(position // 26 - 1) + letters[position % 26]
