"""Questions and few-shot examples to prompts, through one template."""

from pathlib import Path
from typing import Any

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.data.render_prompts import rendered
from beamuq_study.rule_programs import run_program


def run(
    *,
    template: Path,
    questions: Path,
    shots: Path,
    style: str,
    dataset: str,
    made_with: dict[str, Any],
    prompts: Path,
) -> None:
    """Render the prompts, in the order of the questions."""
    rows = rendered(template, questions, shots, dataset, made_with)
    # neither versions nor the tables' own hashes: what is decoded depends on the text alone, and
    # costs hours
    template_hash = {"template_sha256": io.file_sha256(template)}
    parquet_tables.write(
        prompts,
        "prompts",
        rows,
        cell={"style": style, "dataset": dataset},
        provenance=template_hash,
    )
    print(f"{style}/{dataset}: {len(rows)} prompts")


if __name__ == "__main__":
    run_program(run, output="prompts")
