"""Which pairs are asked for, the cache between jobs, and the step that writes the table."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import synthetic
import tiny_scorers
from beamuq.errors import BeamUQError
from beamuq.scorers.packed_encoder import EncoderInput
from beamuq.scorers.scored_pair_cache import ScoredPairCache
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import needed_pairs, produced_texts
from run_job import run_job
from tiny import CPU

TWO_STRATEGIES = synthetic.candidates(
    ("q1", "greedy", 0, "Paris"),
    ("q1", "sample T=1.0", 0, "Paris"),
    ("q1", "sample T=1.0", 1, "Rome"),
    ("q1", "sample T=1.0", 2, "Rome"),
    ("q1", "beam M=2", 0, "Lyon"),
    ("q1", "beam M=2", 1, ""),
    ("q2", "greedy", 0, "six"),
    ("q2", "sample T=1.0", 0, "6"),
    ("q2", "beam M=2", 0, "six"),
)


def as_sets(needed: list[tuple[str, str, str]], question: str) -> set[tuple[str, str]]:
    return {(premise, hypothesis) for each, premise, hypothesis in needed if each == question}


def test_pairs_are_those_of_a_strategy_and_the_answer() -> None:
    needed = needed_pairs(TWO_STRATEGIES, ["greedy"], None)
    assert len(needed) == len(set(needed))
    sampled = {(a, b) for a in ("Paris", "Rome") for b in ("Paris", "Rome")}
    searched = {(a, b) for a in ("Paris", "Lyon", "") for b in ("Paris", "Lyon", "")}
    assert as_sets(needed, "q1") == sampled | searched  # Rome never meets Lyon
    assert as_sets(needed, "q2") == {(a, b) for a in ("six", "6") for b in ("six", "6")}


def test_a_second_produced_answer_adds_its_pairs_with_the_samples() -> None:
    both = as_sets(needed_pairs(TWO_STRATEGIES, ["greedy", "top_beam"], "beam M=2"), "q1")
    one = as_sets(needed_pairs(TWO_STRATEGIES, ["greedy"], None), "q1")
    assert both - one == {("Rome", "Lyon"), ("Lyon", "Rome")}


def test_what_estimators_alone_read_is_compared_with_the_answers_only() -> None:
    needed = needed_pairs(TWO_STRATEGIES, ["greedy", "top_beam"], "beam M=2", ["sample T=1.0"])
    one, both = (
        as_sets(needed, "q1"),
        needed_pairs(TWO_STRATEGIES, ["greedy", "top_beam"], "beam M=2"),
    )
    assert {pair for pair in one if "Rome" in pair} == {("Paris", "Rome"), ("Lyon", "Rome")}
    assert set(needed) < set(both)


def test_produced_answers_are_greedy_and_the_first_beam() -> None:
    found = produced_texts(TWO_STRATEGIES, ["greedy", "top_beam"], "beam M=2")
    assert found == {
        "greedy": {"q1": "Paris", "q2": "six"},
        "top_beam": {"q1": "Lyon", "q2": "six"},
    }
    with pytest.raises(BeamUQError, match="'top_beam'"):
        needed_pairs(TWO_STRATEGIES, ["top_beam"], None)
    with pytest.raises(
        BeamUQError, match=r"question 'q1' has no 'beam M=10' for answer_source 'top_beam'"
    ):
        produced_texts(TWO_STRATEGIES, ["top_beam"], "beam M=10")


def test_a_cache_saves_every_forward_pass_and_changes_no_bit(tmp_path: Path) -> None:
    folder = tiny_scorers.build_nli(tmp_path / "nli")
    pairs = [
        ("Paris", "yes"),
        ("yes", "Paris"),
        ("", "no"),
        ("no", ""),
        ("Rome", "Rome"),
        ("Rome", "no"),
    ]
    fresh = load_scorer("nli", folder, **CPU).score(pairs)
    first: Any = load_scorer("nli", folder, **CPU, cache=tmp_path / "cache")
    first.score(pairs[:4])
    second: Any = load_scorer("nli", folder, **CPU, cache=tmp_path / "cache")
    remembered = second.score(pairs)
    assert (first.scored, second.scored) == (4, 2)
    assert remembered.entail.tolist() == fresh.entail.tolist()


@pytest.mark.parametrize("other", [{"seed": 1}, {"dtype": torch.bfloat16}])
def test_another_checkpoint_or_dtype_shares_no_cache(other: dict[str, Any], tmp_path: Path) -> None:
    for name, way in (("one", {}), ("other", other)):
        folder = tiny_scorers.build_nli(tmp_path / name, seed=way.get("seed", 0))
        ways = {"dtype": way.get("dtype", torch.float32), "device": torch.device("cpu")}
        scorer: Any = load_scorer("nli", folder, **ways, cache=tmp_path / "cache")
        scorer.score([("yes", "no")])
        assert scorer.scored == 1


def _remember(folder: Path, start: int) -> None:
    cache = ScoredPairCache(folder)
    for key in range(start, start + 50):
        cache.add([EncoderInput((key,)).key()], np.full((1, 2), key, np.float32))
        if key % 10 == 0:
            cache.flush()
    cache.flush()


def test_two_processes_write_one_cache(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=_remember, args=(tmp_path, start)) for start in (0, 25)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
        assert job.exitcode == 0
    known = ScoredPairCache(tmp_path).find([EncoderInput((key,)).key() for key in range(80)])
    assert {key: value.tolist() for key, value in known.items()} == {
        key: [key, key] for key in range(75)
    }
    assert not list(tmp_path.glob(".*"))


KEYS, VALUES = np.zeros((2, 16), np.uint8), np.zeros((2, 3), np.float32)
BROKEN: dict[str, dict[str, Any]] = {
    "no keys": {"values": VALUES},
    "short keys": {"keys": KEYS[:, :8], "values": VALUES},
    "fewer values": {"keys": KEYS, "values": VALUES[:1]},
    "flat": {"keys": KEYS.ravel(), "values": VALUES},
    "of texts": {"keys": KEYS, "values": VALUES.astype(str)},
    "not finite": {"keys": KEYS, "values": VALUES + np.float32(np.nan)},
    "another width": {"keys": KEYS, "values": VALUES[:, :1]},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_cache_file_is_told_in_one_line(broken: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", keys=KEYS, values=VALUES)
    np.savez(tmp_path / "1.npz", **BROKEN[broken])
    with pytest.raises(
        BeamUQError,
        match=rf"\A{tmp_path}/1\.npz: not a readable cache file [^\n]*; delete it and run",
    ):
        ScoredPairCache(tmp_path)


def step(
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    model: Path | None = None,
    rows: Any = TWO_STRATEGIES,
) -> Path:
    """Run the step on candidates; its output file."""
    source, output = tmp_path / "candidates.parquet", tmp_path / f"{name}.parquet"
    cell = {"model": "m", "dataset": "d", "recipe": "main"}
    parquet_tables.write(source, "candidates", rows, cell=cell)
    settings = {"name": name, "answer_source": ["greedy"], "beam": None, "format": 1} | settings
    job = {
        "candidates": source,
        "model": model,
        "similarity": output,
        "device": "cpu",
        "dtype": "auto",
    }
    run_job("similarity", job | {"settings": settings})
    return output


def test_the_step_writes_each_needed_pair_once(tmp_path: Path) -> None:
    loaded = parquet_tables.read(step(tmp_path, "rouge", {"kind": "lexical"}), "similarity")
    rows = loaded.table.to_pylist()
    assert [(r["id"], r["premise"], r["hypothesis"]) for r in rows] == needed_pairs(
        TWO_STRATEGIES, ["greedy"], None
    )
    assert loaded.cell == {"model": "m", "dataset": "d", "recipe": "main", "scorer": "rouge"}
    value = {
        (r["premise"], r["hypothesis"]): (r["entail"], r["neutral"], r["contradict"]) for r in rows
    }
    assert value["", ""] == (1.0, None, None)
    assert value["Paris", "Lyon"] == (0.0, None, None)


@pytest.mark.parametrize(("settings", "alike"), [({}, True), ({"words": "folded"}, False)])
def test_the_step_compares_by_the_words_that_its_settings_name(
    settings: dict[str, str], alike: bool, tmp_path: Path
) -> None:
    rows = synthetic.candidates(("q", "greedy", 0, "-5"), ("q", "sample T=1.0", 0, "5"))
    path = step(tmp_path, "rouge", {"kind": "lexical"} | settings, rows=rows)
    loaded = parquet_tables.read(path, "similarity")
    value = {(row["premise"], row["hypothesis"]): row["entail"] for row in loaded.table.to_pylist()}
    assert (value["-5", "5"] == 1) == alike


def test_the_step_warns_of_texts_whose_ends_are_not_compared(
    tmp_path: Path,
) -> None:
    long = "yes " * 60
    rows = synthetic.candidates(
        ("q1", "greedy", 0, "yes"),
        ("q1", "sample T=1.0", 0, "no"),
        ("q2", "greedy", 0, long + "no"),
        ("q2", "sample T=1.0", 0, long + "yes"),
    )
    folder = tiny_scorers.build_embedder(tmp_path / "embedder")
    told = r"near reads 48 tokens at a time: 1 of 2 questions \(first: 'q2'\)"
    with pytest.warns(UserWarning, match=told):
        step(tmp_path, "near", {"kind": "embedding"}, folder / "config.json", rows=rows)


def test_the_step_warns_of_nothing_where_the_scorer_reads_whole_texts(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    long = "yes " * 60
    rows = synthetic.candidates(
        ("q", "greedy", 0, long + "no"), ("q", "sample T=1.0", 0, long + "yes")
    )
    step(tmp_path, "words", {"kind": "lexical"}, rows=rows)
    assert not recwarn


def test_the_step_writes_all_three_classes(tmp_path: Path) -> None:
    folder = tiny_scorers.build_nli(tmp_path / "nli")
    output = step(tmp_path, "nli", {"kind": "nli"}, folder / "config.json")
    table = parquet_tables.read(output, "similarity").table
    sums = sum(table.column(name).to_numpy() for name in ("entail", "neutral", "contradict"))
    np.testing.assert_allclose(sums, 1.0)
