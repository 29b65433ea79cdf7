"""Every metric of every score of a cell, with intervals and the replicates behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from beamuq.array_types import Bools, Floats
from beamuq.config_errors import StrictModel
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, interval, resample_rows
from beamuq.evaluation.prr_and_auc import METRICS, Judged, measure_blocks, prr_to, why_undefined
from beamuq_study.parquet_tables import ALL, ANSWERED

Row = dict[str, Any]
PART = ["method", "variant", "setting"]
SCORES_TOGETHER = 32  # whose values on all resamples are held at once: 40 MB by four qualities


class EvaluationSettings(StrictModel):
    """What is measured. Correct is strictly above ``threshold``; ``further_qualities``: thresholds
    by metric.
    """

    metrics: tuple[Literal["PRR", "ROC-AUC", "PR-AUC"], ...]
    quality: str
    max_rejection: tuple[float, ...] = (0.5,)
    resamples: int = 2000
    confidence: float = 0.95
    threshold: float = 0.5
    further_qualities: dict[str, float] = {}
    seed: int = 0
    format: int = 0

    @property
    def thresholds(self) -> dict[str, float]:
        """By metric of quality, the main one first."""
        return {self.quality: self.threshold} | self.further_qualities

    @property
    def limits(self) -> dict[str, float]:
        """The rejections to which PRR is measured, by its names."""
        first, *further = self.max_rejection
        return (
            {"PRR": first} | {prr_to(limit): limit for limit in further}
            if "PRR" in self.metrics
            else {}
        )


def evaluate(
    scores: pa.Table,
    quality: pa.Table,
    questions: pa.Table,
    settings: EvaluationSettings,
    dataset: str,
    empty: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[Row], list[Row]]:
    """As :func:`evaluate_all`, by the one ``quality`` that is ``settings.quality``."""
    return evaluate_all(scores, {settings.quality: quality}, questions, settings, dataset, empty)


def evaluate_all(
    scores: pa.Table,
    qualities: Mapping[str, pa.Table],
    questions: pa.Table,
    settings: EvaluationSettings,
    dataset: str,
    empty: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[Row], list[Row]]:
    """Rows of ``evaluation`` and ``replicates`` by each quality, in the order of the scores.

    For each quality and produced answer come the rows of all questions, then of the answered ones.
    ``empty``: by answer source the questions whose produced answer is empty; None: not known, so
    there are no rows of the answered questions. Where none is empty these are the rows of all
    questions again, without replicates.

    The seed, ``dataset`` and the questions choose the resamples, so all scores and produced answers
    share them, within the cell and with other models and recipes on the same questions; a
    question's group is what is resampled.

    Raises BeamUQError if scores, qualities and questions are not of the same answers; the message
    names one.
    """
    written = {metric: _Rows() for metric in qualities}
    for answer_source, ids, parts in by_answer(scores):
        answers = _Answers(
            answer_source,
            list(zip(ids, groups_by_id(ids, questions), strict=True)),
            {metric: quality_of(ids, answer_source, table) for metric, table in qualities.items()},
            parts,
        )
        of_all = _measure(answers, settings, dataset, ALL)
        _extend(written, of_all)
        if empty is not None:
            is_answered = np.array([key not in empty[answer_source] for key in ids], dtype=np.bool_)
            if is_answered.all():
                of_answered = {metric: rows.of_answered() for metric, rows in of_all.items()}
            else:
                of_answered = _measure(answers.some(is_answered), settings, dataset, ANSWERED)
            _extend(written, of_answered)
    return (
        [row for rows in written.values() for row in rows.measured],
        [row for rows in written.values() for row in rows.replicates],
    )


@dataclass(frozen=True)
class _Rows:
    """Rows of ``evaluation`` and of ``replicates``."""

    measured: list[Row] = field(default_factory=list)
    replicates: list[Row] = field(default_factory=list)

    def of_answered(self) -> _Rows:
        """Those of the answered questions where these are all: without replicates."""
        return _Rows([row | {"subset": ANSWERED} for row in self.measured])


def _extend(written: Mapping[str, _Rows], further: Mapping[str, _Rows]) -> None:
    for metric, rows in further.items():
        written[metric].measured.extend(rows.measured)
        written[metric].replicates.extend(rows.replicates)


@dataclass(frozen=True)
class _Answers:
    """N produced answers of one source.

    ``questions``: the id and group of each; ``quality`` [N] by metric; ``scores`` [N] with keys.
    """

    source: str
    questions: list[tuple[str, str]]
    quality: dict[str, Floats]
    scores: Sequence[tuple[Row, Floats]]

    def some(self, chosen: Bools) -> _Answers:
        """Some of them, by truth values [N]."""
        questions = [
            question
            for question, is_chosen in zip(self.questions, chosen, strict=True)
            if is_chosen
        ]
        quality = {metric: values[chosen] for metric, values in self.quality.items()}
        scores = [(key, values[chosen]) for key, values in self.scores]
        return _Answers(self.source, questions, quality, scores)


def _measure(
    answers: _Answers, settings: EvaluationSettings, dataset: str, subset: str
) -> dict[str, _Rows]:
    """By quality the rows of these answers, which are of this ``subset``."""
    place = {"answer_source": answers.source, "subset": subset}
    written = {quality: _Rows() for quality in answers.quality}
    if not answers.questions:
        for quality, rows in written.items():
            _add_undefined(rows, answers, settings, place | {"quality": quality})
        return written
    groups = [group for _, group in answers.questions]
    judged = [
        Judged(values, settings.thresholds[quality]) for quality, values in answers.quality.items()
    ]
    name = draws_name(dataset, answers.questions)
    for start in range(0, len(answers.scores), SCORES_TOGETHER):
        scores = answers.scores[start : start + SCORES_TOGETHER]
        drawn = resample_rows(groups, settings.resamples, settings.seed, name)
        measured = measure_blocks(
            [uncertainty for _, uncertainty in scores],
            judged,
            (rows.T for rows in drawn),
            settings.metrics,
            list(settings.limits.values()),
        )
        for (key, _), of_qualities in zip(scores, measured, strict=True):
            for quality, of_metrics in zip(written, of_qualities, strict=True):
                row = place | {"quality": quality} | key
                _add_rows(written[quality], row, of_metrics, answers.quality[quality], settings)
    return written


def _add_rows(
    rows: _Rows,
    place: Row,
    of_metrics: Mapping[str, Floats],
    values: Floats,
    settings: EvaluationSettings,
) -> None:
    """Add the rows of one score by one quality, a metric each; ``values``: the quality [N]."""
    metrics = [name for name in METRICS if name in of_metrics]
    for metric in [*metrics, *_further_limits(settings)]:
        draws = of_metrics[metric]
        row = place | {"metric": metric, "n": len(values)}
        if np.isnan(draws[0]):
            limit = settings.limits.get(metric, settings.max_rejection[0])
            threshold = settings.thresholds[place["quality"]]
            note = why_undefined(metric.partition("@")[0], values, limit, threshold)
            summary = _UNDEFINED | {"note": note}
        else:
            ends = asdict(interval(draws[1:], settings.confidence))
            summary = {"value": float(draws[0])} | ends
        rows.measured.append(row | summary)
        rows.replicates.append(place | {"metric": metric, "values": draws[1:].astype(np.float32)})


def _add_undefined(
    rows: _Rows, answers: _Answers, settings: EvaluationSettings, place: Row
) -> None:
    """Add the rows where no question is left."""
    nothing = np.full(settings.resamples, np.nan, np.float32)
    note = "undefined: every answer is empty"
    for key, _ in answers.scores:
        for metric in [*settings.metrics, *_further_limits(settings)]:
            row = place | {"metric": metric} | key
            rows.measured.append(row | _UNDEFINED | {"note": note, "n": 0})
            rows.replicates.append(row | {"values": nothing})


def _further_limits(settings: EvaluationSettings) -> list[str]:
    return [name for name in settings.limits if name != "PRR"]


_UNDEFINED: Row = dict.fromkeys(("value", "low", "high", "std"))


def by_answer(scores: pa.Table) -> list[tuple[str, list[str], list[tuple[Row, Floats]]]]:
    """The scores of each kind of produced answer: its ids, and each (method, variant, setting) with
    its scores.
    """
    kinds = []
    for answer_source, rows in scores.to_pandas().groupby("answer_source", sort=False):
        parts = list(rows.groupby(PART, sort=False))
        ids = parts[0][1]["id"].to_list()
        for key, part in parts:
            if part["id"].to_list() != ids:
                raise BeamUQError(
                    f"scores: {' '.join(key)} and the other methods are not of the same questions"
                )
        scored = [
            (dict(zip(PART, key, strict=True)), part["value"].to_numpy(np.float64))
            for key, part in parts
        ]
        kinds.append((str(answer_source), ids, scored))
    return kinds


def groups_by_id(ids: Sequence[str], questions: pa.Table) -> list[str]:
    """The group of each question. Raises BeamUQError if one is not among ``questions``."""
    groups = dict(
        zip(questions.column("id").to_pylist(), questions.column("group").to_pylist(), strict=True)
    )
    if unknown := [key for key in ids if key not in groups]:
        raise BeamUQError(
            f"scores: question {unknown[0]!r} is not in the questions file; make both of one study"
        )
    return [groups[key] for key in ids]


def quality_of(ids: list[str], answer_source: str, quality: pa.Table) -> Floats:
    """[N] the quality of each question's answer. Raises BeamUQError if any is missing."""
    columns = [quality.column(name).to_pylist() for name in ("id", "answer_source", "value")]
    values = {}
    for question, source, value in zip(*columns, strict=True):
        if source == answer_source:
            values[question] = value
    _check_all("quality", answer_source, set(ids) - values.keys())
    _check_all("scores", answer_source, values.keys() - set(ids))
    return np.array([values[question] for question in ids])


def _check_all(table: str, answer_source: str, missing: set[str]) -> None:
    if missing:
        raise BeamUQError(
            f"{table}: the {answer_source} answer of question {min(missing)!r} is missing; make "
            "the file again"
        )
