"""Ask the models what PTrue, CCP and SAR need to know of the answers."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.judged_answer import strategy_of
from beamuq.models import devices
from beamuq.models.model_provenance import provenance
from beamuq.scorers.ccp_labels import ccp_labels
from beamuq.scorers.p_true import PTrueQuery, load_template, p_true_logprobs
from beamuq.scorers.sar_token_relevance import token_relevances
from beamuq.scorers.scorer_protocol import CountingScorer
from beamuq.scorers.similarity_scorers import WITHOUT_MODEL, load_scorer
from beamuq.scorers.similarity_table import produced_texts
from beamuq.steps.entry import run
from beamuq.steps.given import parse_settings

if TYPE_CHECKING:
    import torch

Row = dict[str, Any]
COLUMNS = ["id", "strategy", "rank", "text", "token_ids", "terminated", "top_ids", "top_texts"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Ccp(_Strict):
    """CCP's judge: a kind of scorer, and for one without classes the threshold of "same meaning" (D18)."""

    kind: str
    equivalence_threshold: Annotated[float, Field(gt=0, le=1)] | None


class Relevance(_Strict):
    """SAR's judge: a kind of scorer."""

    kind: str


class Settings(_Strict):
    """What is asked for; a part that is false or null is not computed and stays null in the table."""

    answer_source: Annotated[tuple[str, ...], Field(min_length=1)]
    beam: str | None
    sample: str | None
    style: Literal["base", "instruct"]
    enable_thinking: bool | None
    p_true: bool
    ccp: Ccp | None
    relevance: Relevance | None
    format: int


def main(argv: Sequence[str] | None = None) -> None:
    """Read questions and candidates, load one model after the other, write the statistics table."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.statistics", description=__doc__)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument(
        "--settings", required=True, help="JSON: answer_source, beam, sample, style, p_true, ccp, relevance"
    )
    parser.add_argument("--template", type=Path, help="the prompt of P(True)")
    parser.add_argument("--language-model", type=Path, help="a file in the folder of the model that gave the answers")
    parser.add_argument("--nli", type=Path, help="a file in the folder of CCP's judge")
    parser.add_argument("--relevance", type=Path, help="a file in the folder of SAR's judge")
    parser.add_argument("--statistics", type=Path, required=True, help="table to write")
    parser.add_argument("--device", choices=devices.DEVICES, default="auto")
    parser.add_argument("--dtype", choices=devices.DTYPES, default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--memo", type=Path, help="root folder of the memo that survives between jobs")
    options = parser.parse_args(argv)

    settings = parse_settings(Settings, options.settings)
    _check_options(options, settings)
    loaded = artifacts.read(options.candidates, "candidates")
    questions = {row["id"]: row for row in artifacts.read(options.questions, "questions").table.to_pylist()}
    unknown = set(loaded.table.column("id").to_pylist()) - questions.keys()
    if unknown:
        raise BeamUQError(f"{options.candidates}: id {min(unknown)!r} is not in {options.questions}; make both anew")
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
    device, dtype = devices.prepare(options.device, options.dtype, options.threads)
    folders = {name: _folder(options, name) for name in ("language_model", "nli", "relevance")}
    if settings.p_true:
        _fill(rows, "p_true_logprob", _p_true(options, settings, questions, answers, dtype, device))
        gc.collect()
    if settings.ccp:
        judge = load_scorer(settings.ccp.kind, folders["nli"], dtype=dtype, device=device, cache=options.memo)
        _fill(
            rows, "ccp_labels", ccp_labels([answer for _, answer in answers], judge, settings.ccp.equivalence_threshold)
        )
        _tell("CCP", judge)
        del judge
        gc.collect()
    if settings.relevance:
        from beamuq.models.causal_lm import load_tokenizer

        kind = settings.relevance.kind
        judge = load_scorer(kind, folders["relevance"], dtype=dtype, device=device, cache=options.memo)
        tokenizer = load_tokenizer(options.language_model.parent)
        asked = {key: str(row["question"]) for key, row in questions.items()}
        said = [answer for _, answer in answers] + others
        _fill(rows, "token_relevances", token_relevances(said, asked, tokenizer, judge))
        _tell("SAR", judge)
    inputs = {"questions": options.questions, "candidates": options.candidates}
    inputs |= {"template": options.template} if settings.p_true else {}
    facts = provenance(settings.model_dump(mode="json"), inputs, folders, dtype=dtype, device=device)
    artifacts.write(options.statistics, "statistics", rows, cell=loaded.cell, provenance=facts)


def answers_and_candidates(table: pa.Table, settings: Settings) -> tuple[list[tuple[str, Row]], list[Row]]:
    """The rows of the produced answers, with the name of each, and of the candidates whose tokens are judged for SAR.

    Raises
    ------
    BeamUQError
        If a question lacks a produced answer, or the file the main strategies.
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
    options: argparse.Namespace,
    settings: Settings,
    questions: Mapping[str, Row],
    answers: Sequence[tuple[str, Row]],
    dtype: torch.dtype,
    device: torch.device,
) -> list[float]:
    from beamuq.models.causal_lm import load_causal

    model, tokenizer = load_causal(options.language_model.parent, dtype=dtype, device=device)
    template = load_template(options.template)
    query = PTrueQuery(tokenizer, template, settings.style, settings.enable_thinking)
    asked = [(f"{answer['id']} ({name})", questions[answer["id"]], answer["text"]) for name, answer in answers]
    return p_true_logprobs(model, query, asked)


def _check_options(options: argparse.Namespace, settings: Settings) -> None:
    """Each file is given exactly where the settings call for it: the footer names what was used and no more."""
    needed = {
        "template": settings.p_true,
        "language_model": settings.p_true or settings.relevance is not None,
        "nli": _loads_a_model(settings.ccp),
        "relevance": _loads_a_model(settings.relevance),
    }
    for name, is_needed in needed.items():
        if is_needed is not None and is_needed != (getattr(options, name) is not None):
            fix = "give it" if is_needed else "the settings ask for nothing that uses it; leave it out"
            raise BeamUQError(f"--{name.replace('_', '-')}: {fix}")


def _loads_a_model(judge: Ccp | Relevance | None) -> bool | None:
    """Whether a judge is loaded from a folder; None where either will do: one of one's own has a source or none."""
    if judge is None or ":" not in judge.kind:
        return judge is not None and judge.kind not in WITHOUT_MODEL
    return None


def _folder(options: argparse.Namespace, name: str) -> Path | None:
    file: Path | None = getattr(options, name)
    return file.parent if file else None


def _fill(rows: Sequence[Row], column: str, values: Sequence[object]) -> None:
    """Give the first rows their values; the rest, and rows of parts not asked for, keep null."""
    for row, value in zip(rows, values, strict=False):
        row[column] = value


def _tell(method: str, judge: CountingScorer) -> None:
    counts = judge.counts
    told = f"of {counts.asked} rows {counts.distinct} are distinct, {counts.scored} were scored"
    print(f"{method}: {told}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
