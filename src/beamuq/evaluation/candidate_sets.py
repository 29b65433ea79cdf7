"""Statistics of a cell's candidates per question (lengths, redundancy, covered mass), and bins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats, Ints
from beamuq.errors import BeamUQError
from beamuq.evaluation.intervals import mean_interval
from beamuq.strategy_names import kind_of


class CandidateSets:
    """Candidates of N questions, by strategy.

    ``ids`` and ``groups`` (stories) are in the questions' order. ``candidates`` has columns ``id``,
    ``strategy``, ``rank``, ``text``, ``token_ids``, ``logprob``, ``terminated``; ``questions`` has
    ``id``, ``group`` and whatever else, and may hold more ids. Messages say ``name``.

    Raises BeamUQError if a question is unknown or lacks a greedy answer.
    """

    def __init__(
        self, candidates: pd.DataFrame, questions: pd.DataFrame, name: str = "candidates"
    ) -> None:
        self.name = name
        ids = set(candidates["id"])
        self.questions = questions[questions["id"].isin(ids)].set_index("id")
        self.ids: list[str] = list(self.questions.index)
        self.groups: list[str] = list(self.questions["group"])
        unknown = ids.difference(self.ids)
        if unknown:
            raise BeamUQError(
                f"{name}: id {min(unknown)!r} is not among the questions; make both of one study"
            )
        self._strategies = {
            str(key): part.sort_values("rank") for key, part in candidates.groupby("strategy")
        }
        greedy = self.rows("greedy").drop_duplicates("id").set_index("id")
        unanswered = set(self.ids).difference(greedy.index)
        if unanswered:
            raise BeamUQError(
                f"{name}: id {min(unanswered)!r} has no greedy answer; generate again"
            )
        self.greedy = greedy.loc[self.ids]

    def rows(self, strategy: str, size: int | None = None) -> pd.DataFrame:
        """Rows of a strategy, or of its first ``size`` ranks, by rank within a question.

        Raises BeamUQError if there are none.
        """
        if strategy not in self._strategies:
            strategies = ", ".join(self._strategies)
            raise BeamUQError(
                f"{self.name}: holds no strategy {strategy!r} (it has {strategies}); generate again"
            )
        rows = self._strategies[strategy]
        return rows if size is None else rows[rows["rank"] < size]

    def lengths(self) -> Ints:
        """[N] generated tokens of the greedy answer, its terminator among them."""
        return self.greedy["token_ids"].map(len).to_numpy(dtype=np.int64)

    def distinct(self, strategy: str, size: int) -> Floats:
        """[N] distinct cleaned texts of each question's first candidates, from 1 to ``size``."""
        counts = self.rows(strategy, size).groupby("id")["text"].nunique()
        return np.asarray(counts.loc[self.ids], dtype=np.float64)

    def redundancy(self, strategy: str, size: int) -> Floats:
        """[N] (M − distinct cleaned texts) / M of each question's first M = ``size`` candidates."""
        texts = self.rows(strategy, size).groupby("id")["text"]
        share: pd.Series[float] = (texts.size() - texts.nunique()) / texts.size()
        return np.asarray(share.loc[self.ids], dtype=np.float64)

    def _distinct(self, strategy: str, size: int | None = None) -> pd.DataFrame:
        """Distinct token sequences, by rank."""
        rows = self.rows(strategy, size)
        return rows.assign(sequence=rows["token_ids"].map(tuple)).drop_duplicates(
            ["id", "sequence"]
        )

    def found(self) -> pd.DataFrame:
        """``id``, ``text``, ``logprob`` of each outcome of a search, the likeliest first."""
        searched = [name for name in self._strategies if kind_of(name) in ("beam", "exact")]
        rows = pd.concat([self._distinct(name) for name in searched])
        return _most_probable_first(rows.drop_duplicates(["id", "sequence"]))[
            ["id", "text", "logprob"]
        ]

    def mass(self, strategy: str, size: int) -> Floats:
        """[N] Σ p over the distinct sequences among the first ``size`` candidates, at most 1."""
        rows = self._distinct(strategy, size)
        total = rows.assign(p=np.exp(rows["logprob"])).groupby("id")["p"].sum()
        return np.minimum(np.asarray(total.loc[self.ids], dtype=np.float64), 1.0)

    def log_probabilities(self, strategy: str, size: int) -> Floats:
        """[N, size] of the most probable distinct outcomes, falling; NaN where there are fewer."""
        rows = _most_probable_first(self._distinct(strategy))
        rows = rows.assign(place=rows.groupby("id").cumcount())
        wide = rows[rows["place"] < size].pivot(index="id", columns="place", values="logprob")
        return wide.reindex(columns=range(size)).loc[self.ids].to_numpy(dtype=np.float64)

    def effort(self, strategy: str) -> tuple[Floats, Floats]:
        """[N] decoded rows and passes that a search alone takes; NaN where its rows do not say."""
        first = self.rows(strategy, 1).set_index("id").loc[self.ids]
        rows = first["search_rows"].to_numpy(dtype=np.float64)
        passes = first["search_passes"].to_numpy(dtype=np.float64)
        return rows, passes

    def effort_of_samples(self, strategy: str, size: int) -> tuple[Floats, Floats]:
        """[N] decoded rows and passes that the first samples alone take.

        Rows: their distinct prefixes that were continued. Passes: the length of the longest one.
        """
        tokens = self.rows(strategy, size).groupby("id")["token_ids"]
        rows = tokens.agg(_continued_prefixes).loc[self.ids]
        passes = tokens.agg(_longest_prefix).loc[self.ids]
        return np.asarray(rows, dtype=np.float64), np.asarray(passes, dtype=np.float64)


def _most_probable_first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values(["id", "logprob"], ascending=[True, False], kind="stable")


def _continued_prefixes(sequences: Iterable[Sequence[int]]) -> int:
    """How many distinct prefixes of token sequences have a token behind them."""
    prefixes = {
        tuple(sequence[:length]) for sequence in sequences for length in range(1, len(sequence))
    }
    return len(prefixes)


def _longest_prefix(sequences: Iterable[Sequence[int]]) -> int:
    return max(len(sequence) - 1 for sequence in sequences)


@dataclass(frozen=True)
class QuestionBin:
    """Questions of like length, mass or other number.

    ``title`` as printed, the lowest and the highest number, ``members`` [N] truth values.
    """

    title: str
    lowest: float
    highest: float
    members: Bools


def length_bins(lengths: Ints, most: int = 10) -> list[QuestionBin]:
    """One bin per length; beyond ``most`` distinct lengths the longest share the last, ``9+``."""
    values = np.unique(lengths)
    single = values if len(values) <= most else values[: most - 1]
    bins = [QuestionBin(str(length), length, length, lengths == length) for length in single]
    if len(values) > most:
        rest = values[most - 1]
        bins.append(QuestionBin(f"{rest}+", rest, values[-1], lengths >= rest))
    return bins


def with_all(bins: Sequence[QuestionBin]) -> list[QuestionBin]:
    """The bins, then one of all questions."""
    everyone = np.ones_like(bins[0].members)
    return [*bins, QuestionBin("All", bins[0].lowest, bins[-1].highest, everyone)]


def equal_bins(
    values: Ints | Floats, count: int = 5, written: Callable[[float], str] = "{:g}".format
) -> list[QuestionBin]:
    """About equally many questions per bin, never splitting equal values.

    Bin j closes once j·N/count are in. A value that fills several shares closes several at once, so
    there may be fewer than ``count`` bins. ``written`` formats the ends in titles.
    """
    bins: list[QuestionBin] = []
    start = 0
    closed = 0
    distinct, counts = np.unique(values, return_counts=True)
    for position, total in enumerate(np.cumsum(counts)):
        due = int(total * count // len(values))
        if due <= closed:
            continue
        low = distinct[start]
        high = distinct[position]
        title = written(low) if low == high else f"{written(low)}–{written(high)}"
        members = (values >= low) & (values <= high)
        bins.append(QuestionBin(title, float(low), float(high), members))
        start = position + 1
        closed = due
    return bins


def groups_of(groups: Sequence[str], members: Bools) -> list[str]:
    """The groups of some of the questions."""
    return [group for group, member in zip(groups, members, strict=True) if member]


def means_by_bin(
    bins: Sequence[QuestionBin],
    groups: Sequence[str],
    values: Mapping[str, Floats | Bools],
    confidence: float,
    interval: Callable[..., tuple[float, float] | None] = mean_interval,
) -> pd.DataFrame:
    """The mean of each of the ``values`` [N] over the questions of a bin, with its interval.

    NaN where there is none. Columns ``bin`` (its title), ``name`` (that of the values), ``value``,
    ``low``, ``high``, ``n``.
    """
    rows = []
    for question_bin in bins:
        groups_in_bin = groups_of(groups, question_bin.members)
        for name, column in values.items():
            part = column[question_bin.members]
            low, high = interval(part, groups_in_bin, confidence) or (np.nan, np.nan)
            rows.append((question_bin.title, name, float(part.mean()), low, high, len(part)))
    return pd.DataFrame(rows, columns=["bin", "name", "value", "low", "high", "n"])
