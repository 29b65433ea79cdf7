"""A cell cut into shards of whole batches gives the bytes of the whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from beamuq import artifacts
from beamuq.cost import measured_costs
from beamuq.decoding import shards
from beamuq.errors import BeamUQError
from beamuq.plan.jobs import Plan
from beamuq.steps import candidates
from micro import CANDIDATES, Workplace, build_models


@pytest.mark.parametrize(("count", "number"), [(1, 1), (4, 7), (5, 3)])
def test_every_wave_is_in_one_shard(count: int, number: int) -> None:
    batches = list(range(number))
    cut = [shards.batches_of(f"{shard}-of-{count}", batches) for shard in range(1, count + 1)]
    assert sorted(batch for part in cut for batch in part) == batches
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


@pytest.mark.parametrize("shard", ["0-of-2", "3-of-2", "1-of-0", "1/2", "", "-1-of-2"])
def test_no_shard_is_told(shard: str) -> None:
    with pytest.raises(BeamUQError, match="not a shard"):
        shards.batches_of(shard, [1])


@pytest.mark.parametrize(("count", "cards"), [(1, 1), (3, 0)])
def test_joining_shards_asks_for_no_card(count: int, cards: int) -> None:
    plan = Plan.load({"study": "demo", "device": "cuda", "shards": count})
    assert (plan.candidates_gpus, plan.gpus) == (cards, 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    folder = tmp_path_factory.mktemp("shards")
    return Workplace(folder / "place", build_models(folder / "models"))


def test_a_sharded_study_is_the_whole_one_byte_for_byte(place: Workplace) -> None:
    place.run(CANDIDATES)
    path = place.folder / CANDIDATES
    whole = path.read_bytes()
    path.unlink()
    told = place.run(CANDIDATES, settings=("shards=3",))
    assert told.count("(Rule: candidates_shard)") == 3
    assert path.read_bytes() == whole
    assert not list(place.folder.glob("results/micro/candidates/**/*-of-3*"))
    assert "Nothing to be done" in place.run(CANDIDATES, settings=("shards=3",))
    benchmarks = place.folder / "results/micro/benchmarks/candidates_shard/tiny/triviaqa/main"
    assert len(list(benchmarks.iterdir())) == 3
    place.run(CANDIDATES)
    assert not list(benchmarks.iterdir())
    (job,) = [job for job in measured_costs.measured(place.folder / "results/micro") if job.rule == "candidates"]
    assert 0 < job.seconds < 400
    assert path.read_bytes() == whole


def test_shards_of_other_runs_are_refused(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    place.run("results/micro/prompts/base/triviaqa.parquet")
    plan = Plan.load({"study": "micro.yaml", "device": "cpu"})
    cell = SimpleNamespace(model="tiny", dataset="triviaqa", recipe="main")
    inputs, settings = plan.decoding_inputs(cell), plan.candidates_settings(cell)
    options = ["--prompts", str(inputs["prompts"]), "--model", str(inputs["model"]), "--device", "cpu"]
    first, second, other, joined = (tmp_path / f"{name}.parquet" for name in ("1", "2", "other", "joined"))
    for path, shard, given in [
        (first, "1-of-2", settings),
        (second, "2-of-2", settings),
        (other, "2-of-2", settings.replace('"seed":1', '"seed":2')),
    ]:
        candidates.main([*options, "--settings", given, "--shard", shard, "--candidates", str(path)])

    def join(*paths: Path) -> None:
        files = [str(path) for path in paths]
        candidates.main([*options, "--settings", settings, "--shards", *files, "--candidates", str(joined)])

    with pytest.raises(BeamUQError, match=r"differs from 1\.parquet in settings"):
        join(first, other)
    with pytest.raises(BeamUQError, match="holds the shards"):
        join(first, first)
    with pytest.raises(BeamUQError, match="holds the shards"):
        join(first)
    join(second, first)
    assert artifacts.read(joined, "candidates").table.num_rows > 0
    assert "shard" not in artifacts.read(joined, "candidates").provenance
    assert joined.read_bytes() == (place.folder / CANDIDATES).read_bytes()


def test_a_shard_without_waves_is_empty(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    plan = Plan.load({"study": "micro.yaml", "device": "cpu"})
    cell = SimpleNamespace(model="tiny", dataset="triviaqa", recipe="main")
    inputs = plan.decoding_inputs(cell)
    options = ["--prompts", str(inputs["prompts"]), "--model", str(inputs["model"]), "--device", "cpu"]
    options += ["--settings", plan.candidates_settings(cell), "--shard", "21-of-21"]
    candidates.main([*options, "--candidates", str(tmp_path / "x.parquet")])
    assert artifacts.read(tmp_path / "x.parquet", "candidates").table.num_rows == 0
