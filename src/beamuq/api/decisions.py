"""What is shown of answers, by the threshold of a calibration, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from beamuq.api.calibration_file import CalibrationFile
from beamuq.api.decisions_object import (
    Decision,
    DecisionsObject,
    LabelsOfShown,
    Promised,
    ShiftTest,
)
from beamuq.api.known_scores import KnownScores, known_scores
from beamuq.api.rows import json_values
from beamuq.api.scored_rows import PlacedRow
from beamuq.api.shown_labels import CONFIDENCE, ShownLabels, labels_of_shown
from beamuq.array_types import Bools, Floats
from beamuq.evaluation.probability_of_being_right import merged, probabilities
from beamuq.made_date import made

LEAST_SHIFT_P = 0.01
"""p of the two-sample test below which new scores are said to come from elsewhere."""
NO_SCORE = "no score"
OUTSIDE = "outside the calibrated range"


@dataclass(frozen=True)
class Decisions:
    """What is shown of new answers. The columns of ``table`` are id, value, right, right_low,
    right_high, shown and reason.

    right: the probability that the answer is right, the number to show; right_low, right_high:
    Venn–Abers' two, of which it is made (:func:`.merged`).

    shift_p: of the two-sample Kolmogorov–Smirnov test of the ``n`` new scores against the
    calibration's; None of none. forced: in what the scores differ from the calibration's, where
    ``force`` let that pass. known: how many of the scores were calibrated on, 0 where as few as by
    chance. threshold: up to which score answers are shown; None: no threshold has the guarantee.
    labels: how many of the shown answers are wrong, by labels beside them, which decided nothing;
    None: no row has one. promised: what the calibration promises of the shown.
    """

    table: pd.DataFrame
    n: int
    shift_p: float | None
    warnings: tuple[str, ...]
    forced: tuple[str, ...] = ()
    known: int = 0
    threshold: float | None = None
    labels: ShownLabels | None = None
    promised: Promised | None = None

    @property
    def guarantee_holds(self) -> bool:
        """False where the test finds other scores (p < .01), ``force`` let a difference pass, or
        scores were calibrated on.
        """
        return not self.forced and not self.known and not _is_shifted(self.shift_p)

    def __repr__(self) -> str:
        return "\n".join([*self.told(), repr(self.table)])

    def told(self) -> list[str]:
        """How many are shown, the test, labels of the shown, what was promised, each warning."""
        shown = f"{int(self.table['shown'].sum())} of {len(self.table)} shown"
        if self.shift_p is not None:
            shown += f"; two-sample test of the scores: p = {self.shift_p:.2g}, n = {self.n}"
        labels = [] if self.labels is None else [str(self.labels)]
        warned = [f"warning: {warning}" for warning in self.warnings]
        return [shown, *labels, *self._promised_in_words(), *warned]

    def _promised_in_words(self) -> list[str]:
        """A line, where a threshold has the guarantee."""
        if self.promised is None or self.threshold is None:
            return []
        form = f" + {self.promised.form}" if self.promised.form else ""
        return [
            f"promised: at most {self.promised.risk:.4g} of the shown wrong (confidence "
            f"{self.promised.confidence:.4g}), {self.promised.method}{form} <= "
            f"{self.threshold:.6g}, calibrated on {self.promised.n} answers"
        ]

    def with_labels(
        self, rows: Sequence[PlacedRow], quality_threshold: float | None = None
    ) -> Decisions:
        """The same decisions, with what labels of the rows [N] say of the shown answers.

        Added is a warning where they speak against what was promised.

        Raises BeamUQError as :func:`.labels_of_shown`.
        """
        shown = self.table["shown"].to_numpy(dtype=bool)
        labels = labels_of_shown(rows, shown, quality_threshold)
        warnings = (*self.warnings, *self._warning_of_labels(labels))
        return replace(self, labels=labels, warnings=warnings)

    def _warning_of_labels(self, labels: ShownLabels | None) -> list[str]:
        """A warning, where the whole interval of the wrong lies above the promised share."""
        if labels is None or labels.low is None or self.promised is None:
            return []
        if labels.low <= self.promised.risk:
            return []
        return [
            f"{labels.wrong} of {labels.labelled} shown answers with a label are wrong, "
            f"{labels.rate:.1%} (95% interval {labels.low:.1%} to {labels.high:.1%}), and at most "
            f"{self.promised.risk:.4g} was promised: labels decide nothing, so the exit status "
            "stays; calibrate anew on answers like these"
        ]

    def as_json(self) -> str:
        """One JSON object, with the keys of :class:`.DecisionsObject`."""
        content = DecisionsObject(
            shown=int(self.table["shown"].sum()),
            answers=len(self.table),
            guarantee_holds=self.guarantee_holds,
            threshold=self.threshold,
            promised=self.promised,
            known=self.known,
            shift=ShiftTest(p=self.shift_p, n=self.n, least_p=LEAST_SHIFT_P),
            labels=_labels_object(self.labels),
            forced=list(self.forced),
            warnings=list(self.warnings),
            decisions=[Decision(**row) for row in json_values(self.table)],
            **made(),
        )
        return json.dumps(content.model_dump(), ensure_ascii=False)


def _labels_object(labels: ShownLabels | None) -> LabelsOfShown | None:
    if labels is None:
        return None
    return LabelsOfShown(
        used_to_decide=False,
        without_label=labels.without_label,
        confidence=CONFIDENCE,
        **asdict(labels),
    )


def decisions_of(
    calibration: CalibrationFile,
    scores: Sequence[float] | Floats,
    warnings: Sequence[str],
    forced: Sequence[str] = (),
) -> Decisions:
    """The decisions of scores [N], NaN: none; their table has no ids.

    ``warnings`` are those of the comparison; added are those of scores unlike the calibration's, of
    missing scores, and of scores that were calibrated on. ``forced``: differences that ``force``
    let pass.
    """
    table = decision_table(calibration, scores)
    new_scores = table.loc[table["value"].notna(), "value"].to_numpy()
    shift_p = _shift_p(calibration, new_scores)
    all_warnings = list(warnings)
    if _is_shifted(shift_p):
        all_warnings.append(
            "the scores are not distributed as the calibration's (two-sample Kolmogorov–Smirnov "
            f"test: p = {shift_p:.2g}, n = {len(new_scores)} and {calibration.n}): neither "
            "probabilities nor the guarantee need hold"
        )
    missing = len(table) - len(new_scores)
    if missing:
        all_warnings.append(
            f"{missing} of {len(table)} answers have no score: they are not shown, and the test "
            "does not see them"
        )
    outside = int(_outside_range(calibration, new_scores).sum())
    if outside:
        all_warnings.append(f"{outside} of {len(table)} scores lie {OUTSIDE}")
    overlap = KnownScores() if _is_shifted(shift_p) else _known_scores(calibration, new_scores)
    if overlap.count:
        all_warnings.append(_calibrated_on(overlap, calibration.n, len(new_scores)))
    return Decisions(
        table,
        len(new_scores),
        shift_p,
        tuple(all_warnings),
        tuple(forced),
        overlap.count,
        calibration.threshold.value,
        promised=Promised(
            risk=calibration.threshold.risk,
            confidence=calibration.threshold.confidence,
            method=calibration.method,
            form=calibration.form,
            n=calibration.n,
        ),
    )


def decision_table(calibration: CalibrationFile, scores: Sequence[float] | Floats) -> pd.DataFrame:
    """value, right, right_low, right_high, shown and reason of scores [N].

    NaN: no score, and withheld.
    """
    values = np.array(scores, dtype=np.float64)
    has_score = ~np.isnan(values)
    low = np.full(len(values), np.nan)
    high = np.full(len(values), np.nan)
    if has_score.any():
        low[has_score], high[has_score] = probabilities(
            calibration.map.kind, calibration.map.known(), values[has_score]
        )
    threshold = calibration.threshold.value
    shown = has_score & (values <= (-np.inf if threshold is None else threshold))
    return pd.DataFrame(
        {
            "value": values,
            "right": merged(low, high) if calibration.map.kind == "venn_abers" else low,
            "right_low": low,
            "right_high": high,
            "shown": shown,
            "reason": _reasons(calibration, values, shown),
        }
    )


def _reasons(calibration: CalibrationFile, values: Floats, shown: Bools) -> list[str]:
    """Why each answer [N] is withheld, and whether its probability is extrapolated."""
    above = "above the threshold"
    if calibration.threshold.value is None:
        above = "no threshold has the guarantee"
    outside = _outside_range(calibration, values)
    reasons = []
    for value, is_shown, is_outside in zip(values, shown, outside, strict=True):
        parts = []
        if not is_shown:
            parts.append(NO_SCORE if np.isnan(value) else above)
        if is_outside:
            parts.append(OUTSIDE)
        reasons.append("; ".join(parts))
    return reasons


def _outside_range(calibration: CalibrationFile, values: Floats) -> Bools:
    """Whether each score lies below or above all of the calibration's; NaN does not."""
    outside: Bools = (values < calibration.map.scores[0]) | (values > calibration.map.scores[-1])
    return outside


def _calibrated_scores(calibration: CalibrationFile) -> Floats:
    """The scores calibrated on, sorted, each as often as it was given."""
    return np.repeat(np.array(calibration.map.scores, dtype=np.float64), calibration.map.n)


def _is_shifted(shift_p: float | None) -> bool:
    return shift_p is not None and shift_p < LEAST_SHIFT_P


def _known_scores(calibration: CalibrationFile, new_scores: Floats) -> KnownScores:
    values = np.array(calibration.map.scores, dtype=np.float64)
    return known_scores(values, np.array(calibration.map.n), new_scores)


def _calibrated_on(overlap: KnownScores, calibrated: int, count: int) -> str:
    """The warning of scores that were calibrated on."""
    if overlap.all_calibrated and count == calibrated:
        scores = "these are the scores that were calibrated on"
    elif overlap.all_calibrated:
        scores = (
            f"all {calibrated} scores that were calibrated on are, to the last digit, among these "
            f"{count}"
        )
    else:
        scores = (
            f"{overlap.count} of {count} scores are, to the last digit, such as were calibrated "
            "on, more than by chance"
        )
    return f"{scores}: the guarantee is of new answers"


def _shift_p(calibration: CalibrationFile, new_scores: Floats) -> float | None:
    """p of the two-sample Kolmogorov–Smirnov test; None where there is no new score."""
    from scipy.stats import ks_2samp  # takes a second

    if not len(new_scores):
        return None
    return float(ks_2samp(_calibrated_scores(calibration), new_scores).pvalue)
