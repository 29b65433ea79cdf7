"""Score every pair of answers that the methods can ask for."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.scorers.scorer_protocol import PairScores, scored, warn_of_cut_questions
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import needed_pairs
from beamuq_study.provenance import provenance, read_cell
from beamuq_study.rule_programs import run_program


def run(
    *,
    candidates: Path,
    model: Path | None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    loading: dict[str, Any],
    cache: Path | None = None,
    threads: int = 1,
    similarity: Path,
) -> None:
    """Read the candidates, score their pairs, write the table.

    ``model``: a file in the scorer's folder, if it has one.
    """
    decoded = read_cell({"candidates": candidates}, made_with)["candidates"]
    pairs = needed_pairs(
        decoded.table,
        settings["answer_source"],
        settings["beam"],
        settings.get("only_with_answer", ()),
    )
    folder = model.parent if model else None
    models = identities(
        {"model": folder}, loading["content"], {"model"} if ":" in settings["kind"] else ()
    )
    device, dtype = (
        devices.prepare(loading["device"], loading["dtype"], threads) if folder else (None, None)
    )
    scorer = load_scorer(
        settings["kind"],
        folder,
        dtype=dtype,
        device=device,
        cache=cache,
        words=settings.get("words", "rouge"),
    )
    compared = [(question, (premise, hypothesis)) for question, premise, hypothesis in pairs]
    pairs_of_texts = [pair for _, pair in compared]
    scores = scored(scorer, pairs_of_texts)
    table = _table(pairs, scores)
    print(f"{settings['name']}: {len(pairs)} pairs", file=sys.stderr)
    warn_of_cut_questions(settings["name"], pairs_of_texts, scores, compared)
    footer = provenance(
        settings, {"candidates": candidates}, models=models, dtype=dtype, device=device
    )
    footer["pairs"] = len(pairs)
    cell = decoded.cell | {"scorer": settings["name"]}
    parquet_tables.write(similarity, "similarity", table, cell=cell, provenance=footer)


def _table(pairs: Sequence[tuple[str, str, str]], scores: PairScores) -> pa.Table:
    """The table of similarities of (question id, premise, hypothesis)."""
    columns = {
        "id": [question for question, _, _ in pairs],
        "premise": [premise for _, premise, _ in pairs],
        "hypothesis": [hypothesis for _, _, hypothesis in pairs],
        "entail": scores.entail,
        "neutral": scores.neutral,
        "contradict": scores.contradict,
    }
    return parquet_tables.table_of("similarity", columns)


if __name__ == "__main__":
    run_program(run, output="similarity")
