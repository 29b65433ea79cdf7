"""What an exhibit is: the cells it shows, the files it reads of them, and what builds its table or
figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq_study.exhibits import captions
from beamuq_study.grid import Cell, nearest
from beamuq_study.parquet_tables import Artifact
from beamuq_study.produced_answers import AnswerSource
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

PLACE = ("model", "dataset", "metric", "method", "variant", "setting")
CSV_COLUMNS = ("table", *PLACE, "value", "std", "low", "high", "n", "p_holm")
# Files of a cell that a reading of Inputs takes: estimates, scores, candidates.
EVALUATION = ("evaluation", "replicates")
SCORES = ("scores", "quality", "questions")
CANDIDATES = ("candidates", "questions")


@dataclass(frozen=True)
class TableCell:
    text: str
    spread: str = ""  # follows the text in small type
    mark: Literal["", "best", "second"] = ""  # its rank within a column
    better: bool = False  # draws the arrow
    pointer: str = ""  # what HTML shows at the pointer: interval and n, or why a value is undefined
    code: bool = False  # keeps line breaks and uses a typewriter face


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, the keys of its estimates, and the group that stands
    above its rows.
    """

    titles: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    signed: bool = False  # they are differences, shown with their intervals
    cells: tuple[TableCell, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: the rows of its CSV, how it looks, what fills its caption, and why values or
    intervals are lacking.

    Of ``header[level][column]`` equal neighbours of a level above the last share one title.
    """

    values: Sequence[Mapping[str, Any]]
    stub: tuple[str, ...]
    header: Sequence[tuple[str, ...]]
    rows: Sequence[Row]
    facts: Mapping[str, Any] = field(default_factory=dict)
    reasons: Sequence[str] = ()

    @property
    def width(self) -> int:
        return len(self.stub) + len(self.header[-1])

    @property
    def cells(self) -> list[TableCell]:
        return [cell for row in self.rows for cell in row.cells]

    def levels(self) -> list[list[tuple[str, int]]]:
        """Each header level, the stub's titles on the last: titles with how many columns each
        spans.
        """
        paths = [zip(*self.header[:level], strict=True) for level in range(1, len(self.header))]
        spans = [
            [(path[-1], len(list(same))) for path, same in itertools.groupby(level)]
            for level in paths
        ]
        blank = [("", 1)] * len(self.stub)
        return [
            *([*blank, *level] for level in spans),
            [(title, 1) for title in (*self.stub, *self.header[-1])],
        ]

    def groups(self) -> list[tuple[str, list[Row]]]:
        return [
            (title, list(rows))
            for title, rows in itertools.groupby(self.rows, lambda row: row.group)
        ]


@dataclass(frozen=True)
class Figure:
    """A figure: ``data`` is the frame drawn, ``draw`` makes a matplotlib figure of title and
    footnote.
    """

    data: pd.DataFrame
    draw: Callable[[str, str], matplotlib.figure.Figure]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
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
        empty: dict[str, Any] = dict.fromkeys(PLACE, "") | {"table": f"tab:{self.label}"}
        return pd.DataFrame(
            [{**empty, **row} for row in self.shown.values], columns=list(CSV_COLUMNS)
        )


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure of the paper, under the paper's label without ``tab:`` or ``fig:``, or
    one of our own.
    """

    label: str
    kind: Literal["table", "figure"]
    cells: Callable[
        [Study], Sequence[Cell]
    ]  # none where the study cannot supply it; its caption says what it needs
    reads: tuple[str, ...]  # the kinds of files that it reads of each cell
    build: Callable[[Study, Sequence[Cell], Inputs], Table | Figure]
    # the label of its caption in ``captions.txt``, or one in the form of a block there; "": its own
    caption: str = ""
    metric: str = ""  # what the study has to measure, of the answers of ``answer_source``
    near: tuple[str, str] | None = (
        None  # of one cell: the paper's model and dataset, for which the nearest stands
    )
    models: tuple[str, ...] = ()  # the paper's models that it shows, in an exhibit of a few
    beyond_paper: bool = (
        False  # the paper has nothing like it; the report shows it in a section of its own
    )
    answer_source: AnswerSource = "greedy"  # whose answers are judged and scored
    quality: bool = (
        True  # its numbers rest on the quality of answers: the caption names a proxy of that
    )
    shows_questions: bool = False  # it prints texts of a dataset
    files: Callable[[Study], list[Path]] = (
        lambda _: []
    )  # other files that it reads, such as prompt templates
    module: str = ""  # that of its specification, on whose code the rule that makes it depends

    def _chosen(self, study: Study) -> Sequence[Cell]:
        cells = self.cells(study)
        return nearest(study, cells, *self.near) if self.near else cells

    def artifacts(self, study: Study) -> list[Artifact]:
        """The files that it shows, each once. Raises BeamUQError, saying what it needs, where the
        study lacks that.
        """
        metric, needs = (
            self.metric.partition("@")[0],
            captions.needs(study, self.caption or self.label),
        )
        if metric and (
            metric not in study.evaluation.metrics or self.answer_source not in study.answer_source
        ):
            needs = f"{metric} in evaluation.metrics and {self.answer_source} in answer_source"
        elif (chosen := self._chosen(study)) or not self.reads:
            return self._files(study, chosen)
        raise BeamUQError(f"needs {needs}; add that, or drop the exhibit")

    def _files(self, study: Study, cells: Sequence[Cell]) -> list[Artifact]:
        def made(file: Artifact) -> object:
            """Whether the study has it: some cells have no shots, most no map."""
            if file.kind == "shots":
                return study.datasets[file.dataset].few_shot
            return file.kind != "beams_map" or study.scoring[file.recipe].beams_map

        files = (
            cell.file(kind, study.main_quality.metric) for cell in cells for kind in self.reads
        )
        return list(dict.fromkeys(filter(made, files)))

    def built(self, study: Study, inputs: Inputs) -> Built:
        """Build it of the files that :meth:`artifacts` names, with its caption."""
        chosen = self._chosen(study)
        shown, needs = self.build(study, chosen, inputs), self._files(study, chosen)
        facts = captions.study_facts(study) | self._facts(study, chosen, shown) | dict(shown.facts)
        title, *sentences = captions.text(self.caption or self.label, facts)
        if isinstance(shown, Table) and shown.reasons:
            sentences.append(f"Without a value or an interval: {'; '.join(shown.reasons)}.")
        scorers = list(dict.fromkeys(need.scorer for need in needs if need.scorer))
        proxies, title = (
            captions.footnote(study, scorers, quality=self.quality),
            captions.titled(study, title),
        )
        ending = (
            captions.DEMO_WARNING * study.demo,
            inputs.empty_sentence(needs, self.answer_source),
        )
        caption = " ".join(filter(None, (f"{title}.", *sentences, proxies, *ending)))
        return Built(self.label, title, caption, proxies, shown)

    def _facts(self, study: Study, chosen: Sequence[Cell], shown: Table | Figure) -> dict[str, Any]:
        """What captions say of the cells: the first, their questions, and what stands for the
        paper's models.
        """
        if not chosen or not chosen[0].model:
            return {}
        titles = {cell.model: study.models[cell.model].title for cell in chosen}
        missing = ", ".join(
            model for model in self.models or (self.near or ())[:1] if model not in titles
        )
        instead = (
            f"The paper shows {missing}, not in this study's grid; shown: "
            f"{', '.join(titles.values())}."
        )
        n = shown.data["n"].max() if isinstance(shown, Figure) and "n" in shown.data else None
        facts = {
            "where": chosen[0].title(study),
            "model": titles[chosen[0].model],
            "instead": instead * bool(missing),
        }
        datasets = pd.DataFrame({"dataset": [cell.dataset for cell in chosen], "n": None})
        return captions.question_facts(study, datasets) | facts | {"n": n}
