"""Candidates and similarities to uncertainty scores: every method, variant and setting of a cell."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.errors import BeamUQError
from beamuq.methods.cell_scores import ScoringSettings, score_cell
from beamuq.methods.evidence_from_tables import CellTables
from beamuq.steps.entry import run
from beamuq.steps.given import parse_settings, provenance

KINDS = {
    "questions": "questions",
    "candidates": "candidates",
    "similarity": "similarity",
    "statistics": "statistics",
    "cross_similarity": "similarity",
}
OF_A_CELL = ("model", "dataset", "recipe")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the tables of a cell, score it, write the scores."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.scores", description=__doc__)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument("--similarity", type=Path, required=True)
    parser.add_argument("--statistics", type=Path, help="for CCP, PTrue and SAR")
    parser.add_argument("--cross-similarity", type=Path, help="the cross-encoder's similarity, for SAR")
    parser.add_argument("--settings", required=True, help="JSON: methods, answer_source, main, ablations, …")
    parser.add_argument("--scores", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)

    settings = parse_settings(ScoringSettings, options.settings)
    paths: dict[str, Path | None] = {name: getattr(options, name) for name in KINDS}
    given = {name: artifacts.read(path, KINDS[name]) for name, path in paths.items() if path is not None}
    expected = given["candidates"].cell
    for name, loaded in given.items():
        for key in OF_A_CELL if name != "questions" else ("dataset",):
            if loaded.cell.get(key) != expected.get(key):
                raise BeamUQError(
                    f"{paths[name]}: is of {key} {loaded.cell.get(key)!r}, the candidates of {expected.get(key)!r}; "
                    "give files of one cell"
                )
    cell = CellTables(
        given["questions"].table,
        given["candidates"].table,
        given["similarity"].table,
        given["statistics"].table if "statistics" in given else None,
        given["cross_similarity"].table if "cross_similarity" in given else None,
        main_beam=settings.main.beam,
        equivalence_threshold=settings.equivalence_threshold,
        sar_similarity=settings.sar_similarity,
    )
    artifacts.write(
        options.scores,
        "scores",
        score_cell(cell, settings),
        cell=expected | given["similarity"].cell,
        provenance=provenance(settings, paths),
    )


if __name__ == "__main__":
    run(main)
