"""Resamples and intervals; the step that writes them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import (
    Estimate,
    draws_name,
    interval,
    resample_blocks,
    resample_counts,
)
from beamuq_study import parquet_tables
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate
from one_metric import measure
from run_job import run_job

N = 40
SETTINGS = {
    "metrics": ["PRR", "ROC-AUC", "PR-AUC"],
    "quality": "answer_f1",
    "resamples": 300,
    "seed": 7,
}


def test_a_resample_draws_as_many_units_as_there_are() -> None:
    counts = resample_counts([str(n) for n in range(50)], 400, 0, "cell")
    assert counts.shape == (50, 400)
    assert (counts.sum(axis=0) == 50).all()
    assert counts.mean() == pytest.approx(1.0)
    assert counts.var() == pytest.approx(1.0, abs=0.1)  # binomial, as drawing with replacement is


def test_questions_of_one_story_are_drawn_together() -> None:
    groups = ["a", "b", "a", "c", "c", "c"]
    counts = resample_counts(groups, 200, 0, "cell")
    np.testing.assert_array_equal(counts[0], counts[2])
    np.testing.assert_array_equal(counts[3], counts[5])
    assert (counts[[0, 1, 3]].sum(axis=0) == 3).all()


def test_resamples_depend_on_seed_and_cell_only() -> None:
    groups = [str(n) for n in range(30)]
    first = resample_counts(groups, 50, 1, "m/d/main")
    np.testing.assert_array_equal(first, resample_counts(groups, 50, 1, "m/d/main"))
    assert (first != resample_counts(groups, 50, 2, "m/d/main")).any()
    assert (first != resample_counts(groups, 50, 1, "m/e/main")).any()


def test_resamples_are_named_by_the_questions_in_any_order() -> None:
    asked = [("q1", "story"), ("q2", "story"), ("q3", "other")]
    assert draws_name("d", asked) == draws_name("d", reversed(asked))
    others = [
        ("e", asked),
        ("d", asked[:2]),
        ("d", [("q1", "story"), ("q2", "other"), ("q3", "other")]),
    ]
    names = {
        draws_name("d", asked),
        *(draws_name(dataset, questions) for dataset, questions in others),
    }
    assert len(names) == 4


def test_counts_of_all_resamples_take_four_bytes_each_and_are_those_of_the_blocks() -> None:
    groups = [str(n // 3) for n in range(600)]
    counts = resample_counts(groups, 700, 1, "cell")
    assert counts.dtype == np.int32
    np.testing.assert_array_equal(
        counts, np.concatenate([*resample_blocks(groups, 700, 1, "cell")], axis=1)[:, 1:]
    )


def test_the_interval_is_of_the_replicates_percentiles() -> None:
    found = interval(np.arange(1001.0), 0.9)
    assert (found.low, found.high) == pytest.approx((50.0, 950.0))
    assert found.note == ""
    assert found.std == pytest.approx(np.arange(1001.0).std(ddof=1))


def files(folder: Path, model: str = "m", **changed: pa.Table) -> dict[str, Path]:
    made = synthetic.cell(N, ("greedy", "beam M=10"), per_group=3)
    ids = [f"q{n:04d}" for n in range(N)]
    rng = np.random.default_rng(0)
    scores = {("Prob", "", ""): rng.random(N), ("MTE", "", "M=5"): rng.integers(0, 3, N)}
    made["scores"] = pa.Table.from_pylist(
        synthetic.score_rows(ids, scores), parquet_tables.SCHEMAS["scores"]
    )
    made["quality"] = made["quality"].filter(pc.equal(made["quality"]["answer_source"], "greedy"))
    made |= changed
    folder.mkdir(exist_ok=True)
    cell = {"model": model, "dataset": "d", "recipe": "main"}
    for kind in ("scores", "quality", "questions"):
        parquet_tables.write(folder / kind, kind, made[kind], cell=cell)
    return {kind: folder / kind for kind in ("scores", "quality", "questions")}


def run(
    folder: Path, inputs: dict[str, Path], **settings: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    outputs = {kind: folder / kind for kind in ("evaluation", "replicates")}
    run_job("evaluation", inputs | outputs | {"settings": SETTINGS | settings})
    return tuple(
        parquet_tables.read(folder / kind, kind).table.to_pylist()
        for kind in ("evaluation", "replicates")
    )


def test_the_step_measures_every_score_with_replicates_of_the_same_resamples(
    tmp_path: Path,
) -> None:
    inputs = files(tmp_path)
    measured, replicates = run(tmp_path, inputs)
    assert [(row["method"], row["setting"], row["metric"]) for row in measured] == [
        (method, setting, metric)
        for method, setting in (("Prob", ""), ("MTE", "M=5"))
        for metric in SETTINGS["metrics"]
    ]
    questions = parquet_tables.read(tmp_path / "questions", "questions").table
    groups = questions.column("group").to_pylist()
    name = draws_name("d", zip(questions.column("id").to_pylist(), groups, strict=True))
    counts = resample_counts(groups, 300, 7, name)
    quality = parquet_tables.read(tmp_path / "quality", "quality").table.column("value").to_numpy()
    scores = parquet_tables.read(tmp_path / "scores", "scores").table.column("value").to_numpy()[:N]
    expected = measure("PRR", scores, quality, counts)
    np.testing.assert_allclose(replicates[0]["values"], expected, rtol=1e-6)
    assert measured[0]["value"] == pytest.approx(measure("PRR", scores, quality)[0])
    assert measured[0]["low"] == pytest.approx(np.quantile(expected, 0.025))
    assert measured[0]["std"] == pytest.approx(expected.std(ddof=1))
    assert all(
        row["n"] == N and row["subset"] == "all" and row["quality"] == "answer_f1"
        for row in measured
    )


def test_memory_does_not_grow_with_resamples_and_their_values_are_those_of_all_at_once(
    tmp_path: Path,
) -> None:
    loaded = [parquet_tables.read(path, kind).table for kind, path in files(tmp_path).items()]
    settings = EvaluationSettings(metrics=("PRR",), quality="answer_f1", resamples=20_000, seed=7)
    tracemalloc.start()
    _, replicates = evaluate(*loaded, settings, "d")
    assert (
        tracemalloc.get_traced_memory()[1] < N * settings.resamples * 8
    )  # bytes of the counts of all
    tracemalloc.stop()
    scores, quality = (of.column("value").to_numpy() for of in loaded[:2])
    questions = loaded[2].select(["id", "group"]).to_pydict()
    name = draws_name("d", zip(*questions.values(), strict=True))
    counts = np.insert(
        resample_counts(questions["group"], settings.resamples, 7, name), 0, 1, axis=1
    )
    for place, row in enumerate(replicates):
        at_once = measure("PRR", scores[place * N : (place + 1) * N], quality, counts)[1:]
        np.testing.assert_array_equal(row["values"], at_once.astype(np.float32))


def test_a_further_quality_is_measured_on_the_same_resamples(tmp_path: Path) -> None:
    inputs = files(tmp_path)
    exact = parquet_tables.read(inputs["quality"], "quality").table
    exact = exact.set_column(2, "value", pa.array((exact["value"].to_numpy() > 0.3).astype(float)))
    cell = {"model": "m", "dataset": "d", "recipe": "main", "metric": "exact_match"}
    parquet_tables.write(tmp_path / "exact", "quality", exact, cell=cell)
    alone = run(tmp_path, inputs)
    other = run(
        tmp_path, inputs | {"quality": tmp_path / "exact"}, quality="exact_match", threshold=0.9
    )
    further = {"further_qualities": [tmp_path / "exact"]}
    found = run(tmp_path, inputs | further, further_qualities={"exact_match": 0.9})  # type: ignore[arg-type]
    for rows, expected in zip(
        found, (one + two for one, two in zip(alone, other, strict=True)), strict=True
    ):
        for row, of_one in zip(rows, expected, strict=True):
            numbers = {name for name in of_one if isinstance(of_one[name], float | list)}
            assert {name: row[name] for name in row.keys() - numbers} == {
                name: of_one[name] for name in of_one.keys() - numbers
            }
            for name in numbers:
                np.testing.assert_allclose(row[name], of_one[name], rtol=1e-6, atol=1e-12)
    assert {row["quality"] for row in found[0]} == {"answer_f1", "exact_match"}


def test_prr_to_a_further_rejection_is_a_row_of_its_own(tmp_path: Path) -> None:
    inputs = files(tmp_path)
    one, _ = run(tmp_path, inputs, metrics=["PRR"], max_rejection=[1.0])
    both, replicates = run(tmp_path, inputs, max_rejection=[0.5, 1.0])
    assert [row["metric"] for row in both[:4]] == [*SETTINGS["metrics"], "PRR@1"]
    assert [row for row in both if row["metric"] == "PRR@1"] == [
        row | {"metric": "PRR@1"} for row in one
    ]
    assert [row["metric"] for row in replicates] == [row["metric"] for row in both]
    assert [row for row in both if row["metric"] != "PRR@1"] == run(tmp_path, inputs)[0]


def with_empty_answers(folder: Path, empty: set[str]) -> dict[str, Path]:
    """Files whose greedy answers to some questions have no text."""
    inputs = files(folder)
    table = synthetic.cell(N, ("greedy", "beam M=10"), per_group=3)["candidates"]
    rows = [
        row | ({"text": ""} if row["id"] in empty else {"text": "x"}) for row in table.to_pylist()
    ]
    cell = {"model": "m", "dataset": "d", "recipe": "main"}
    parquet_tables.write(folder / "candidates", "candidates", rows, cell=cell)
    return inputs | {"candidates": folder / "candidates"}


def of_subset(rows: list[dict[str, Any]], subset: str) -> list[dict[str, Any]]:
    return [row | {"subset": ""} for row in rows if row["subset"] == subset]


def test_answered_questions_are_measured_as_if_they_alone_had_been_asked(tmp_path: Path) -> None:
    empty = {"q0002", "q0003", "q0011"}
    every = run(tmp_path, inputs := with_empty_answers(tmp_path, empty))
    answered = {}
    for kind in ("scores", "quality", "questions"):
        table = parquet_tables.read(inputs[kind], kind).table
        answered[kind] = table.filter(
            pa.array([key not in empty for key in table.column("id").to_pylist()])
        )
    alone = run(tmp_path / "alone", files(tmp_path / "alone", **answered))
    whole = run(tmp_path / "whole", files(tmp_path / "whole"))
    for found, of_answered, of_all in zip(every, alone, whole, strict=True):
        assert of_subset(found, "answered") == of_subset(of_answered, "all")
        assert of_subset(found, "all") == of_subset(of_all, "all")
        assert not of_subset(of_all, "answered")  # without candidates nobody knows


def test_where_no_answer_is_empty_the_answered_questions_need_no_replicates_of_their_own(
    tmp_path: Path,
) -> None:
    measured, replicates = run(tmp_path, with_empty_answers(tmp_path, set()))
    assert of_subset(measured, "answered") == of_subset(measured, "all")
    assert {row["subset"] for row in replicates} == {"all"}


def test_without_any_answer_the_answered_questions_are_undefined(tmp_path: Path) -> None:
    measured, replicates = run(
        tmp_path, with_empty_answers(tmp_path, {f"q{n:04d}" for n in range(N)})
    )
    found = of_subset(measured, "answered")
    assert len(found) == len(of_subset(measured, "all"))
    assert {(row["value"], row["n"], row["note"]) for row in found} == {
        (None, 0, "undefined: every answer is empty")
    }
    assert np.isnan([row["values"] for row in of_subset(replicates, "answered")]).all()


def test_models_that_were_asked_the_same_questions_share_their_resamples(tmp_path: Path) -> None:
    """Equal answers of two models, in another order of rows, have equal replicates: their mean is
    no less uncertain.
    """
    one = run(tmp_path / "one", files(tmp_path / "one", "one"))[1]
    table = parquet_tables.read(tmp_path / "one" / "scores", "scores").table
    backwards = table.take(pa.array([*range(N - 1, -1, -1), *range(2 * N - 1, N - 1, -1)]))
    assert backwards["id"][0].as_py() == f"q{N - 1:04d}"
    two = run(tmp_path / "two", files(tmp_path / "two", "two", scores=backwards))[1]
    for row, other in zip(one, two, strict=True):
        np.testing.assert_allclose(row["values"], other["values"], rtol=1e-6)


@pytest.mark.parametrize(("kind", "key"), [("questions", "dataset"), ("quality", "recipe")])
def test_files_of_different_cells_are_refused(tmp_path: Path, kind: str, key: str) -> None:
    inputs, cell = files(tmp_path), {"model": "m", "dataset": "d", "recipe": "main", key: "other"}
    parquet_tables.write(
        tmp_path / kind, kind, parquet_tables.read(tmp_path / kind, kind).table, cell=cell
    )
    with pytest.raises(
        BeamUQError,
        match=rf"was made with another {key} than .*; one of the two is of another run or",
    ):
        run(tmp_path, inputs)


def test_an_undefined_measurement_is_null_and_says_why(tmp_path: Path) -> None:
    quality = pa.Table.from_pylist(
        [{"id": f"q{n:04d}", "answer_source": "greedy", "value": 1.0} for n in range(N)],
        schema=parquet_tables.SCHEMAS["quality"],
    )
    measured, replicates = run(tmp_path, files(tmp_path, quality=quality))
    assert all(row["value"] is None and row["low"] is None for row in measured)
    assert measured[0]["note"] == "undefined: every answer has the same quality"
    assert np.isnan(replicates[0]["values"]).all()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("quality", "quality: the greedy answer of question 'q0003' is missing"),
        ("questions", "scores: question 'q0003' is not in the questions file"),
        ("scores", "scores: the greedy answer of question 'q0003' is missing"),
    ],
)
def test_a_missing_answer_is_refused_by_name(tmp_path: Path, kind: str, message: str) -> None:
    files(tmp_path)
    table = parquet_tables.read(tmp_path / kind, kind).table
    kept = table.filter(pc.not_equal(table["id"], "q0003"))
    with pytest.raises(BeamUQError, match=message):
        run(tmp_path, files(tmp_path, **{kind: kept}))


def test_an_estimate_shows_value_interval_and_n() -> None:
    assert (
        repr(Estimate(0.357, 0.2141, 0.489, 0.07, n=200)) == "Estimate(.357 [.214, .489], n = 200)"
    )
    assert repr(Estimate(-0.0001, -1.25, 1.0, 0.1)) == "Estimate(.000 [-1.250, 1.000])"
    assert repr(Estimate(0.5, None, None, None, n=4)) == "Estimate(.500 (no interval), n = 4)"
    assert repr(Estimate(None, None, None, None, "undefined: why", 4)) == (
        "Estimate(undefined: why, n = 4)"
    )
