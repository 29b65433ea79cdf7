"""Measure how right the produced answers are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_provenance import provenance
from beamuq.scorers.quality_metrics import LEARNED, Learned, quality_values
from beamuq.scorers.similarity_table import produced_texts
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read questions and candidates, score the produced answers, write the quality table."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.quality", description=__doc__)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument(
        "--settings", type=json.loads, required=True, help="JSON: metric, normalizer, answer_source, beam"
    )
    parser.add_argument("--model", type=Path, help="a file in the checkpoint's folder: fetched.json or config.json")
    parser.add_argument("--backbone", type=Path, help="a file in the folder with the checkpoint's config and tokenizer")
    parser.add_argument("--quality", type=Path, required=True)
    parser.add_argument("--device", choices=devices.DEVICES, default="auto")
    parser.add_argument("--dtype", choices=devices.DTYPES, default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--memo", type=Path, help="root folder of the memo that survives between jobs")
    options = parser.parse_args(argv)

    settings = devices.settings(options.settings, "--settings", ("metric", "normalizer", "answer_source", "beam"))
    questions = artifacts.read(options.questions, "questions").table
    loaded = artifacts.read(options.candidates, "candidates")
    references = dict(zip(*(questions.column(name).to_pylist() for name in ("id", "references")), strict=True))
    answer_source = produced_texts(loaded.table, settings["answer_source"], settings["beam"])
    asked = [(name, question) for name, answers in answer_source.items() for question in answers]
    for _, question in asked:
        if question not in references:
            raise BeamUQError(
                f"{options.candidates}: question {question!r} is not in {options.questions}; make both anew"
            )
    folders = {name: path.parent for name, path in (("model", options.model), ("backbone", options.backbone)) if path}
    learned = Learned()
    if settings["metric"] in LEARNED:
        device, dtype = devices.prepare(options.device, options.dtype, options.threads)
        learned = Learned(folders.get("model"), folders.get("backbone"), dtype, device, options.memo)
    values = quality_values(
        settings["metric"],
        [answer_source[name][question] for name, question in asked],
        [references[question] for _, question in asked],
        settings["normalizer"],
        learned,
    )
    rows = [{"id": q, "answer_source": p, "value": float(v)} for (p, q), v in zip(asked, values, strict=True)]
    inputs = {"questions": options.questions, "candidates": options.candidates}
    facts = provenance(settings, inputs, folders, dtype=learned.dtype, device=learned.device)
    cell = loaded.cell | {"metric": settings["metric"]}
    artifacts.write(options.quality, "quality", rows, cell=cell, provenance=facts)


if __name__ == "__main__":
    run(main)
