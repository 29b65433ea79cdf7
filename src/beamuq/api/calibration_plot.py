"""A calibration in three pictures: risk against coverage, reliability, the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.paired_columns import number_column
from beamuq.api.score_series import UNKNOWN_COUNTS, compares_texts, form_in_words
from beamuq.array_types import Bools, Floats
from beamuq.drawing.curves import draw_distribution, draw_reliability, draw_risk_coverage
from beamuq.drawing.series_on_axes import (
    BEAMS,
    BLACK,
    FORMS,
    Axes,
    Looks,
    SeriesStyle,
    check_matplotlib,
    legend_below,
    legend_with_interval,
    title_with_facts,
)
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_counts
from beamuq.evaluation.guaranteed_threshold import risk_coverage
from beamuq.evaluation.probability_of_being_right import cross_fitted, merged, reliability_by_bin

if TYPE_CHECKING:
    from beamuq.api.calibration_file import CalibrationFile

PANELS = 3
INTERVAL = 0.95
MOST_RESAMPLES = 500  # an interval is drawn to the pixel, not to the third digit
MOST_CELLS = 2_000_000  # of questions times resamples
KNOWN = SeriesStyle("calibrated on", BLACK)
NEW = SeriesStyle("new", BEAMS, "--")


def plot_calibration(
    calibration: CalibrationFile,
    new_scores: npt.ArrayLike | None = None,
    axes: Sequence[Axes] = (),
) -> list[Axes]:
    """Draw what a calibration says, on three axes, which are returned.

    Share wrong of the answers shown, against their share, with the threshold and the allowed risk;
    share right against the probability of being right, cross-fitted; and which scores were
    calibrated on, beside ``new_scores`` [N] if they are given (a missing one is left out). A
    calibration keeps no groups: where there were some, no interval is drawn.

    Raises BeamUQError if matplotlib is missing, axes are not three, or a new score is no number.
    """
    new_column = None if new_scores is None else number_column("new_scores", new_scores)
    own_axes = _three_axes(axes)
    answers = _Answers(calibration)
    answers.draw_risk(own_axes[0])
    answers.draw_reliability(own_axes[1])
    answers.draw_scores(own_axes[2], new_column)
    return own_axes


def _three_axes(axes: Sequence[Axes]) -> list[Axes]:
    check_matplotlib()
    if len(axes) == PANELS:
        return list(axes)
    if len(axes):
        raise BeamUQError(f"axes: {len(axes)}; give {PANELS}, or none for a new figure")
    from matplotlib import pyplot

    _, new_axes = pyplot.subplots(ncols=PANELS, figsize=(10, 4), layout="constrained")
    return list(new_axes)


class _Answers:
    """The answers that a calibration was made of, N of them, by rising score."""

    def __init__(self, calibration: CalibrationFile) -> None:
        counted = calibration.map
        self.calibration = calibration
        self.scores: Floats = np.repeat(np.array(counted.scores, dtype=np.float64), counted.n)
        labels = [
            place < right
            for n, right in zip(counted.n, counted.right, strict=True)
            for place in range(n)
        ]
        self.right: Bools = np.array(labels, dtype=bool)
        self.ids = [str(number) for number in range(len(labels))]
        self.has_groups = calibration.groups < calibration.n

    def draw_risk(self, ax: Axes) -> None:
        """Share wrong of what is shown, and the threshold on the curve."""
        n = len(self.ids)
        resamples = max(2, min(MOST_RESAMPLES, MOST_CELLS // n))
        counts = resample_counts(self.ids, resamples, 0, "calibration plot")
        curve = risk_coverage(self.scores, ~self.right, self.ids, counts, INTERVAL)
        curve = self._without_interval(curve.assign(variant=self.calibration.form, part="curve"))
        threshold = self.calibration.threshold
        value = -np.inf if threshold.value is None else threshold.value
        at_threshold = curve[curve["score"] <= value].tail(1).assign(part="guaranteed")
        data = pd.concat([curve, at_threshold], ignore_index=True)
        draw_risk_coverage(data, ax, risks=(threshold.risk,), looks=self._looks())
        title = "no guaranteed threshold"
        if threshold.value is not None:
            title = f"shown up to {threshold.value:.3g}"
        ax.set(xlabel="Share shown", ylabel="Share of it wrong")
        title_with_facts(ax, title, [f"n = {n}"])
        if self.has_groups:
            legend_below(ax)
        else:
            legend_with_interval(ax, INTERVAL)

    def draw_reliability(self, ax: Axes) -> None:
        """Share right in bins of the probability of being right."""
        kind = self.calibration.map.kind
        low, high = cross_fitted(kind, self.scores, self.right, self.ids)
        p = merged(low, high) if kind == "venn_abers" else low
        is_known = ~np.isnan(p)
        ids = [name for name, has_p in zip(self.ids, is_known, strict=True) if has_p]
        bins = reliability_by_bin(p[is_known], self.right[is_known], ids)
        bins = self._without_interval(bins.assign(variant=self.calibration.form))
        draw_reliability(bins, ax, self._looks())
        ax.set(xlabel="Mean p(right)", ylabel="Share right")
        title_with_facts(ax, "reliability, cross-fitted", [f"n = {len(ids)}"])
        legend_below(ax)

    def draw_scores(self, ax: Axes, new_scores: Floats | None) -> None:
        """The share of answers up to each score, of those calibrated on and of new ones."""
        draw_distribution(self.scores, ax, KNOWN)
        if new_scores is not None:
            draw_distribution(new_scores[~np.isnan(new_scores)], ax, NEW)
        threshold = self.calibration.threshold.value
        if threshold is not None:
            ax.axvline(threshold, color=BLACK, linestyle=":", linewidth=0.9, label="threshold")
        ax.set(xlabel=self.calibration.method, ylabel="Share of answers up to it")
        title_with_facts(ax, "scores", self._facts())
        legend_below(ax)

    def _facts(self) -> list[str]:
        """Of which scores they are: form and similarity, as far as there are any that are known."""
        similarity = self.calibration.similarity
        if not compares_texts(self.calibration.method):
            similarity = ""
        return list(filter(None, [self._form(), similarity and f"similarity {similarity}"]))

    def _form(self) -> str:
        """Over how many candidates the scores are, as far as that is known."""
        counts = self.calibration.candidates or UNKNOWN_COUNTS
        return form_in_words(self.calibration.method, self.calibration.form, counts, plain=True)

    def _looks(self) -> Looks:
        """How the one series looks, named after method and form."""
        form = self.calibration.form
        look = FORMS.get(form, FORMS[""])
        title = f"{self.calibration.method} {self._form()}".strip()
        return {form: replace(look, title=title)}

    def _without_interval(self, data: pd.DataFrame) -> pd.DataFrame:
        """The frame as it is; of groups, which are not known, without intervals."""
        return data.assign(low=np.nan, high=np.nan) if self.has_groups else data
