"""Sum what the jobs of a study took, from what each wrote down itself: by rule and by cell."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq import io
from beamuq_study import cost_records, parquet_tables
from beamuq_study.escaped_text import csv_text, markdown_line
from beamuq_study.exhibits import captions
from beamuq_study.grid import Grid
from beamuq_study.html_pages import PageTable, render
from beamuq_study.plan.jobs_of_a_study import Job, jobs
from beamuq_study.rule_programs import run_program
from beamuq_study.study_config import load_study

MEASURED = ("seconds", "cpu_seconds", "peak_memory_mb")
CELL = ["model", "dataset", "recipe"]


def run(*, study: Path, exhibits: tuple[Path, ...], csv: Path, markdown: Path, html: Path) -> None:
    """Read the records of the jobs, write the sums; ``exhibits``: a file of each."""
    content = load_study(study)
    results = study.parent
    rows = ledger(measured_jobs(results, jobs(Grid(content), results, exhibits)))
    lines = [list(rows.columns), ["---"] * rows.shape[1], *rows.astype(str).to_numpy().tolist()]
    io.write_text(csv, csv_text(rows))
    io.write_text(markdown, "".join(f"{markdown_line(cells)}\n" for cells in lines))
    title = captions.titled(content, f"{content.title}: what it cost")
    warning = captions.DEMO_WARNING if content.demo else ""
    tables = page_tables(rows)
    io.write_text(
        html,
        render("ledger.html.jinja", title=title, study=content.title, warning=warning, **tables),
    )


def page_tables(rows: pd.DataFrame) -> dict[str, Any]:
    """What the page shows of the sums: by rule, with the total, and by cell.

    The column of seconds on a GPU goes where all are 0.
    """
    has_gpu = bool(rows["gpu_seconds"].any())
    shown = rows if has_gpu else rows.drop(columns="gpu_seconds")
    is_cell = shown["model"] != ""
    return {
        "has_gpu": has_gpu,
        "rules": PageTable(shown[~is_cell].drop(columns=CELL)),
        "cells": PageTable(shown[is_cell].drop(columns="rule")),
    }


def measured_jobs(results: Path, counted: Iterable[Job]) -> pd.DataFrame:
    """A row for each of the ``counted`` jobs and each that fetched; NaN: no record of cost.

    The shards of a decoding count as one job, of their summed seconds and their largest memory; so
    do the attempts of a job that was killed.

    Raises BeamUQError if a table that was measured cannot be read.
    """
    rows = [_measured(job) for job in counted]
    for record in sorted((results / cost_records.COSTS / cost_records.FETCHED).glob("*/*.jsonl")):
        rows.append({"rule": "fetch", **dict.fromkeys(CELL, ""), "device": ""} | _cost([record]))
    return pd.DataFrame(rows, columns=["rule", *CELL, *MEASURED, "device"])


def _measured(job: Job) -> dict[str, Any]:
    row = {"rule": job.rule, "device": ""} | {name: job.place(name) for name in CELL}
    record = cost_records.record_of(job.file)
    if record is None or not record.is_file():
        return row
    shards = cost_records.of_shards(record) if job.rule == "candidates" else []
    if job.table is not None:
        row["device"] = parquet_tables.read_footer(job.file).provenance.get("device") or ""
    return row | _cost([record, *shards])


def _cost(records: list[Path]) -> dict[str, float]:
    took = cost_records.total(
        attempt for record in records for attempt in cost_records.read(record)
    )
    return {name: float(took[name]) for name in MEASURED}  # type: ignore[literal-required]


def ledger(measured: pd.DataFrame) -> pd.DataFrame:
    """The sums by rule, by cell and in total, in whole seconds and MB; memory: the largest.

    ``jobs``: how many the study has; ``measured``: those of them in the sums.
    """
    measured = measured.assign(
        gpu_seconds=measured["seconds"].where(measured["device"] == "cuda", 0)
    )
    sums = {"jobs": ("rule", "size"), "measured": ("seconds", "count")}
    sums |= {name: (name, "sum") for name in ("seconds", "gpu_seconds", "cpu_seconds")}
    sums |= {"peak_memory_mb": ("peak_memory_mb", "max")}
    of_cells = measured[measured["model"] != ""]
    in_total = measured.assign(rule="total")
    parts = ((measured, ["rule"]), (of_cells, CELL), (in_total, ["rule"]))
    rows = pd.concat(
        [part.groupby(by, sort=False, as_index=False).agg(**sums) for part, by in parts]
    )
    names = ["rule", *CELL]
    rows[names] = rows[names].fillna("")
    return rows[[*names, *sums]].fillna(0).round().astype(dict.fromkeys(sums, int))


if __name__ == "__main__":
    run_program(run, output="csv")
