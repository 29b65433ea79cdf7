"""From scores to decisions: calibrate on answers known to be right or wrong, then show or withhold others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, ConfigDict, Field

from beamuq import __version__
from beamuq.api.calibration_file import CalibrationFile, Map, WithInterval, read_calibration, versions
from beamuq.api.candidate_records import Correct, Name, Quality, Rows, as_number, named, placed_rows
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.guaranteed_threshold import guaranteed_threshold
from beamuq.evaluation.probability_of_being_right import (
    CALIBRATORS,
    Calibrator,
    cross_fitted,
    labelled_scores,
    merged,
    probabilities,
    reliability,
)

SHIFT = 0.01  # p of the two-sample test below which new scores are said to come from elsewhere
RESAMPLES = 1000
COMPARED = ("similarity", "model", "model_hash", "prompt_hash")  # what new scores share with a calibration


def _score(value: Any) -> Any:
    number = as_number(value)
    return None if isinstance(number, float) and math.isnan(number) else number


class ScoredRow(StrictModel):
    """A row as ``score`` prints it, with what calibration needs beside; other columns are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    id: Annotated[Name, Field(min_length=1)]
    method: str
    variant: str = ""
    setting: str = ""
    value: Annotated[float | None, BeforeValidator(_score)] = None
    similarity: str = ""
    reason: str = ""
    correct: Correct = None
    quality: Quality = None
    group: Name | None = None
    model: str | None = None
    model_hash: str | None = None
    prompt_hash: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class Decisions:
    """What is shown of new answers. ``table``: id, value, right_low, right_high, shown, reason.

    right_low, right_high: Venn–Abers' two probabilities that the answer is right.

    shift_p: of the two-sample Kolmogorov–Smirnov test of the ``n`` new scores against the calibration's; None of none.
    """

    table: pd.DataFrame
    n: int
    shift_p: float | None
    warnings: tuple[str, ...]

    def told(self) -> list[str]:
        """How many are shown, the test, and each warning."""
        test = "" if self.shift_p is None else f"; two-sample test of the scores: p = {self.shift_p:.2g}, n = {self.n}"
        shown = f"{int(self.table['shown'].sum())} of {len(self.table)} shown{test}"
        return [shown, *(f"warning: {each}" for each in self.warnings)]


def calibrate(
    rows: Rows,
    *,
    method: str,
    form: str | None = None,
    setting: str = "",
    risk: float = 0.1,
    confidence: float = 0.95,
    tried: int = 1,
    quality_threshold: float | None = None,
    probability: Calibrator = "venn_abers",
    seed: int = 0,
    output: str | Path | None = None,
) -> CalibrationFile:
    """A probability of being right for every score of a method, and a threshold with a guarantee.

    Parameters
    ----------
    rows
        What ``score`` gives, as a file in JSON Lines, JSON, CSV or Parquet, rows or a frame, with ``correct`` (0 or
        1) or ``quality``, and where questions belong together ``group`` (a story, a user, a document).
    method, form, setting
        Which scores; ``form`` is the column variant, None: the only one that has values.
    risk, confidence
        With probability ≥ ``confidence`` over calibrations, at most a share ``risk`` of the shown answers is wrong.
    tried
        How many methods, forms and risks are tried on these answers in all; each is tested that much more strictly.
    quality_threshold
        An answer is right where ``quality`` lies above it; needed where rows have no ``correct``.
    probability
        ``venn_abers`` or ``isotonic``.
    seed
        Of the fifth that gives the thresholds, of the question of a group that counts, and of the folds.
    output
        Where to write it.

    Raises
    ------
    BeamUQError
        In one line: a bad row, no or several forms, a missing score or label, labels all of one kind.
    """
    for name, number in (("risk", risk), ("confidence", confidence)):
        if not 0 < number < 1:
            raise BeamUQError(f"{name}: {number}: must be above 0 and below 1")
    if tried < 1:
        raise BeamUQError(f"tried: {tried}: must be at least 1, this calibration itself")
    if probability not in CALIBRATORS:
        raise BeamUQError(f"probability: {probability!r}: unknown; {hint(probability, CALIBRATORS)}")
    where = named(rows)
    # the draws depend on the order of rows
    placed = sorted(_rows_of(rows, method, form, setting), key=lambda each: each[1].id)
    grouped = any(item.group is not None for _, item in placed)
    for place, item in placed:
        if item.value is None:
            told = f" ({item.reason})" if item.reason else ""
            raise BeamUQError(f"{place}: value: no score of {method}{told}; score it, or leave this answer out")
        if grouped and item.group is None:
            raise BeamUQError(f"{place}: group: missing, other rows have one; give all or none")
    right = np.array([_is_right(item, place, quality_threshold) for place, item in placed])
    if len(set(right)) < 2:
        kind = "right" if right[0] else "wrong"
        raise BeamUQError(f"{where}: correct: all {len(right)} answers are {kind}; calibration needs both kinds")
    groups = [item.group or item.id for _, item in placed]
    if len(set(groups)) < 2:
        raise BeamUQError(f"{where}: group: all {len(groups)} answers are of one group; nothing in it is independent")
    scores = np.array([item.value for _, item in placed], dtype=np.float64)
    low, high = cross_fitted(probability, scores, right, groups, seed=seed)
    merging = merged(low, high) if probability == "venn_abers" else low
    measured = reliability(merging, right, groups, resamples=RESAMPLES, seed=seed)
    known = labelled_scores(scores, right)
    version = _one(placed, "version")
    calibration = CalibrationFile(
        method=method,
        form=placed[0][1].variant,
        setting=setting,
        **{name: _one(placed, name) for name in COMPARED},
        n=len(groups),
        groups=len(set(groups)),
        right=float(right.mean()),
        seed=seed,
        threshold=guaranteed_threshold(
            scores, ~right, groups, risk=risk, confidence=confidence, tried=tried, seed=seed
        ),
        map=Map(
            kind=probability,
            scores=known.scores.tolist(),
            n=known.n.astype(int).tolist(),
            right=known.right.astype(int).tolist(),
        ),
        ece=WithInterval.of(measured.ece),
        brier=WithInterval.of(measured.brier),
        versions=versions() | ({"beamuq": version} if version else {}),
    )
    if output is not None:
        calibration.write(output)
    return calibration


def decide(rows: Rows, calibration: CalibrationFile | str | Path, *, force: bool = False) -> Decisions:
    """Show or withhold each answer, with its probability of being right.

    Parameters
    ----------
    rows
        As :func:`calibrate` takes them, without labels.
    calibration
        A calibration or its file.
    force
        Decide even where model, prompt, method, similarity or version are not the calibration's, with a warning.

    Raises
    ------
    BeamUQError
        In one line: a bad row or file, or what differs from the calibration.
    """
    from scipy.stats import ks_2samp  # takes a second

    made = calibration if isinstance(calibration, CalibrationFile) else read_calibration(calibration)
    placed = _rows_of(rows, made.method, made.form, made.setting)
    told = {name: _one(placed, name) for name in (*COMPARED, "version")}
    warnings = check_same(made, told, force=force, where=named(rows))
    table, outside = decided(made, [np.nan if item.value is None else item.value for _, item in placed])
    table.insert(0, "id", [item.id for _, item in placed])
    missing = table["value"].isna()
    table.loc[missing, "reason"] = [item.reason or "no score" for _, item in placed if item.value is None]
    new = table.loc[~missing, "value"].to_numpy()
    p = float(ks_2samp(np.repeat(made.map.scores, made.map.n), new).pvalue) if len(new) else None
    if p is not None and p < SHIFT:
        warnings.append(
            f"the scores are not distributed as the calibration's (two-sample Kolmogorov–Smirnov test: p = {p:.2g}, "
            f"n = {len(new)} and {made.n}): neither probabilities nor the guarantee need hold"
        )
    if outside:
        warnings.append(f"{outside} of {len(placed)} scores lie outside the calibrated range")
    return Decisions(table, len(new), p, tuple(warnings))


def decided(made: CalibrationFile, scores: Sequence[float]) -> tuple[pd.DataFrame, int]:
    """value, right_low, right_high, shown, reason of scores [N], NaN: none, withheld; how many are out of range."""
    values = np.array(scores, dtype=np.float64)
    known, there = made.map.known(), ~np.isnan(values)
    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
    low[there], high[there] = probabilities(made.map.kind, known, values[there]) if there.any() else ([], [])
    limit = made.threshold.value
    shown = there & (values <= (-np.inf if limit is None else limit))
    outside = there & ((values < known.scores[0]) | (values > known.scores[-1]))
    withheld = "no threshold has the guarantee" if limit is None else "above the threshold"
    reasons = [
        "; ".join(filter(None, ("" if s else withheld, "outside the calibrated range" if o else "")))
        for s, o in zip(shown, outside, strict=True)
    ]
    table = pd.DataFrame({"value": values, "right_low": low, "right_high": high, "shown": shown, "reason": reasons})
    return table, int(outside.sum())


def check_same(made: CalibrationFile, told: Mapping[str, str | None], *, force: bool, where: str) -> list[str]:
    """Refuse what differs from the calibration, or warn with ``force``; warn of what one of both does not say.

    ``told``: similarity, model, model_hash, prompt_hash, version.
    """
    warnings, unknown = [], []
    # one model may lie in two places: its name counts where a hash is not known
    by_hash = made.model_hash and told.get("model_hash")
    for name in ("similarity", "model_hash" if by_hash else "model", "prompt_hash"):
        expected, found = getattr(made, name), told.get(name)
        if not expected or not found:
            unknown.append(name.removesuffix("_hash"))
        elif expected != found:
            warnings.append(f"{name} {found!r}, calibrated with {expected!r}")
    version = told.get("version") or __version__
    if version != made.versions.get("beamuq"):
        warnings.append(f"version {version!r}, calibrated with {made.versions.get('beamuq')!r}")
    if warnings and not force:
        raise BeamUQError(f"{where}: {'; '.join(warnings)}; calibrate anew, or give --force to decide all the same")
    if unknown:
        warnings.append(f"not known whether the calibration's: {', '.join(unknown)}; the rows or the file lack it")
    return warnings


def _rows_of(rows: Rows, method: str, form: str | None, setting: str) -> list[tuple[str, ScoredRow]]:
    """The rows of one method in one form, each with its place."""
    every, where = list(placed_rows(rows)), f"{named(rows)}: method {method!r}"
    of_method: list[tuple[str, ScoredRow]] = [
        (place, validated(ScoredRow, dict(row), place)) for place, row in every if row.get("method") == method
    ]
    if not of_method:
        raise BeamUQError(f"{where}: no such score; {hint(method, {str(row.get('method')): None for _, row in every})}")
    found = [each for each in of_method if each[1].setting == setting and form in (None, each[1].variant)]
    if not found:
        raise BeamUQError(f"{where}: no row of form {form!r} and setting {setting!r}; correct it")
    if form is None and (forms := sorted({item.variant for _, item in found if item.value is not None})):
        if len(forms) > 1:
            raise BeamUQError(f"{where}: in the forms {', '.join(forms)}; choose one with --form")
        found = [each for each in found if each[1].variant == forms[0]]
    seen: set[str] = set()
    for place, item in found:
        if item.id in seen:
            raise BeamUQError(f"{place}: id {item.id!r} stands twice; give each answer its own")
        seen.add(item.id)
    return found


def _is_right(item: ScoredRow, place: str, quality_threshold: float | None) -> bool:
    if item.correct is not None:
        if item.correct not in (0, 1):
            raise BeamUQError(f"{place}: correct: {item.correct:g}: must be 0 or 1; for a quality write 'quality'")
        return bool(item.correct)
    if item.quality is None:
        raise BeamUQError(f"{place}: correct: missing; give 0 or 1, or 'quality' with --quality-threshold")
    if quality_threshold is None:
        raise BeamUQError(f"{place}: quality: {item.quality:g}: from where on is it right? give --quality-threshold")
    return item.quality > quality_threshold


def _one(placed: Sequence[tuple[str, ScoredRow]], name: str) -> Any:
    """The value that all rows have."""
    first = getattr(placed[0][1], name)
    for place, item in placed:
        if getattr(item, name) != first:
            raise BeamUQError(f"{place}: {name}: {getattr(item, name)!r}, other rows have {first!r}; give rows of one")
    return first
