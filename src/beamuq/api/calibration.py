"""From scores to decisions: calibrate on answers known to be right or wrong, then show or withhold
others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field

from beamuq import __version__
from beamuq.api.calibration_file import CalibrationFile, Map, read_calibration, settings_in_json
from beamuq.api.candidate_records import Labels, Name, Number, as_number
from beamuq.api.rows import Rows, check_settings, named, placed_rows
from beamuq.array_types import Floats
from beamuq.config_errors import validated
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

__all__ = [
    "CalibrationFile",
    "Decisions",
    "Map",
    "calibrate",
    "check_same",
    "decide",
    "decided",
    "read_calibration",
]

SHIFT = 0.01  # p of the two-sample test below which new scores are said to come from elsewhere
RESAMPLES = 1000
SEED = 0  # of every draw; to choose among several would be to try as many calibrations
COMPARED = (
    "similarity",
    "model",
    "model_hash",
    "prompt_hash",
    "scored_with",
)  # what new scores share with those here
NO_SCORE = "no score"
CALIBRATED_ON = "these are the scores that were calibrated on: the guarantee is of new answers"


class ScoredRow(Labels, extra="ignore"):
    """A row as ``score`` prints it, with what calibration needs beside; other columns are left
    out.
    """

    id: Annotated[Name, Field(min_length=1)]
    method: str
    variant: str = ""
    setting: str = ""
    # a frame that was filled in has NaN where there is no score
    value: Annotated[
        Number, BeforeValidator(lambda value: None if pd.isna(as_number(value)) else value)
    ] = None
    similarity: str = ""
    reason: str = ""
    candidates: Annotated[int, Field(ge=0, strict=False)] | None = None
    scored_with: Annotated[str | None, AfterValidator(settings_in_json)] = None
    version: str | None = None


@dataclass(frozen=True)
class Decisions:
    """What is shown of new answers. ``table``: id, value, right_low, right_high, shown, reason.

    right_low, right_high: Venn–Abers' two probabilities that the answer is right.

    shift_p: of the two-sample Kolmogorov–Smirnov test of the ``n`` new scores against the
    calibration's; None of none.
    """

    table: pd.DataFrame
    n: int
    shift_p: float | None
    warnings: tuple[str, ...]

    def told(self) -> list[str]:
        """How many are shown, the test, and each warning."""
        test = (
            ""
            if self.shift_p is None
            else f"; two-sample test of the scores: p = {self.shift_p:.2g}, n = {self.n}"
        )
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
    output: str | Path | None = None,
) -> CalibrationFile:
    """Learn from answers known to be right or wrong: a probability, and a threshold with a
    guarantee.

    With the given confidence over calibrations, at most a share risk of the answers shown by the
    threshold is wrong.

    Parameters
    ----------
    rows
        What score writes of rows with correct (0 or 1) or quality, and with group where questions
        belong together.
    method
        Whose scores.
    form
        Over samples or beams, needed where the method has scores in both.
    setting
        A further formulation of the method.
    risk
        The largest share of wrong answers among the shown ones.
    confidence
        With which that holds, over calibrations.
    tried
        Methods, forms and risks tried on these answers in all: each is tested more strictly.
    quality_threshold
        An answer of quality above it is right; needed where rows have no correct.
    probability
        How a score becomes a probability of being right.
    output
        Where to write the calibration, in JSON.

    Returns
    -------
    The calibration, as its file has it; ``print`` shows what was found.

    Raises BeamUQError in one line: a bad row, no or several forms, or a missing score or label.

    Examples
    --------
    >>> rows = [
    ...     {"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)
    ... ]
    >>> beamuq.calibrate(rows, method="Prob", risk=0.2).threshold.upper <= 0.2
    True
    """
    check_settings(risk=risk, confidence=confidence, tried=tried)
    if probability not in CALIBRATORS:
        raise BeamUQError(
            f"probability: {probability!r}: unknown; {hint(probability, CALIBRATORS)}"
        )
    where = named(rows)
    # the draws depend on the order of rows
    placed = sorted(_rows_of(rows, method, form, setting), key=lambda each: each[1].id)
    grouped = any(item.group is not None for _, item in placed)
    for place, item in placed:
        if item.value is None:
            told = f" ({item.reason})" if item.reason else ""
            raise BeamUQError(
                f"{place}: value: no score of {method}{told}; score it, or leave this answer out"
            )
        if grouped and item.group is None:
            raise BeamUQError(f"{place}: group: missing, other rows have one; give all or none")
    right = np.array([_is_right(item, place, quality_threshold) for place, item in placed])
    groups = [item.group or item.id for _, item in placed]
    if len(set(groups)) < 2:
        raise BeamUQError(
            f"{where}: group: all {len(groups)} answers are of one group; nothing in it is "
            "independent"
        )
    scores = np.array([item.value for _, item in placed], dtype=np.float64)
    low, high = cross_fitted(probability, scores, right, groups, seed=SEED)
    merging = merged(low, high) if probability == "venn_abers" else low
    measured = reliability(merging, right, groups, resamples=RESAMPLES, seed=SEED)
    known = labelled_scores(scores, right)
    version = _one(placed, "version")
    used = {"beamuq": __version__} | {
        name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")
    }
    calibration = CalibrationFile(
        method=method,
        form=placed[0][1].variant,
        setting=setting,
        **{name: _one(placed, name) for name in COMPARED},
        candidates=_counts(placed),
        n=len(groups),
        groups=len(set(groups)),
        right=float(right.mean()),
        threshold=guaranteed_threshold(
            scores, ~right, groups, risk=risk, confidence=confidence, tried=tried, seed=SEED
        ),
        map=Map(
            kind=probability,
            scores=tuple(known.scores.tolist()),
            n=tuple(known.n.astype(int).tolist()),
            right=tuple(known.right.astype(int).tolist()),
        ),
        ece=measured["ece"],
        brier=measured["brier"],
        versions=used | ({"beamuq": version} if version else {}),
    )
    if output is not None:
        calibration.write(output)
    return calibration


def decide(
    rows: Rows, calibration: CalibrationFile | str | Path, *, force: bool = False
) -> Decisions:
    """Show or withhold answers, by a calibration, with each one's probability of being right.

    A model, prompt, method, similarity, setting or version that is not the calibration's is
    refused; scores that are not distributed as the calibration's, or are the calibration's own, are
    warned of.

    Parameters
    ----------
    rows
        What score writes, with or without labels.
    calibration
        Of beamuq calibrate; in Python its object too.
    force
        Decide even where model, prompt, method, similarity, settings or version are not those that
        were calibrated.

    Returns
    -------
    The table of decisions, the test of the scores, and warnings.

    Raises BeamUQError in one line: a bad row or file, or what differs from the calibration.

    Examples
    --------
    >>> rows = [
    ...     {"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)
    ... ]
    >>> made = beamuq.calibrate(rows, method="Prob", risk=0.2)
    >>> beamuq.decide([{"id": "new", "method": "Prob", "value": 0.1}], made).table["shown"].tolist()
    [True]
    """
    made = (
        calibration if isinstance(calibration, CalibrationFile) else read_calibration(calibration)
    )
    placed = _rows_of(rows, made.method, made.form, made.setting)
    told = check_same(made, facts_of(placed), force=force, where=named(rows))
    decisions = decisions_of(
        made, [np.nan if item.value is None else item.value for _, item in placed], told
    )
    table = decisions.table
    table.insert(0, "id", [item.id for _, item in placed])
    missing = table["value"].isna()
    table.loc[missing, "reason"] = [
        item.reason or NO_SCORE for _, item in placed if item.value is None
    ]
    return decisions


def facts_of(placed: Sequence[tuple[str, ScoredRow]]) -> dict[str, Any]:
    """What rows say that a calibration is compared with; raises BeamUQError naming a row that says
    another thing.
    """
    facts = {name: _one(placed, name) for name in (*COMPARED, "version")}
    return facts | {"candidates": _counts(placed)}


def decisions_of(
    made: CalibrationFile, scores: Sequence[float] | Floats, told: Sequence[str]
) -> Decisions:
    """The decisions of scores [N], NaN: none; warned of are what was ``told`` before, and scores
    unlike the known ones.

    The table has no column of ids.
    """
    from scipy.stats import ks_2samp  # takes a second

    table, outside = decided(made, scores)
    new = table.loc[table["value"].notna(), "value"].to_numpy()
    p = float(ks_2samp(np.repeat(made.map.scores, made.map.n), new).pvalue) if len(new) else None
    warnings = list(told)
    if p is not None and p < SHIFT:
        warnings.append(
            "the scores are not distributed as the calibration's (two-sample Kolmogorov–Smirnov "
            f"test: p = {p:.2g}, "
            f"n = {len(new)} and {made.n}): neither probabilities nor the guarantee need hold"
        )
    if outside:
        warnings.append(f"{outside} of {len(table)} scores lie outside the calibrated range")
    if _calibrated_on(made, new):
        warnings.append(CALIBRATED_ON)
    return Decisions(table, len(new), p, tuple(warnings))


def decided(made: CalibrationFile, scores: Sequence[float] | Floats) -> tuple[pd.DataFrame, int]:
    """value, right_low, right_high, shown, reason of scores [N], NaN: none, withheld; how many are
    out of range.
    """
    values = np.array(scores, dtype=np.float64)
    known = made.map.known()
    present = ~np.isnan(values)
    low = np.full(len(values), np.nan)
    high = np.full(len(values), np.nan)
    if present.any():
        low[present], high[present] = probabilities(made.map.kind, known, values[present])
    limit = made.threshold.value
    shown = present & (values <= (-np.inf if limit is None else limit))
    outside = present & ((values < known.scores[0]) | (values > known.scores[-1]))
    withheld = "no threshold has the guarantee" if limit is None else "above the threshold"
    reasons = []
    for has_score, is_shown, is_outside in zip(present, shown, outside, strict=True):
        why = withheld if has_score else NO_SCORE
        parts = ["" if is_shown else why, "outside the calibrated range" if is_outside else ""]
        reasons.append("; ".join(part for part in parts if part))
    table = pd.DataFrame(
        {"value": values, "right_low": low, "right_high": high, "shown": shown, "reason": reasons}
    )
    return table, int(outside.sum())


def check_same(
    made: CalibrationFile, facts: Mapping[str, Any], *, force: bool, where: str
) -> list[str]:
    """Refuse what differs from the calibration, or warn with ``force``; warn of what one of both
    does not say.

    ``facts``: as for :func:`compared`.
    """
    differences, unknown = compared(made, facts)
    return refused_or_told(differences, unknown, force=force, where=where)


def compared(made: CalibrationFile, facts: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """In what scores differ from the calibration's, in words, and the names of what one of both
    does not say.

    ``facts``, where known: similarity, model, model_hash, prompt_hash, scored_with, version,
    candidates (fewest, most).
    """
    # one model may lie in two places: its name counts where a hash is not known
    by_hash = made.model_hash and facts.get("model_hash")
    pairs: dict[str, tuple[Any, Any]] = {}
    unknown: list[str] = []
    for name in ("similarity", "model_hash" if by_hash else "model", "prompt_hash"):
        calibrated = getattr(made, name)
        if calibrated and facts.get(name):
            pairs[name] = (calibrated, facts[name])
        else:
            unknown.append(name.removesuffix("_hash"))
    if made.scored_with and facts.get("scored_with"):
        settings = json.loads(made.scored_with)
        others = json.loads(facts["scored_with"])
        for name in settings | others:
            pair = (settings.get(name), others.get(name))
            if pair.count(None) == 1:
                unknown.append(f"setting {name}")
            else:
                pairs[f"setting {name}"] = pair
    else:
        unknown.append("settings")
    pairs["version"] = (made.versions.get("beamuq"), facts.get("version") or __version__)
    differences = [
        f"{name} {found!r}, calibrated with {calibrated!r}"
        for name, (calibrated, found) in pairs.items()
        if calibrated != found
    ]
    counts = facts.get("candidates")
    if made.candidates and counts:
        most = max(counts)  # a question may have fewer outcomes
        calibrated_most = max(made.candidates)
        if most != calibrated_most:
            differences.append(f"candidates up to {most}, calibrated with up to {calibrated_most}")
    else:
        unknown.append("candidates")
    return differences, unknown


def refused_or_told(
    differences: Sequence[str], unknown: Sequence[str], *, force: bool, where: str
) -> list[str]:
    """Warnings of what differs, with ``force``, and of what is not known.

    Raises BeamUQError of what differs, without ``force``.
    """
    if differences and not force:
        raise BeamUQError(
            f"{where}: {'; '.join(differences)}; decide as was calibrated, calibrate anew, or give "
            "--force "
            "(in Python force=True)"
        )
    told = list(differences)
    if unknown:
        told.append(
            f"not known whether the calibration's: {', '.join(unknown)}; the rows or the file lack "
            "it"
        )
    return told


def _rows_of(
    rows: Rows, method: str, form: str | None, setting: str
) -> list[tuple[str, ScoredRow]]:
    """The rows of one method in one form, each with its place."""
    every, where = list(placed_rows(rows)), f"{named(rows)}: method {method!r}"
    of_method: list[tuple[str, ScoredRow]] = [
        (place, validated(ScoredRow, dict(row), place))
        for place, row in every
        if row.get("method") == method
    ]
    if not of_method:
        methods = dict.fromkeys(str(row["method"]) for _, row in every if "method" in row)
        fix = (
            hint(method, methods)
            if methods
            else "score the rows first: beamuq score FILE --output SCORED"
        )
        raise BeamUQError(f"{where}: no such score; {fix}")
    found = [
        each for each in of_method if each[1].setting == setting and form in (None, each[1].variant)
    ]
    if not found:
        known = sorted({f"{item.variant!r} and {item.setting!r}" for _, item in of_method})
        raise BeamUQError(
            f"{where}: no row of form {form!r} and setting {setting!r}; give one of those here: "
            f"{', '.join(known)}"
        )
    if form is None and (
        forms := sorted({item.variant for _, item in found if item.value is not None})
    ):
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
            raise BeamUQError(
                f"{place}: correct: {item.correct:g}: must be 0 or 1; for a quality write 'quality'"
            )
        return bool(item.correct)
    if item.quality is None:
        raise BeamUQError(
            f"{place}: correct: missing; give 0 or 1, or 'quality' with --quality-threshold"
        )
    if quality_threshold is None:
        raise BeamUQError(
            f"{place}: quality: {item.quality:g}: from where on is it right? give "
            "--quality-threshold"
        )
    return item.quality > quality_threshold


def _one(placed: Sequence[tuple[str, ScoredRow]], name: str) -> Any:
    """The value that all rows have."""
    first = getattr(placed[0][1], name)
    for place, item in placed:
        if getattr(item, name) != first:
            raise BeamUQError(
                f"{place}: {name}: {getattr(item, name)!r}, other rows have {first!r}; give rows "
                "of one"
            )
    return first


def _counts(placed: Sequence[tuple[str, ScoredRow]]) -> tuple[int, int] | None:
    """The fewest and the most candidates of a score, of the rows that say; None: none does."""
    counts = [item.candidates for _, item in placed if item.candidates is not None]
    return (min(counts), max(counts)) if counts else None


def _calibrated_on(made: CalibrationFile, scores: npt.NDArray[np.float64]) -> bool:
    return sorted(scores.tolist()) == np.repeat(made.map.scores, made.map.n).tolist()
