"""Ask the models what PTrue, CCP and SAR need to know of the answers."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from beamuq import parquet_tables, plugins
from beamuq.errors import BeamUQError
from beamuq.judged_answer import produced_texts, strategy_of
from beamuq.models import devices
from beamuq.models.load_model import load_causal, load_tokenizer
from beamuq.models.model_folder import identities
from beamuq.plan.job_types import CcpJudge, MachineOptions, RelevanceJudge, StatisticsJob, StatisticsSettings
from beamuq.provenance import provenance, read_cell
from beamuq.scorers.ccp_labels import ccp_labels
from beamuq.scorers.p_true import PTrueQuery, load_template, p_true_logprobs
from beamuq.scorers.sar_token_relevance import token_relevances
from beamuq.scorers.scorer_protocol import CountingScorer, work_of
from beamuq.scorers.similarity_by_kind import WITHOUT_MODEL, load_scorer

if TYPE_CHECKING:
    import torch

Row = dict[str, Any]
COLUMNS = ["id", "strategy", "rank", "text", "token_ids", "terminated", "top_ids", "top_texts"]


def run(job: StatisticsJob, machine: MachineOptions) -> None:
    """Read questions and candidates, load one model after the other, write the statistics table."""
    settings = job.settings
    _check_files(job)
    read = {"candidates": ("candidates", job.candidates), "questions": ("questions", job.questions)}
    tables = read_cell(read, machine.expected)
    loaded = tables["candidates"]
    questions = {row["id"]: row for row in tables["questions"].table.to_pylist()}
    unknown = set(loaded.table.column("id").to_pylist()) - questions.keys()
    if unknown:
        raise BeamUQError(f"{job.candidates}: id {min(unknown)!r} is not in {job.questions}; make both anew")
    answers, others = answers_and_candidates(loaded.table, settings)
    rows: list[Row] = [
        {"id": answer["id"], "answer_source": answer_source, "candidate_strategy": "", "candidate_rank": 0}
        for answer_source, answer in answers
    ] + [
        {
            "id": other["id"],
            "answer_source": "",
            "candidate_strategy": other["strategy"],
            "candidate_rank": other["rank"],
        }
        for other in others
    ]
    cards = machine.cards if job.settings.p_true else 1
    device, dtype = devices.prepare(job.device, job.dtype, machine.threads, cards)
    _, scorer_dtype = devices.resolve(job.device, job.scorer_dtype or job.dtype)
    files = {"language_model": job.language_model, "nli": job.nli, "relevance": job.relevance}
    folders = {name: file.parent if file else None for name, file in files.items()}
    judges = {"nli": settings.ccp, "relevance": settings.relevance}
    plugged = plugins.among(**{name: judge.kind if judge else None for name, judge in judges.items()})
    models = identities(folders, job.folders, plugged)
    _check_language_model(job, loaded.provenance, models)

    def judge_of(use: str, kind: str) -> CountingScorer:
        return load_scorer(kind, folders[use], dtype=scorer_dtype, device=device, cache=machine.cache_root)

    if settings.p_true:
        _fill(rows, "p_true_logprob", _p_true(job, questions, answers, dtype, device, cards))
        gc.collect()
    if settings.ccp:
        judge = judge_of("nli", settings.ccp.kind)
        labels = ccp_labels([answer for _, answer in answers], judge, settings.ccp.equivalence_threshold)
        _fill(rows, "ccp_labels", labels)
        _print_counts("CCP", judge)
        del judge
        gc.collect()
    if settings.relevance:
        judge = judge_of("relevance", settings.relevance.kind)
        tokenizer = load_tokenizer(_folder_of(job.language_model))
        asked = {key: str(row["question"]) for key, row in questions.items()}
        texts = [answer for _, answer in answers] + others
        _fill(rows, "token_relevances", token_relevances(texts, asked, tokenizer, judge))
        _print_counts("SAR", judge)
    made = provenance(
        settings.model_dump(mode="json"),
        {"questions": job.questions, "candidates": job.candidates, "template": job.template},
        models=models,
        dtype=dtype,
        device=device,
    ) | ({"scorer_dtype": job.scorer_dtype} if job.scorer_dtype else {})
    parquet_tables.write(job.statistics, "statistics", rows, cell=loaded.cell, provenance=made)


def answers_and_candidates(table: pa.Table, settings: StatisticsSettings) -> tuple[list[tuple[str, Row]], list[Row]]:
    """The rows of the produced answers, with the name of each, and of the candidates whose tokens are judged for SAR.

    Raises BeamUQError if a question lacks a produced answer, or the file the main strategies.
    """
    texts = produced_texts(table, settings.answer_source, settings.beam)
    judged = [name for name in (settings.sample, settings.beam) if name and settings.relevance]
    sources = {name: strategy_of(name, settings.beam) for name in settings.answer_source}
    wanted = pa.array([*sources.values(), *judged], pa.string())
    rows: list[Row] = table.select(COLUMNS).filter(pc.is_in(table.column("strategy"), value_set=wanted)).to_pylist()
    others = [row for row in rows if row["strategy"] in judged]
    for name in judged:
        if not any(row["strategy"] == name for row in others):
            raise BeamUQError(f"candidates: hold no {name!r}; decode it, or set it to null")
    first = {(row["strategy"], row["id"]): row for row in rows if row["rank"] == 0}
    answers = [(name, first[sources[name], key]) for name, of_name in texts.items() for key in of_name]
    return answers, others


def _p_true(
    job: StatisticsJob,
    questions: Mapping[str, Row],
    answers: Sequence[tuple[str, Row]],
    dtype: torch.dtype,
    device: torch.device,
    cards: int,
) -> list[float]:
    if job.template is None:
        raise BeamUQError("--job: template: null: the settings ask for P(True); give it")
    model, tokenizer = load_causal(_folder_of(job.language_model), dtype=dtype, device=device, cards=cards)
    query = PTrueQuery(tokenizer, load_template(job.template), job.settings.style, job.settings.enable_thinking)
    asked = [(f"{answer['id']} ({name})", questions[answer["id"]], answer["text"]) for name, answer in answers]
    return p_true_logprobs(model, query, asked)


def _check_files(job: StatisticsJob) -> None:
    """Each file is given exactly where the settings call for it: the footer names what was used and no more."""
    settings = job.settings
    needed = {
        "template": settings.p_true,
        "language_model": settings.p_true or settings.relevance is not None,
        "nli": _loads_a_model(settings.ccp),
        "relevance": _loads_a_model(settings.relevance),
    }
    for name, is_needed in needed.items():
        if is_needed is not None and is_needed != (getattr(job, name) is not None):
            fix = "give it" if is_needed else "the settings ask for nothing that uses it; leave it out"
            raise BeamUQError(f"--job: {name}: {fix}")


def _check_language_model(job: StatisticsJob, made: Mapping[str, Any], models: Mapping[str, dict[str, str]]) -> None:
    """The model that is asked now is the one that gave the answers, as far as their footer says which."""
    answered, asked = made.get("models", {}).get("model"), models.get("language_model")
    if answered and asked and answered["content"] != asked["content"]:
        told = f"content {asked['content'][:12]}…, {job.candidates} was made with {answered['content'][:12]}…"
        raise BeamUQError(
            f"{_folder_of(job.language_model)}: is not the model that gave the answers ({told}); put that model back, "
            "or delete the candidates and run again"
        )


def _loads_a_model(judge: CcpJudge | RelevanceJudge | None) -> bool | None:
    """Whether a judge is loaded from a folder; None where either will do: one of one's own has a source or none."""
    if judge is None or ":" not in judge.kind:
        return judge is not None and judge.kind not in WITHOUT_MODEL
    return None


def _folder_of(file: Path | None) -> Path:
    if file is None:
        raise BeamUQError("--job: language_model: null: the settings ask for it; give it")
    return file.parent


def _fill(rows: Sequence[Row], column: str, values: Sequence[object]) -> None:
    """Give the first rows their values; the rest, and rows of parts not asked for, keep null."""
    for row, value in zip(rows, values, strict=False):
        row[column] = value


def _print_counts(method: str, judge: CountingScorer) -> None:
    print(f"{method}: {work_of(judge)}", file=sys.stderr)
