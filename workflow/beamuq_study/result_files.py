"""The result files of a study's cells that exhibits, comparison and pages read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beamuq.array_types import Floats, Ints
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_counts
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import KEYS, MOST_EMPTY, Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq.methods.registry import stored_variant
from beamuq.strategy_names import from_print, parse
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import (
    ALL,
    ANSWERED,
    Artifact,
    Loaded,
    OnDisk,
    on_disk,
    read,
    read_lists,
)
from beamuq_study.produced_answers import strategy_of
from beamuq_study.provenance import check_one_run, check_study
from beamuq_study.study_config import Study

OF_CANDIDATES = [
    "id",
    "strategy",
    "rank",
    "text",
    "token_ids",
    "logprob",
    "terminated",
]  # the others are large
OF_CANDIDATES += ["search_rows", "search_passes", "proven"]
ROW = ["answer_source", "quality", "subset", "metric", "method", "variant", "setting"]
VALUES = "values"  # the replicates of a row
# Tables that are too large to be held, and the columns that are read of them; None: all.
LARGE: dict[str, list[str] | None] = {
    "candidates": OF_CANDIDATES,
    "replicates": ROW,
    "scores": None,
    "similarity": None,
}
MARK = " †"
MARK_SENTENCE = "†: more than a fifth of the answers are empty, and the cell is left out of means."


def as_stored(study: Study, named: pd.DataFrame) -> pd.DataFrame:
    """Rows with ``variant`` and ``setting`` as evaluations store what the paper and tables name.

    They name some methods without their variant; ``beam`` and the main temperature are the main
    line, "".
    """
    main = {"beam", study.main.sample}
    variants = [
        method and stored_variant(method, variant)
        for method, variant in zip(named["method"], named["variant"], strict=True)
    ]
    settings = ["" if name in main else name for name in map(from_print, named["setting"])]
    return named.assign(variant=variants, setting=settings)


@dataclass(frozen=True)
class Empty:
    """How many of a cell's ``n`` produced answers are empty: whatever follows probability ranks
    them as the surest.
    """

    empty: int
    n: int

    @property
    def share(self) -> float:
        return self.empty / self.n

    @property
    def too_many(self) -> bool:
        """Whether no mean may have the cell: what is measured there is how empty answers rank."""
        return self.share > MOST_EMPTY


def _count(empty: Empty | None) -> str:
    if empty is None:
        return "not recorded"
    return f"{empty.empty} of {empty.n}{MARK if empty.too_many else ''}"


def empty_answers(evaluation: pa.Table) -> dict[str, Empty]:
    """By answer source: the questions that are not among the answered ones."""
    counted = evaluation.select(["answer_source", "subset", "n"]).group_by(
        ["answer_source", "subset"]
    )
    n = {
        (row["answer_source"], row["subset"]): row["n_max"]
        for row in counted.aggregate([("n", "max")]).to_pylist()
    }
    return {
        answer_source: Empty(n[answer_source, ALL] - answered, n[answer_source, ALL])
        for (answer_source, subset), answered in n.items()
        if subset == ANSWERED
    }


def on_map(estimates: Estimates) -> Estimates:
    """Estimates with columns ``power``, ``kappa`` and ``M`` of their settings; NaN: none."""
    parsed = pd.DataFrame(
        [parse(name)[1] for name in estimates.frame["setting"]], columns=["power", "kappa", "M"]
    )
    return Estimates(estimates.frame.join(parsed), estimates.replicates)


def _decision(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ``decisions`` as a row of estimates; an interval that is not of replicates stays."""
    columns = ["method", "variant", "metric", "n", "note", "empty", "value"]
    if row["std"] is None:
        columns += ["low", "high"]
    setting = "" if row["risk"] is None else f"risk={row['risk']:g}"
    return {name: row[name] for name in columns} | {"setting": setting}


class Inputs(dict[Artifact, Loaded | OnDisk]):
    """The files that were asked for, and readings of a cell's.

    Of ``LARGE`` ones footers alone are held: a reading takes what it needs from the file, and does
    not keep it.
    """

    def __init__(self, loaded: Mapping[Artifact, Loaded | OnDisk], study: Study) -> None:
        super().__init__(loaded)
        self.study = study
        self._frames: dict[Artifact, pd.DataFrame] = {}
        self._measured: dict[tuple[Cell, str], pd.DataFrame] = {}

    @classmethod
    def read(
        cls,
        results_folder: Path,
        artifacts: Iterable[Artifact],
        study: Study,
        large: Mapping[str, list[str] | None] = LARGE,
    ) -> Inputs:
        """Read each of ``artifacts`` from its own path under ``results_folder``, such as
        ``results/demo``.

        ``large``: the kinds of which footers alone are read now, and the columns that are read
        later; None: all.

        Raises BeamUQError if a file is missing, unreadable, or of another kind, cell, study or run.
        Damaged rows of a large file are found when they are read.
        """
        loaded: dict[Artifact, Loaded | OnDisk] = {}
        for artifact in artifacts:
            path = results_folder / artifact.path
            if artifact.kind in large:
                loaded[artifact] = on_disk(path, artifact.kind, large[artifact.kind])
            else:
                loaded[artifact] = read(path, artifact.kind)
        for artifact, table in loaded.items():
            if table.cell != artifact.cell:
                raise BeamUQError(
                    f"{table.path}: holds {table.cell}, expected {artifact.cell}; delete it and "
                    "run again"
                )
        check_study(study, loaded.values())
        check_one_run(loaded.values())
        return cls(loaded, study)

    def frame(self, need: Artifact) -> pd.DataFrame:
        """All of a table as a frame. Of a small file it is shared: do not write into it."""
        if need in self._frames:
            return self._frames[need]
        loaded = self[need]
        if isinstance(loaded, OnDisk):
            whole: pd.DataFrame = read(loaded.path, loaded.kind).table.to_pandas()
            return whole
        self._frames[need] = loaded.table.to_pandas()
        return self._frames[need]

    def of(self, cell: Cell, kind: str) -> pd.DataFrame:
        return self.frame(cell.file(kind, self.study.main_quality.metric))

    def estimates(
        self, cells: Sequence[Cell], quality: str = "", /, **keys: str | Collection[str]
    ) -> Estimates:
        """The rows of the cells' evaluations that have replicates, under one quality ("": the
        study's main one).

        ``keys``, as :meth:`.Estimates.where` takes them, choose rows; replicates of others are not
        read.
        """
        return joined(
            [self._of_cell(cell, quality or self.study.main_quality.metric, keys) for cell in cells]
        )

    def _of_cell(
        self, cell: Cell, quality: str, keys: Mapping[str, str | Collection[str]]
    ) -> Estimates:
        every_row = self._rows_of_cell(cell, quality)
        chosen = np.ones(len(every_row), dtype=bool)
        for name, values in keys.items():
            allowed = [values] if isinstance(values, str) else list(values)
            chosen &= every_row[name].isin(allowed).to_numpy()
        measured = every_row[chosen]
        rows = measured["row"].to_numpy(dtype=np.int64)
        frame = measured.drop(columns="row").reset_index(drop=True)
        return Estimates(frame, self._replicates(cell.file("replicates"), rows))

    def _rows_of_cell(self, cell: Cell, quality: str) -> pd.DataFrame:
        """The frame of a cell's estimates; ``row``: where in their file the replicates lie."""
        if (cell, quality) not in self._measured:
            evaluation = self.frame(cell.file("evaluation"))
            rows = evaluation[evaluation["quality"] == quality].reset_index(drop=True)
            row = self._places_of_replicates(cell, rows)
            if row.isna().any():
                # where no answer is empty, the answered questions share the replicates of all
                row = row.fillna(self._places_of_replicates(cell, rows.assign(subset=ALL)))
            frame = rows.drop(columns=["low", "high", "std"])
            frame = frame.assign(**vars(cell), empty=self._shares_empty(cell, rows), row=row)
            frame["note"] = frame["note"].where(frame["value"].isna(), "")
            columns = [*KEYS, "value", "n", "empty", "note", "row"]
            frame = frame.loc[row.notna(), columns].astype({"value": float, "row": int})
            self._measured[cell, quality] = frame
        return self._measured[cell, quality]

    def _places_of_replicates(self, cell: Cell, rows: pd.DataFrame) -> pd.Series[float]:
        """Where the replicates of each row lie in the cell's file; NaN: it has none."""
        places = self[cell.file("replicates")].table.select(ROW).to_pandas()
        places["row"] = np.arange(len(places))
        return rows[ROW].merge(places, "left", on=ROW)["row"]

    def _shares_empty(self, cell: Cell, rows: pd.DataFrame) -> pd.Series[float]:
        """The share of empty answers among the questions of each row."""
        shares = {source: empty.share for source, empty in self.empty(cell).items()}
        of_source = rows["answer_source"].map(shares).astype(float)
        return of_source.where(rows["subset"] == ALL, 0.0)

    def _replicates(self, file: Artifact, rows: Ints) -> Floats:
        """[K, resamples] the replicates in these rows of a file."""
        loaded = self[file]
        if isinstance(loaded, OnDisk):
            drawn: Floats = read_lists(loaded.path, file.kind, VALUES, rows)
            return drawn
        lists = loaded.table.column(VALUES).combine_chunks().take(rows)
        return np.asarray(lists.flatten().to_numpy()).reshape(len(rows), -1 if len(rows) else 1)

    def empty(self, cell: Cell) -> dict[str, Empty]:
        return empty_answers(self[cell.file("evaluation")].table)

    def empty_sentence(self, files: Iterable[Artifact], answer_source: str = "greedy") -> str:
        """A sentence with how many produced answers of the files' cells are empty; "" of no cell.

        A cell without empty answers is not named. Where one has too many for means, a second
        sentence explains its mark.
        """
        empty_by_cell: dict[str, Empty | None] = {}
        for file in files:
            if file.model and file.recipe:
                cell = self._named(file)
                # not each file of a cell tells the number
                empty_by_cell[cell] = self._empty(file, answer_source) or empty_by_cell.get(cell)
        if not empty_by_cell:
            return ""
        counts = [
            f"{cell} {_count(empty)}"
            for cell, empty in empty_by_cell.items()
            if empty is None or empty.empty
        ]
        all_counts = ", ".join(counts) or "none"
        any_marked = any(empty and empty.too_many for empty in empty_by_cell.values())
        explanation = f" {MARK_SENTENCE}" if any_marked else ""
        return f"Empty {answer_source.replace('_', '-')} answers: {all_counts}.{explanation}"

    def _named(self, file: Artifact) -> str:
        """A cell as sentences name it."""
        study = self.study
        place = f"{study.models[file.model].title} on {study.datasets[file.dataset].title}"
        return place if file.recipe == study.main.recipe else f"{place}, recipe {file.recipe}"

    def _empty(self, file: Artifact, answer_source: str) -> Empty | None:
        """Counted in an evaluation or candidates, or as the footer says; None: it does not tell."""
        if file.kind == "evaluation":
            return empty_answers(self[file].table).get(answer_source)
        if file.kind == "candidates":
            table = self[file].table.select(["strategy", "rank", "text"]).to_pandas()
            answers = (table["strategy"] == strategy_of(answer_source, self.study.main.beam)) & (
                table["rank"] == 0
            )
            texts = table.loc[answers, "text"]
            return Empty(int((texts == "").sum()), len(texts)) if len(texts) else None
        recorded = self[file].provenance.get("empty", {}).get(answer_source)
        return Empty(*recorded) if recorded else None

    def decisions(self, cell: Cell, metrics: Collection[str]) -> Estimates:
        """A cell's decisions of some ``metrics``; ``setting`` is ``risk=0.1``, or "".

        A row without replicates stands as a number that is known; an interval that is not of
        replicates stays.
        """
        file = cell.file("decisions")
        empty = self._empty(file, "greedy")
        table = self[file].table.filter(pc.field("metric").isin(list(metrics)))
        lists = table.column(VALUES).combine_chunks()
        rows = []
        replicates: list[Floats | float] = []
        for row, values in zip(table.drop_columns(VALUES).to_pylist(), lists, strict=True):
            row["empty"] = empty.share if empty else np.nan
            row["value"] = np.nan if row["value"] is None else row["value"]
            rows.append(_decision(row) | cell.place)
            replicates.append(values.values.to_numpy() if len(values) else row["value"])
        return Estimates.from_rows(rows, replicates)

    def beams_map(self, cell: Cell) -> Estimates:
        """A cell's map of when beams win; ``setting`` is a place on it (:func:`on_map`)."""
        rows = self.frame(cell.file("beams_map"))
        frame = rows.assign(
            **vars(cell), empty=np.nan, note=rows["note"].where(rows["value"].isna(), "")
        )
        return on_map(
            Estimates(
                frame[[*KEYS, "value", "n", "empty", "note"]], np.stack(rows["values"].to_list())
            )
        )

    def resample_counts(self, cell: Cell, ids: Sequence[str]) -> npt.NDArray[np.int32]:
        """[N, resamples] how often each resample of the cell's evaluation draws each of the
        questions ``ids`` [N].
        """
        groups = list(self.of(cell, "questions").set_index("id")["group"].loc[list(ids)])
        name = draws_name(cell.dataset, zip(ids, groups, strict=True))
        return resample_counts(groups, self.study.evaluation.resamples, self.study.seed, name)

    def means(
        self, cell: Cell, ids: Sequence[str], values: Mapping[str, npt.ArrayLike], **keys: Any
    ) -> Estimates:
        """By metric the mean of ``values`` [N] over ``ids`` [N], on the evaluation's resamples."""
        counts = self.resample_counts(cell, ids)
        place = cell.place | {"recipe": cell.recipe, "n": len(ids)} | keys
        columns = {
            metric: np.asarray(column, dtype=np.float64) for metric, column in values.items()
        }
        rows = [
            place | {"metric": metric, "value": column.mean()} for metric, column in columns.items()
        ]
        return Estimates.from_rows(
            rows, [column @ counts / counts.sum(axis=0) for column in columns.values()]
        )

    def candidates(self, cell: Cell) -> CandidateSets:
        file = cell.file("candidates")
        table = self[file].table.select(OF_CANDIDATES)
        frame: pd.DataFrame = table.to_pandas()
        return CandidateSets(frame, self.of(cell, "questions"), file.path)

    def scores(self, cell: Cell, quality: str = "") -> QuestionScores:
        """Of greedy answers alone, with their ``quality``; "" is the study's main one."""
        file = cell.file("scores")
        scores = self[file].table.filter(pc.field("answer_source") == "greedy").to_pandas()
        judged = self.frame(cell.file("quality", quality or self.study.main_quality.metric))
        return QuestionScores(scores, judged, self.of(cell, "questions"), file.path)

    @property
    def resampling(self) -> dict[str, Any]:
        """What :meth:`~beamuq.evaluation.question_scores.QuestionScores.prr` takes of a study."""
        evaluation = self.study.evaluation
        return {
            "max_rejection": evaluation.max_rejection[0],
            "resamples": evaluation.resamples,
            "seed": self.study.seed,
        }
