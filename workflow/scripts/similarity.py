"""Score every pair of answers that the methods can ask for."""

import sys
from pathlib import Path
from typing import Any

from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.scorers.scorer_protocol import scored
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
    """Read the candidates, score their pairs, write the table; ``model``: a file in the scorer's
    folder, if any.
    """
    loaded = read_cell({"candidates": candidates}, made_with)["candidates"]
    needed = needed_pairs(
        loaded.table,
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
    words = settings.get("words", "rouge")
    scorer = load_scorer(
        settings["kind"], folder, dtype=dtype, device=device, cache=cache, words=words
    )
    scores = scored(scorer, [(premise, hypothesis) for _, premise, hypothesis in needed])
    ids, premises, hypotheses = zip(*needed, strict=True) if needed else ((), (), ())
    columns = {"id": ids, "premise": premises, "hypothesis": hypotheses, **vars(scores)}
    table = parquet_tables.table_of("similarity", columns)
    print(f"{settings['name']}: {len(needed)} pairs", file=sys.stderr)
    cell = loaded.cell | {"scorer": settings["name"]}
    footer = provenance(
        settings, {"candidates": candidates}, models=models, dtype=dtype, device=device
    )
    footer["pairs"] = len(needed)
    parquet_tables.write(similarity, "similarity", table, cell=cell, provenance=footer)


if __name__ == "__main__":
    run_program(run, made="similarity")
