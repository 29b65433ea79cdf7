"""What exhibits say of empty produced answers, and which cells means leave out for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import exhibits_study
from beamuq import parquet_tables
from beamuq.evaluation.estimates import ALL_EMPTY
from beamuq.exhibits.empty_answers import Empty
from beamuq.exhibits.exhibit_types import BuiltFigure, BuiltTable
from beamuq.parquet_tables import Artifact
from exhibits_study import BASE, CHAT, EMPTY, SIZE

STUDY = exhibits_study.study()
HOTPOTQA = Artifact("evaluation", "hotpotqa", BASE, "main", "cosine")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    """The base model left six of 24 questions of HotpotQA without an answer, and one everywhere else."""
    found = exhibits_study.Results(tmp_path_factory.mktemp("empty"), STUDY)

    def six_empty(row: dict[str, Any]) -> dict[str, Any]:
        return row | ({"n": 18} if (row["subset"], row["answer_source"]) == ("answered", "greedy") else {})

    exhibits_study.rewrite(found, HOTPOTQA, six_empty)
    return found


@pytest.mark.parametrize(("empty", "too_many"), [(0, False), (4, False), (5, True), (24, True)])
def test_more_than_a_fifth_is_too_many(empty: int, too_many: bool) -> None:
    assert Empty(empty, 20 if empty == 4 else 24).too_many == too_many


def column(built: BuiltTable, model: str, dataset: str) -> np.ndarray[Any, Any]:
    values = built.values
    return values[(values["model"] == model) & (values["dataset"] == dataset)]["value"].to_numpy(dtype=float)


def test_a_mean_leaves_the_cell_out_and_marks_it(results: exhibits_study.Results) -> None:
    built: BuiltTable = results.built("qa_tiny")
    kept = [column(built, BASE, dataset) for dataset in exhibits_study.DATASETS if dataset != "hotpotqa"]
    np.testing.assert_allclose(column(built, BASE, "mean"), np.mean(kept, axis=0))
    assert [head for head in built.grid.header[-1] if "†" in head] == ["HotpotQA †"]
    means: BuiltTable = results.built("qa_mean_prr")
    np.testing.assert_allclose(column(means, BASE, "mean"), column(built, BASE, "mean"))
    assert means.grid.header[-1] == ("Tiny 1B base †", "Tiny 1B instruct")
    assert set(means.values["n"]) == {5 * SIZE["main"], 6 * SIZE["main"]}


def test_of_other_answers_the_cell_stays_in_the_mean(results: exhibits_study.Results) -> None:
    assert results.built("topbeam_scoring").grid.header[-1] == ("Tiny 1B base", "Tiny 1B instruct")


def test_a_mean_over_answered_questions_leaves_no_cell_out(results: exhibits_study.Results) -> None:
    built: BuiltTable = results.built("answered")
    assert not any("†" in head for head in built.grid.header[-1])
    n = built.values[built.values["dataset"] == "mean"].set_index("model")["n"]
    assert set(n[BASE]) == {5 * (SIZE["main"] - EMPTY) + 18}
    assert set(n[CHAT]) == {6 * (SIZE["main"] - EMPTY)}


def test_the_table_has_both_numbers_of_every_cell(results: exhibits_study.Results) -> None:
    built: BuiltTable = results.built("empty_answers")
    values = built.values[(built.values["model"] == BASE) & (built.values["dataset"] == "hotpotqa")]
    share = values[values["metric"] == "empty answers"]
    assert share[["value", "n"]].to_numpy().tolist() == [[0.25, 24]]
    rows = parquet_tables.read(results.folder / HOTPOTQA.path, "evaluation").table.to_pylist()
    for subset in ("all", "answered"):
        wanted = [
            row["value"]
            for row in rows
            if (row["subset"], row["quality"], row["answer_source"], row["metric"], row["method"], row["variant"])
            == (subset, "answer_f1", "greedy", "PRR", "Dissimilarity", "beamsearch")
        ]
        found = values.query(f"method == 'Dissimilarity' and variant == 'beamsearch' and setting == '{subset}'")
        assert found["value"].tolist() == wanted
    assert [row.cells[0].text for row in built.grid.body if row.titles[1] == "HotpotQA †"] == ["6 of 24"]  # type: ignore[union-attr]


def test_where_no_cell_may_be_averaged_the_mean_of_estimators_is_undefined(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    for dataset in ("triviaqa", "coqa"):
        cell = Artifact("evaluation", dataset, BASE, "truth", "cosine")
        exhibits_study.rewrite(results, cell, lambda row: row | ({"n": 3} if row["subset"] == "answered" else {}))
    built: BuiltTable = results.built("estimators")
    values = built.values[built.values["metric"] != "unbiased"].set_index("dataset")["value"]
    assert values["mean"].isna().all()
    assert values["coqa"].notna().any()
    assert built.notes == [f"(a) {ALL_EMPTY}"]


@pytest.mark.parametrize("label", ["why_beams_win", "gain_by_mass", "controls", "estimators"])
def test_means_of_exact_values_leave_the_cell_out(label: str, tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    cell = Artifact("evaluation", "coqa", BASE, "truth", "cosine")
    exhibits_study.rewrite(results, cell, lambda row: row | ({"n": 3} if row["subset"] == "answered" else {}))
    built: Any = results.built(label)
    datasets = set((built.values if isinstance(built, BuiltTable) else built.data)["dataset"])
    if label == "estimators":
        frame = built.values.set_index(["metric", "method", "variant", "setting"])["value"]
        of = built.values["dataset"]
        mean, alone = frame[(of == "mean").to_numpy()], frame[(of == "triviaqa").to_numpy()]
        assert mean["PRR"].tolist() == alone["PRR"].tolist()
    else:
        assert datasets == {"triviaqa", "coqa"}


class Emptied(exhibits_study.Results):
    """Two questions of every cell have no greedy answer; ``garbled``: and everything else that is said of them, or of
    all questions together, is another.
    """

    garbled = False

    def _of_two(self, rows: list[dict[str, Any]], garble: dict[str, Any]) -> list[dict[str, Any]]:
        return [row | garble if self.garbled and row["id"][-3:] in TWO else row for row in rows]

    def _candidates(self, need: Artifact) -> list[dict[str, Any]]:
        garble = {"text": "another", "logprob": -40.0, "token_ids": [3], "search_rows": 99}
        rows = self._of_two(super()._candidates(need), garble)
        empty = [row["strategy"] == "greedy" and row["id"][-3:] in TWO for row in rows]
        return [row | {"text": ""} if of else row for row, of in zip(rows, empty, strict=True)]

    def _quality(self, need: Artifact) -> list[dict[str, Any]]:
        return self._of_two(super()._quality(need), {"value": 0.6})

    def _scores(self, need: Artifact) -> list[dict[str, Any]]:
        return self._of_two(super()._scores(need), {"value": 7.0})

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        garble = {"value": 0.11, "low": 0.1, "high": 0.12}
        rows = super()._evaluation(need)
        return [row | garble if self.garbled and row["subset"] == "all" else row for row in rows]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        rows = super()._replicates(need)
        garble = {"values": [0.0] * len(rows[0]["values"])}
        return [row | garble if self.garbled and row["subset"] == "all" else row for row in rows]


TWO = ("003", "007")


@pytest.fixture(scope="module")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> list[Emptied]:
    both = [Emptied(tmp_path_factory.mktemp("emptied"), STUDY) for _ in range(2)]
    both[1].garbled = True
    return both


class NoneEmpty(exhibits_study.Results):
    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        rows = [row for row in super()._evaluation(need) if row["subset"] == "all"]
        return [row | {"subset": subset} for subset in ("all", "answered") for row in rows]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return [row for row in super()._replicates(need) if row["subset"] == "all"]


@pytest.fixture(scope="module")
def none_empty(tmp_path_factory: pytest.TempPathFactory) -> NoneEmpty:
    return NoneEmpty(tmp_path_factory.mktemp("none_empty"), STUDY)


def numbers(built: BuiltTable | BuiltFigure) -> pd.DataFrame:
    frame = built.values if isinstance(built, BuiltTable) else built.data
    return frame.drop(columns="table", errors="ignore")


def test_the_table_of_answered_questions_knows_nothing_of_the_others(emptied: list[Emptied]) -> None:
    built, of_garbled = (results.built("answered") for results in emptied)
    pd.testing.assert_frame_equal(numbers(built), numbers(of_garbled))
    of_all, all_garbled = (numbers(results.built("qa_tiny")) for results in emptied)
    assert not of_all.equals(all_garbled)


def test_where_no_answer_is_empty_it_is_the_table_of_all(none_empty: NoneEmpty) -> None:
    answered, of_all = (numbers(none_empty.built(label)) for label in ("answered", "qa_tiny"))
    of_model = answered[answered["model"] == BASE].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_model, of_all)
