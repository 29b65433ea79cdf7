"""Calibrate and decide in Python, on one method's scores as a column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd

from beamuq.api.calibration import calibrate
from beamuq.api.calibration_comparison import Comparison, compare_facts
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.decisions import decisions_of
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.rows import check_settings
from beamuq.api.score_series import FACTS, OF_THE_ANSWER, UNNAMED, Origin, origin_of
from beamuq.api.scored_rows import PlacedRow, ScoredRow, facts_of
from beamuq.config_errors import validated
from beamuq.drawing.series_on_axes import Axes
from beamuq.errors import BeamUQError

FORM = {"variant": "form", "setting": "setting"}
"""What a row calls the form and the setting of a method, and what a calibration calls them."""


class Calibration:
    """A threshold with a guarantee, and a probability of being right, for one method's scores.

    Parameters
    ----------
    risk, confidence
        With probability ≥ ``confidence`` over calibrations, at most a share ``risk`` of the shown
        answers is wrong.
    tried
        How many methods, forms and risks are tried on these answers in all; each is tested that
        much more strictly.

    Returns
    -------
    An object to ``fit``. ``fitted``: what ``fit`` or ``load`` found, as ``beamuq calibrate`` writes
    it; None before. Once it is fitted, risk, confidence and tried are those of the fit and cannot
    be set.

    Raises BeamUQError if one of them is out of range, or is set after ``fit``.

    Examples
    --------
    >>> scores = [k / 300 for k in range(300)]
    >>> correct = [k < 240 for k in range(300)]
    >>> calibration = beamuq.Calibration(risk=0.2).fit(scores, correct)
    >>> calibration.decide([0.105, 0.985])["shown"].tolist()
    [True, False]
    """

    def __init__(self, *, risk: float = 0.1, confidence: float = 0.95, tried: int = 1) -> None:
        check_settings(risk=risk, confidence=confidence, tried=tried)
        self._risk = float(risk)
        self._confidence = float(confidence)
        self._tried = int(tried)
        self._calibration: CalibrationFile | None = None

    @property
    def risk(self) -> float:
        """The largest share of wrong answers among the shown ones."""
        return self._risk if self._calibration is None else self._calibration.threshold.risk

    @risk.setter
    def risk(self, risk: float) -> None:
        self._check_not_fitted("risk", risk)
        check_settings(risk=risk)
        self._risk = float(risk)

    @property
    def confidence(self) -> float:
        """With which the share of wrong answers is at most ``risk``, over calibrations."""
        return (
            self._confidence
            if self._calibration is None
            else self._calibration.threshold.confidence
        )

    @confidence.setter
    def confidence(self, confidence: float) -> None:
        self._check_not_fitted("confidence", confidence)
        check_settings(confidence=confidence)
        self._confidence = float(confidence)

    @property
    def tried(self) -> int:
        """How many methods, forms and risks are tried on these answers."""
        return self._tried if self._calibration is None else self._calibration.threshold.tried

    @tried.setter
    def tried(self, tried: int) -> None:
        self._check_not_fitted("tried", tried)
        check_settings(tried=tried)
        self._tried = int(tried)

    @property
    def fitted(self) -> CalibrationFile | None:
        """What ``fit`` or ``load`` found; None before."""
        return self._calibration

    @fitted.setter
    def fitted(self, fitted: object) -> None:  # noqa: ARG002
        raise BeamUQError(
            "fitted: cannot be set; call fit(scores, correct), or Calibration.load(file)"
        )

    def fit(
        self, scores: npt.ArrayLike, correct: npt.ArrayLike, *, groups: object = None
    ) -> Calibration:
        """Calibrate on scores [N] of answers that are right (1, True) or wrong (0, False).

        ``scores``, higher = more uncertain: a list, array or series of finite numbers. A series of
        ``beamuq.score``, such as ``scores["Dissimilarity"]``, says its method, form, settings and
        model, with which later scores are compared; of another series the name is the method's.
        ``groups`` [N]: what belongs together (a story, a user), as texts or whole numbers. Answers
        whose score or label is missing are left out with a warning.

        Raises BeamUQError if lengths differ, series are of other answers or in another order, a
        group is missing, more than half of the scores are, or something is of another type.
        """
        check_order(scores=scores, correct=correct, groups=groups)
        values = number_column("scores", scores)
        labels = number_column("correct", correct, truth_values=True)
        group_names = None if groups is None else group_column(groups)
        _check_lengths(len(values), len(labels), None if group_names is None else len(group_names))
        origin = origin_of(scores, values)
        if origin.doubt:
            warnings.warn(f"of these scores only the method is known: {origin.doubt}", stacklevel=2)
        rows = _scored_rows(origin, scores, len(values)).assign(value=values, correct=labels)
        if group_names is not None:
            rows["group"] = group_names
        first = rows.iloc[0]
        self._calibration = calibrate(
            rows,
            method=first["method"],
            form=first["variant"],
            setting=first["setting"],
            risk=self.risk,
            confidence=self.confidence,
            tried=self.tried,
        )
        return self

    def decide(self, scores: npt.ArrayLike, *, force: bool = False) -> pd.DataFrame:
        """Show or withhold each answer, by its score.

        A frame of value, right (the probability that it is right), right_low and right_high (the
        two that it is made of), shown and reason. ``scores`` [N]: as for ``fit``; one that is
        missing is withheld. As ``beamuq decide`` does, it compares method, form,
        setting, similarity, settings, number of candidates, model, prompt and version with those of
        the calibration, warns of each that the scores or the calibration do not say, of scores that
        are not distributed as the calibration's or out of their range, and where these are the
        scores that were calibrated on, or a part of them. An array says nothing of all this, and a
        series of another origin than ``beamuq.score`` its method at most.

        ``force``: warn of what differs, in place of refusing it.

        Raises BeamUQError before ``fit``; of scores of another method, form, setting, similarity,
        number of candidates, model, prompt or version; of what is no column of finite numbers.
        """
        calibration = self._fitted()
        values = number_column("scores", scores)
        origin = origin_of(scores, values)
        differences = _compared(calibration, origin).warnings(force=force, where="scores")
        if origin.doubt:
            differences.append(f"of these scores only the method is known: {origin.doubt}")
        decisions = decisions_of(calibration, values, differences)
        for warning in decisions.warnings:
            warnings.warn(warning, stacklevel=2)
        table = decisions.table
        return table.set_index(scores.index) if isinstance(scores, pd.Series) else table

    def plot(
        self, new_scores: npt.ArrayLike | None = None, axes: Sequence[Axes] = ()
    ) -> list[Axes]:
        """Draw risk against coverage with the threshold, reliability, and the scores.

        ``new_scores`` [N], such as those to decide on, are drawn beside those calibrated on.
        ``axes``: three of matplotlib; without them those of a new figure. They are returned.

        Raises BeamUQError before ``fit``, or without matplotlib.
        """
        return self._fitted().plot(new_scores, axes)

    def __repr__(self) -> str:
        if self._calibration is None:
            return "not fitted; call fit(scores, correct)"
        return str(self._calibration)

    @property
    def threshold(self) -> float | None:
        """The largest score that is shown; None: no threshold has the guarantee."""
        return self._fitted().threshold.value

    @threshold.setter
    def threshold(self, threshold: object) -> None:
        raise BeamUQError(
            f"threshold: {threshold!r:.40}: cannot be set, it follows from risk; calibrate anew "
            "with another risk: Calibration(risk=…).fit(scores, correct)"
        )

    def save(self, path: str | Path) -> None:
        """Write what was fitted, as ``beamuq calibrate`` does."""
        self._fitted().write(path)

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what :meth:`save` or ``beamuq calibrate`` wrote.

        Raises BeamUQError if it is no calibration.
        """
        content = read_calibration(path)
        threshold = content.threshold
        calibration = cls(
            risk=threshold.risk, confidence=threshold.confidence, tried=threshold.tried
        )
        calibration._calibration = content
        return calibration

    def _fitted(self) -> CalibrationFile:
        if self._calibration is None:
            raise BeamUQError(
                "this calibration is not fitted; call fit(scores, correct) first, or "
                "Calibration.load"
            )
        return self._calibration

    def _check_not_fitted(self, name: str, value: object) -> None:
        if self._calibration is not None:
            raise BeamUQError(
                f"{name}: {value!r}: this calibration is fitted with {getattr(self, name)!r}, and "
                "its threshold holds for that alone; calibrate anew: "
                f"Calibration({name}={value!r}).fit(scores, correct)"
            )


def _check_lengths(scores: int, correct: int, groups: int | None) -> None:
    if scores != correct or groups not in (None, scores):
        counted = f"scores {scores}, correct {correct}"
        if groups is not None:
            counted += f", groups {groups}"
        raise BeamUQError(f"fit: {counted}; give one of each per answer")
    if not scores:
        raise BeamUQError("scores: no answer; give some hundreds, with correct")


def _scored_rows(origin: Origin, scores: object, count: int) -> pd.DataFrame:
    """A row a score, with its id and what is known of it."""
    if origin.rows is None:
        ids = [str(place) for place in range(count)]
        return pd.DataFrame(
            {"id": ids, "method": origin.method or UNNAMED, "variant": "", "setting": ""}
        )
    # score never gave the id of an empty row: it counts as an answer without this score
    first_known = next((row for row in origin.rows if row), {})
    score_name = {
        "method": origin.method or UNNAMED,
        "variant": first_known.get("variant", ""),
        "setting": first_known.get("setting", ""),
    }
    rows = [
        score_name | {name: row[name] for name in (*FACTS, *OF_THE_ANSWER) if name in row}
        for row in origin.rows
    ]
    labels: Any = scores.index if isinstance(scores, pd.Series) else range(count)
    return pd.DataFrame(rows).assign(id=[str(label) for label in labels])


def _compared(calibration: CalibrationFile, origin: Origin) -> Comparison:
    """In what scores differ from the calibration's, and what cannot be compared."""
    rows = [row for row in origin.rows or () if row]
    facts = _facts(rows)
    comparison = Comparison()
    if origin.method is None or calibration.method == UNNAMED:
        comparison.unknown.append("method")
    else:
        comparison.compare("method", origin.method, calibration.method)
    says_form = bool(calibration.form or calibration.similarity or calibration.scored_with)
    for column, name in FORM.items():
        if rows and says_form:
            comparison.compare(name, rows[0][column], getattr(calibration, name))
        else:
            comparison.unknown.append(name)
    compare_facts(comparison, calibration, facts)
    return comparison


def _facts(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows of ``score`` behind a column say of its making; of no rows nothing."""
    placed_rows: list[PlacedRow] = []
    for row in rows:
        place = f"scores: id {row['id']!r}"
        values = {name: value for name, value in row.items() if not _is_missing(value)}
        placed_rows.append(PlacedRow(place, validated(ScoredRow, values, place)))
    return facts_of(placed_rows) if placed_rows else {}


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))
