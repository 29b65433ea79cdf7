"""Whether scores lack the log-probability of an answer's ending, which makes them other scores.

A score by log p of a text alone, without what ended it, is by log p of a beginning. The option
``without_ending`` allows such scores; a row's note says whether its own is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WITHOUT_ENDING = (
    "without the ending's log-probability, which the server left out: not p of the text"
)
"""The note of a score that lacks it."""
LARGEST_SHARE_BESIDE_NONE = 0.05
"""Of scores that lack it, beside others of which none does: a few are no other form of log."""
LARGEST_DIFFERENCE = 0.2
"""Of two shares of scores that lack it, where some do on both sides."""
LEAST_P = 0.01
"""Of Fisher's exact test, below which two shares do not differ by chance."""


@dataclass(frozen=True)
class EndingCount:
    """How many of so many ``scores`` are ``lacking`` their ending's log-probability."""

    lacking: int
    scores: int

    @property
    def share(self) -> float:
        """In [0, 1]; of no scores 0."""
        return self.lacking / self.scores if self.scores else 0.0

    def __str__(self) -> str:
        return f"{self.lacking} of {self.scores}"


def ending_count(notes: Sequence[str]) -> EndingCount:
    """The count of scores with these notes [N]."""
    return EndingCount(sum(note == WITHOUT_ENDING for note in notes), len(notes))


@dataclass(frozen=True)
class EndingComparison:
    """New scores beside those calibrated on, by how many lack their ending's log-probability.

    An answer cut at its largest number of tokens has no ending to lack: so a few scores without
    the note are no other form of log, and one alone may be by chance.
    """

    new: EndingCount
    calibrated: EndingCount

    @property
    def is_another_kind(self) -> bool:
        """Whether the scores mean other things than those calibrated on."""
        return self._differs_much() and not self._may_be_chance()

    @property
    def is_doubtful(self) -> bool:
        """Whether the shares differ in a way that a person should know of."""
        few, many = self._shares()
        if few == many:
            return False
        return few == 0 or self._differs_much() or not self._may_be_chance()

    def __str__(self) -> str:
        return (
            f"{self.new} scores lack their ending's log-probability, calibrated with "
            f"{self.calibrated}"
        )

    def _shares(self) -> tuple[float, float]:
        """The smaller share and the larger one."""
        low, high = sorted([self.new.share, self.calibrated.share])
        return low, high

    def _differs_much(self) -> bool:
        few, many = self._shares()
        largest = LARGEST_SHARE_BESIDE_NONE if few == 0 else LARGEST_DIFFERENCE
        return many - few > largest

    def _may_be_chance(self) -> bool:
        from scipy.stats import fisher_exact  # takes a second

        if self._shares() == (0, 1):  # however few they are
            return False
        counts = [
            [count.lacking, count.scores - count.lacking] for count in (self.new, self.calibrated)
        ]
        return float(fisher_exact(np.array(counts))[1]) >= LEAST_P
