"""Every metric of every score of a cell, with intervals and the replicates behind them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    """Rows of ``evaluation`` and of ``replicates``: by each of the ``qualities``, in the order of
    the scores.

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
    measured: dict[str, list[Row]] = {metric: [] for metric in qualities}
    replicates: dict[str, list[Row]] = {metric: [] for metric in qualities}
    for answer_source, ids, parts in by_answer(scores):
        answers = _Answers(
            list(zip(ids, groups_by_id(ids, questions), strict=True)),
            {metric: quality_of(ids, answer_source, table) for metric, table in qualities.items()},
            parts,
        )
        of_all = _measure(
            answers, settings, dataset, {"answer_source": answer_source, "subset": ALL}
        )
        for metric, (rows, drawn) in of_all.items():
            measured[metric] += rows
            replicates[metric] += drawn
        if empty is None:
            continue
        kept = np.array([key not in empty[answer_source] for key in ids], dtype=np.bool_)
        if kept.all():
            for metric, (rows, _) in of_all.items():
                measured[metric] += [row | {"subset": ANSWERED} for row in rows]
            continue
        beginning = {"answer_source": answer_source, "subset": ANSWERED}
        of_answered = _measure(answers.some(kept), settings, dataset, beginning)
        for metric, (rows, drawn) in of_answered.items():
            measured[metric] += rows
            replicates[metric] += drawn
    return list(itertools.chain(*measured.values())), list(itertools.chain(*replicates.values()))


@dataclass(frozen=True)
class _Answers:
    """N answers of one kind: their questions, each its id and group; quality [N] by metric; scores
    [N] with keys.
    """

    questions: list[tuple[str, str]]
    quality: dict[str, Floats]
    scores: Sequence[tuple[Row, Floats]]

    def some(self, kept: Bools) -> _Answers:
        """Some of them, by truth values [N]."""
        questions = [question for question, keep in zip(self.questions, kept, strict=True) if keep]
        quality = {metric: values[kept] for metric, values in self.quality.items()}
        return _Answers(questions, quality, [(key, values[kept]) for key, values in self.scores])


def _measure(
    answers: _Answers, settings: EvaluationSettings, dataset: str, beginning: Row
) -> dict[str, tuple[list[Row], list[Row]]]:
    """By quality the rows of these answers with this ``beginning``."""
    if not answers.questions:
        return {
            quality: _of_no_question(answers, settings, beginning | {"quality": quality})
            for quality in answers.quality
        }
    found: dict[str, tuple[list[Row], list[Row]]] = {
        quality: ([], []) for quality in answers.quality
    }
    judged = [
        Judged(values, settings.thresholds[quality]) for quality, values in answers.quality.items()
    ]
    groups = [group for _, group in answers.questions]
    name = draws_name(dataset, answers.questions)
    for start in range(0, len(answers.scores), SCORES_TOGETHER):
        some = answers.scores[start : start + SCORES_TOGETHER]
        blocks = (rows.T for rows in resample_rows(groups, settings.resamples, settings.seed, name))
        scores = [uncertainty for _, uncertainty in some]
        limits = list(settings.limits.values())
        measured = measure_blocks(scores, judged, blocks, settings.metrics, limits)
        for (key, _), of_qualities in zip(some, measured, strict=True):
            for quality, of_metrics in zip(found, of_qualities, strict=True):
                place = beginning | {"quality": quality} | key
                _add_rows(found[quality], place, of_metrics, answers.quality[quality], settings)
    return found


def _add_rows(
    found: tuple[list[Row], list[Row]],
    place: Row,
    of_metrics: Mapping[str, Floats],
    values: Floats,
    settings: EvaluationSettings,
) -> None:
    """Add the rows of one score by one quality, a metric each; ``values``: the quality [N]."""
    rows, replicates = found
    threshold = settings.thresholds[place["quality"]]
    further = [name for name in settings.limits if name != "PRR"]
    for metric in [*(name for name in METRICS if name in of_metrics), *further]:
        draws = of_metrics[metric]
        row = place | {"metric": metric}
        if np.isnan(draws[0]):
            limit = settings.limits.get(metric, settings.max_rejection[0])
            note = why_undefined(metric.partition("@")[0], values, limit, threshold)
            rows.append(row | _UNDEFINED | {"note": note, "n": len(values)})
        else:
            ends = asdict(interval(draws[1:], settings.confidence))
            rows.append(row | {"value": float(draws[0]), "n": len(values)} | ends)
        replicates.append(row | {"values": draws[1:].astype(np.float32)})


def _of_no_question(
    answers: _Answers, settings: EvaluationSettings, place: Row
) -> tuple[list[Row], list[Row]]:
    further = [name for name in settings.limits if name != "PRR"]
    rows = [
        place | {"metric": name} | key
        for key, _ in answers.scores
        for name in [*settings.metrics, *further]
    ]
    summary = _UNDEFINED | {"note": "undefined: every answer is empty", "n": 0}
    drawn = {"values": np.full(settings.resamples, np.nan, np.float32)}
    return [row | summary for row in rows], [row | drawn for row in rows]


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
    """[N] the quality of each question's produced answer. Raises BeamUQError if one is missing, or
    of no score.
    """
    columns = (quality.column(name).to_pylist() for name in ("id", "answer_source", "value"))
    values = {
        key: value for key, source, value in zip(*columns, strict=True) if source == answer_source
    }
    for lacking, missing in (
        ("quality", set(ids) - set(values)),
        ("scores", set(values) - set(ids)),
    ):
        if missing:
            raise BeamUQError(
                f"{lacking}: the {answer_source} answer of question {min(missing)!r} is missing; "
                "make the file again"
            )
    return np.array([values[key] for key in ids])
