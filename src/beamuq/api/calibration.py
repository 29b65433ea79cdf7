"""Fit on answers known to be right or wrong, then show or withhold others: the object over the commands' functions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.calibrate_and_decide import calibrate, decided
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.errors import BeamUQError


class Calibration:
    """A threshold with a guarantee, and a probability of being right, for one method's scores.

    Parameters
    ----------
    risk, confidence
        With probability ≥ ``confidence`` over calibrations, at most a share ``risk`` of the shown answers is wrong.
    tried
        How many methods, forms and risks are tried on these answers in all; each is tested that much more strictly.
    seed
        Of the fifth that gives the thresholds, of the question of a group that counts, and of the folds.

    Attributes
    ----------
    fitted
        What ``fit`` or ``load`` found, as ``beamuq calibrate`` writes it; None before.

    Examples
    --------
    >>> calibration = beamuq.Calibration(risk=0.2).fit(scores["CocoaPPL"], correct)  # doctest: +SKIP
    >>> calibration.decide(new_scores["CocoaPPL"])  # doctest: +SKIP
    """

    def __init__(self, *, risk: float = 0.1, confidence: float = 0.95, tried: int = 1, seed: int = 0) -> None:
        self.risk, self.confidence, self.tried, self.seed = risk, confidence, tried, seed
        self.fitted: CalibrationFile | None = None

    def fit(
        self, scores: npt.ArrayLike, correct: npt.ArrayLike, *, groups: Sequence[object] | None = None
    ) -> Calibration:
        """Calibrate on scores [N] (higher = more uncertain) of answers that are right (1) or wrong (0).

        ``scores`` may be a series of ``beamuq.score``, whose name is the method's. ``groups`` [N]: what belongs
        together (a story, a user).

        Raises BeamUQError if lengths differ, a score or label is missing, or all answers are of one kind.
        """
        values, labels = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        if values.ndim != 1 or values.shape != labels.shape or (groups is not None and len(groups) != len(values)):
            raise BeamUQError(f"fit: scores {values.shape}, correct {labels.shape}; give one of each per answer")
        method = str(getattr(scores, "name", None) or "score")
        rows: list[dict[str, Any]] = [
            {"id": str(number), "method": method, "value": value, "correct": label}
            for number, (value, label) in enumerate(zip(values.tolist(), labels.tolist(), strict=True))
        ]
        for row, group in zip(rows, groups if groups is not None else (), strict=False):
            row["group"] = str(group)
        self.fitted = calibrate(
            rows, method=method, risk=self.risk, confidence=self.confidence, tried=self.tried, seed=self.seed
        )
        return self

    def decide(self, scores: npt.ArrayLike) -> pd.DataFrame:
        """Show or withhold each answer: value, right_low and right_high (two probabilities), shown, reason.

        Warns where these are the scores that were calibrated on: the guarantee is of new answers.

        Raises BeamUQError before ``fit``; a score that is missing is withheld.
        """
        fitted = self._fitted()
        values = np.asarray(scores, dtype=np.float64)
        if sorted(values.tolist()) == np.repeat(fitted.map.scores, fitted.map.n).tolist():
            warnings.warn("these are the scores that were calibrated on: the guarantee is of new answers", stacklevel=2)
        table, _ = decided(fitted, values.tolist())
        return table.set_index(scores.index) if isinstance(scores, pd.Series) else table

    @property
    def threshold(self) -> float | None:
        """The largest score that is shown; None: no threshold has the guarantee."""
        return self._fitted().threshold.value

    def save(self, path: str | Path) -> None:
        """Write it as ``beamuq calibrate`` does."""
        self._fitted().write(path)

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what :meth:`save` or ``beamuq calibrate`` wrote. Raises BeamUQError if it is no calibration."""
        found = read_calibration(path)
        calibration = cls(risk=found.threshold.risk, confidence=found.threshold.confidence, seed=found.seed)
        calibration.fitted = found
        return calibration

    def _fitted(self) -> CalibrationFile:
        if self.fitted is None:
            raise BeamUQError("this calibration is not fitted; call fit(scores, correct) first, or Calibration.load")
        return self.fitted
