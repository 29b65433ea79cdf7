"""The ledger sums what the jobs of a study wrote down themselves, by rule and by cell."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from beamuq_study import cost_records, parquet_tables
from beamuq_study.cost_records import FINISHED, RUNNING, STOPPED, record_of
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan import jobs_of_a_study
from beamuq_study.plan.jobs_of_a_study import Job
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.study_config import ROOT
from micro import wait_for
from run_job import program
from run_snakemake import snakemake

DEMO = ("--config", "study=demo", "device=cpu")

RESULTS = Path("results/demo")
DECODED = Artifact("candidates", "coqa", "smollm2-135m-plain", "main")
SHORT = Artifact("quality", "coqa", "smollm2-135m-plain", "main", metric="answer_f1")
MISSING = Artifact("candidates", "coqa", "smollm2-135m-plain", "beam_widths")
FIGURE = Path("figures/demo/redundancy.pdf")


def write_record(path: Path | None, *attempts: tuple[str, float, float, float]) -> None:
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("state", "seconds", "cpu_seconds", "peak_memory_mb")
    lines = (json.dumps(dict(zip(names, attempt, strict=True))) + "\n" for attempt in attempts)
    path.write_text("".join(lines))


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """A decoding of two shards, one of them killed once; a short job; a figure; a job without a
    record.
    """
    monkeypatch.chdir(tmp_path)
    for table, device in ((DECODED, "cuda"), (SHORT, None)):
        parquet_tables.write(
            RESULTS / table.path, table.kind, [], cell=table.cell, provenance={"device": device}
        )
    decoded = record_of(RESULTS / DECODED.path)
    assert decoded is not None
    write_record(decoded, (FINISHED, 2.5, 1, 50))
    write_record(
        decoded.with_suffix(".shards") / "1-of-2.jsonl",
        (RUNNING, 4, 1, 300),
        (FINISHED, 10, 1, 100),
    )
    write_record(decoded.with_suffix(".shards") / "2-of-2.jsonl", (FINISHED, 20, 1, 200))
    write_record(record_of(RESULTS / SHORT.path), (FINISHED, 0.1, 0.1, 40))
    write_record(record_of(FIGURE), (FINISHED, 3, 2, 150))
    tables = [Job(table.kind, RESULTS / table.path, table) for table in (DECODED, MISSING, SHORT)]
    return [*tables, Job("figure", FIGURE)]


def test_jobs_are_summed_with_their_shards_and_attempts_and_those_without_a_record_are_counted(
    jobs: list[Job],
) -> None:
    costs = program("job_costs")
    rows = costs.ledger(costs.measured_jobs(RESULTS, jobs)).set_index(["rule", "recipe"])
    columns = ["jobs", "measured", "seconds", "gpu_seconds", "cpu_seconds", "peak_memory_mb"]
    assert rows.loc[("candidates", ""), columns].tolist() == [2, 1, 36, 36, 4, 300]
    assert rows.loc[("quality", ""), columns].tolist() == [1, 1, 0, 0, 0, 40]
    assert rows.loc[("figure", ""), columns].tolist() == [1, 1, 3, 0, 2, 150]
    assert rows.loc[("", "main"), columns].tolist() == [2, 2, 37, 36, 4, 300]
    assert rows.loc[("", "beam_widths"), columns].tolist() == [1, 0, 0, 0, 0, 0]
    assert rows.loc[("total", ""), columns].tolist() == [4, 3, 40, 36, 6, 300]
    assert len(rows.loc[""]) == 2, "a figure is of no cell"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_page_has_a_table_of_rules_and_one_of_cells_and_no_column_of_zeros(
    jobs: list[Job], device: str
) -> None:
    costs = program("job_costs")
    measured = costs.measured_jobs(RESULTS, jobs).assign(device=device)
    tables = costs.page_tables(costs.ledger(measured))
    rules, cells = tables["rules"].frame, tables["cells"].frame
    assert list(rules["rule"]) == ["candidates", "quality", "figure", "total"]
    assert list(cells["recipe"]) == ["main", "beam_widths"]
    assert not {"model", "dataset", "recipe"} & set(rules)
    assert "rule" not in cells
    assert tables["has_gpu"] == ("gpu_seconds" in rules) == (device == "cuda")


def test_what_was_fetched_for_the_study_is_in_the_total(jobs: list[Job]) -> None:
    fetched = Path("resources/models/org--name/fetched.json")
    write_record(
        cost_records.record_of_fetched(fetched, Path("studies/demo.lock.json")),
        (FINISHED, 9, 7, 90),
    )
    costs = program("job_costs")
    rows = costs.ledger(costs.measured_jobs(RESULTS, jobs)).set_index("rule")
    assert rows.loc["fetch", ["seconds", "cpu_seconds", "peak_memory_mb"]].tolist() == [9, 7, 90]
    assert rows.loc["total", "cpu_seconds"] == 6 + 7


SHARDS = "results/demo/costs/candidates/m/d/r.shards"


@pytest.mark.parametrize(
    ("made", "record"),
    [
        ("results/demo/tables/base_accs.csv", "results/demo/costs/tables/base_accs.jsonl"),
        ("results/demo/candidates/m/d/r.shards/1-of-3.parquet", f"{SHARDS}/1-of-3.jsonl"),
        ("figures/demo/redundancy.pdf", "results/demo/costs/figures/redundancy.jsonl"),
        ("beams/results/demo/study.json", "beams/results/demo/costs/study.jsonl"),
        ("elsewhere/table.csv", None),
        ("/absolute/results/demo/table.csv", None),
    ],
)
def test_a_record_lies_in_the_folder_of_the_study_s_results(made: str, record: str | None) -> None:
    assert record_of(Path(made)) == (Path(record) if record else None)


BUSY = """
import sys, time
from pathlib import Path
from beamuq_study import cost_records
with cost_records.recorded(Path(sys.argv[1])):
    held = bytearray(60_000_000)
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    what = sys.argv[2]
    if what == "fail":
        sys.exit(2)
    while what == "hang":
        time.sleep(0.01)
"""


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[str], list[cost_records.Attempt]]:
    """Start a job that finishes, fails, or hangs and is then killed; the attempts in its record."""
    path = tmp_path / "record.jsonl"

    def run(what: str) -> list[cost_records.Attempt]:
        before = len(cost_records.read(path))
        process = subprocess.Popen([sys.executable, "-c", BUSY, str(path), what], env=os.environ)
        if what == "hang":
            wait_for(
                lambda: [
                    took for took in cost_records.read(path)[before:] if took["cpu_seconds"] > 0.4
                ]
            )
            process.send_signal(signal.SIGKILL)
        process.wait(60)
        return cost_records.read(path)

    return run


def test_a_record_holds_what_the_process_took(
    attempt: Callable[[str], list[cost_records.Attempt]],
) -> None:
    started = time.monotonic()
    (took,) = attempt("finish")
    assert took["state"] == FINISHED
    assert 0.5 <= took["cpu_seconds"] < 10
    assert took["cpu_seconds"] <= took["seconds"] + 0.2
    assert took["seconds"] <= time.monotonic() - started + 0.2
    assert 60 < took["peak_memory_mb"] < 400


def test_attempts_that_failed_or_were_killed_stay_until_the_job_is_made_anew(
    attempt: Callable[[str], list[cost_records.Attempt]],
) -> None:
    assert [took["state"] for took in attempt("fail")] == [STOPPED]
    assert [took["state"] for took in attempt("hang")] == [STOPPED, RUNNING]
    assert [took["state"] for took in attempt("finish")] == [STOPPED, RUNNING, FINISHED]
    whole = cost_records.total(attempt("finish"))
    assert whole["state"] == FINISHED
    assert 0.5 <= whole["cpu_seconds"] < 10


def test_a_large_parent_is_not_counted_as_the_job_s_memory(tmp_path: Path) -> None:
    """A process that a large one starts inherits its largest memory in what the system reports."""
    starting = f"subprocess.run([sys.executable, '-c', {BUSY!r}, *sys.argv[1:]])"
    code = f"import subprocess, sys; held = bytearray(900_000_000); {starting}"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "record.jsonl"), "finish"], check=True
    )
    (took,) = cost_records.read(tmp_path / "record.jsonl")
    assert took["peak_memory_mb"] < 500


def test_every_job_of_the_demo_is_counted_but_those_that_come_after_the_ledger() -> None:
    plan = Plan.load({"study": "demo", "device": "cpu"})
    exhibits = [*plan.targets["tables"], *plan.targets["figures"]]
    counted = Counter(
        job.rule for job in jobs_of_a_study.jobs(plan.grid, plan.paths.results, exhibits)
    )
    cells = len(plan.grid.cells)
    assert counted["candidates"] == cells
    assert counted["table"] + counted["figure"] == len(plan.study.exhibits)
    assert {
        "study",
        "questions",
        "prompts",
        "judgements",
        "similarity",
        "quality",
    } <= counted.keys()
    assert {"scores", "evaluation", "decisions", "comparison", "explorer"} <= counted.keys()
    done = snakemake(
        ROOT, "--dry-run", "--forceall", "--quiet", "rules", "--nolock", "--cores", "1", *DEMO
    )
    planned = {
        rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", done.stdout, re.MULTILINE)
    }
    fetched_or_after = {"fetch_model", "ledger", "overview", "all", "total"}
    assert counted == {
        rule: count for rule, count in planned.items() if rule not in fetched_or_after
    }
