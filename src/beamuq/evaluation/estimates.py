"""Values with their bootstrap replicates under keys, and verbs that make exhibits and claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Floats
from beamuq.evaluation.bootstrap import Interval, interval
from beamuq.evaluation.holm_and_benjamini_hochberg import holm

KEYS = (
    *("model", "dataset", "recipe", "scorer", "answer_source"),
    *("quality", "subset", "metric", "method", "variant", "setting"),
)
MEAN = "mean"
"""What ``dataset`` says of a mean over datasets."""
# a larger share of empty answers keeps a cell out of means: what ranks there is emptiness
MOST_EMPTY = 0.2
ALL_EMPTY = "in every cell more than a fifth of the answers are empty"
CANNOT_MOVE = "all resamples are equal: no interval"
OWN_INTERVAL = ["low", "high"]
TIE = 1e-12  # values this near are equal: the same ranking by another sum


@dataclass(frozen=True)
class Estimates:
    """Values under keys, each with its bootstrap replicates.

    ``frame`` has one row per estimate: the columns of :data:`KEYS` (texts; "" where a key does not
    apply), ``value`` (NaN: undefined, and ``note`` says why), ``n`` questions, ``empty``, the share
    of empty answers (NaN: not known), ``note``; and ``low`` and ``high`` where a row has an
    interval of its own, which no verb hands on.

    ``replicates`` [rows, resamples] are in its order; NaN where a resample leaves the value
    undefined. Column r of rows of the same questions is the same resample, so their differences are
    paired.
    """

    frame: pd.DataFrame
    replicates: Floats

    def __post_init__(self) -> None:
        if len(self.frame) != len(self.replicates):
            raise ValueError(
                f"{len(self.frame)} estimates, but replicates of {len(self.replicates)}"
            )

    @classmethod
    def from_rows(
        cls, rows: Sequence[Mapping[str, Any]], replicates: Sequence[npt.ArrayLike]
    ) -> Estimates:
        """Estimates of any statistic.

        ``rows`` give of each its keys, ``value`` (NaN: undefined, and ``note`` says why), ``n``,
        ``empty`` where it is known, ``low`` and ``high`` where it has an interval of its own, such
        as Wilson's. ``replicates`` are of each row [resamples]; a single number for one without
        error, such as a count.
        """
        defaults = dict.fromkeys(KEYS, "") | {"empty": np.nan, "note": ""}
        filled = [defaults | dict(row) for row in rows]
        own_interval = [name for name in OWN_INTERVAL if any(name in row for row in rows)]
        columns = [*KEYS, "value", "n", "empty", "note", *own_interval]
        frame = pd.DataFrame(filled, columns=columns).astype({"value": float})
        size = max((np.size(drawn) for drawn in replicates), default=1)
        repeated = [
            np.broadcast_to(np.asarray(drawn, dtype=np.float64), size) for drawn in replicates
        ]
        return cls(frame, np.array(repeated).reshape(len(frame), size))

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def too_empty(self) -> pd.Series[bool]:
        """Whether each row is of a cell with too many empty answers for a mean."""
        return self.frame["empty"] > MOST_EMPTY

    def where(self, **keys: str | Collection[str]) -> Estimates:
        """The rows whose keys have these values, or one of several.

        ``where(metric="PRR", model=("a", "b"))``.
        """
        chosen = np.ones(len(self), dtype=bool)
        for name, values in keys.items():
            allowed = [values] if isinstance(values, str) else list(values)
            chosen &= self.frame[name].isin(allowed).to_numpy()
        return self.rows(chosen)

    def rows(self, chosen: npt.ArrayLike) -> Estimates:
        """Some of the rows: truth values [rows], or positions."""
        places = np.arange(len(self))[np.asarray(chosen)]
        return Estimates(self.frame.iloc[places].reset_index(drop=True), self.replicates[places])

    def assign(self, **keys: str | Sequence[str]) -> Estimates:
        """The same estimates under other values of some keys, one for all rows or one per row."""
        return Estimates(self.frame.assign(**keys), self.replicates)

    def at(self, places: pd.DataFrame, missing: str = "") -> Estimates:
        """The row at each of ``places``, a frame of some keys, in their order.

        A place may occur twice. ``missing`` is why a value is undefined where no row has these
        keys; "" raises KeyError, naming the place.

        Raises ValueError if several rows have the same of these keys.
        """
        positions = self._places(list(places.columns)).reindex(pd.MultiIndex.from_frame(places))
        lost = positions.isna().to_numpy()
        if missing and lost.any():
            undefined = places[lost].drop_duplicates().assign(value=np.nan, n=0, note=missing)
            rest: list[Any] = undefined.to_dict("records")
            return joined([self, Estimates.from_rows(rest, [np.nan] * len(rest))]).at(places)
        if lost.any():
            raise KeyError(" ".join(filter(None, positions.index[lost][0])))
        return self.rows(positions.to_numpy().astype(np.int64))

    def minus(self, other: Estimates, on: Collection[str] | None = None) -> Estimates:
        """Paired differences: each row minus the row of ``other`` equal in the keys ``on``.

        Without ``on``: row by row. Rows without a partner are left out. A key in which the two
        differ becomes ``a - b``. A difference is undefined where either is, for its reason; of two
        shares of empty answers the larger counts.

        Raises ValueError if two rows of ``other`` are equal in those keys.
        """
        if on is not None:
            paired, partners = self._paired(other, [name for name in KEYS if name in on])
            return paired.minus(partners)
        names = {key: _joined_names(self.frame[key], other.frame[key]) for key in KEYS}
        empty = np.fmax(
            self.frame["empty"].to_numpy(np.float64), other.frame["empty"].to_numpy(np.float64)
        )
        difference = self.combined(other, np.subtract)
        return Estimates(difference.frame.assign(**names, empty=empty), difference.replicates)

    def _paired(self, other: Estimates, keys: Sequence[str]) -> tuple[Estimates, Estimates]:
        """The rows that have a partner in ``other``, equal in these keys, and these partners."""
        wanted = pd.MultiIndex.from_frame(self.frame[list(keys)])
        positions = other._places(keys).reindex(wanted).to_numpy()
        paired = ~np.isnan(positions)
        return self.rows(paired), other.rows(positions[paired].astype(np.int64))

    def combined(self, other: Estimates, function: Callable[[Floats, Floats], Floats]) -> Estimates:
        """A function of each row and the row of ``other`` at its place, resample by resample.

        It has this one's keys, and is undefined where either is, for its reason.
        """
        values = self.frame["value"].to_numpy(np.float64)
        other_values = other.frame["value"].to_numpy(np.float64)
        note = np.where(np.isnan(values), self.frame["note"], other.frame["note"])
        drawn = function(
            np.asarray(self.replicates, dtype=np.float64),
            np.asarray(other.replicates, dtype=np.float64),
        )
        value = function(values, other_values)
        return Estimates(self._without_intervals().assign(value=value, note=note), drawn)

    def undefined(self, chosen: npt.ArrayLike, note: str) -> Estimates:
        """The same with some rows, truth values [rows], undefined for a reason."""
        undefined = np.asarray(chosen, dtype=bool)
        frame = self.frame.assign(
            value=self.frame["value"].mask(undefined),
            note=self.frame["note"].mask(undefined, note),
        )
        return Estimates(frame, np.where(undefined[:, None], np.nan, self.replicates))

    def mean_over_draws(self, setting: str) -> Estimates:
        """The mean over the settings of otherwise equal rows, ``setting`` in its place.

        They are draws for the same questions and resamples. Undefined where any is, for its reason.
        """
        return self._means("setting", setting, _mean_of_draws)

    def mean_over_methods(self, name: str) -> Estimates:
        """The mean over the methods of otherwise equal rows, ``name`` in their place.

        They are of the same questions and resamples. Undefined where any is, for its reason.
        """
        return self._means("method", name, _mean_of_draws)

    def mean_over_datasets(self, titles: Mapping[str, str] | None = None) -> Estimates:
        """The mean over the datasets of otherwise equal rows, each dataset resampled on its own.

        Cells with more than a fifth of empty answers are left out, and where all are the mean is
        undefined. A value undefined in any other cell leaves the mean undefined: a mean over fewer
        datasets would not be comparable. ``n`` is the sum over the datasets of the mean; notes name
        the datasets by ``titles``.
        """
        means = self._means("dataset", MEAN, partial(_mean_of_datasets, titles=titles or {}))
        return Estimates(means.frame.assign(empty=np.nan), means.replicates)

    def _means(
        self, over: str, name: str, parts_of_mean: Callable[[pd.DataFrame], _PartsOfMean]
    ) -> Estimates:
        """Means of rows equal in every key but ``over``, which is called ``name`` then."""
        frame = self._without_intervals().reset_index(drop=True)
        other_keys = [key for key in KEYS if key != over]
        rows: list[dict[Any, Any]] = []
        replicates: list[Floats] = []
        for _, equal_rows in frame.groupby(other_keys, sort=False):
            parts = parts_of_mean(equal_rows)
            value = parts.rows["value"].mean()
            drawn = np.asarray(self.replicates[parts.rows.index], dtype=np.float64).mean(axis=0)
            if parts.undefined:
                value = np.nan
                drawn = np.full_like(drawn, np.nan)
            mean = {over: name, "value": value, "n": parts.n, "note": parts.undefined}
            rows.append({**equal_rows.iloc[0], **mean})
            replicates.append(drawn)
        return Estimates(
            pd.DataFrame(rows, columns=frame.columns),
            np.array(replicates).reshape(len(rows), self.replicates.shape[1]),
        )

    def p(self) -> Floats:
        """[rows] two-sided p of a value of 0, by how often resampling crosses it.

        NaN where there is no interval, or where no resample says how far the value may be off.
        """
        defined = ~np.isnan(self.replicates)
        at_most_0 = (self.replicates <= 0).sum(axis=1)
        at_least_0 = (self.replicates >= 0).sum(axis=1)
        crossed = np.minimum(at_most_0, at_least_0)
        p = np.minimum(1.0, 2 * (crossed + 1) / (defined.sum(axis=1) + 1))
        repeated = (self.replicates == self.replicates[:, :1]).all(axis=1)
        return np.where(self.summary()["low"].isna() | repeated, np.nan, p)

    def holm(self, within: Collection[str] = (), tests: int | None = None) -> Floats:
        """[rows] p after Holm's correction over the rows of equal keys ``within``.

        Or over ``tests`` of them. One without an interval counts as 1; an undefined value is no
        test and has NaN.
        """
        p = np.nan_to_num(self.p(), nan=1.0)
        defined = self.frame["value"].notna().to_numpy()
        family = np.zeros(len(p), dtype=np.int64)
        if within:
            family = np.asarray(self.frame.groupby(list(within)).ngroup(), dtype=np.int64)
        adjusted = np.full(len(p), np.nan)
        for number in np.unique(family):
            chosen = defined & (family == number)
            adjusted[chosen] = holm(p[chosen], int(chosen.sum()) if tests is None else tests)
        return adjusted

    def best(self, within: Collection[str] = ("model", "dataset")) -> pd.DataFrame:
        """Which values lead among the rows of equal keys ``within``; the larger, the better.

        Returns ``mark`` ("best", "second" or "", ties alike) and ``p_best`` of the lead of the best
        over this row, two-sided and paired, after Holm over all other rows: NaN for the best and
        for an undefined value, 1 where no interval of the lead exists.
        """
        frame = self._without_intervals().reset_index(drop=True)
        leads = pd.DataFrame({"mark": "", "p_best": np.nan}, index=frame.index)
        for _, part in frame.groupby(list(within), sort=False):
            marks = rank_marks(part["value"].to_numpy())
            leads.loc[part.index, "mark"] = marks
            if "best" not in marks:
                continue
            best = int(part.index[marks.index("best")])
            rest = [row for row in part.index if row != best]
            values = frame.loc[best, "value"] - frame.loc[rest, "value"]
            drawn = np.subtract(self.replicates[best], self.replicates[rest], dtype=np.float64)
            lead = Estimates(frame.loc[rest].assign(value=values), drawn)
            leads.loc[rest, "p_best"] = lead.holm()
        return leads.set_index(self.frame.index)

    def summary(self, confidence: float = 0.95) -> pd.DataFrame:
        """The frame with ``low``, ``high``, ``std`` of each row.

        NaN where over 1 % of its resamples are undefined, or all are equal but for rounding: a
        bootstrap of nothing. A row with an interval of its own has that one, and no ``std``.
        """
        intervals: list[Interval] = []
        own = self.frame.reindex(columns=OWN_INTERVAL).to_numpy(dtype=np.float64)
        columns = self.frame["value"], self.frame["note"], own, self.replicates
        for value, note, (low, high), drawn in zip(*columns, strict=True):
            if np.isnan(value):
                intervals.append(Interval(None, None, None, note))
            elif np.isnan(low):
                intervals.append(_bootstrap_interval(drawn, confidence))
            else:
                intervals.append(Interval(low, high, None))
        ends = [(bounds.low, bounds.high, bounds.std, bounds.note) for bounds in intervals]
        bounds = pd.DataFrame(ends, self.frame.index, ["low", "high", "std", "note"])
        bounds = bounds.astype({"low": float, "high": float, "std": float})
        return self._without_intervals().drop(columns="note").join(bounds)

    def _without_intervals(self) -> pd.DataFrame:
        return self.frame.drop(columns=OWN_INTERVAL, errors="ignore")

    def _places(self, keys: Sequence[str]) -> pd.Series[int]:
        """The position of each row by these keys."""
        positions = pd.Series(
            np.arange(len(self)), pd.MultiIndex.from_frame(self.frame[list(keys)])
        )
        if not positions.index.is_unique:
            raise ValueError(f"two estimates are equal in {', '.join(keys)}")
        return positions


@dataclass(frozen=True)
class _PartsOfMean:
    """The rows that count in a mean, its n, and why it is undefined ("" if it is not)."""

    rows: pd.DataFrame
    n: int
    undefined: str


def _mean_of_draws(rows: pd.DataFrame) -> _PartsOfMean:
    notes = rows["note"][rows["value"].isna()]
    return _PartsOfMean(rows, rows["n"].iloc[0], next(iter(notes), ""))


def _mean_of_datasets(rows: pd.DataFrame, titles: Mapping[str, str]) -> _PartsOfMean:
    """Of the datasets with few empty answers; notes call them by ``titles``."""
    counted = rows[~(rows["empty"] > MOST_EMPTY)]
    if counted.empty:
        return _PartsOfMean(rows, int(rows["n"].sum()), ALL_EMPTY)
    undefined = counted[counted["value"].isna()]
    notes = [
        f"{metric} is undefined on {titles.get(dataset, dataset)}: {note}"
        for metric, dataset, note in undefined[["metric", "dataset", "note"]].to_numpy()
    ]
    return _PartsOfMean(counted, int(counted["n"].sum()), next(iter(notes), ""))


def _bootstrap_interval(drawn: Floats, confidence: float) -> Interval:
    """That of replicates [R]; none where all are equal but for rounding."""
    bounds = interval(drawn, confidence)
    if bounds.low is not None and np.nanmax(drawn) - np.nanmin(drawn) <= TIE:
        return Interval(None, None, None, CANNOT_MOVE)
    return bounds


def _joined_names(own: pd.Series[str], other: pd.Series[str]) -> list[str]:
    """A key's values in a difference: ``a - b`` where the two differ."""
    return [
        name if name == other_name else f"{name} - {other_name}"
        for name, other_name in zip(own, other, strict=True)
    ]


def joined(parts: Sequence[Estimates]) -> Estimates:
    """All rows of several, in their order.

    A single replicate, of a value without error, is repeated for all resamples.

    Raises ValueError if their numbers of resamples differ.
    """
    filled = [part for part in parts if len(part)] or list(parts)
    size = max(part.replicates.shape[1] for part in filled)
    drawn = [np.broadcast_to(part.replicates, (len(part), size)) for part in filled]
    return Estimates(
        pd.concat([part.frame for part in filled], ignore_index=True), np.concatenate(drawn)
    )


def rank_marks(values: npt.ArrayLike) -> list[str]:
    """``best`` for every value equal to the largest, ``second`` for the next below it, else "".

    Values within 1e-12 are equal. NaN: no mark.
    """
    column = np.asarray(values, dtype=np.float64)
    best = np.nanmax(column, initial=-np.inf)
    second = np.max(column, initial=-np.inf, where=column < best - TIE)
    marks = np.select([column >= best - TIE, column >= second - TIE], ["best", "second"], "")
    ranked: list[str] = marks.tolist()
    return ranked
