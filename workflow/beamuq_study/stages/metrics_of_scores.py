"""Every metric of every score of a cell, with intervals and the replicates behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """The rows of the tables ``evaluation`` and ``replicates``: two lists.

    A row is of one quality, one produced answer, one subset of the questions, one score and one
    metric, such as PRR. Rows are sorted by quality, as in ``qualities``. Within a quality they are
    in the order of the scores' produced answers. For each of these come the rows of all questions,
    then those of the answered ones.

    ``empty``: by answer source the ids of the questions whose produced answer is empty. None: not
    known, so there are no rows of the answered questions. Where no answer is empty, the answered
    questions are all questions: their rows of ``evaluation`` are the same numbers again, and they
    have no rows of ``replicates``.

    What is resampled is a question's group. The seed, ``dataset`` and the questions choose the
    resamples. So all scores and produced answers share them, within the cell and with other models
    and recipes on the same questions.

    Raises BeamUQError if scores, qualities and questions are not of the same answers; the message
    names one.
    """
    tables = {quality: _Tables() for quality in qualities}
    for answers in _answers_by_source(scores, qualities, questions):
        of_all = _measure(answers, settings, dataset, ALL)
        _extend(tables, of_all)
        if empty is not None:
            is_answered = answers.are_outside(empty[answers.source])
            if is_answered.all():
                of_answered = {quality: table.of_answered() for quality, table in of_all.items()}
            else:
                of_answered = _measure(answers.some(is_answered), settings, dataset, ANSWERED)
            _extend(tables, of_answered)
    return (
        [row for table in tables.values() for row in table.evaluation],
        [row for table in tables.values() for row in table.replicates],
    )


@dataclass(frozen=True)
class _Tables:
    """Rows of the tables ``evaluation`` and ``replicates``, all by one quality."""

    evaluation: list[Row] = field(default_factory=list)
    replicates: list[Row] = field(default_factory=list)

    def of_answered(self) -> _Tables:
        """Those of the answered questions where these are all: without replicates."""
        return _Tables([row | {"subset": ANSWERED} for row in self.evaluation])


def _extend(tables: Mapping[str, _Tables], further: Mapping[str, _Tables]) -> None:
    """Add further rows of each quality to the tables by that quality."""
    for quality, rows in further.items():
        tables[quality].evaluation.extend(rows.evaluation)
        tables[quality].replicates.extend(rows.replicates)


@dataclass(frozen=True)
class _Answers:
    """N produced answers of one source, such as ``greedy``.

    ``questions``: the id and group of each answer's question. ``qualities``: by name the values [N]
    of each quality. ``scores``: the uncertainties [N] by each score, which is named by the columns
    ``method``, ``variant`` and ``setting``.
    """

    source: str
    questions: list[tuple[str, str]]
    qualities: dict[str, Floats]
    scores: Sequence[tuple[Row, Floats]]

    def are_outside(self, ids: Collection[str]) -> Bools:
        """[N] whether the id of each question is not among ``ids``."""
        return np.array([question not in ids for question, _ in self.questions], dtype=np.bool_)

    def some(self, chosen: Bools) -> _Answers:
        """Some of them, by truth values [N]."""
        questions = [
            question
            for question, is_chosen in zip(self.questions, chosen, strict=True)
            if is_chosen
        ]
        qualities = {quality: values[chosen] for quality, values in self.qualities.items()}
        scores = [(score, values[chosen]) for score, values in self.scores]
        return _Answers(self.source, questions, qualities, scores)


def _answers_by_source(
    scores: pa.Table, qualities: Mapping[str, pa.Table], questions: pa.Table
) -> Iterator[_Answers]:
    """What is known of the produced answers of each source, in the order of the scores."""
    for source, ids, scores_of_source in by_answer(scores):
        yield _Answers(
            source,
            list(zip(ids, groups_by_id(ids, questions), strict=True)),
            {quality: quality_of(ids, source, table) for quality, table in qualities.items()},
            scores_of_source,
        )


def _measure(
    answers: _Answers, settings: EvaluationSettings, dataset: str, subset: str
) -> dict[str, _Tables]:
    """By quality the rows of every score of these answers, which are of this ``subset``.

    At most ``SCORES_TOGETHER`` scores are measured at a time, for the sake of memory. Each such
    batch goes through the same resamples, which are drawn again from the same seed and name.
    """
    shared_columns = {"answer_source": answers.source, "subset": subset}
    tables = {quality: _Tables() for quality in answers.qualities}
    if not answers.questions:
        for quality, table in tables.items():
            _add_undefined(table, answers, settings, shared_columns | {"quality": quality})
        return tables
    judged = [
        Judged(values, settings.thresholds[quality])
        for quality, values in answers.qualities.items()
    ]
    groups = [group for _, group in answers.questions]
    name_of_draws = draws_name(dataset, answers.questions)
    for start in range(0, len(answers.scores), SCORES_TOGETHER):
        batch = answers.scores[start : start + SCORES_TOGETHER]
        resamples = resample_rows(groups, settings.resamples, settings.seed, name_of_draws)
        # for each score of the batch, by each quality: its values by metric
        measured = measure_blocks(
            [uncertainty for _, uncertainty in batch],
            judged,
            (block.T for block in resamples),
            settings.metrics,
            list(settings.limits.values()),
        )
        for (score, _), values_by_quality in zip(batch, measured, strict=True):
            for quality, values_by_metric in zip(tables, values_by_quality, strict=True):
                columns = shared_columns | {"quality": quality} | score
                quality_values = answers.qualities[quality]
                _add_rows(tables[quality], columns, values_by_metric, quality_values, settings)
    return tables


def _add_rows(
    table: _Tables,
    columns: Row,
    values_by_metric: Mapping[str, Floats],
    quality_values: Floats,
    settings: EvaluationSettings,
) -> None:
    """Add the rows of one score by one quality, a row for each metric.

    ``columns``: what these rows have in common. ``values_by_metric``: the value on the questions
    themselves, then that on each resample. ``quality_values``: the quality [N] of the answers.
    """
    metrics = [name for name in METRICS if name in values_by_metric]
    for metric in [*metrics, *_further_limits(settings)]:
        draws = values_by_metric[metric]
        row = columns | {"metric": metric, "n": len(quality_values)}
        if np.isnan(draws[0]):
            limit = settings.limits.get(metric, settings.max_rejection[0])
            threshold = settings.thresholds[columns["quality"]]
            note = why_undefined(metric.partition("@")[0], quality_values, limit, threshold)
            summary = _UNDEFINED | {"note": note}
        else:
            ends = asdict(interval(draws[1:], settings.confidence))
            summary = {"value": float(draws[0])} | ends
        table.evaluation.append(row | summary)
        replicates = draws[1:].astype(np.float32)
        table.replicates.append(columns | {"metric": metric, "values": replicates})


def _add_undefined(
    table: _Tables, answers: _Answers, settings: EvaluationSettings, columns: Row
) -> None:
    """Add the rows where no question is left."""
    nothing = np.full(settings.resamples, np.nan, np.float32)
    note = "undefined: every answer is empty"
    for score, _ in answers.scores:
        for metric in [*settings.metrics, *_further_limits(settings)]:
            row = columns | {"metric": metric} | score
            table.evaluation.append(row | _UNDEFINED | {"note": note, "n": 0})
            table.replicates.append(row | {"values": nothing})


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
