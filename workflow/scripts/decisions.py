"""What each score of a cell would decide under a guarantee, and the scores as ``beamuq calibrate`` reads them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import Footer
from beamuq_study.provenance import check_one_run, check_settings, provenance, read_cell
from beamuq_study.rule_programs import run_script
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

    Of ``candidates`` and ``prompts`` only the footers are read: which model and prompt the scores are of.
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
    hashes = _hashes(decoded, read["scores"], rendered, read["shots"].table.to_pylist())
    io.write_text(scored, "".join(json.dumps(row | hashes, ensure_ascii=False) + "\n" for row in rows))
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


if __name__ == "__main__":
    run_script(run)
