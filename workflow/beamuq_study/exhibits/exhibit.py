"""What an exhibit is: the cells it shows, the files it reads of them, and what builds its table or figure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.cells import Cell, nearest
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.parquet_tables import Artifact
from beamuq_study.produced_answers import AnswerSource
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

CSV_COLUMNS = (
    *("table", "model", "dataset", "metric", "method", "variant", "setting"),
    *("value", "std", "low", "high", "n", "p_holm"),
)
EVALUATION = ("evaluation", "replicates")
"""What :meth:`~beamuq_study.exhibits.result_files.Inputs.estimates` reads."""
SCORES = ("scores", "quality", "questions")
"""What :meth:`~beamuq_study.exhibits.result_files.Inputs.scores` reads."""
CANDIDATES = ("candidates", "questions")
"""What :meth:`~beamuq_study.exhibits.result_files.Inputs.candidates` reads."""


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    ``spread`` follows the text in small type; ``mark`` is the rank within a column; ``better`` draws the arrow;
    ``pointer`` is what HTML shows at the pointer: interval and n, or why a value is undefined; ``code`` keeps line
    breaks and uses a typewriter face.
    """

    text: str
    spread: str = ""
    mark: Literal["", "best", "second"] = ""
    better: bool = False
    pointer: str = ""
    code: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, and the group whose title stands above its rows.

    ``keys`` name its estimates, which :func:`~beamuq_study.exhibits.estimates_table.table` prints as its ``cells``;
    ``signed``: they are differences, shown with their intervals.
    """

    titles: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    signed: bool = False
    cells: tuple[TableCell, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: how it looks, and what its CSV holds.

    Attributes
    ----------
    values
        The rows of its CSV.
    stub, header, rows
        Titles of the columns of row titles, of the others (``header[level][column]``; equal neighbours of a level above
        the last share one title), and what stands below.
    facts
        Fill its caption.
    reasons
        Why values are undefined, or without an interval; the caption ends with them.
    """

    values: Sequence[Mapping[str, Any]]
    stub: tuple[str, ...]
    header: Sequence[tuple[str, ...]]
    rows: Sequence[Row]
    facts: Mapping[str, Any] = field(default_factory=dict)
    reasons: Sequence[str] = ()

    @property
    def width(self) -> int:
        """How many columns there are, those of titles among them."""
        return len(self.stub) + len(self.header[-1])

    @property
    def cells(self) -> list[TableCell]:
        """Every cell, in the order of reading."""
        return [cell for row in self.rows for cell in row.cells]

    def levels(self) -> list[list[tuple[str, int]]]:
        """Each header level, the stub's titles on the last: titles with how many columns each spans."""
        paths = [zip(*self.header[:level], strict=True) for level in range(1, len(self.header))]
        spans = [[(path[-1], len(list(same))) for path, same in itertools.groupby(level)] for level in paths]
        blank = [("", 1)] * len(self.stub)
        return [*([*blank, *level] for level in spans), [(title, 1) for title in (*self.stub, *self.header[-1])]]

    def groups(self) -> list[tuple[str, list[Row]]]:
        """The title of each group, and its rows."""
        return [(title, list(rows)) for title, rows in itertools.groupby(self.rows, lambda row: row.group)]


@dataclass(frozen=True)
class Figure:
    """A figure: ``data`` is the frame drawn, ``draw`` makes a matplotlib figure of title and footnote."""

    data: pd.DataFrame
    draw: Callable[[str, str], matplotlib.figure.Figure]
    facts: Mapping[str, Any] = field(default_factory=dict)


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
        Of a study the cells it shows; none where the study cannot supply it, and ``captions.txt`` says what it needs.
    reads
        The kinds of files that it reads of each cell.
    build
        Of the study, the cells and the files the table or figure.
    template
        The label of its caption in ``captions.txt``; "": its own.
    caption
        Its caption in the form of a block there, instead of one there.
    metric
        What the study has to measure, of the answers of ``answer_source``.
    near
        Model and dataset of the paper, of an exhibit of one cell: of ``cells`` it shows the one that stands for these.
    models
        The models of the paper that it shows, in an exhibit of a few.
    beyond_paper
        The paper has nothing like it; the report shows it in a section of its own.
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
    metric: str = ""
    near: tuple[str, str] | None = None
    models: tuple[str, ...] = ()
    beyond_paper: bool = False
    answer_source: AnswerSource = "greedy"
    quality: bool = True
    scored: bool = True
    shows_questions: bool = False
    files: Callable[[Study], list[Path]] = lambda _: []
    module: str = ""

    def _chosen(self, study: Study) -> Sequence[Cell]:
        cells = self.cells(study)
        return nearest(study, cells, *self.near) if self.near else cells

    def artifacts(self, study: Study) -> list[Artifact]:
        """The files that it shows, each once. Raises BeamUQError, saying what it needs, where the study lacks that."""
        metric, needs = self.metric.partition("@")[0], captions.needs(study, self.template or self.label, self.caption)
        if metric and (metric not in study.evaluation.metrics or self.answer_source not in study.answer_source):
            needs = f"{metric} in evaluation.metrics and {self.answer_source} in answer_source"
        elif (chosen := self._chosen(study)) or not self.reads:
            return self._files(study, chosen)
        raise BeamUQError(f"needs {needs}; add that, or drop the exhibit")

    def _files(self, study: Study, cells: Sequence[Cell]) -> list[Artifact]:
        files = [cell.file(kind, study.main_quality.metric) for cell in cells for kind in self.reads]
        few_shot = {name for name, dataset in study.datasets.items() if dataset.few_shot}  # others have no shots
        return list(dict.fromkeys(file for file in files if file.kind != "shots" or file.dataset in few_shot))

    def built(self, study: Study, inputs: Inputs) -> Built:
        """Build it of the files that :meth:`artifacts` names, with its caption."""
        chosen = self._chosen(study)
        shown, needs = self.build(study, chosen, inputs), self._files(study, chosen)
        facts = captions.study_facts(study) | self._facts(study, chosen, shown) | dict(shown.facts)
        title, *sentences = captions.text(self.template or self.label, facts, self.caption)
        if isinstance(shown, Table) and shown.reasons:
            sentences.append(f"Without a value or an interval: {'; '.join(shown.reasons)}.")
        scorers = list(dict.fromkeys(need.scorer for need in needs if need.scorer)) if self.scored else []
        proxies = captions.footnote(study, scorers, quality=self.quality)
        empty = inputs.empty_sentence(needs, self.answer_source)
        title = captions.titled(study, title)
        parts = f"{title}.", *sentences, proxies, captions.DEMO_WARNING * study.demo, empty
        return Built(self.label, title, " ".join(filter(None, parts)), proxies, shown)

    def _facts(self, study: Study, chosen: Sequence[Cell], shown: Table | Figure) -> dict[str, Any]:
        """What captions say of the cells: the first, their questions, and what stands for the paper's models."""
        if not chosen or not chosen[0].model:
            return {}
        titles = {cell.model: study.models[cell.model].title for cell in chosen}
        missing = ", ".join(model for model in self.models or (self.near or ())[:1] if model not in titles)
        instead = f"The paper shows {missing}, not in this study's grid; shown: {', '.join(titles.values())}."
        data = shown.data if isinstance(shown, Figure) else pd.DataFrame()
        facts = captions.question_facts(study, {cell.dataset: [] for cell in chosen})
        facts |= {"where": chosen[0].title(study), "model": titles[chosen[0].model], "instead": instead * bool(missing)}
        return facts | {"n": data["n"].max() if "n" in data else None}
