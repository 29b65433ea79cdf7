"""From scores to decisions: calibrate on answers known to be right or wrong, then show or withhold others."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from beamuq import __version__
from beamuq.api.candidate_records import Labels, Name, Number, as_number
from beamuq.api.rows import Rows, check_order, check_settings, group_names, named, placed_rows
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, hint, reading
from beamuq.evaluation.bootstrap import Estimate
from beamuq.evaluation.guaranteed_threshold import GuaranteedThreshold, Share, guaranteed_threshold
from beamuq.evaluation.probability_of_being_right import (
    CALIBRATORS,
    Calibrator,
    LabelledScores,
    cross_fitted,
    labelled_scores,
    merged,
    probabilities,
    reliability,
)
from beamuq.io import write_text

SHIFT = 0.01  # p of the two-sample test below which new scores are said to come from elsewhere
RESAMPLES = 1000
SEED = 0  # of every draw; to choose among several would be to try as many calibrations
COMPARED = ("similarity", "model", "model_hash", "prompt_hash", "scored_with")  # what new scores share with those here
CALIBRATED_ON = "these are the scores that were calibrated on: the guarantee is of new answers"


class Map(StrictModel):
    """From a score to the probability of being right: what is known of the calibration's answers, by score."""

    kind: Calibrator
    scores: Annotated[list[float], Field(min_length=1, description="each once, rising")]
    n: Annotated[list[Annotated[int, Field(ge=1)]], Field(description="answers of each score")]
    right: Annotated[list[Annotated[int, Field(ge=0)]], Field(description="how many of them are right")]

    @model_validator(mode="after")
    def _fits(self) -> Map:
        if not len(self.scores) == len(self.n) == len(self.right) or sorted(set(self.scores)) != self.scores:
            raise ValueError("scores, n and right: give one of each, scores rising; calibrate again")
        return self

    def known(self) -> LabelledScores:
        """As the calibrators take it."""
        return LabelledScores(*(np.array(each, dtype=np.float64) for each in (self.scores, self.n, self.right)))


class CalibrationFile(StrictModel):
    """What ``decide`` reads. A model, prompt, setting or version that is null is not known and cannot be compared."""

    format: Literal["beamuq calibration 2"] = "beamuq calibration 2"
    method: str
    form: Annotated[str, Field(description="the column variant: multinomial, beamsearch or, of one form, empty")]
    setting: Annotated[str, Field(description="the further formulation of the method, mostly empty")]
    similarity: str
    model: str | None
    model_hash: Annotated[str | None, Field(description="sha256 of the model's files")]
    prompt_hash: Annotated[str | None, Field(description="sha256 of the prompt around the question")]
    scored_with: Annotated[str | None, Field(description="the settings of score, in JSON")]
    candidates: Annotated[tuple[int, int] | None, Field(description="the fewest and the most of a score")]
    n: Annotated[int, Field(ge=1, description="answers")]
    groups: Annotated[int, Field(ge=1, description="groups of them; without groups as many as answers")]
    right: Annotated[Share, Field(description="share of right answers")]
    threshold: GuaranteedThreshold
    map: Map
    ece: Annotated[Estimate, Field(description="expected calibration error, ten bins of equal width, cross-fitted")]
    brier: Annotated[Estimate, Field(description="mean squared error of the probability, cross-fitted")]
    versions: dict[str, str]

    def write(self, path: str | Path) -> None:
        """Write it, atomically."""
        write_text(Path(path), json.dumps(self.model_dump(), indent=1, ensure_ascii=False) + "\n")

    def __str__(self) -> str:
        found, form = self.threshold, f" + {self.form}" if self.form else ""
        of = f"{found.risk:.0%} wrong, confidence {found.confidence:.0%}"
        shown = (
            f"none at {of}: {found.note}"
            if found.value is None
            else f"{found.value:.6g} ({of}): of {found.tested} tested {found.shown} shown, {found.wrong} wrong; "
            f"risk at most {found.upper:.3f}"
        )
        return (
            f"calibrated    {self.method}{form}: {self.n} answers in {self.groups} groups, {self.right:.1%} right\n"
            f"threshold     {shown}\n"
            f"probability   {self.map.kind}; expected calibration error {_with_interval(self.ece)} (10 equal bins), "
            f"Brier score {_with_interval(self.brier)}, cross-fitted"
        )


def _with_interval(estimate: Estimate) -> str:
    around = "" if estimate.low is None else f" [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{estimate.value:.3f}{around}"


def read_calibration(path: str | Path) -> CalibrationFile:
    """A calibration file. Raises BeamUQError in one line, if it is missing, cut off, or no file of this kind."""
    with reading(path, "a calibration in UTF-8", "take the file as beamuq calibrate wrote it, or calibrate again"):
        text = Path(path).read_text(encoding="utf-8")
    return validated(CalibrationFile, text, f"{path}: not as beamuq calibrate wrote it", is_json=True)


def _settings_in_json(text: str | None) -> str | None:
    if text is not None and not isinstance(json.loads(text), dict):
        raise ValueError("must be an object in JSON, as score writes it")
    return text


class ScoredRow(Labels, extra="ignore"):
    """A row as ``score`` prints it, with what calibration needs beside; other columns are left out."""

    id: Annotated[Name, Field(min_length=1)]
    method: str
    variant: str = ""
    setting: str = ""
    # a frame that was filled in has NaN where there is no score
    value: Annotated[Number, BeforeValidator(lambda value: None if pd.isna(as_number(value)) else value)] = None
    similarity: str = ""
    reason: str = ""
    candidates: Annotated[int, Field(ge=0, strict=False)] | None = None
    scored_with: Annotated[str | None, AfterValidator(_settings_in_json)] = None
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
    output: str | Path | None = None,
) -> CalibrationFile:
    """Learn from answers known to be right or wrong: a probability, and a threshold with a guarantee.

    With the given confidence over calibrations, at most a share risk of the answers shown by the threshold is wrong.

    Parameters
    ----------
    rows
        What score writes of rows with correct (0 or 1) or quality, and with group where questions belong together.
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
    >>> rows = [{"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)]
    >>> beamuq.calibrate(rows, method="Prob", risk=0.2).threshold.upper <= 0.2
    True
    """
    check_settings(risk=risk, confidence=confidence, tried=tried)
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
    groups = [item.group or item.id for _, item in placed]
    if len(set(groups)) < 2:
        raise BeamUQError(f"{where}: group: all {len(groups)} answers are of one group; nothing in it is independent")
    scores = np.array([item.value for _, item in placed], dtype=np.float64)
    low, high = cross_fitted(probability, scores, right, groups, seed=SEED)
    merging = merged(low, high) if probability == "venn_abers" else low
    measured = reliability(merging, right, groups, resamples=RESAMPLES, seed=SEED)
    known = labelled_scores(scores, right)
    version = _one(placed, "version")
    used = {"beamuq": __version__} | {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
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
            scores=known.scores.tolist(),
            n=known.n.astype(int).tolist(),
            right=known.right.astype(int).tolist(),
        ),
        ece=measured["ece"],
        brier=measured["brier"],
        versions=used | ({"beamuq": version} if version else {}),
    )
    if output is not None:
        calibration.write(output)
    return calibration


def decide(rows: Rows, calibration: CalibrationFile | str | Path, *, force: bool = False) -> Decisions:
    """Show or withhold answers, by a calibration, with each one's probability of being right.

    A model, prompt, method, similarity, setting or version that is not the calibration's is refused; scores that are
    not distributed as the calibration's, or are the calibration's own, are warned of.

    Parameters
    ----------
    rows
        What score writes, with or without labels.
    calibration
        Of beamuq calibrate; in Python its object too.
    force
        Decide even where model, prompt, method, similarity, settings or version are not those that were calibrated.

    Returns
    -------
    The table of decisions, the test of the scores, and warnings.

    Raises BeamUQError in one line: a bad row or file, or what differs from the calibration.

    Examples
    --------
    >>> rows = [{"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)]
    >>> made = beamuq.calibrate(rows, method="Prob", risk=0.2)
    >>> beamuq.decide([{"id": "new", "method": "Prob", "value": 0.1}], made).table["shown"].tolist()
    [True]
    """
    from scipy.stats import ks_2samp  # takes a second

    made = calibration if isinstance(calibration, CalibrationFile) else read_calibration(calibration)
    placed = _rows_of(rows, made.method, made.form, made.setting)
    facts = {name: _one(placed, name) for name in (*COMPARED, "version")} | {"candidates": _counts(placed)}
    told = check_same(made, facts, force=force, where=named(rows))
    table, outside = decided(made, [np.nan if item.value is None else item.value for _, item in placed])
    table.insert(0, "id", [item.id for _, item in placed])
    missing = table["value"].isna()
    table.loc[missing, "reason"] = [item.reason or "no score" for _, item in placed if item.value is None]
    new = table.loc[~missing, "value"].to_numpy()
    p = float(ks_2samp(np.repeat(made.map.scores, made.map.n), new).pvalue) if len(new) else None
    if p is not None and p < SHIFT:
        told.append(
            f"the scores are not distributed as the calibration's (two-sample Kolmogorov–Smirnov test: p = {p:.2g}, "
            f"n = {len(new)} and {made.n}): neither probabilities nor the guarantee need hold"
        )
    if outside:
        told.append(f"{outside} of {len(placed)} scores lie outside the calibrated range")
    if _calibrated_on(made, new):
        told.append(CALIBRATED_ON)
    return Decisions(table, len(new), p, tuple(told))


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


def check_same(made: CalibrationFile, facts: Mapping[str, Any], *, force: bool, where: str) -> list[str]:
    """Refuse what differs from the calibration, or warn with ``force``; warn of what one of both does not say.

    ``facts``, where known: similarity, model, model_hash, prompt_hash, scored_with, version, candidates (fewest, most).
    """
    # one model may lie in two places: its name counts where a hash is not known
    by_hash = made.model_hash and facts.get("model_hash")
    names = ("similarity", "model_hash" if by_hash else "model", "prompt_hash")
    pairs = {name: (getattr(made, name), facts.get(name)) for name in names}
    unknown = [name.removesuffix("_hash") for name, pair in pairs.items() if not all(pair)]
    compared = {name: pair for name, pair in pairs.items() if all(pair)}
    if made.scored_with and facts.get("scored_with"):
        settings, others = json.loads(made.scored_with), json.loads(facts["scored_with"])
        both = {f"setting {name}": (settings.get(name), others.get(name)) for name in settings | others}
        unknown += [name for name, pair in both.items() if pair.count(None) == 1]
        compared |= {name: pair for name, pair in both.items() if name not in unknown}
    else:
        unknown.append("settings")
    compared["version"] = made.versions.get("beamuq"), facts.get("version") or __version__
    told = [f"{name} {found!r}, calibrated with {of!r}" for name, (of, found) in compared.items() if of != found]
    if made.candidates and (counts := facts.get("candidates")):
        most, calibrated_most = max(counts), max(made.candidates)  # a question may have fewer outcomes
        if most != calibrated_most:
            told.append(f"candidates up to {most}, calibrated with up to {calibrated_most}")
    else:
        unknown.append("candidates")
    if told and not force:
        raise BeamUQError(f"{where}: {'; '.join(told)}; decide as was calibrated, calibrate anew, or give --force")
    if unknown:
        told.append(f"not known whether the calibration's: {', '.join(unknown)}; the rows or the file lack it")
    return told


def _rows_of(rows: Rows, method: str, form: str | None, setting: str) -> list[tuple[str, ScoredRow]]:
    """The rows of one method in one form, each with its place."""
    every, where = list(placed_rows(rows)), f"{named(rows)}: method {method!r}"
    of_method: list[tuple[str, ScoredRow]] = [
        (place, validated(ScoredRow, dict(row), place)) for place, row in every if row.get("method") == method
    ]
    if not of_method:
        methods = dict.fromkeys(str(row["method"]) for _, row in every if "method" in row)
        fix = hint(method, methods) if methods else "score the rows first: beamuq score FILE --output SCORED"
        raise BeamUQError(f"{where}: no such score; {fix}")
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


def _counts(placed: Sequence[tuple[str, ScoredRow]]) -> tuple[int, int] | None:
    """The fewest and the most candidates of a score, of the rows that say; None: none does."""
    counts = [item.candidates for _, item in placed if item.candidates is not None]
    return (min(counts), max(counts)) if counts else None


def _calibrated_on(made: CalibrationFile, scores: npt.NDArray[np.float64]) -> bool:
    return sorted(scores.tolist()) == np.repeat(made.map.scores, made.map.n).tolist()


def _column(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    with contextlib.suppress(TypeError, ValueError):
        column = np.asarray(values, dtype=np.float64)
        if column.ndim == 1:
            return column
    raise BeamUQError(f"{name}: give a list of numbers, one an answer; of correct 1 for right and 0 for wrong")


class Calibration:
    """A threshold with a guarantee, and a probability of being right, for one method's scores.

    Parameters
    ----------
    risk, confidence
        With probability ≥ ``confidence`` over calibrations, at most a share ``risk`` of the shown answers is wrong.
    tried
        How many methods, forms and risks are tried on these answers in all; each is tested that much more strictly.

    Returns
    -------
    An object to ``fit``. ``fitted``: what ``fit`` or ``load`` found, as ``beamuq calibrate`` writes it; None before.

    Examples
    --------
    >>> scores, correct = [k / 300 for k in range(300)], [k < 240 for k in range(300)]
    >>> calibration = beamuq.Calibration(risk=0.2).fit(scores, correct)
    >>> calibration.decide([0.1, 0.99])["shown"].tolist()
    [True, False]
    """

    def __init__(self, *, risk: float = 0.1, confidence: float = 0.95, tried: int = 1) -> None:
        self.risk, self.confidence, self.tried = risk, confidence, tried
        self.fitted: CalibrationFile | None = None

    def fit(
        self, scores: npt.ArrayLike, correct: npt.ArrayLike, *, groups: Sequence[object] | None = None
    ) -> Calibration:
        """Calibrate on scores [N] (higher = more uncertain) of answers that are right (1) or wrong (0).

        ``scores`` may be a series of ``beamuq.score``, whose name is the method's. ``groups`` [N]: what belongs
        together (a story, a user).

        Raises BeamUQError if lengths or the order of two series differ, or a score or label is missing.
        """
        check_order(scores, correct, groups)
        values, labels = _column("scores", scores), _column("correct", correct)
        if values.shape != labels.shape or (groups is not None and len(groups) != len(values)):
            raise BeamUQError(f"fit: scores {values.shape}, correct {labels.shape}; give one of each per answer")
        method = str(getattr(scores, "name", None) or "score")
        rows = pd.DataFrame({"id": map(str, range(len(values))), "method": method, "value": values, "correct": labels})
        if groups is not None:
            rows["group"] = group_names(groups)
        self.fitted = calibrate(rows, method=method, risk=self.risk, confidence=self.confidence, tried=self.tried)
        return self

    def decide(self, scores: npt.ArrayLike) -> pd.DataFrame:
        """Show or withhold each answer: value, right_low and right_high (two probabilities), shown, reason.

        Warns where these are the scores that were calibrated on: the guarantee is of new answers.

        Raises BeamUQError before ``fit``; a score that is missing is withheld.
        """
        fitted, values = self._fitted(), _column("scores", scores)
        if _calibrated_on(fitted, values):
            warnings.warn(CALIBRATED_ON, stacklevel=2)
        table, _ = decided(fitted, values.tolist())
        return table.set_index(scores.index) if isinstance(scores, pd.Series) else table

    def __repr__(self) -> str:
        return "not fitted; call fit(scores, correct)" if self.fitted is None else str(self.fitted)

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
        limit = found.threshold
        calibration = cls(risk=limit.risk, confidence=limit.confidence, tried=limit.tried)
        calibration.fitted = found
        return calibration

    def _fitted(self) -> CalibrationFile:
        if self.fitted is None:
            raise BeamUQError("this calibration is not fitted; call fit(scores, correct) first, or Calibration.load")
        return self.fitted
