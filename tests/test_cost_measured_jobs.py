"""The ledger sums what was measured of a study's tables, and names what was not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from beamuq import parquet_tables
from beamuq.cost import measured_jobs
from beamuq.cost.measured_jobs import Benchmark, MeasuredJob
from beamuq.parquet_tables import Artifact
from beamuq.plan.study_on_machine import Plan
from beamuq.steps.ledger import markdown
from beamuq.study_config import Study
from run_job import run_job

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
MODEL = "smollm2-135m-plain"
DECODED = Artifact("candidates", "coqa", MODEL, "main")


def benchmark(file: Path, numbers: str = "30\t0:00:30\t3000\t1\t1\t1\t0\t0\t11.0\t1") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEADER + numbers + "\n")
    return file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results with one finished job of two questions."""
    row = {"strategy": "greedy", "rank": 0, "text": "a", "token_texts": ["a", "b"], "token_logprobs": [-1.0, -1.0]}
    rows = [row | {"id": key, "token_ids": [1, 2], "logprob": -2.0, "terminated": True} for key in ("q1", "q2")]
    made = {"device": "cuda", "settings": {}}
    parquet_tables.write(tmp_path / DECODED.path, "candidates", rows, cell=DECODED.cell, provenance=made)
    benchmark(
        tmp_path / "benchmarks" / DECODED.path.replace("parquet", "tsv"),
        "12.5\t0:00:12\t2046.1\t1\t1\t1\t0\t0\t11.0\t3.25",
    )
    return tmp_path


def test_a_job_is_read_from_its_benchmark_and_its_table(results: Path) -> None:
    benchmark(results / f"benchmarks/candidates/{MODEL}/gone/main.tsv")
    tables = [DECODED, Artifact("candidates", "gone", MODEL, "main"), Artifact("statistics", "coqa", MODEL, "main")]
    (job,) = measured_jobs.measured_jobs(results, tables)
    assert job == MeasuredJob("candidates", Benchmark(12.5, 3.25, 2046.1), "cuda", candidates=2, tokens=4, pairs=0)


def test_a_job_too_short_to_be_looked_at_counts(results: Path) -> None:
    benchmark(results / f"benchmarks/candidates/{MODEL}/coqa/main.tsv", "0.1\t0:00:00\t-\t-\t-\t-\t-\t-\t-\tNA")
    assert measured_jobs.benchmark_of(results, DECODED) == Benchmark(0.1, 0.0, 0.0)


@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("content", ["", HEADER, HEADER + "12.5\t0:0", HEADER + "-86388.1\t-1 day\t9" + "\t1" * 7])
def test_a_benchmark_cut_short_or_of_a_clock_set_back_is_none(results: Path, content: str, shard: bool) -> None:
    own = results / f"benchmarks/candidates/{MODEL}/coqa/main.tsv"
    file = results / f"benchmarks/candidates_shard/{MODEL}/coqa/main/1-of-1.tsv" if shard else own
    benchmark(file).write_text(content)
    assert measured_jobs.benchmark_of(results, DECODED) is None


def test_the_shards_of_a_job_count(results: Path) -> None:
    for shard in ("1-of-2", "2-of-2"):
        benchmark(results / f"benchmarks/candidates_shard/{MODEL}/coqa/main/{shard}.tsv")
        benchmark(results / f"benchmarks/candidates_shard/{MODEL}/coqa2/main/{shard}.tsv")
    assert measured_jobs.benchmark_of(results, DECODED) == Benchmark(72.5, 5.25, 3000)


def test_rows_sum_by_rule_and_name_the_device() -> None:
    took = Benchmark(2.4, 1.0, 100.0)
    jobs = [MeasuredJob("candidates", took, device, 5, 50, 0) for device in ("cuda", "cpu")]
    jobs += [MeasuredJob("scores", took, "", 0, 0, 0)]
    tables = [Artifact("candidates", key, "m", "main") for key in ("a", "b", "c")]
    tables += [Artifact("scores", key, "m", "main", scorer="s") for key in ("a",)]
    decoded, scored, total = measured_jobs.ledger_rows(jobs, tables)
    assert (decoded["jobs"], decoded["tables"], decoded["seconds"], decoded["gpu_seconds"]) == (2, 3, 5, 2)
    assert (decoded["tokens"], decoded["device"]) == (100, "CPU, GPU (cuda)")
    assert (scored["gpu_seconds"], scored["device"]) == (0, "CPU, no model")
    assert (total["jobs"], total["tables"], total["seconds"], total["peak_memory_mb"]) == (3, 4, 7, 100)
    assert total["device"] == decoded["device"]
    (gap,) = measured_jobs.gaps([decoded, scored, total])
    assert "candidates (1 of 3 jobs)" in gap
    assert "scores" not in gap


def test_the_step_writes_the_ledger_of_the_study(results: Path) -> None:
    study: Study = Plan.load({"study": "demo", "device": "cpu"}).study
    entry = study.grid[0].model_copy(update={"models": [MODEL], "datasets": ["coqa"]})
    (results / "study.json").write_text(study.model_copy(update={"grid": [entry]}).model_dump_json())
    files = {
        name: results / f"ledger.{suffix}" for name, suffix in {"csv": "csv", "markdown": "md", "html": "html"}.items()
    }
    run_job("ledger", {"study": results / "study.json"} | files)
    rows = pd.read_csv(files["csv"]).set_index("rule")
    assert rows.loc["candidates", ["jobs", "tables", "seconds", "gpu_seconds"]].tolist() == [1, 1, 12, 12]
    assert rows.loc["evaluation", "device"] == "not measured"
    assert "| candidates | 1 | 12 | 12 | 3 | 2,046 | 2 | 4 | 0 |" in files["markdown"].read_text()
    for name in ("markdown", "html"):
        assert "evaluation (2 of 2 jobs)" in files[name].read_text()
    assert "<td>GPU (cuda)</td>" in files["html"].read_text()


def test_nothing_is_missing_where_all_is_measured() -> None:
    job = MeasuredJob("candidates", Benchmark(1, 1, 1), "cpu", 1, 1, 0)
    rows = measured_jobs.ledger_rows([job], [DECODED])
    assert measured_jobs.gaps(rows) == []
    assert "No benchmark" not in markdown(rows)


def test_the_ledger_follows_benchmarks_and_asks_for_none_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan.load({"study": "demo", "device": "cpu"})
    monkeypatch.chdir(tmp_path)
    measured = plan.grid.measured

    def benchmarks() -> set[Path]:
        files = {plan.paths.benchmark(artifact) for artifact in measured}
        return files & {*plan.jobs.ledger(SimpleNamespace()).rerun_on}  # type: ignore[arg-type]

    assert len(benchmarks()) == len(measured)
    for path in (plan.paths.table(measured[0]), plan.paths.table(measured[1]), plan.paths.benchmark(measured[0])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert benchmarks() == {plan.paths.benchmark(artifact) for artifact in (measured[0], *measured[2:])}
