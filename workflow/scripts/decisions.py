"""What a cell's scores would decide under a guarantee; the scores for ``beamuq calibrate``."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from beamuq import io
from beamuq.api.score_settings import ScoreSettings, scored_with
from beamuq.api.server_identity import server_text
from beamuq.methods.registry import candidates_of, resolve
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
    "max_new_tokens",
    "newline_stops",
    "merge_stop_tokens",
    "enable_thinking",
    "main",
    "num_candidates",
    "alpha",
    "epsilon",
    "equivalence_threshold",
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
    candidates_footer = parquet_tables.read_footer(candidates)
    prompts_footer = parquet_tables.read_footer(prompts)
    check_settings(candidates_footer, made_with.get("candidates", {}))
    check_one_run([*read.values(), candidates_footer, prompts_footer])
    check_settings(read["quality"], {"metric": settings.quality})
    scores = read["scores"]
    decision_rows, scored_rows = decisions_of_scores.decisions(
        scores.table,
        read["quality"].table,
        read["questions"].table,
        settings,
        scores.cell.get("dataset", ""),
    )
    scoring = scores.provenance["settings"]
    shots = read["shots"].table.to_pylist()
    facts = {
        **_model_facts(candidates_footer),
        "prompt_hash": _prompt_hash(prompts_footer, shots, candidates_footer, scoring),
        "scored_with": _scored_with(scores, read["quality"], settings.similarity),
    }
    counts = _candidate_counts(candidates, scoring)
    io.write_text(scored, _scored_lines(scored_rows, facts, counts, scoring["methods"]))
    footer = provenance(
        settings.model_dump(mode="json", exclude={"similarity", "model"}), tables, tables=read
    )
    footer["empty"] = read["quality"].provenance.get("empty", {})
    parquet_tables.write(decisions, "decisions", decision_rows, cell=scores.cell, provenance=footer)


def _model_facts(candidates: Footer) -> Mapping[str, Any]:
    """What tells the model from others: a hash of its files, or what is known of its server."""
    recorded = candidates.provenance
    content = recorded["models"]["model"]["content"]
    if "server" not in recorded:
        return {"model_hash": content}
    server = recorded["server"]
    # as `ask` calls a served model
    return {"model_hash": None, "model": server["model"], "server": server_text(server)}


def _prompt_hash(
    prompts: Footer, shots: list[Any], candidates: Footer, scoring: Mapping[str, Any]
) -> str:
    """A hash of the template, its examples, and the settings that scores depend on."""
    settings = candidates.provenance["settings"] | scoring
    changing = {name: settings.get(name) for name in CHANGING}
    around = [prompts.cell["style"], prompts.provenance["template_sha256"], shots, changing]
    return hashlib.sha256(json.dumps(around, ensure_ascii=False).encode()).hexdigest()


def _scored_with(scores: Footer, quality: Footer, similarity: str) -> str:
    """The settings as ``score`` says them; a hash of a scorer of one's own is not known here."""
    scoring = scores.provenance["settings"]
    sample = scoring["main"]["sample"] or "sample T=1.0"
    return scored_with(
        ScoreSettings(
            temperature=parse(sample)[1]["T"],
            epsilon=scoring["epsilon"],
            alpha=scoring["alpha"],
            equivalence_threshold=scoring["equivalence_threshold"],
            without_ending=False,
            similarity=_similarity_content(scores, quality, similarity),
        )
    )


def _similarity_content(scores: Footer, quality: Footer, similarity: str) -> str | None:
    """The hash of the similarity's model; of words in common by which rule words are compared."""
    model = f"similarity of {scores.cell['scorer']!r} (model)"
    behind = scores.provenance.get("models_behind", {}).get(model, {})
    if "content" in behind:
        return str(behind["content"])
    if similarity != "lexical":
        return None
    # a dataset's answers are compared by one rule, whether for quality or by words in common
    judged_by = quality.provenance.get("settings", {}).get("normalizer")
    return FOLDED_WORDS if judged_by == FOLDED else ""


def _scored_lines(
    rows: list[dict[str, Any]],
    facts: Mapping[str, Any],
    counts: Counter[tuple[str, str]],
    method_names: list[str],
) -> str:
    """Rows as ``beamuq calibrate`` reads them, each with facts and its number of candidates."""
    methods = {method.name: method for method in map(resolve, method_names)}
    lines = []
    for row in rows:
        kind = candidates_of(methods[row["method"]], row["variant"])
        full_row = row | dict(facts) | {"candidates": counts[row["id"], kind]}
        lines.append(json.dumps(full_row, ensure_ascii=False) + "\n")
    return "".join(lines)


def _candidate_counts(candidates: Path, scoring: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    """How many candidates of a kind the main line reads, by question and kind."""
    table = pq.read_table(candidates, columns=["id", "strategy", "rank"])
    kinds = {scoring["main"]["beam"]: "beams", scoring["main"]["sample"]: "samples"}
    most_samples = scoring["num_candidates"] or np.inf
    counts: Counter[tuple[str, str]] = Counter()
    for key, strategy, rank in zip(*table.to_pydict().values(), strict=True):
        kind = kinds.get(strategy)
        if kind == "beams" or (kind == "samples" and rank < most_samples):
            counts[key, kind] += 1
    return counts


if __name__ == "__main__":
    run_program(run, output="decisions")
