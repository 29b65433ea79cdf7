"""Every metric of every score of a cell, with intervals and the replicates behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, interval, resample_counts
from beamuq.evaluation.prr_and_auc import Evaluator, prr_to, why_undefined
from beamuq_study.parquet_tables import ALL, ANSWERED

Row = dict[str, Any]


class EvaluationSettings(BaseModel):
    """What is measured. ``quality``: the metric's name, as rows carry it; correct is strictly above ``threshold``.

    ``further_qualities``: the threshold of each further quality of the same answers, by its metric's name.
    ``max_rejection``: PRR is to the first; to a further one, such as 1, it is a row of its own, ``PRR@1``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    metrics: tuple[Literal["PRR", "ROC-AUC", "PR-AUC"], ...]
    quality: str
    max_rejection: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5,)
    resamples: Annotated[int, Field(ge=2)] = 2000
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
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
    rows: list[Row] = []
    for answer_source, ids, parts in by_answer(scores):
        values = quality_of(ids, answer_source, quality)
        every = list(zip(ids, groups_by_id(ids, questions), strict=True))
        subsets = {ALL: np.ones(len(ids), dtype=np.bool_)}
        if empty is not None:
            subsets[ANSWERED] = np.array([key not in empty[answer_source] for key in ids], dtype=np.bool_)
        for subset, kept in subsets.items():
            if subset == ANSWERED and kept.all():
                measured += [row | {"subset": ANSWERED} for row in rows]
                continue
            kept_questions = [one for one, keep in zip(every, kept, strict=True) if keep]
            scored = [(key, uncertainty[kept]) for key, uncertainty in parts]
            of = {"answer_source": answer_source, "quality": settings.quality, "subset": subset}
            rows, drawn = _measure(kept_questions, values[kept], scored, settings, dataset, of)
            measured += rows
            replicates += drawn
    return measured, replicates


def _measure(
    questions: Sequence[tuple[str, str]],
    values: Floats,
    parts: Sequence[tuple[Row, Floats]],
    settings: EvaluationSettings,
    dataset: str,
    of: Row,
) -> tuple[list[Row], list[Row]]:
    """Rows that begin with ``of``, of ``questions`` [N], each its id and group, with their quality [N]."""
    groups = [group for _, group in questions]
    further = settings.max_rejection[1:] if "PRR" in settings.metrics else ()
    limits = {"": settings.max_rejection[0]} | {prr_to(limit).removeprefix("PRR"): limit for limit in further}
    if not questions:
        names = [metric + at for at in limits for metric in (["PRR"] if at else settings.metrics)]
        rows = [of | {"metric": name} | key for key, _ in parts for name in names]
        undefined = np.full(settings.resamples + 1, np.nan)
        summary = _summary(undefined, "undefined: every answer is empty", settings.confidence) | {"n": 0}
        drawn = {"values": undefined[1:].astype(np.float32)}
        return [row | summary for row in rows], [row | drawn for row in rows]
    resampled = resample_counts(groups, settings.resamples, settings.seed, draws_name(dataset, questions))
    counts = np.concatenate([np.ones((len(questions), 1), dtype=np.int64), resampled], axis=1)
    evaluators = {
        at: Evaluator(values, counts, max_rejection=to, threshold=settings.threshold) for at, to in limits.items()
    }
    measured: list[Row] = []
    replicates: list[Row] = []
    for key, uncertainty in parts:
        for at, evaluator in evaluators.items():
            for metric, draws in evaluator.measure(uncertainty, ["PRR"] if at else settings.metrics).items():
                row = of | {"metric": metric + at} | key
                note = why_undefined(metric, values, limits[at], settings.threshold)
                measured.append(row | _summary(draws, note, settings.confidence) | {"n": len(questions)})
                replicates.append(row | {"values": draws[1:].astype(np.float32)})
    return measured, replicates


def _summary(replicates: Floats, note: str, confidence: float) -> Row:
    if np.isnan(replicates[0]):
        return {"value": None, "low": None, "high": None, "std": None, "note": note}
    return {"value": float(replicates[0])} | asdict(interval(replicates[1:], confidence))


def by_answer(scores: pa.Table) -> list[tuple[str, list[str], list[tuple[Row, Floats]]]]:
    """The scores of each kind of produced answer: its ids, and each (method, variant, setting) with its scores."""
    frame = scores.to_pandas()
    kinds = []
    for answer_source, of_kind in frame.groupby("answer_source", sort=False):
        parts: list[tuple[Row, Floats]] = []
        ids: list[str] = []
        for key, part in of_kind.groupby(["method", "variant", "setting"], sort=False):
            row = dict(zip(("method", "variant", "setting"), key, strict=True))
            own = part["id"].to_list()
            ids = ids or own
            if own != ids:
                missing = sorted(set(ids) ^ set(own)) or ids
                raise BeamUQError(
                    f"scores: {' '.join(filter(None, key))} and the other methods differ at question {missing[0]!r}; "
                    "score the cell again"
                )
            parts.append((row, part["value"].to_numpy(dtype=np.float64)))
        kinds.append((str(answer_source), ids, parts))
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
    values = {key: value for key, of, value in zip(*columns, strict=True) if of == answer_source}
    missing = [key for key in ids if key not in values]
    if missing or len(values) > len(ids):
        which = missing[0] if missing else min(set(values).difference(ids))
        which_file = "quality" if missing else "scores"
        raise BeamUQError(
            f"{which_file}: the {answer_source} answer of question {which!r} is missing; make the file again"
        )
    return np.array([values[key] for key in ids])
