"""How many of the shown answers are wrong, by labels that stand beside them and decided nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from beamuq.api.scored_rows import PlacedRow, label_of
from beamuq.array_types import Bools
from beamuq.evaluation.intervals import proportion_interval

CONFIDENCE = 0.95  # of the interval


@dataclass(frozen=True)
class ShownLabels:
    """Labels of the shown answers, which were not used to decide.

    shown: how many answers are shown; labelled: how many of these have a label; wrong: how many of
    the labelled are wrong; quality_alone: how many have a quality, and no threshold says from where
    on it is right. rate: wrong / labelled, in [0, 1]; low, high: its 95 % interval, Wilson's by
    groups (:func:`.proportion_interval`). None, all three, where no shown answer has a label.
    """

    shown: int
    labelled: int
    wrong: int
    quality_alone: int = 0
    rate: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def without_label(self) -> int:
        """How many of the shown answers have no label."""
        return self.shown - self.labelled

    def __str__(self) -> str:
        text = f"none of the {self.shown} shown has one"
        if self.rate is not None:
            text = (
                f"of {self.shown} shown {self.labelled} have one, {self.wrong} of these are wrong: "
                f"{self.rate:.1%} (95% interval {self.low:.1%} to {self.high:.1%}); "
                f"{self.without_label} have none"
            )
        if self.quality_alone:
            text += (
                f"; {self.quality_alone} have a quality alone: --quality-threshold says from where "
                "on it is right"
            )
        return f"labels, not used to decide: {text}"


def labels_of_shown(
    rows: Sequence[PlacedRow], shown: Bools, quality_threshold: float | None
) -> ShownLabels | None:
    """What the labels of rows [N] say of those ``shown`` [N]; None: no row has one, nor a quality.

    ``quality_threshold``: an answer of quality above it is right, where a row has no ``correct``.

    Raises BeamUQError naming a row, shown or not, whose ``correct`` is neither 0 nor 1.
    """
    labels = [label_of(placed, quality_threshold) for placed in rows]
    has_quality = any(placed.row.quality is not None for placed in rows)
    if not has_quality and all(label is None for label in labels):
        return None
    labelled = np.array([label is not None for label in labels], dtype=bool)
    quality_alone = sum(
        placed.row.quality is not None for placed in compress(rows, shown & ~labelled)
    )
    counted = shown & labelled
    wrong = np.array([label is False for label in compress(labels, counted)], dtype=bool)
    counts = ShownLabels(int(shown.sum()), len(wrong), int(wrong.sum()), quality_alone)
    if not len(wrong):
        return counts
    groups = [placed.row.group or placed.row.id for placed in compress(rows, counted)]
    low, high = proportion_interval(wrong, groups, CONFIDENCE)
    return replace(counts, rate=float(wrong.mean()), low=low, high=high)
