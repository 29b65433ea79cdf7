"""What the exhibits measure of candidates: lengths, redundancy, covered mass; a bin a length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.parquet_tables import Artifact

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


COLUMNS = ["id", "strategy", "rank", "text", "token_ids", "logprob", "terminated"]  # the others are large
COLUMNS += ["search_rows", "search_passes", "proven"]


class CandidateMeasures:
    """One candidates file, in the order of the questions file; groups (stories) from the same.

    Raises BeamUQError if the file holds a question that the questions file lacks, or a question without a greedy
    answer.
    """

    def __init__(self, inputs: Inputs, candidates: Artifact, questions: Artifact) -> None:
        self.path = candidates.path
        asked = inputs.frame(questions)
        frame: pd.DataFrame = inputs[candidates].table.select(COLUMNS).to_pandas()
        known = set(frame["id"])
        self.questions = asked[asked["id"].isin(known)].set_index("id")
        self.ids: list[str] = list(self.questions.index)
        self.groups: list[str] = list(self.questions["group"])
        if unknown := known.difference(self.ids):
            raise BeamUQError(f"{self.path}: id {min(unknown)!r} is not in {questions.path}; make both of one study")
        self._strategies = {str(name): part.sort_values("rank") for name, part in frame.groupby("strategy")}
        greedy = self.of("greedy").drop_duplicates("id").set_index("id")
        if lacking := set(self.ids).difference(greedy.index):
            raise BeamUQError(f"{self.path}: id {min(lacking)!r} has no greedy answer; generate again")
        self.greedy = greedy.loc[self.ids]

    def of(self, strategy: str, size: int | None = None) -> pd.DataFrame:
        """Rows of a strategy (its first ``size`` ranks), by rank within a question."""
        if strategy not in self._strategies:
            known = ", ".join(self._strategies)
            raise BeamUQError(f"{self.path}: holds no strategy {strategy!r} (it has {known}); generate again")
        found = self._strategies[strategy]
        return found if size is None else found[found["rank"] < size]

    def lengths(self, *, terminator: bool = True) -> Ints:
        """[N] generated tokens of the greedy answer; the terminator counts unless told otherwise."""
        counts = self.greedy["token_ids"].map(len).to_numpy(dtype=np.int64)
        return counts if terminator else counts - self.greedy["terminated"].to_numpy(dtype=np.int64)

    def distinct(self, strategy: str, size: int) -> Floats:
        """[N] distinct cleaned texts of each question's first ``size`` candidates, from 1 to ``size``."""
        return np.asarray(self.of(strategy, size).groupby("id")["text"].nunique().loc[self.ids], dtype=np.float64)

    def redundancy(self, strategy: str, size: int) -> Floats:
        """[N] (M − distinct cleaned texts) / M of each question's first ``size`` candidates, M of them."""
        texts = self.of(strategy, size).groupby("id")["text"]
        share: pd.Series[float] = (texts.size() - texts.nunique()) / texts.size()
        return np.asarray(share.loc[self.ids], dtype=np.float64)

    def mass(self, strategy: str, size: int) -> Floats:
        """[N] Σ p over the distinct token sequences among each question's first ``size`` candidates, at most 1."""
        rows = self.of(strategy, size)
        rows = rows.assign(sequence=rows["token_ids"].map(tuple)).drop_duplicates(["id", "sequence"])
        total = rows.assign(p=np.exp(rows["logprob"])).groupby("id")["p"].sum()
        return np.minimum(np.asarray(total.loc[self.ids], dtype=np.float64), 1.0)


@dataclass(frozen=True)
class LengthBin:
    """Questions of like length: ``title`` as printed, ``members`` [N] truth values."""

    title: str
    members: NDArray[np.bool_]


def length_bins(lengths: Ints, most: int = 10) -> list[LengthBin]:
    """A bin a length; beyond ``most`` distinct lengths the longest share the last bin, ``9+``."""
    found = np.unique(lengths)
    if len(found) <= most:
        return [LengthBin(str(length), lengths == length) for length in found]
    single, rest = found[: most - 1], found[most - 1]
    return [*(LengthBin(str(length), lengths == length) for length in single), LengthBin(f"{rest}+", lengths >= rest)]


def with_all(bins: Sequence[LengthBin]) -> list[LengthBin]:
    """The bins, then one of all questions."""
    return [*bins, LengthBin("All", np.ones_like(bins[0].members))]


def equal_bins(
    lengths: Ints | Floats, count: int = 5, written: Callable[[float], str] = "{:g}".format
) -> list[LengthBin]:
    """About equally many questions a bin, never splitting a length: bin j closes once j·N/count questions are in.

    A length that fills several shares closes several at once, so there may be fewer than ``count`` bins. Anything else
    that is a number for each question does too; ``written``: as in the titles.
    """
    bins: list[LengthBin] = []
    start, closed = 0, 0
    values, counts = np.unique(lengths, return_counts=True)
    seen = np.cumsum(counts)
    for position, total in enumerate(seen):
        share = int(total * count // len(lengths))
        if share > closed:
            low, high = values[start], values[position]
            title = written(low) if low == high else f"{written(low)}–{written(high)}"
            bins.append(LengthBin(title, (lengths >= low) & (lengths <= high)))
            start, closed = position + 1, share
    return bins


def group_of(groups: Sequence[str], members: NDArray[np.bool_]) -> list[str]:
    """The groups of some of the questions."""
    return [group for group, member in zip(groups, members, strict=True) if member]
