"""Score every pair of answers that the methods can ask for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.models import devices
from beamuq.models.model_provenance import provenance
from beamuq.scorers.similarity_scorers import load_scorer
from beamuq.scorers.similarity_table import needed_pairs, similarity_table
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the candidates, score their pairs, write the similarity table."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.similarity", description=__doc__)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument(
        "--scorer-settings", type=json.loads, required=True, help="JSON: name, kind, answer_source, beam"
    )
    parser.add_argument("--model", type=Path, help="a file in the scorer's folder: fetched.json or config.json")
    parser.add_argument("--similarity", type=Path, required=True)
    parser.add_argument("--device", choices=devices.DEVICES, default="auto")
    parser.add_argument("--dtype", choices=devices.DTYPES, default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--memo", type=Path, help="root folder of the memo that survives between jobs")
    options = parser.parse_args(argv)

    settings = devices.settings(options.scorer_settings, "--scorer-settings", ("name", "kind", "answer_source", "beam"))
    loaded = artifacts.read(options.candidates, "candidates")
    needed = needed_pairs(loaded.table, settings["answer_source"], settings["beam"])
    folder = options.model.parent if options.model else None
    device, dtype = devices.prepare(options.device, options.dtype, options.threads) if folder else (None, None)
    scorer = load_scorer(settings["kind"], folder, dtype=dtype, device=device, cache=options.memo)
    scores = scorer.score([(premise, hypothesis) for _, premise, hypothesis in needed])
    counts = scorer.counts
    told = f"{len(needed)} pairs; of {counts.asked} rows {counts.distinct} are distinct, {counts.scored} were scored"
    print(f"{settings['name']}: {told}", file=sys.stderr)
    facts = provenance(settings, {"candidates": options.candidates}, {"model": folder}, dtype=dtype, device=device)
    facts |= {"pairs": len(needed)}
    cell = loaded.cell | {"scorer": settings["name"]}
    artifacts.write(options.similarity, "similarity", similarity_table(needed, scores), cell=cell, provenance=facts)


if __name__ == "__main__":
    run(main)
