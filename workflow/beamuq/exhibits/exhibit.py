"""What an exhibit is: the cells it shows, the files it reads of them, and what builds its table or figure."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from beamuq.exhibits import captions, empty_answers
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.inputs import Inputs
from beamuq.judged_answer import AnswerSource
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

CSV_COLUMNS = (
    *("table", "model", "dataset", "metric", "method", "variant", "setting"),
    *("value", "std", "low", "high", "n", "p_holm"),
)
EVALUATION = ("evaluation", "replicates")
"""What :meth:`~beamuq.exhibits.inputs.Inputs.estimates` reads."""
SCORES = ("scores", "quality", "questions")
"""What :meth:`~beamuq.exhibits.inputs.Inputs.scores` reads."""
CANDIDATES = ("candidates", "questions")
"""What :meth:`~beamuq.exhibits.inputs.Inputs.candidates` reads."""


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
        levels: list[tuple[tuple[str, ...], list[tuple[str, int]]]] = []
        for level in range(len(self.header)):
            paths = list(zip(*self.header[: level + 1], strict=True))
            if level == len(self.header) - 1:
                levels.append((self.stub, [(path[-1], 1) for path in paths]))
            else:
                spans = [(path[-1], len(list(group))) for path, group in itertools.groupby(paths)]
                levels.append((("",) * len(self.stub), spans))
        return levels


@dataclass(frozen=True)
class Table:
    """A table: ``values`` are the rows of its CSV, ``grid`` what is printed of them, ``facts`` fill its caption.

    ``scorers``: those behind its numbers, whose proxies the caption names; None: the study's main one.
    """

    values: Sequence[Mapping[str, Any]]
    grid: TableGrid
    facts: Mapping[str, Any] = field(default_factory=dict)
    scorers: Sequence[str] | None = None

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
class Figure:
    """A figure: ``data`` is the frame drawn, ``draw`` makes a matplotlib figure of title and footnote."""

    data: pd.DataFrame
    draw: Callable[[str, str], matplotlib.figure.Figure]
    facts: Mapping[str, Any] = field(default_factory=dict)
    scorers: Sequence[str] | None = None


@dataclass(frozen=True)
class Built:
    """An exhibit that has been built: its table or figure under its label, with title, caption and footnote."""

    label: str
    title: str
    caption: str
    footnote: str
    shown: Table | Figure

    @property
    def frame(self) -> pd.DataFrame:
        """What its CSV holds: the points drawn, or a row a value, an undefined one empty."""
        if isinstance(self.shown, Figure):
            return self.shown.data
        empty: dict[str, Any] = dict.fromkeys(CSV_COLUMNS[1:7], "") | {"table": f"tab:{self.label}"}
        rows = [{name: row.get(name, empty.get(name)) for name in CSV_COLUMNS} for row in self.shown.values]
        return pd.DataFrame(rows, columns=list(CSV_COLUMNS))


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure of the paper, under the paper's label without ``tab:`` or ``fig:``, or one of our own.

    Attributes
    ----------
    cells
        Of a study the cells it shows. Raises BeamUQError, with the fix, where the study cannot supply the exhibit.
    reads
        The kinds of files that it reads of each cell.
    build
        Of the study, the cells and the files the table or figure.
    template
        The label of its caption in ``captions.txt``; "": its own.
    caption
        Its caption in the form of a block there, instead of one there.
    beyond_paper
        Print has nothing like it; the report shows it in a section of its own.
    answer_source
        Whose answers are judged and scored.
    quality, scored
        Whether its numbers rest on the quality of answers, and on a scorer: the caption then names their proxies.
    shows_questions
        Whether it prints texts of a dataset.
    files
        Other files that it reads, such as prompt templates.
    module
        The module of its specification, whose code the rule that makes it depends on.
    """

    label: str
    kind: Literal["table", "figure"]
    cells: Callable[[Study], Sequence[Cell]]
    reads: tuple[str, ...]
    build: Callable[[Study, Sequence[Cell], Inputs], Table | Figure]
    template: str = ""
    caption: str = ""
    beyond_paper: bool = False
    answer_source: AnswerSource = "greedy"
    quality: bool = True
    scored: bool = True
    shows_questions: bool = False
    files: Callable[[Study], list[Path]] = lambda _: []
    module: str = ""

    def artifacts(self, study: Study) -> list[Artifact]:
        """The files that it shows, each once. Raises BeamUQError, with the fix, where the study lacks what it needs."""
        return list(
            dict.fromkeys(
                cell.file(kind, study.main_quality.metric)
                for cell in self.cells(study)
                for kind in self.reads
                if kind != "shots" or study.datasets[cell.dataset].few_shot  # else there is no such file
            )
        )

    def built(self, study: Study, inputs: Inputs) -> Built:
        """Build it of the files that :meth:`artifacts` names, with its caption."""
        shown = self.build(study, self.cells(study), inputs)
        scorers = [] if not self.scored else [study.main.scorer] if shown.scorers is None else shown.scorers
        facts = captions.study_facts(study) | dict(shown.facts)
        title, *sentences = captions.text(self.template or self.label, facts, self.caption)
        empty = empty_answers.sentence(study, inputs, self.artifacts(study), self.answer_source)
        caption = captions.caption(study, [f"{title}.", *sentences], scorers=scorers, quality=self.quality)
        note = captions.footnote(study, scorers, quality=self.quality)
        return Built(self.label, captions.titled(study, title), f"{caption} {empty}".strip(), note, shown)


def block(title: str, before: Sequence[object]) -> list[Any]:
    """The heading of a block of rows, ruled off from what stands ``before`` it, if anything, and from its rows."""
    return [*([TableRule()] if before else []), TableHeading(title), TableRule()]


def _letter(position: int) -> str:
    letters = string.ascii_lowercase
    return letters[position] if position < 26 else _letter(position // 26 - 1) + letters[position % 26]
