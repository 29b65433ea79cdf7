"""What each score of a cell would decide under a guarantee, and the scores as ``beamuq calibrate`` reads them."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from beamuq import io
from beamuq.api.score_candidates import candidates_of, scored_with
from beamuq.methods.registry import resolve
from beamuq.strategy_names import parse
from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import Footer
from beamuq_study.provenance import check_one_run, check_settings, provenance, read_cell
from beamuq_study.rule_programs import run_script
from beamuq_study.stages import decisions_of_scores
from beamuq_study.stages.decisions_of_scores import DecisionSettings
from beamuq_study.stages.score_all_methods import ScoringSettings

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

    Of ``prompts`` the footer alone is read, of ``candidates`` how many there are too: what the scores are of.
    """
    read = read_cell(tables, made_with, seed=settings.seed)
    decoded, rendered = map(parquet_tables.read_footer, (candidates, prompts))
    check_settings(decoded, made_with.get("candidates", {}))
    check_one_run([*read.values(), decoded, rendered])
    check_settings(read["quality"], {"metric": settings.quality})
    cell, (values, right, items) = (
        read["scores"].cell,
        (read[kind].table for kind in ("scores", "quality", "questions")),
    )
    decided, rows = decisions_of_scores.decisions(values, right, items, settings, cell.get("dataset", ""))
    scoring = ScoringSettings.model_validate(read["scores"].provenance["settings"], strict=False)
    facts = _hashes(decoded, read["scores"], rendered, read["shots"].table.to_pylist())
    facts["scored_with"] = _scored_with(scoring, read["scores"], settings.similarity)
    counts = _counts(candidates, scoring)
    for row in rows:
        row |= facts | {"candidates": counts[row["id"], candidates_of(resolve(row["method"]), row["variant"])]}
    io.write_text(scored, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    footer = provenance(settings.model_dump(mode="json", exclude={"similarity", "model"}), tables, tables=read)
    footer["empty"] = read["quality"].provenance.get("empty", {})
    parquet_tables.write(decisions, "decisions", decided, cell=cell, provenance=footer)


def _hashes(candidates: Footer, scores: Footer, prompts: Footer, shots: list[dict[str, Any]]) -> dict[str, str]:
    """Of the model's files; of the template, its examples and settings."""
    settings = candidates.provenance.get("settings", {}) | scores.provenance.get("settings", {})
    hashes = {}
    if model := candidates.provenance.get("models", {}).get("model"):
        hashes["model_hash"] = model["content"]
    if template := prompts.provenance.get("template_sha256"):
        changing = {name: settings.get(name) for name in CHANGING}
        around = json.dumps([prompts.cell["style"], template, shots, changing], ensure_ascii=False)
        hashes["prompt_hash"] = hashlib.sha256(around.encode()).hexdigest()
    return hashes


def _scored_with(scoring: ScoringSettings, scores: Footer, similarity: str) -> str:
    """As ``beamuq score`` writes it; the content of a scorer of one's own is not known here."""
    of_scorer, behind = f"similarity of {scores.cell.get('scorer')!r} (", scores.provenance.get("models_behind", {})
    contents = (of["content"] for name, of in behind.items() if name.startswith(of_scorer))
    return scored_with(
        next(contents, "" if similarity == "lexical" else None),
        temperature=parse(scoring.main.sample or "sample T=1.0")[1]["T"],
        epsilon=scoring.epsilon,
        alpha=scoring.alpha,
        equivalence_threshold=scoring.equivalence_threshold,
    )


def _counts(candidates: Path, scoring: ScoringSettings) -> Counter[tuple[str, str]]:
    """How many candidates of a kind the main line reads, by question and kind."""
    columns = pq.read_table(candidates, columns=["id", "strategy"]).to_pydict()
    kinds = {scoring.main.sample: "samples", scoring.main.beam: "beams"}
    counts = Counter((key, kinds[of]) for key, of in zip(*columns.values(), strict=True) if of in kinds)
    most = scoring.num_candidates or max(counts.values(), default=0)
    return Counter({(key, kind): min(n, most) if kind == "samples" else n for (key, kind), n in counts.items()})


if __name__ == "__main__":
    run_script(run)
