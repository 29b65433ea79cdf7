"""Ask the models what PTrue, CCP and SAR need to know of the answers."""

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.load_model import load_causal, load_tokenizer
from beamuq.models.model_folder import identities
from beamuq.scorers.judgements import (
    PTrueQuery,
    ccp_labels,
    load_template,
    p_true_logprobs,
    token_relevances,
)
from beamuq.scorers.scorer_protocol import SimilarityScorer
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import produced_texts, strategy_of
from beamuq_study.provenance import newline_ended, provenance, read_cell
from beamuq_study.rule_programs import run_program

Row = dict[str, Any]
JUDGES = {"nli": "ccp", "relevance": "relevance"}  # models by what the settings call their use
COLUMNS = ["id", "strategy", "rank", "text", "token_ids", "terminated", "top_ids", "top_texts"]


def run(
    *,
    questions: Path,
    candidates: Path,
    template: Path | None = None,
    language_model: Path | None = None,
    nli: Path | None = None,
    relevance: Path | None = None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    loading: dict[str, Any],
    cards: int = 1,
    cache: Path | None = None,
    threads: int = 1,
    judgements: Path,
) -> None:
    """Read questions and candidates, load one model after the other, write the judgements table.

    ``template``: the prompt of P(True). ``language_model``: a file in the folder of the model that
    gave the answers; ``nli``, ``relevance``: in those of CCP's and of SAR's judge. Each is given
    exactly where the settings ask for it.
    """
    tables = {"questions": questions, "candidates": candidates}
    read = read_cell(tables, made_with)
    loaded, by_id = (
        read["candidates"],
        {row["id"]: row for row in read["questions"].table.to_pylist()},
    )
    if unknown := set(loaded.table.column("id").to_pylist()) - by_id.keys():
        raise BeamUQError(
            f"{candidates}: id {min(unknown)!r} is not in {questions}; make both anew"
        )
    answers, others = _answers_and_candidates(loaded.table, settings)
    texts = [answer for _, answer in answers]
    columns = ("id", "answer_source", "candidate_strategy", "candidate_rank")
    keys = [(answer["id"], name, "", 0) for name, answer in answers]
    keys += [(other["id"], "", other["strategy"], other["rank"]) for other in others]
    judged: dict[str, list[Any]] = {}

    cards = cards if settings["p_true"] else 1
    device, dtype = devices.prepare(loading["device"], loading["dtype"], threads, cards)
    _, scorer_dtype = devices.resolve(
        loading["device"], loading.get("scorer_dtype", loading["dtype"])
    )
    files = {"language_model": language_model, "nli": nli, "relevance": relevance}
    folders = {name: file.parent if file else None for name, file in files.items()}
    plugged = {use for use, key in JUDGES.items() if settings[key] and ":" in settings[key]["kind"]}
    models = identities(folders, loading["content"], plugged)
    answered, asked = loaded.provenance.get("models", {}).get("model"), models.get("language_model")
    if answered and asked and answered["content"] != asked["content"]:
        both = (
            f"content {asked['content'][:12]}…, {candidates} was made with "
            f"{answered['content'][:12]}…"
        )
        raise BeamUQError(
            f"{folders['language_model']}: is not the model that gave the answers ({both}); put "
            "that model back, or "
            "delete the candidates and run again"
        )

    def judge_of(use: str) -> SimilarityScorer:
        judge = settings[JUDGES[use]]
        words = judge.get("words", "rouge")
        options: dict[str, Any] = {
            "dtype": scorer_dtype,
            "device": device,
            "cache": cache,
            "words": words,
        }
        return load_scorer(judge["kind"], folders[use], **options)

    if settings["p_true"] and template and language_model:
        model, tokenizer = load_causal(
            language_model.parent, dtype=dtype, device=device, cards=cards
        )
        query = PTrueQuery(
            tokenizer, load_template(template), settings["style"], settings["enable_thinking"]
        )
        prompts = [
            (f"{answer['id']} ({name})", by_id[answer["id"]], answer["text"])
            for name, answer in answers
        ]
        judged["p_true_logprob"] = list(p_true_logprobs(model, query, prompts))
        del model
        gc.collect()
    if settings["ccp"]:
        judge = judge_of("nli")
        judged["ccp_labels"] = list(
            ccp_labels(texts, judge, settings["ccp"]["equivalence_threshold"])
        )
        del judge
        gc.collect()
    if settings["relevance"] and language_model:
        judge = judge_of("relevance")
        asked_of = {key: str(row["question"]) for key, row in by_id.items()}
        tokenizer = load_tokenizer(language_model.parent)
        newline = newline_ended(loaded)
        relevances = token_relevances(
            [*texts, *others], asked_of, tokenizer, judge, newline=newline
        )
        judged["token_relevances"] = list(relevances)

    rows = [dict(zip(columns, key, strict=True)) for key in keys]
    for name, values in judged.items():
        for row, value in zip(
            rows, values, strict=False
        ):  # candidates, which come last, may have none
            row[name] = value
    read_too = tables | {"template": template}
    footer = provenance(settings, read_too, models=models, dtype=dtype, device=device)
    footer |= {"scorer_dtype": loading["scorer_dtype"]} if "scorer_dtype" in loading else {}
    parquet_tables.write(judgements, "judgements", rows, cell=loaded.cell, provenance=footer)


def _answers_and_candidates(
    table: pa.Table, settings: dict[str, Any]
) -> tuple[list[tuple[str, Row]], list[Row]]:
    """The rows of the produced answers, with the name of each, and of the candidates whose tokens
    are judged for SAR.

    Raises BeamUQError if a question lacks a produced answer, or the file the main strategies.
    """
    texts = produced_texts(table, settings["answer_source"], settings["beam"])
    judged = [
        name for name in (settings["sample"], settings["beam"]) if name and settings["relevance"]
    ]
    sources = {name: strategy_of(name, settings["beam"]) for name in texts}
    strategies = pa.array([*sources.values(), *judged], pa.string())
    rows: list[Row] = (
        table.select(COLUMNS)
        .filter(pc.is_in(table.column("strategy"), value_set=strategies))
        .to_pylist()
    )
    others = [row for row in rows if row["strategy"] in judged]
    if lacking := set(judged) - {row["strategy"] for row in others}:
        raise BeamUQError(f"candidates: hold no {min(lacking)!r}; decode it, or set it to null")
    first = {(row["strategy"], row["id"]): row for row in rows if row["rank"] == 0}
    return [
        (name, first[sources[name], key]) for name, by_id in texts.items() for key in by_id
    ], others


if __name__ == "__main__":
    run_program(run, made="judgements")
