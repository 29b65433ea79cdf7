"""Sum what the jobs of a study took, from Snakemake's benchmark files: by rule and by cell."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from beamuq import io
from beamuq_study import parquet_tables
from beamuq_study.escaped_text import csv_text, markdown_line
from beamuq_study.exhibits import captions
from beamuq_study.html_pages import PageSection, sections_page
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan.cells_of_a_study import Grid
from beamuq_study.plan.paths import benchmark_file, shard_benchmarks
from beamuq_study.rule_programs import run_script
from beamuq_study.study_config import load_study

MEASURED = {"s": "seconds", "cpu_time": "cpu_seconds", "max_rss": "peak_memory_mb"}  # Snakemake's columns, and ours
CELL = ["model", "dataset", "recipe"]
NOTES = (
    "Seconds are wall time added over jobs, which may have run side by side; they include waiting for a free card. "
    "Memory is the largest seen in any job, looked at every 30 seconds.",
    "A job without a benchmark is not in the sums: compare the jobs measured with the jobs of the study.",
    "CPU time and memory of jobs that make demo forks are not seen: next to nothing here. A job's log ends with both.",
)


def run(*, study: Path, csv: Path, markdown: Path, html: Path) -> None:
    """Read the benchmarks of the study's jobs, write the sums."""
    content = load_study(study)
    rows = ledger(measured_jobs(study.parent, Grid(content).measured))
    lines = [list(rows.columns), ["---"] * rows.shape[1], *rows.astype(str).to_numpy().tolist()]
    io.write_text(csv, csv_text(rows))
    io.write_text(markdown, "".join(f"{markdown_line(cells)}\n" for cells in lines))
    title = captions.titled(content, f"{content.title}: what it cost")
    opening = [captions.DEMO_WARNING] if content.demo else []
    io.write_text(html, sections_page(title, opening, [PageSection(frame=rows, notes=NOTES)]))


def measured_jobs(results: Path, tables: Iterable[Artifact]) -> pd.DataFrame:
    """A row for each job that writes one of ``tables``: its rule and cell, what it took (NaN: not measured), device.

    The shards of a decoding count as one job, of their summed seconds and their largest memory.

    Raises BeamUQError if a table that was measured cannot be read.
    """
    rows = []
    for table in tables:
        row = {"rule": table.kind, **{name: getattr(table, name) for name in CELL}}
        files = [benchmark_file(results, table)]
        if files[0].is_file():
            files += shard_benchmarks(results, table).glob("*.tsv") if table.kind == "candidates" else []
            # "-" stands where a job was too short to be looked at
            took = pd.concat([pd.read_csv(file, sep="\t", na_values="-").tail(1) for file in files]).fillna(0)
            row |= {ours: took[name].agg("max" if name == "max_rss" else "sum") for name, ours in MEASURED.items()}
            row["device"] = parquet_tables.read_footer(results / table.path).provenance.get("device") or ""
        rows.append(row)
    return pd.DataFrame(rows, columns=["rule", *CELL, *MEASURED.values(), "device"])


def ledger(jobs: pd.DataFrame) -> pd.DataFrame:
    """The sums of ``jobs`` by rule, by cell and in total, in whole seconds and MB; memory is the largest of any job."""
    jobs = jobs.assign(gpu_seconds=jobs["seconds"].where(jobs["device"] == "cuda", 0))
    sums = {"jobs": ("seconds", "count"), "tables": ("rule", "size")}
    sums |= {name: (name, "sum") for name in ("seconds", "gpu_seconds", "cpu_seconds")}
    sums |= {"peak_memory_mb": ("peak_memory_mb", "max")}
    parts = ((jobs, ["rule"]), (jobs, CELL), (jobs.assign(rule="total"), ["rule"]))
    rows = pd.concat([part.groupby(by, sort=False, as_index=False).agg(**sums) for part, by in parts])
    names = ["rule", *CELL]
    rows[names] = rows[names].fillna("")
    return rows[[*names, *sums]].fillna(0).round().astype(dict.fromkeys(sums, int))


if __name__ == "__main__":
    run_script(run)
