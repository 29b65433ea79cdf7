"""Sum what the jobs of a study took, as far as they were measured."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from beamuq import parquet_tables
from beamuq.cost.measured_jobs import LedgerRow, gaps, ledger_rows, measured_jobs
from beamuq.exhibits import captions
from beamuq.exhibits.exhibit_inputs import read_study
from beamuq.exhibits.exhibit_types import csv_text
from beamuq.exhibits.markdown_table import line
from beamuq.html_pages import DASH, PageSection, sections_page
from beamuq.plan.cells_of_a_study import Grid
from beamuq.plan.job_types import LedgerJob, MachineOptions

NOTE = "Sums over the jobs whose benchmark is here, a job's last run each; peak memory is the largest job's."
SENTENCES = (
    NOTE,
    "Seconds are wall time added over jobs, which may have run side by side; those on a GPU are counted again in a "
    "column of their own. They differ from run to run, and this page with them, unlike every other result.",
    "A job that had to wait for a free card, because another run held it, counts its waiting; its log says how long.",
    "Peak memory is the greatest seen, looking every 30 seconds: a lower bound. A job's log ends with the true one.",
    "Benchmarks and tables tell CPU from GPU, not which model of either: note it where you quote the numbers.",
    "Not measured: fetching, reading questions, rendering prompts, drawing exhibits and pages; none asks a model.",
)
_HEADS = {
    "rule": "rule",
    "jobs": "jobs measured",
    "tables": "jobs of the study",
    "device": "device",
    "seconds": "wall time (s)",
    "gpu_seconds": "of it on a GPU (s)",
    "cpu_seconds": "CPU time (s)",
    "peak_memory_mb": "peak memory (MB)",
    "candidates": "candidates",
    "tokens": "tokens",
    "pairs": "pairs",
}


def run(job: LedgerJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read the study's tables and the benchmarks beside them, write the sums by rule."""
    study = read_study(job.study)
    tables = Grid(study).measured
    rows = ledger_rows(measured_jobs(job.study.parent, tables), tables)
    parquet_tables.write_text(job.csv, csv_text(pd.DataFrame(rows)))
    parquet_tables.write_text(job.markdown, markdown(rows))
    opening = [captions.DEMO_WARNING] if study.demo else []
    section = PageSection("By rule", _shown(rows), gaps(rows), notes=SENTENCES)
    title = captions.titled(study, f"{study.title}: what it cost")
    parquet_tables.write_text(job.html, sections_page(title, opening, [section]))


def _shown(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    """The rows as the page has them; a dash for what was not measured, and for what a rule has none of."""
    shown = []
    for row in rows:
        empty = [name for name in ("candidates", "tokens", "pairs") if not row[name]]
        empty += [name for name in _HEADS if not row[name]] if not row["jobs"] else []
        shown.append({head: DASH if name in empty else row[name] for name, head in _HEADS.items()})
    return pd.DataFrame(shown)


def markdown(rows: Sequence[LedgerRow]) -> str:
    """The rows as a table of GitHub's Markdown, with a note on what they are sums of."""
    names = list(rows[0])
    body = [names, ["---"] + ["---:"] * (len(names) - 1)]
    body += [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    notes = "\n\n".join([NOTE, *gaps(rows)])
    return "\n".join(map(line, body)) + f"\n\n{notes}\n"
