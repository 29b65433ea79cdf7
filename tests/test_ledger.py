"""The ledger sums the benchmarks of a study's jobs by rule and by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import Artifact
from run_job import program

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
DECODED = Artifact("candidates", "coqa", "smollm2-135m-plain", "main")
OTHERS = [Artifact("quality", "coqa", "smollm2-135m-plain", "main", metric="answer_f1")]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results with a decoding of two shards, and a job too short to be looked at."""
    for table, device in ((DECODED, "cuda"), *((table, None) for table in OTHERS)):
        parquet_tables.write(tmp_path / table.path, table.kind, [], cell=table.cell, provenance={"device": device})
    folder = tmp_path / "benchmarks"
    files = {f"{shard}-of-2": f"{10 * shard}\t-\t{100 * shard}" + "\t1" * 7 for shard in (1, 2)}
    shards = folder / "candidates_shard" / "/".join(DECODED.cell.values())
    shards.mkdir(parents=True)
    for name, numbers in files.items():
        (shards / f"{name}.tsv").write_text(HEADER + numbers + "\n")
    for table, numbers in ((DECODED, "2.5\t-\t50" + "\t1" * 7), (OTHERS[0], "0.1" + "\t-" * 8 + "\tNA")):
        file = (folder / table.path).with_suffix(".tsv")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + numbers + "\n")
    return tmp_path


def test_jobs_are_summed_with_their_shards_and_missing_benchmarks_are_counted(results: Path) -> None:
    missing = Artifact("candidates", "coqa", "smollm2-135m-plain", "beam_widths")
    costs = program("job_costs")
    rows = costs.ledger(costs.measured_jobs(results, [DECODED, missing, *OTHERS])).set_index(["rule", "recipe"])
    columns = ["jobs", "tables", "seconds", "gpu_seconds", "cpu_seconds", "peak_memory_mb"]
    assert rows.loc[("candidates", ""), columns].tolist() == [1, 2, 32, 32, 3, 200]
    assert rows.loc[("quality", ""), columns].tolist() == [1, 1, 0, 0, 0, 0]
    assert rows.loc[("", "main"), columns].tolist() == [2, 2, 33, 32, 3, 200]
    assert rows.loc[("", "beam_widths"), columns].tolist() == [0, 1, 0, 0, 0, 0]
    assert rows.loc[("total", ""), columns].tolist() == [2, 3, 33, 32, 3, 200]
