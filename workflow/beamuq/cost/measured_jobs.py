"""What the jobs of a study took, as far as Snakemake measured them: time, memory and work, summed by rule."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from beamuq import parquet_tables
from beamuq.parquet_tables import Artifact
from beamuq.plan.paths import benchmark_file, shard_benchmarks

RULES = ("candidates", "statistics", "similarity", "quality", "scores", "evaluation")
DEVICES = {"": "CPU, no model", "cpu": "CPU", "cuda": "GPU (cuda)"}
LedgerRow = dict[str, str | int]


@dataclass(frozen=True)
class Benchmark:
    """What a job took, its shards included: wall and CPU seconds summed, the peak of its memory in MB.

    Snakemake looks at memory every 30 seconds, so the peak is a lower bound.
    """

    seconds: float
    cpu_seconds: float
    memory_mb: float


@dataclass(frozen=True)
class MeasuredJob:
    """One finished job: what it took and how much it did. ``device`` is "" for a rule that loads no model."""

    rule: str
    took: Benchmark
    device: str
    candidates: int
    tokens: int
    pairs: int


def benchmark_of(results: Path, artifact: Artifact) -> Benchmark | None:
    """What the job of a table took; None where it was not measured, or the table is not there.

    A benchmark cut short, or below 0 seconds (the clock was set back while the job ran), measured nothing.
    """
    file = benchmark_file(results, artifact)
    if not file.is_file() or not (results / artifact.path).is_file():
        return None
    shards = sorted(shard_benchmarks(results, artifact).glob("*.tsv")) if artifact.kind == "candidates" else []
    runs = [run for each in (file, *shards) if (run := _last_run(each)) is not None]
    if len(runs) < 1 + len(shards):
        return None
    return Benchmark(
        sum(run.seconds for run in runs), sum(run.cpu_seconds for run in runs), max(run.memory_mb for run in runs)
    )


def measured_jobs(results: Path, tables: Iterable[Artifact]) -> list[MeasuredJob]:
    """The jobs of these tables, in a study's folder of results, that have both a benchmark and a table.

    Raises BeamUQError if a table cannot be read.
    """
    return [
        _measured(artifact, took, parquet_tables.read(results / artifact.path, artifact.kind))
        for artifact in tables
        if (took := benchmark_of(results, artifact)) is not None
    ]


def _measured(artifact: Artifact, took: Benchmark, loaded: parquet_tables.Loaded) -> MeasuredJob:
    table, decoded = loaded.table, artifact.kind == "candidates"
    return MeasuredJob(
        rule=artifact.kind,
        took=took,
        device=str(loaded.provenance.get("device") or ""),
        candidates=table.num_rows if decoded else 0,
        tokens=pc.sum(pc.list_value_length(table["token_ids"])).as_py() or 0 if decoded else 0,
        pairs=table.num_rows if artifact.kind == "similarity" else 0,
    )


def _last_run(file: Path) -> Benchmark | None:
    try:
        run = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t"))[-1]
        took = Benchmark(float(run["s"]), _number(run["cpu_time"]), _number(run["max_rss"]))
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return took if took.seconds >= 0 else None


def _number(text: str) -> float:
    """A benchmark's value; "-" and "NA" stand where a job was too short to be looked at."""
    return 0.0 if text in ("-", "NA", "") else float(text)


def ledger_rows(jobs: Sequence[MeasuredJob], tables: Sequence[Artifact]) -> list[LedgerRow]:
    """A row for every rule that writes any of ``tables``, and one of totals.

    Jobs measured, wall seconds, those on a card, CPU seconds, peak memory, candidates, tokens, pairs, jobs of the study
    ("tables"), and the device.
    """
    made = Counter(artifact.kind for artifact in tables)
    rows: list[LedgerRow] = []
    for rule in (*(rule for rule in RULES if rule in made), "total"):
        of_rule = [job for job in jobs if rule in (job.rule, "total")]
        used = sorted({job.device for job in of_rule})
        devices = [name for name in used if name] or used
        rows.append(
            {
                "rule": rule,
                "jobs": len(of_rule),
                "seconds": round(sum(job.took.seconds for job in of_rule)),
                "gpu_seconds": round(sum(job.took.seconds for job in of_rule if job.device == "cuda")),
                "cpu_seconds": round(sum(job.took.cpu_seconds for job in of_rule)),
                "peak_memory_mb": round(max((job.took.memory_mb for job in of_rule), default=0)),
                "candidates": sum(job.candidates for job in of_rule),
                "tokens": sum(job.tokens for job in of_rule),
                "pairs": sum(job.pairs for job in of_rule),
                "tables": made.total() if rule == "total" else made[rule],
                "device": ", ".join(DEVICES.get(name, name) for name in devices) or "not measured",
            }
        )
    return rows


def gaps(rows: Sequence[LedgerRow]) -> list[str]:
    """A sentence on the rules of which some or all jobs have no benchmark; none where nothing is missing."""
    missing = {str(row["rule"]): (int(row["tables"]) - int(row["jobs"]), row["tables"]) for row in rows[:-1]}
    without = [f"{rule} ({lacking} of {tables} jobs)" for rule, (lacking, tables) in missing.items() if lacking]
    if not without:
        return []
    return [
        f"No benchmark is beside the tables of: {', '.join(without)}. "
        "They ran elsewhere, or their benchmarks were deleted; the sums lack them."
    ]
