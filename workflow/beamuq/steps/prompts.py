"""Questions and few-shot examples to prompts, through one template."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from beamuq import artifacts
from beamuq.data.prompt_template import load, render
from beamuq.errors import BeamUQError
from beamuq.steps.entry import run
from beamuq.steps.given import parse_settings


class Settings(BaseModel):
    """Which prompts these are."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    style: Literal["base", "instruct"]
    dataset: str


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, render and write the prompts, in the order of the questions."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.prompts", description=__doc__)
    parser.add_argument("--template", type=Path, required=True, help="workflow/prompts/STYLE/ADAPTER.txt")
    parser.add_argument("--questions", type=Path, required=True, help="table of questions")
    parser.add_argument("--shots", type=Path, required=True, help="table of few-shot examples")
    parser.add_argument("--settings", required=True, help='JSON: {"style": "base" or "instruct", "dataset": KEY}')
    parser.add_argument("--prompts", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)
    cell = parse_settings(Settings, options.settings).model_dump()

    template = load(options.template)
    rows = {}
    for kind, path in (("questions", options.questions), ("shots", options.shots)):
        loaded = artifacts.read(path, kind)
        if loaded.cell != {"dataset": cell["dataset"]}:
            raise BeamUQError(f"{path}: holds {kind} of {loaded.cell}, not of {cell['dataset']!r}; run its rule again")
        rows[kind] = loaded.table.to_pylist()
    prompts = [
        {"id": row["id"], "prompt": render(template, row, rows["shots"], where=f"{options.template}: {row['id']}")}
        for row in rows["questions"]
    ]
    # neither versions nor the tables' own hashes: what is decoded depends on the text alone, and costs hours
    digest = hashlib.sha256(options.template.read_bytes()).hexdigest()
    artifacts.write(options.prompts, "prompts", prompts, cell=cell, provenance={"template_sha256": digest})
    print(f"{cell['style']}/{cell['dataset']}: {len(prompts)} prompts")


if __name__ == "__main__":
    run(main)
