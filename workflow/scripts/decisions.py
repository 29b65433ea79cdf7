"""What each score of a cell would decide under a guarantee, and the scores as ``beamuq calibrate``
reads them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from beamuq import io
from beamuq.api.score_candidates import candidates_of
from beamuq.methods.registry import resolve
from beamuq.scorers.quality_metrics import FOLDED
from beamuq.scorers.similarity_by_kind import FOLDED_WORDS
from beamuq.strategy_names import parse
from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import Footer
from beamuq_study.provenance import check_one_run, check_settings, provenance, read_cell
from beamuq_study.rule_programs import run_program
from beamuq_study.stages import decisions_of_scores
from beamuq_study.stages.decisions_of_scores import DecisionSettings

CHANGING = (  # settings of candidates and scores that a method's scores depend on
    *("max_new_tokens", "newline_stops", "merge_stop_tokens", "enable_thinking"),
    *("main", "num_candidates", "alpha", "epsilon", "equivalence_threshold"),
)


def run(
    *,
    settings: DecisionSettings,
    made_with: dict[str, Any],
    prompts: Path,
    candidates: Path,
    decisions: Path,
    scored: Path,
    **tables: Path | None,
) -> None:
    """Read the tables of a cell, calibrate on one half, test on the other, write both files.

    Of ``prompts`` the footer alone is read, of ``candidates`` how many there are too: what the
    scores are of.
    """
    read = read_cell(tables, made_with, seed=settings.seed)
    decoded, rendered = map(parquet_tables.read_footer, (candidates, prompts))
    check_settings(decoded, made_with.get("candidates", {}))
    check_one_run([*read.values(), decoded, rendered])
    check_settings(read["quality"], {"metric": settings.quality})
    cell, (values, right, items) = (
        read["scores"].cell,
        (read[of].table for of in ("scores", "quality", "questions")),
    )
    decided, rows = decisions_of_scores.decisions(
        values, right, items, settings, cell.get("dataset", "")
    )
    footers = {
        "candidates": decoded,
        "prompts": rendered,
        "scores": read["scores"],
        "quality": read["quality"],
    }
    facts = _facts(footers, read["shots"].table.to_pylist(), settings.similarity)
    scoring = read["scores"].provenance["settings"]
    counts, methods = (
        _counts(candidates, scoring),
        {of.name: of for of in map(resolve, scoring["methods"])},
    )
    for row in rows:
        row |= facts | {
            "candidates": counts[row["id"], candidates_of(methods[row["method"]], row["variant"])]
        }
    io.write_text(scored, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    footer = provenance(
        settings.model_dump(mode="json", exclude={"similarity", "model"}), tables, tables=read
    )
    footer["empty"] = read["quality"].provenance.get("empty", {})
    parquet_tables.write(decisions, "decisions", decided, cell=cell, provenance=footer)


def _facts(footers: Mapping[str, Footer], shots: list[Any], similarity: str) -> dict[str, str]:
    """Hashes of the model's files and of the template, its examples and settings; the settings as
    ``score`` says them.

    A hash of a scorer of one's own is not known here.
    """
    candidates = footers["candidates"].provenance
    scores = footers["scores"]
    prompts = footers["prompts"]
    scoring = scores.provenance["settings"]
    model = candidates["models"]["model"]
    changing = {name: (candidates["settings"] | scoring).get(name) for name in CHANGING}
    around = [prompts.cell["style"], prompts.provenance["template_sha256"], shots, changing]
    scorer = scores.provenance.get("models_behind", {}).get(
        f"similarity of {scores.cell['scorer']!r} (model)", {}
    )
    # a dataset's answers are compared by one rule, whether for quality or by words in common
    judged = footers["quality"].provenance.get("settings", {})
    folded = judged.get("normalizer") == FOLDED
    words = FOLDED_WORDS if folded else ""
    settings = {name: scoring[name] for name in ("epsilon", "alpha", "equivalence_threshold")} | {
        "temperature": parse(scoring["main"]["sample"] or "sample T=1.0")[1]["T"],
        "without_ending": False,
        "similarity": scorer.get("content", words if similarity == "lexical" else None),
    }
    return {
        "model_hash": model["content"],
        "prompt_hash": hashlib.sha256(json.dumps(around, ensure_ascii=False).encode()).hexdigest(),
        "scored_with": json.dumps(settings),
    }


def _counts(candidates: Path, scoring: dict[str, Any]) -> Counter[tuple[str, str]]:
    """How many candidates of a kind the main line reads, by question and kind."""
    rows = pq.read_table(candidates, columns=["id", "strategy", "rank"]).to_pydict().values()
    main, most = scoring["main"], scoring["num_candidates"] or np.inf
    kinds = {main["beam"]: "beams", main["sample"]: "samples"}
    read = ((key, kinds.get(of), rank) for key, of, rank in zip(*rows, strict=True))
    return Counter(
        (key, kind) for key, kind, rank in read if kind and (kind == "beams" or rank < most)
    )


if __name__ == "__main__":
    run_program(run, output="decisions")
