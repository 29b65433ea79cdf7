"""Every metric of every score of a cell, with intervals and the replicates behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from beamuq.array_types import Floats
from beamuq.config_errors import StrictModel
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, interval, resample_blocks
from beamuq.evaluation.prr_and_auc import measure_blocks, prr_to, why_undefined
from beamuq_study.parquet_tables import ALL, ANSWERED

Row = dict[str, Any]
PART = ["method", "variant", "setting"]


class EvaluationSettings(StrictModel):
    """What is measured. Correct is strictly above ``threshold``; ``further_qualities``: thresholds by metric."""

    metrics: tuple[Literal["PRR", "ROC-AUC", "PR-AUC"], ...]
    quality: str
    max_rejection: tuple[float, ...] = (0.5,)
    resamples: int = 2000
    confidence: float = 0.95
    threshold: float = 0.5
    further_qualities: dict[str, float] = {}
    seed: int = 0
    format: int = 0


def evaluate(
    scores: pa.Table,
    quality: pa.Table,
    questions: pa.Table,
    settings: EvaluationSettings,
    dataset: str,
    empty: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[Row], list[Row]]:
    """Rows of ``evaluation`` and of ``replicates``, in the order of the scores; of all questions, then of the answered.

    ``empty``: by answer source the questions whose produced answer is empty; None: not known, so there are no rows of
    the answered questions. Where none is empty these are the rows of all questions again, without replicates.

    The seed, ``dataset`` and the questions choose the resamples, so all scores and produced answers share them, within
    the cell and with other models and recipes on the same questions; a question's group is what is resampled.

    Raises BeamUQError if scores, quality and questions are not of the same answers; the message names one.
    """
    measured: list[Row] = []
    replicates: list[Row] = []
    for answer_source, ids, parts in by_answer(scores):
        values = quality_of(ids, answer_source, quality)
        grouped = list(zip(ids, groups_by_id(ids, questions), strict=True))
        place = {"answer_source": answer_source, "quality": settings.quality}
        rows, drawn = _measure(grouped, values, parts, settings, dataset, place | {"subset": ALL})
        measured += rows
        replicates += drawn
        if empty is None:
            continue
        kept = np.array([key not in empty[answer_source] for key in ids], dtype=np.bool_)
        if kept.all():
            measured += [row | {"subset": ANSWERED} for row in rows]
            continue
        scored = [(key, uncertainty[kept]) for key, uncertainty in parts]
        answered = [question for question, keep in zip(grouped, kept, strict=True) if keep]
        rows, drawn = _measure(answered, values[kept], scored, settings, dataset, place | {"subset": ANSWERED})
        measured += rows
        replicates += drawn
    return measured, replicates


def _measure(
    questions: Sequence[tuple[str, str]],
    values: Floats,
    parts: Sequence[tuple[Row, Floats]],
    settings: EvaluationSettings,
    dataset: str,
    beginning: Row,
) -> tuple[list[Row], list[Row]]:
    """Rows with this ``beginning``, of ``questions`` [N], each its id and group, with their quality [N]."""
    further = settings.max_rejection[1:] if "PRR" in settings.metrics else ()
    limits = {"": settings.max_rejection[0]} | {prr_to(limit).removeprefix("PRR"): limit for limit in further}
    if not questions:
        names = [metric + at for at in limits for metric in (["PRR"] if at else settings.metrics)]
        rows = [beginning | {"metric": name} | key for key, _ in parts for name in names]
        summary = _UNDEFINED | {"note": "undefined: every answer is empty", "n": 0}
        drawn = {"values": np.full(settings.resamples, np.nan, np.float32)}
        return [row | summary for row in rows], [row | drawn for row in rows]
    groups = [group for _, group in questions]
    name, scores = draws_name(dataset, questions), [uncertainty for _, uncertainty in parts]
    found = {}
    for at, to in limits.items():
        blocks = resample_blocks(groups, settings.resamples, settings.seed, name)
        metrics, options = ["PRR"] if at else settings.metrics, {"max_rejection": to, "threshold": settings.threshold}
        found[at] = measure_blocks(scores, values, blocks, metrics, **options)
    measured: list[Row] = []
    replicates: list[Row] = []
    for place, (key, _) in enumerate(parts):
        for at, of_scores in found.items():
            for metric, draws in of_scores[place].items():
                row = beginning | {"metric": metric + at} | key
                if np.isnan(draws[0]):
                    summary = _UNDEFINED | {"note": why_undefined(metric, values, limits[at], settings.threshold)}
                else:
                    summary = {"value": float(draws[0])} | asdict(interval(draws[1:], settings.confidence))
                measured.append(row | summary | {"n": len(questions)})
                replicates.append(row | {"values": draws[1:].astype(np.float32)})
    return measured, replicates


_UNDEFINED: Row = dict.fromkeys(("value", "low", "high", "std"))


def by_answer(scores: pa.Table) -> list[tuple[str, list[str], list[tuple[Row, Floats]]]]:
    """The scores of each kind of produced answer: its ids, and each (method, variant, setting) with its scores."""
    kinds = []
    for answer_source, rows in scores.to_pandas().groupby("answer_source", sort=False):
        parts = list(rows.groupby(PART, sort=False))
        ids = parts[0][1]["id"].to_list()
        for key, part in parts:
            if part["id"].to_list() != ids:
                raise BeamUQError(f"scores: {' '.join(key)} and the other methods are not of the same questions")
        scored = [(dict(zip(PART, key, strict=True)), part["value"].to_numpy(np.float64)) for key, part in parts]
        kinds.append((str(answer_source), ids, scored))
    return kinds


def groups_by_id(ids: Sequence[str], questions: pa.Table) -> list[str]:
    """The group of each question. Raises BeamUQError if one is not among ``questions``."""
    groups = dict(zip(questions.column("id").to_pylist(), questions.column("group").to_pylist(), strict=True))
    if unknown := [key for key in ids if key not in groups]:
        raise BeamUQError(f"scores: question {unknown[0]!r} is not in the questions file; make both of one study")
    return [groups[key] for key in ids]


def quality_of(ids: list[str], answer_source: str, quality: pa.Table) -> Floats:
    """[N] the quality of each question's produced answer. Raises BeamUQError if one is missing, or of no score."""
    columns = (quality.column(name).to_pylist() for name in ("id", "answer_source", "value"))
    values = {key: value for key, source, value in zip(*columns, strict=True) if source == answer_source}
    for lacking, missing in (("quality", set(ids) - set(values)), ("scores", set(values) - set(ids))):
        if missing:
            raise BeamUQError(
                f"{lacking}: the {answer_source} answer of question {min(missing)!r} is missing; make the file again"
            )
    return np.array([values[key] for key in ids])
