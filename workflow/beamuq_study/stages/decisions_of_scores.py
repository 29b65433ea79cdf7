"""What each score would decide: shares shown under a guarantee, and how well p holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from beamuq import __version__
from beamuq.array_types import Bools, Floats, Ints
from beamuq.config_errors import StrictModel
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, interval, one_half, resample_blocks
from beamuq.evaluation.candidate_sets import groups_of
from beamuq.evaluation.guaranteed_threshold import guaranteed_threshold
from beamuq.evaluation.intervals import proportion_interval
from beamuq.evaluation.probability_of_being_right import (
    cross_fitted,
    merged,
    reliability_by_bin,
    reliability_measures,
)
from beamuq_study.stages.metrics_of_scores import Row, by_answer, groups_by_id, quality_of

MEASURES = ("ece", "brier", "reliability", "resolution", "uncertainty", "within")


class DecisionSettings(StrictModel):
    """What is decided: α of each threshold (``risks``), and the confidence of all of a cell
    together (``guarantee``).

    ``similarity``, ``model``: by the names that ``beamuq score`` and ``ask`` would have for them.
    """

    quality: str
    risks: tuple[float, ...]
    guarantee: float = 0.95
    resamples: int = 2000
    confidence: float = 0.95
    threshold: float = 0.5
    seed: int = 0
    similarity: str = ""
    model: str = ""


def decisions(
    scores: pa.Table,
    quality: pa.Table,
    questions: pa.Table,
    settings: DecisionSettings,
    dataset: str,
) -> tuple[list[Row], list[Row]]:
    """Rows of ``decisions``, and of the file for ``beamuq calibrate``, in the scores' order.

    Of the greedy answer, or the first produced one where that is not scored, and of the setting ""
    alone. Half of the groups calibrate every threshold, the other half tests it: there a group
    counts as much as another, as the guarantee is of a question of a group. The probabilities are
    cross-fitted over all questions. ``seed``, ``dataset`` and the questions choose halves and
    resamples, so that all scores share them.

    Raises BeamUQError if a score is not finite, or scores, quality and questions are not of the
    same answers.
    """
    chosen = _answers_decided(scores)
    if chosen is None:
        return [], []
    cell = _Cell(
        groups_by_id(chosen.ids, questions),
        quality_of(chosen.ids, chosen.source, quality),
        settings,
        dataset,
        chosen.ids,
    )
    tried = len(chosen.scores) * len(settings.risks)
    rows: list[Row] = []
    scored: list[Row] = []
    for form, values in chosen.scores:
        _check_finite(form["method"], values, chosen.ids)
        rows += [EMPTY | form | row for row in cell.shown(values, tried)]
        rows += [EMPTY | form | row for row in cell.probabilities(values)]
        for label, value in zip(cell.labels(chosen.ids), values.tolist(), strict=True):
            scored.append({"id": label["id"], **form, "value": value} | label)
    return rows, scored


@dataclass(frozen=True)
class _Answers:
    """Produced answers of one source, by sorted ids, and scores [N] by method and variant."""

    source: str
    ids: list[str]
    scores: list[tuple[Row, Floats]]


def _answers_decided(scores: pa.Table) -> _Answers | None:
    """The greedy answers, else the first produced ones; None of no scores."""
    answers = by_answer(scores)
    if not answers:
        return None
    greedy = [answer for answer in answers if answer[0] == "greedy"]
    source, ids, parts = (greedy or answers)[0]
    order = np.argsort(ids)  # as calibrate draws, by id
    main_line = [
        ({"method": key["method"], "variant": key["variant"]}, values[order])
        for key, values in parts
        if not key["setting"]
    ]
    return _Answers(source, [ids[place] for place in order], main_line)


def _check_finite(method: str, values: Floats, ids: list[str]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        question = ids[int(np.argmin(finite))]
        raise BeamUQError(
            f"scores: {method} has no finite value of question {question!r}; score again"
        )


EMPTY: Row = {"risk": None, "low": None, "high": None, "std": None, "note": "", "values": []}


class _Cell:
    """What all scores of a cell share: labels, halves and resamples."""

    def __init__(
        self,
        groups: list[str],
        quality: Floats,
        settings: DecisionSettings,
        dataset: str,
        ids: list[str],
    ) -> None:
        self.settings = settings
        self.groups = groups
        self.quality = quality
        self.right = quality > settings.threshold
        name = draws_name(dataset, zip(ids, groups, strict=True))
        self.calibrates = one_half(groups, settings.seed, name)
        _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        self.weights = (1.0 / sizes[unit])[~self.calibrates]
        self.counts = self._counts(groups, name)
        self.tested = groups_of(groups, ~self.calibrates)
        self.test_counts = self._counts(self.tested, f"{name}/test")

    def _counts(self, groups: list[str], name: str) -> Ints:
        return np.concatenate(
            [*resample_blocks(groups, self.settings.resamples, self.settings.seed, name)], axis=1
        )

    def shown(self, values: Floats, tried: int) -> Iterator[Row]:
        """Of each α the threshold, and what it shows of the other half."""
        first = self.calibrates
        settings = self.settings
        for risk in settings.risks:
            limit = guaranteed_threshold(
                values[first],
                ~self.right[first],
                groups_of(self.groups, first),
                risk=risk,
                confidence=settings.guarantee,
                tried=tried,
                seed=settings.seed,
            )
            yield {
                "metric": "threshold",
                "risk": risk,
                "value": limit.value,
                "n": limit.units,
                "note": limit.note,
            }
            yield {"metric": "least", "risk": risk, "value": float(limit.least), "n": limit.tested}
            if limit.value is not None:
                yield {"metric": "bound", "risk": risk, "value": limit.upper, "n": limit.shown}
            below = values[~first] <= (-np.inf if limit.value is None else limit.value)
            yield from ({"risk": risk} | row for row in self._tested(below))

    def _tested(self, below: Bools) -> Iterator[Row]:
        """Shares of the test half if some answers [N] are shown: shown, wrong, wrong of shown."""
        if not len(below):
            return
        confidence = self.settings.confidence
        wrong = below & ~self.right[~self.calibrates]
        everything, shown, failed = (
            (self.weights * members) @ self.test_counts
            for members in (np.ones(len(below)), below, wrong)
        )
        yield {"metric": "shown", "n": len(below)} | _with_interval(shown / everything, confidence)
        yield {"metric": "wrong", "n": int(below.sum())} | _with_interval(
            failed / everything, confidence
        )
        if below.any():
            with np.errstate(invalid="ignore"):
                row = _with_interval(failed / shown, confidence)
            if wrong.sum() in (0, below.sum()):  # no resample differs
                low, high = proportion_interval(
                    wrong[below], groups_of(self.tested, below), confidence
                )
                row |= {"low": low, "high": high, "std": None, "note": ""}
            yield {"metric": "wrong of shown", "n": int(below.sum())} | row

    def probabilities(self, values: Floats) -> Iterator[Row]:
        """The measures of reliability, and the bins that hold any answer."""
        N = len(values)
        confidence = self.settings.confidence
        if len(set(self.groups)) < 2:
            note = "undefined: a single group, which nothing is left to calibrate"
            yield from (
                {"metric": metric, "value": None, "n": N, "note": note} for metric in MEASURES
            )
            return
        right = self.right.astype(np.float64)
        p = merged(*cross_fitted("venn_abers", values, right, self.groups, seed=self.settings.seed))
        for metric, draws in reliability_measures(p, right, [self.counts]).items():
            yield {"metric": metric, "n": N} | _with_interval(draws, confidence)
        bins = reliability_by_bin(p, self.right, self.groups, confidence)
        for row in bins.to_dict("records"):
            ends = {"low": row["low"], "high": row["high"]}
            n = {"n": row["n"]}
            yield {"metric": f"p in {row['bin']}", **n, "value": row["probability"]}
            yield {"metric": f"right in {row['bin']}", **n, "value": row["right"], **ends}

    def labels(self, ids: list[str]) -> Iterator[Row]:
        """What the file for ``beamuq calibrate`` says of each question; groups if there are any."""
        settings = self.settings
        facts = {"similarity": settings.similarity, "model": settings.model, "version": __version__}
        for place, (key, group) in enumerate(zip(ids, self.groups, strict=True)):
            judged = {
                "id": key,
                "correct": int(self.right[place]),
                "quality": float(self.quality[place]),
            }
            half = {"half": "calibration" if self.calibrates[place] else "test"}
            yield judged | ({"group": group} if self.groups != ids else {}) | half | facts


def _with_interval(draws: Floats, confidence: float) -> Row:
    return (
        {"value": float(draws[0])}
        | asdict(interval(draws[1:], confidence))
        | {"values": draws[1:].astype(np.float32)}
    )
