"""Calibrate and decide in Python, on one method's scores as a column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd

from beamuq.api.calibration import (
    ScoredRow,
    calibrate,
    compared,
    decisions_of,
    facts_of,
    refused_or_told,
)
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.rows import check_settings
from beamuq.api.score_series import FACTS, OF_THE_ANSWER, UNNAMED, Origin, origin_of
from beamuq.config_errors import validated
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

    Returns ------- An object to ``fit``. ``fitted``: what ``fit`` or ``load`` found, as ``beamuq
    calibrate`` writes it; None before. Once it is fitted, risk, confidence and tried are those of
    the fit and cannot be set.

    Raises BeamUQError if one of them is out of range, or is set after ``fit``.

    Examples
    --------
    >>> scores, correct = [k / 300 for k in range(300)], [k < 240 for k in range(300)]
    >>> calibration = beamuq.Calibration(risk=0.2).fit(scores, correct)
    >>> calibration.decide([0.1, 0.99])["shown"].tolist()
    [True, False]
    """

    def __init__(self, *, risk: float = 0.1, confidence: float = 0.95, tried: int = 1) -> None:
        check_settings(risk=risk, confidence=confidence, tried=tried)
        self._risk = float(risk)
        self._confidence = float(confidence)
        self._tried = int(tried)
        self._found: CalibrationFile | None = None

    @property
    def risk(self) -> float:
        """The largest share of wrong answers among the shown ones."""
        return self._risk if self._found is None else self._found.threshold.risk

    @risk.setter
    def risk(self, risk: float) -> None:
        self._check_not_fitted("risk", risk)
        check_settings(risk=risk)
        self._risk = float(risk)

    @property
    def confidence(self) -> float:
        """With which the share of wrong answers is at most ``risk``, over calibrations."""
        return self._confidence if self._found is None else self._found.threshold.confidence

    @confidence.setter
    def confidence(self, confidence: float) -> None:
        self._check_not_fitted("confidence", confidence)
        check_settings(confidence=confidence)
        self._confidence = float(confidence)

    @property
    def tried(self) -> int:
        """How many methods, forms and risks are tried on these answers."""
        return self._tried if self._found is None else self._found.threshold.tried

    @tried.setter
    def tried(self, tried: int) -> None:
        self._check_not_fitted("tried", tried)
        check_settings(tried=tried)
        self._tried = int(tried)

    @property
    def fitted(self) -> CalibrationFile | None:
        """What ``fit`` or ``load`` found; None before."""
        return self._found

    @fitted.setter
    def fitted(self, fitted: object) -> None:  # noqa: ARG002
        raise BeamUQError(
            "fitted: cannot be set; call fit(scores, correct), or Calibration.load(file)"
        )

    def fit(
        self, scores: npt.ArrayLike, correct: npt.ArrayLike, *, groups: object = None
    ) -> Calibration:
        """Calibrate on scores [N] (higher = more uncertain) of answers that are right (1, True) or
        wrong (0, False).

        ``scores``: a list, array or series of finite numbers. A series of ``beamuq.score``, such as
        ``scores["Dissimilarity"]``, says its method, form, settings and model, with which later
        scores are compared; of another series the name is the method's. ``groups`` [N]: what
        belongs together (a story, a user), as texts or whole numbers.

        Raises BeamUQError if lengths differ, series are of other answers or in another order, or a
        score, label or group is missing or of another type.
        """
        check_order(scores=scores, correct=correct, groups=groups)
        values = number_column("scores", scores)
        labels = number_column("correct", correct, truth_values=True)
        names = None if groups is None else group_column(groups)
        if len(values) != len(labels) or (names is not None and len(names) != len(values)):
            counted = f"scores {len(values)}, correct {len(labels)}"
            counted += "" if names is None else f", groups {len(names)}"
            raise BeamUQError(f"fit: {counted}; give one of each per answer")
        if not len(values):
            raise BeamUQError("scores: no answer; give some hundreds, with correct")
        origin = origin_of(scores, values)
        if origin.doubt:
            warnings.warn(f"of these scores only the method is known: {origin.doubt}", stacklevel=2)
        rows = _rows(origin, scores, len(values)).assign(value=values, correct=labels)
        if names is not None:
            rows["group"] = names
        method = rows["method"].iloc[0]
        form = rows["variant"].iloc[0]
        self._found = calibrate(
            rows,
            method=method,
            form=form,
            setting=rows["setting"].iloc[0],
            risk=self.risk,
            confidence=self.confidence,
            tried=self.tried,
        )
        return self

    def decide(self, scores: npt.ArrayLike, *, force: bool = False) -> pd.DataFrame:
        """Show or withhold each answer: value, right_low and right_high (two probabilities), shown,
        reason.

        ``scores`` [N]: as for ``fit``; one that is missing is withheld. As ``beamuq decide`` does,
        it compares method, form, setting, similarity, settings, number of candidates, model, prompt
        and version with those of the calibration, warns of each that the scores or the calibration
        do not say, of scores that are not distributed as the calibration's or out of their range,
        and where these are the scores that were calibrated on. An array says nothing of all this,
        and a series of another origin than ``beamuq.score`` its method at most.

        ``force``: warn of what differs, in place of refusing it.

        Raises BeamUQError before ``fit``; of scores of another method, form, setting, similarity,
        number of candidates, model, prompt or version; of what is no column of finite numbers.
        """
        made = self._fitted()
        values = number_column("scores", scores)
        origin = origin_of(scores, values)
        told = _told(made, origin, force=force)
        if origin.doubt:
            told.append(f"of these scores only the method is known: {origin.doubt}")
        decisions = decisions_of(made, values, told)
        for warning in decisions.warnings:
            warnings.warn(warning, stacklevel=2)
        table = decisions.table
        return table.set_index(scores.index) if isinstance(scores, pd.Series) else table

    def __repr__(self) -> str:
        return "not fitted; call fit(scores, correct)" if self._found is None else str(self._found)

    @property
    def threshold(self) -> float | None:
        """The largest score that is shown; None: no threshold has the guarantee."""
        return self._fitted().threshold.value

    @threshold.setter
    def threshold(self, threshold: object) -> None:
        fix = "it follows from risk; calibrate anew with another risk"
        raise BeamUQError(
            f"threshold: {threshold!r:.40}: cannot be set, {fix}: Calibration(risk=…).fit(scores, "
            "correct)"
        )

    def save(self, path: str | Path) -> None:
        """Write what was fitted, as ``beamuq calibrate`` does."""
        self._fitted().write(path)

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what :meth:`save` or ``beamuq calibrate`` wrote.

        Raises BeamUQError if it is no calibration.
        """
        found = read_calibration(path)
        limit = found.threshold
        calibration = cls(risk=limit.risk, confidence=limit.confidence, tried=limit.tried)
        calibration._found = found
        return calibration

    def _fitted(self) -> CalibrationFile:
        if self._found is None:
            raise BeamUQError(
                "this calibration is not fitted; call fit(scores, correct) first, or "
                "Calibration.load"
            )
        return self._found

    def _check_not_fitted(self, name: str, value: object) -> None:
        if self._found is not None:
            raise BeamUQError(
                f"{name}: {value!r}: this calibration is fitted with {getattr(self, name)!r}, and "
                "its threshold holds "
                f"for that alone; calibrate anew: Calibration({name}={value!r}).fit(scores, "
                "correct)"
            )


def _rows(origin: Origin, scores: object, count: int) -> pd.DataFrame:
    """A row a score, with its id and what is known of it."""
    if origin.rows is None:
        ids = [str(place) for place in range(count)]
        return pd.DataFrame(
            {"id": ids, "method": origin.method or UNNAMED, "variant": "", "setting": ""}
        )
    known = [
        {name: row[name] for name in (*FACTS, *OF_THE_ANSWER) if name in row} for row in origin.rows
    ]
    index: Any = scores.index if isinstance(scores, pd.Series) else range(count)
    return pd.DataFrame(known).assign(id=[str(label) for label in index])


def _told(made: CalibrationFile, origin: Origin, *, force: bool) -> list[str]:
    """Warnings of what differs or cannot be compared; raises BeamUQError of what differs."""
    rows = [row for row in origin.rows or () if row]
    facts = _facts(rows)
    differences: list[str] = []
    unknown: list[str] = []
    if origin.method is None or made.method == UNNAMED:
        unknown.append("method")
    elif origin.method != made.method:
        differences.append(f"method {origin.method!r}, calibrated with {made.method!r}")
    made_knows_form = bool(made.form or made.similarity or made.scored_with)
    for column, name in FORM.items():
        if not rows or not made_knows_form:
            unknown.append(name)
        elif rows[0][column] != getattr(made, name):
            differences.append(
                f"{name} {rows[0][column]!r}, calibrated with {getattr(made, name)!r}"
            )
    further, not_said = compared(made, facts)
    return refused_or_told(
        [*differences, *further], [*unknown, *not_said], force=force, where="scores"
    )


def _facts(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows of ``score`` behind a column say of its making; of no rows nothing."""
    if not rows:
        return {}
    known = [{key: value for key, value in row.items() if not _missing(value)} for row in rows]
    placed: list[tuple[str, ScoredRow]] = []
    for row in known:
        place = f"scores: id {row['id']!r}"
        placed.append((place, validated(ScoredRow, row, place)))
    return facts_of(placed)


def _missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))
