"""Sum what the jobs of a finished study took."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from beamuq import estimate, tables
from beamuq.errors import BeamUQError
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the benchmarks and tables beside the ledger, write the sums by rule."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.ledger", description=__doc__)
    parser.add_argument("--csv", type=Path, required=True, help="in the folder of the study's results, which it sums")
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args(argv)
    jobs = estimate.measured(options.csv.parent)
    if not jobs:
        raise BeamUQError(f"{options.csv.parent}/benchmarks: holds no finished job; run the study first")
    rows = estimate.ledger(jobs)
    with tables.atomic(options.csv) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    with tables.atomic(options.markdown) as temporary:
        temporary.write_text(markdown(rows), encoding="utf-8")


def markdown(rows: Sequence[dict[str, str | int]]) -> str:
    """The rows as a table of GitHub's Markdown, with a note on what they are sums of."""
    names = list(rows[0])
    lines = [names, ["---"] + ["---:"] * (len(names) - 1)]
    lines += [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    note = "Sums over the jobs whose benchmark is here, a job's last run each; peak memory is the largest job's."
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{note}\n"


if __name__ == "__main__":
    run(main)
