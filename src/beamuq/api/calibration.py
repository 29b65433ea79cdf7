"""Calibrate on answers known to be right or wrong, then decide on new ones."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np

from beamuq import __version__
from beamuq.api.calibration_comparison import Comparison, compare_facts
from beamuq.api.calibration_file import CalibrationFile, Map, read_calibration
from beamuq.api.decisions import NO_SCORE, Decisions, decisions_of
from beamuq.api.rows import Rows, check_settings, named
from beamuq.api.scored_rows import (
    LabelledAnswers,
    facts_of,
    labelled_answers,
    rows_of_method,
    with_label,
    with_score,
)
from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.bootstrap import Estimate
from beamuq.evaluation.guaranteed_threshold import guaranteed_threshold
from beamuq.evaluation.probability_of_being_right import (
    CALIBRATORS,
    Calibrator,
    cross_fitted,
    labelled_scores,
    merged,
    reliability,
)
from beamuq.made_date import date_made

RESAMPLES = 1000
SEED = 0  # of every draw; to choose among several would be to try as many calibrations


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
        belong together. Rows whose correct or quality is null, or that have no score of the method,
        are left out, which a warning says.
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
    The calibration, as its file has it; ``print`` shows what was found. Its threshold.value is None
    where no threshold has the guarantee.

    Raises BeamUQError in one line: a bad row, no or several forms, a missing label, or more than
    half of the scores missing.

    Examples
    --------
    >>> rows = [
    ...     {"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)
    ... ]
    >>> beamuq.calibrate(rows, method="Prob", risk=0.2).threshold.upper <= 0.2
    True
    """
    check_settings(
        risk=risk, confidence=confidence, tried=tried, quality_threshold=quality_threshold
    )
    if probability not in CALIBRATORS:
        raise BeamUQError(
            f"probability: {probability!r}: unknown; {hint(probability, CALIBRATORS)}"
        )
    labelled_rows = with_label(rows_of_method(rows, method, form, setting), named(rows))
    placed_rows = with_score(labelled_rows, named(rows))
    placed_rows.sort(key=lambda placed: placed.row.id)  # the draws depend on the order of rows
    answers = labelled_answers(placed_rows, quality_threshold, named(rows))
    facts = facts_of(placed_rows)
    measures = _cross_fitted_reliability(answers, probability)
    calibration = CalibrationFile(
        method=method,
        form=placed_rows[0].row.variant,
        setting=setting,
        similarity=facts["similarity"],
        model=facts["model"],
        model_hash=facts["model_hash"],
        prompt_hash=facts["prompt_hash"],
        scored_with=facts["scored_with"],
        server=facts["server"],
        candidates=facts["candidates"],
        without_ending=None if facts["endings"] is None else facts["endings"].lacking,
        n=len(answers.groups),
        groups=len(set(answers.groups)),
        right=float(answers.right.mean()),
        threshold=guaranteed_threshold(
            answers.scores,
            ~answers.right,
            answers.groups,
            risk=risk,
            confidence=confidence,
            tried=tried,
            seed=SEED,
        ),
        map=_map(answers, probability),
        ece=measures["ece"],
        brier=measures["brier"],
        versions=_versions(facts["version"]),
        made=date_made(),
    )
    if output is not None:
        calibration.write(output)
    return calibration


def _cross_fitted_reliability(
    answers: LabelledAnswers, probability: Calibrator
) -> dict[str, Estimate]:
    """How well probabilities hold of answers that they were not learned from, by measure."""
    low, high = cross_fitted(probability, answers.scores, answers.right, answers.groups, seed=SEED)
    of_being_right = merged(low, high) if probability == "venn_abers" else low
    return reliability(
        of_being_right, answers.right, answers.groups, resamples=RESAMPLES, seed=SEED
    )


def _map(answers: LabelledAnswers, probability: Calibrator) -> Map:
    by_score = labelled_scores(answers.scores, answers.right)
    return Map(
        kind=probability,
        scores=tuple(by_score.scores.tolist()),
        n=tuple(by_score.n.astype(int).tolist()),
        right=tuple(by_score.right.astype(int).tolist()),
    )


def _versions(scored_by: str | None) -> dict[str, str]:
    """Versions of what was calibrated with; of beamuq that of the scores, where they say it."""
    versions = {"beamuq": scored_by or __version__}
    for package in ("numpy", "scipy", "scikit-learn"):
        versions[package] = metadata.version(package)
    return versions


def decide(
    rows: Rows,
    calibration: CalibrationFile | str | Path,
    *,
    force: bool = False,
    quality_threshold: float | None = None,
) -> Decisions:
    """Show or withhold answers, by a calibration, with each one's probability of being right.

    A model, prompt, method, similarity, setting or version that is not the calibration's is
    refused, and so are scores without the ending's log-probability, where the calibration's hold
    it, or the reverse; scores that are not distributed as the calibration's, or are its own, all or
    a part of them, are warned of. Labels beside the answers decide nothing: by them it is said how
    many of the shown answers are wrong.

    Parameters
    ----------
    rows
        What score writes, with or without labels.
    calibration
        Of beamuq calibrate; in Python its object too.
    force
        Decide even where model, prompt, method, similarity, settings or version are not those that
        were calibrated.
    quality_threshold
        Where rows have quality in place of correct: an answer of quality above it is right, which
        is counted and decides nothing.

    Returns
    -------
    The table of decisions, the test of the scores (``shift_p``), warnings, ``labels`` (how many of
    the shown answers are wrong, with the rate's 95 % interval; None without labels), and
    ``guarantee_holds``: False where the test finds other scores (p < .01), force let a
    difference pass, or scores were calibrated on; the command then ends with status 3.

    Raises BeamUQError in one line: a bad row or file, or what differs from the calibration.

    Examples
    --------
    >>> rows = [
    ...     {"id": k, "method": "Prob", "value": k / 300, "correct": k < 240} for k in range(300)
    ... ]
    >>> calibration = beamuq.calibrate(rows, method="Prob", risk=0.2)
    >>> new = [{"id": "new", "method": "Prob", "value": 0.105}]
    >>> beamuq.decide(new, calibration).table["shown"].tolist()
    [True]
    """
    check_settings(quality_threshold=quality_threshold)
    if not isinstance(calibration, CalibrationFile):
        calibration = read_calibration(calibration)
    placed_rows = rows_of_method(rows, calibration.method, calibration.form, calibration.setting)
    comparison = Comparison()
    compare_facts(comparison, calibration, facts_of(placed_rows))
    warnings = comparison.warnings(force=force, where=named(rows))
    scored_rows = [placed.row for placed in placed_rows]
    scores = [np.nan if row.value is None else row.value for row in scored_rows]
    decisions = decisions_of(calibration, scores, warnings, comparison.differences)
    table = decisions.table
    table.insert(0, "id", [row.id for row in scored_rows])
    no_score = table["value"].isna()
    table.loc[no_score, "reason"] = [
        row.reason or NO_SCORE for row in scored_rows if row.value is None
    ]
    return decisions.with_labels(placed_rows, quality_threshold)
