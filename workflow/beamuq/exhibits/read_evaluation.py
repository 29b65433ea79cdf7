"""Measurements of a cell as the exhibits read them, and their mean over datasets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap
from beamuq.evaluation.estimates import ALL_EMPTY, Estimates, joined
from beamuq.exhibits.empty_answers import Empty, empty_answers
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.methods.registry import stored_variant
from beamuq.parquet_tables import ALL, Artifact
from beamuq.strategy_names import from_print
from beamuq.study_config import Study

T = TypeVar("T")


class Key(NamedTuple):
    """What a measurement is of, within one cell. ``variant`` as stored."""

    metric: str
    method: str
    variant: str
    setting: str = ""
    answer_source: str = "greedy"


@dataclass(frozen=True)
class Measured:
    """A value with its interval; ``value`` None: undefined, and ``note`` says why. ``n``: questions.

    ``replicates`` [R]: one value a resample, NaN where undefined; None where they were not asked for.
    """

    value: float | None
    low: float | None
    high: float | None
    std: float | None
    n: int
    note: str = ""
    replicates: NDArray[np.floating] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def resampled(cls, value: float, replicates: NDArray[np.floating], n: int, confidence: float) -> Measured:
        """A value with the percentile interval of its replicates [R]."""
        of = bootstrap.interval(replicates, confidence)
        return cls(value, of.low, of.high, of.std, n, of.note, replicates)

    @property
    def numbers(self) -> dict[str, Any]:
        """Its columns of published values."""
        return {name: getattr(self, name) for name in ("value", "std", "low", "high", "n")}


class Measurements:
    """One evaluation file, and its replicates where they were asked for, by :class:`Key`.

    ``quality``: the metric of the quality whose rows these are; "" for the study's main one.
    """

    def __init__(
        self,
        study: Study,
        inputs: Inputs,
        evaluation: Artifact,
        replicates: Artifact | None = None,
        quality: str = "",
    ) -> None:
        self.path = evaluation.path
        self._empty = empty_answers(inputs[evaluation].table)
        quality = quality or study.main_quality.metric
        self._rows: dict[Key, Measured] = {}
        self._replicates: dict[Key, NDArray[np.float32]] = {}
        for row in inputs[evaluation].table.to_pylist():
            if row["subset"] == ALL and row["quality"] == quality:
                key = Key(row["metric"], row["method"], row["variant"], row["setting"], row["answer_source"])
                self._rows[key] = Measured(row["value"], row["low"], row["high"], row["std"], row["n"], row["note"])
        self._paired = replicates is not None
        if replicates is not None:
            table = inputs[replicates].table
            values = table.column("values").combine_chunks()
            flat, offsets = values.values.to_numpy(), values.offsets.to_numpy()
            for position, row in enumerate(table.drop_columns(["values"]).to_pylist()):
                if row["subset"] == ALL and row["quality"] == quality:
                    key = Key(row["metric"], row["method"], row["variant"], row["setting"], row["answer_source"])
                    self._replicates[key] = flat[offsets[position] : offsets[position + 1]]

    def __getitem__(self, key: Key) -> Measured:
        row = self._row(self._rows, key)
        return replace(row, replicates=self.replicates(key)) if self._paired else row

    def empty(self, answer_source: str = "greedy") -> Empty | None:
        """How many produced answers are empty; None where the file does not tell."""
        return self._empty.get(answer_source)

    def left_out(self, answer_source: str = "greedy") -> bool:
        """Whether so many are that no mean may have the cell."""
        of = self.empty(answer_source)
        return of is not None and of.too_many

    def replicates(self, key: Key) -> NDArray[np.float32]:
        """One value a resample, NaN where undefined."""
        return self._row(self._replicates, key)

    def _row(self, rows: dict[Key, T], key: Key) -> T:
        if stored(key) not in rows:
            raise BeamUQError(
                f"{self.path}: no row for {' '.join(filter(None, stored(key)))}; run the evaluation again"
            )
        return rows[stored(key)]


def read_measurements(
    study: Study, inputs: Inputs, files: Sequence[Artifact], quality: str = ""
) -> dict[tuple[str, str], Measurements]:
    """Model and dataset → the cell's measurements, from its evaluation and the replicates that follow it."""
    pairs = zip(files[::2], files[1::2], strict=True)
    return {
        (file.model, file.dataset): Measurements(study, inputs, file, replicates, quality) for file, replicates in pairs
    }


def read_estimates(study: Study, inputs: Inputs, files: Sequence[Artifact]) -> Estimates:
    """Every row of some evaluations with the replicates that follow each, under the study's main quality.

    Where no answer of a cell is empty, its answered questions are all, and share their replicates. A row without
    replicates is left out.
    """
    parts = []
    keys = ["answer_source", "quality", "subset", "metric", "method", "variant", "setting"]
    for evaluation, replicates in zip(files[::2], files[1::2], strict=True):
        rows, drawn = inputs.frame(evaluation), inputs[replicates].table
        rows = rows[rows["quality"] == study.main_quality.metric].reset_index(drop=True)
        values = drawn.column("values").combine_chunks()
        matrix = values.values.to_numpy().reshape(len(drawn), -1)
        place = pd.Series(np.arange(len(drawn)), pd.MultiIndex.from_frame(drawn.select(keys).to_pandas()))
        of_all = rows[keys].assign(subset=ALL)
        own, shared = (place.reindex(pd.MultiIndex.from_frame(frame)).to_numpy() for frame in (rows[keys], of_all))
        counts = empty_answers(inputs[evaluation].table)
        shares = {source: of.empty / of.n for source, of in counts.items()}
        empty = rows["answer_source"].map(shares).astype(float).where(rows["subset"] == ALL, 0.0)
        cell = {"model": evaluation.model, "dataset": evaluation.dataset, "recipe": evaluation.recipe}
        frame = rows.drop(columns=["low", "high", "std"]).assign(**cell, scorer=evaluation.scorer, empty=empty)
        frame["note"] = frame["note"].where(frame["value"].isna(), "")
        row = np.where(np.isnan(own), shared, own)
        paired = ~np.isnan(row)
        parts.append(Estimates(frame[paired].astype({"value": float}), matrix[row[paired].astype(int)]))
    return joined(parts)


def difference(a: Measured, b: Measured, confidence: float) -> Measured:
    """a − b, paired over the resamples that both share; undefined where either is, for its reason."""
    if a.value is None or b.value is None or a.replicates is None or b.replicates is None:
        return Measured(None, None, None, None, a.n, a.note if a.value is None else b.note)
    of = bootstrap.difference(a.value, b.value, a.replicates, b.replicates, confidence)
    return Measured(
        of.value, of.low, of.high, of.std, a.n, of.note, np.subtract(a.replicates, b.replicates, dtype=np.float64)
    )


def stored(key: Key) -> Key:
    """The key that the file uses for a printed one: some methods are printed without their variant."""
    return key._replace(variant=stored_variant(key.method, key.variant))


def stored_setting(study: Study, printed: str) -> str:
    """``beam`` and the main temperature are the main line, ``""``; ``multinomial T=0.7`` is ``sample T=0.7``."""
    strategy = from_print(printed)
    return "" if strategy in ("beam", study.main.sample) else strategy


def mean_over_datasets(cells: Sequence[Measurements], titles: Sequence[str], key: Key, confidence: float) -> Measured:
    """Mean of the cells' values; its interval from their replicates, each dataset resampled alone (D13, intervals).

    Cells with more than a fifth of empty answers are left out. A value undefined in any other cell leaves the mean
    undefined: a mean over fewer datasets would not be comparable.
    """
    kept = [not cell.left_out(key.answer_source) for cell in cells]
    if not any(kept):
        n = sum(cell[key].n for cell in cells)
        return Measured(None, None, None, None, n, ALL_EMPTY)
    cells, titles = list(itertools.compress(cells, kept)), list(itertools.compress(titles, kept))
    return mean_of([cell[key] for cell in cells], titles, confidence, f"{key.metric} is undefined on ")


def mean_of(rows: Sequence[Measured], titles: Sequence[str], confidence: float, undefined: str = "") -> Measured:
    """The mean over datasets, each resampled on its own; undefined where any is, or where all are left out of it.

    The note says which, by its title behind ``undefined``, and why.
    """
    n = sum(row.n for row in rows)
    if not rows:
        return Measured(None, None, None, None, n, ALL_EMPTY)
    for title, row in zip(titles, rows, strict=True):
        if row.value is None or row.replicates is None:
            return Measured(None, None, None, None, n, f"{undefined}{title}: {row.note}")
    drawn = np.stack([np.asarray(row.replicates, dtype=np.float64) for row in rows]).mean(axis=0)
    return Measured.resampled(float(np.mean([row.value for row in rows])), drawn, n, confidence)
