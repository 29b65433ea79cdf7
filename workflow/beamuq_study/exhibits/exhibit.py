"""What an exhibit is: the cells it shows, the files it reads, and what builds it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.captions import Facts
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
    """A printed value."""

    text: str
    spread: str = ""  # follows the text in small type
    mark: Literal["", "best", "second"] = ""  # its rank within a column
    better: bool = False  # draws the arrow
    pointer: str = ""  # what HTML shows at the pointer: interval and n, or why a value is undefined
    code: bool = False  # keeps line breaks and uses a typewriter face


@dataclass(frozen=True)
class Row:
    """A row: its titles, one a stub column, and the group that stands above its rows."""

    titles: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)  # of its estimates
    group: str = ""
    signed: bool = False  # they are differences, shown with their intervals
    cells: tuple[TableCell, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: the rows of its CSV, how it looks, and what fills its caption.

    Of ``header[level][column]`` equal neighbours of a level above the last share one title.
    ``reasons`` say why values or intervals are lacking.
    """

    values: Sequence[Mapping[str, Any]]
    stub: tuple[str, ...]
    header: Sequence[tuple[str, ...]]
    rows: Sequence[Row]
    facts: Facts = field(default_factory=dict)
    reasons: Sequence[str] = ()

    @property
    def width(self) -> int:
        """The number of columns, with the stub's."""
        return len(self.stub) + len(self.header[-1])

    @property
    def cells(self) -> list[TableCell]:
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row.cells]

    def levels(self) -> list[list[tuple[str, int]]]:
        """The titles of each header level with how many columns each spans.

        The stub's titles are on the last level; the levels above have blanks there.
        """
        blanks = [("", 1)] * len(self.stub)
        levels = []
        for depth in range(1, len(self.header)):
            paths = zip(*self.header[:depth], strict=True)
            spans = [(path[-1], len(list(same))) for path, same in itertools.groupby(paths)]
            levels.append([*blanks, *spans])
        last = [(title, 1) for title in (*self.stub, *self.header[-1])]
        return [*levels, last]

    def groups(self) -> list[tuple[str, list[Row]]]:
        """The rows by the group that stands above them."""
        by_group = itertools.groupby(self.rows, lambda row: row.group)
        return [(title, list(rows)) for title, rows in by_group]


def _nothing(_: matplotlib.figure.Figure) -> None:
    pass


@dataclass(frozen=True)
class Figure:
    """A figure: the frame drawn, and what draws it with a title and a footnote.

    ``finish`` adds what needs the final layout, such as texts that give way to marks.
    """

    data: pd.DataFrame
    draw: Callable[[str, str], matplotlib.figure.Figure]
    facts: Facts = field(default_factory=dict)
    finish: Callable[[matplotlib.figure.Figure], None] = _nothing

    def with_facts(self, facts: Facts) -> Figure:
        """The figure with further facts for its caption."""
        return replace(self, facts={**self.facts, **facts})


@dataclass(frozen=True)
class Built:
    """A table or figure with its title, its caption and its footnote."""

    label: str
    title: str
    caption: str
    footnote: str
    shown: Table | Figure
    study: str = ""  # its title

    @property
    def frame(self) -> pd.DataFrame:
        """What its CSV holds: the points drawn, or a row a value, an undefined one empty."""
        if isinstance(self.shown, Figure):
            return self.shown.data
        blank = dict.fromkeys(PLACE, "") | {"table": f"tab:{self.label}"}
        rows = [{**blank, **row} for row in self.shown.values]
        return pd.DataFrame(rows, columns=list(CSV_COLUMNS))


def _no_files(_: Study) -> list[Path]:
    return []


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure, under the paper's label without ``tab:`` or ``fig:``, or one of ours."""

    label: str
    kind: Literal["table", "figure"]
    # None where the study cannot supply it; its caption says what it needs.
    cells: Callable[[Study], Sequence[Cell]]
    reads: tuple[str, ...]  # the kinds of files that it reads of each cell
    build: Callable[[Study, Sequence[Cell], Inputs], Table | Figure]
    # The label of its caption in ``captions.txt``, or one in the form of a block there; "": its own
    caption: str = ""
    metric: str = ""  # what the study has to measure, of the answers of ``answer_source``
    # Of one cell: the paper's model and dataset, for which the nearest stands
    near: tuple[str, str] | None = None
    models: tuple[str, ...] = ()  # the paper's models that it shows, in an exhibit of a few
    # The paper has nothing like it; the report shows it in a section of its own.
    beyond_paper: bool = False
    answer_source: AnswerSource = "greedy"  # whose answers are judged and scored
    # Its numbers rest on the quality of answers: the caption names a proxy of that.
    quality: bool = True
    judged_by: str = ""  # the quality whose table it reads; "": the study's main one
    shows_questions: bool = False  # it prints texts of a dataset
    # It compares texts with whole references, which an archive of a release does not hold.
    judges_texts: bool = False
    # Other files that it reads, such as prompt templates
    files: Callable[[Study], list[Path]] = _no_files
    module: str = ""  # that of its specification, on whose code the rule that makes it depends

    def artifacts(self, study: Study) -> list[Artifact]:
        """The files that it shows, each once. Raises BeamUQError where the study lacks them."""
        needs = captions.needs(study, self.caption or self.label)
        metric = self.metric.partition("@")[0]
        if metric and not self._measures(study, metric):
            measured = f"{metric} in evaluation.metrics and {self.answer_source} in answer_source"
            raise _unmet(measured)
        cells = self._chosen(study)
        if self.reads and not cells:
            raise _unmet(needs)
        return self._artifacts(study, cells)

    def built(self, study: Study, inputs: Inputs) -> Built:
        """Build it of the files that :meth:`artifacts` names, with its caption."""
        cells = self._chosen(study)
        shown = self.build(study, cells, inputs)
        artifacts = self._artifacts(study, cells)
        facts = {
            **captions.study_facts(study),
            **self._facts(study, cells, shown),
            **shown.facts,
        }
        title, *sentences = captions.text(self.caption or self.label, facts)
        title = captions.titled(study, title)
        if isinstance(shown, Table) and shown.reasons:
            sentences.append(f"Without a value or an interval: {'; '.join(shown.reasons)}.")
        proxies = self.footnote(study)
        warning = captions.DEMO_WARNING if study.demo else ""
        empty = inputs.empty_sentence(artifacts, self.answer_source)
        parts = [f"{title}.", *sentences, proxies, warning, empty]
        return Built(self.label, title, " ".join(filter(None, parts)), proxies, shown, study.title)

    def footnote(self, study: Study) -> str:
        """The sentence on the proxies among what it rests on; "" where there are none."""
        artifacts = self._artifacts(study, self._chosen(study))
        scorers = list(dict.fromkeys(file.scorer for file in artifacts if file.scorer))
        return captions.footnote(study, scorers, quality=self.quality)

    def _measures(self, study: Study, metric: str) -> bool:
        metrics = study.evaluation.metrics
        return metric in metrics and self.answer_source in study.answer_source

    def _chosen(self, study: Study) -> Sequence[Cell]:
        cells = self.cells(study)
        return nearest(study, cells, *self.near) if self.near else cells

    def _artifacts(self, study: Study, cells: Sequence[Cell]) -> list[Artifact]:
        quality = self.judged_by or study.main_quality.metric
        artifacts = [cell.file(kind, quality) for cell in cells for kind in self.reads]
        return list(dict.fromkeys(file for file in artifacts if _exists(study, file)))

    def _facts(self, study: Study, cells: Sequence[Cell], shown: Table | Figure) -> Facts:
        """What captions say of the cells and of what stands for the paper's models."""
        if not cells or not cells[0].model:
            return {}
        titles = {cell.model: study.models[cell.model].title for cell in cells}
        n = None
        if isinstance(shown, Figure) and "n" in shown.data:
            n = shown.data["n"].max()
        questions = pd.DataFrame({"dataset": [cell.dataset for cell in cells], "n": None})
        return {
            **captions.question_facts(study, questions),
            "where": cells[0].title(study),
            "model": titles[cells[0].model],
            "instead": self._instead(titles),
            "n": n,
        }

    def _instead(self, titles: Mapping[str, str]) -> str:
        """A sentence on the paper's models that are not among those shown, by name and title."""
        near = self.near[:1] if self.near else ()
        missing = [model for model in self.models or near if model not in titles]
        if not missing:
            return ""
        return (
            f"The paper shows {', '.join(missing)}, not in this study's grid; shown: "
            f"{', '.join(titles.values())}."
        )


def _unmet(needs: str) -> BeamUQError:
    return BeamUQError(f"needs {needs}; add that, or drop the exhibit")


def _exists(study: Study, file: Artifact) -> bool:
    """Whether the study has a file: some cells have no shots, most no map."""
    if file.kind == "shots":
        return bool(study.datasets[file.dataset].few_shot)
    if file.kind == "beams_map":
        return study.scoring[file.recipe].beams_map is not None
    return True
