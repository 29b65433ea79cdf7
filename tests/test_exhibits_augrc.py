"""AUGRC of answers whose accuracies differ: by hand, and the table's against its definition on every resample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_counts
from beamuq.evaluation.metrics_of_scores import EvaluationSettings, evaluate
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk, measure, rejection_curves
from beamuq.exhibits import list_of_exhibits
from beamuq.parquet_tables import SCHEMAS, Artifact
from exhibits_study import BASE, CHAT

DATASETS = ["triviaqa", "coqa"]
GRID = [{"recipe": "main", "models": [BASE, CHAT], "datasets": DATASETS, "scorers": ["cosine"]}]
STUDY = exhibits_study.study(grid=GRID)
METHOD = ("Dissimilarity", "beamsearch", "")


@pytest.mark.parametrize(
    ("right", "by_hand"),  # shown and wrong of 0, 1/4, … 1 shown, most certain first
    [
        ([1, 0, 1, 1], (0 + 1 / 8 + 1 / 4 + 1 / 4) / 4),  # 0, 0, 1/4, 1/4, 1/4
        ([1, 1, 1, 0], (0 + 0 + 0 + 1 / 8) / 4),  # 0, 0, 0, 0, 1/4
        ([0, 1, 0, 1], (1 / 8 + 1 / 4 + 3 / 8 + 1 / 2) / 4),  # 0, 1/4, 1/4, 1/2, 1/2
        ([1, 1, 1, 1], 0),
        ([0, 0, 0, 0], (1 / 8 + 3 / 8 + 5 / 8 + 7 / 8) / 4),
    ],
)
def test_of_four_answers(right: list[int], by_hand: float) -> None:
    auc = measure("ROC-AUC", np.arange(4.0), np.array(right, dtype=float))[0]
    assert area_under_generalised_risk(np.mean(right), auc) == pytest.approx(by_hand)


def by_definition(uncertainty: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    curves = rejection_curves(uncertainty, right)
    shown = np.append(1 - curves.rejected, 0.0)
    return float(-np.trapezoid(shown * (1 - np.append(curves.uncertainty, 1.0)), shown))


@pytest.mark.parametrize("levels", [None, 3])
def test_it_is_a_function_of_accuracy_and_roc_auc(levels: int | None) -> None:
    """Of Traub et al. (2024), trapezoids over the expected order of equal scores: docs/what_scores_mean.md."""
    rng = np.random.default_rng(5)
    uncertainty = rng.random(40) if levels is None else rng.integers(0, levels, 40).astype(float)
    right = (rng.random(40) > 0.3 * uncertainty).astype(float)
    found = area_under_generalised_risk(right.mean(), measure("ROC-AUC", uncertainty, right)[0])
    assert found == pytest.approx(by_definition(uncertainty, right))


class Evaluated(exhibits_study.Results):
    """The study's results with evaluations of its own scores and quality."""

    def rows(self, need: Artifact) -> tuple[list[dict[str, Any]], ...]:
        """Scores, quality and questions of a cell."""
        quality = replace(need, kind="quality", scorer="", metric="answer_f1")
        return self._scores(replace(need, kind="scores")), self._quality(quality), self._questions(need)

    def evaluated(self, need: Artifact) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        tables = [
            pa.Table.from_pylist(rows, schema=SCHEMAS[kind])
            for kind, rows in zip(("scores", "quality", "questions"), self.rows(need), strict=True)
        ]
        of = EvaluationSettings(
            metrics=("ROC-AUC",), quality="answer_f1", resamples=exhibits_study.RESAMPLES, seed=self.study.seed
        )
        return evaluate(*tables, of, need.dataset, {"greedy": set(), "top_beam": set()})

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        return self.evaluated(need)[0]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return self.evaluated(need)[1]

    def differences(self, dataset: str, model: str = BASE) -> list[float]:
        """Top beam − greedy by definition, of the data and of every resample of its groups."""
        scores, quality, questions = self.rows(Artifact("evaluation", dataset, model, "main", "cosine"))
        groups = {row["id"]: row["group"] for row in questions}
        counts = resample_counts(
            list(groups.values()), exhibits_study.RESAMPLES, self.study.seed, draws_name(dataset, groups.items())
        )
        drawn = [np.arange(len(groups)), *(np.repeat(np.arange(len(groups)), of) for of in counts.T)]
        found = []
        for answer in ("top_beam", "greedy"):
            u = {r["id"]: r["value"] for r in scores if (r["answer_source"], *map(r.get, KEY)) == (answer, *METHOD)}
            right = {row["id"]: float(row["value"] > 0.5) for row in quality if row["answer_source"] == answer}
            values, labels = (np.array([of[key] for key in groups]) for of in (u, right))
            found.append([by_definition(values[of], labels[of]) for of in drawn])
        return list(np.subtract(*found))


KEY = ("method", "variant", "setting")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("augrc"), STUDY)


def row_of(values: Any, dataset: str) -> Any:
    of = {"model": BASE, "dataset": dataset, "metric": "AUGRC", "method": METHOD[0], "variant": METHOD[1]}
    of |= {"setting": "top_beam - greedy"}
    (row,) = values[(values[list(of)] == list(of.values())).all(axis=1)].to_dict("records")
    return row


@pytest.mark.parametrize("dataset", [*DATASETS, "mean"])
def test_difference_and_interval_are_those_of_the_definition(results: Evaluated, dataset: str) -> None:
    each = [results.differences(name) for name in (DATASETS if dataset == "mean" else [dataset])]
    expected = np.mean(each, axis=0)
    row = row_of(results.built("augrc").values, dataset)
    assert row["value"] == pytest.approx(expected[0])
    assert (row["low"], row["high"]) == pytest.approx(np.quantile(expected[1:], [0.025, 0.975]), abs=1e-6)
    assert row["n"] == 24 * len(each)


def test_of_one_dataset_the_table_says_what_the_mean_s_does_of_it(results: Evaluated) -> None:
    one, both = (results.built(label) for label in ("augrc_coqa", "augrc"))
    assert row_of(one.values, "coqa")["value"] == row_of(both.values, "coqa")["value"]
    assert set(one.values["dataset"]) == {"coqa"}
    assert one.grid.header[-1] == ("Greedy", "Δ top beam") * 2


def test_of_greedy_answers_alone_nothing_is_compared_with_them(results: Evaluated) -> None:
    assert results.built("augrc", exhibits_study.study(grid=GRID, answer_source=["greedy"])).grid.header[-1] == (
        "Greedy",
        "Greedy",
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"evaluation": {"metrics": ["PRR"]}}, "add it to evaluation.metrics"),
        ({"answer_source": ["top_beam"]}, "greedy"),
    ],
)
def test_what_it_needs_is_said(change: dict[str, Any], told: str) -> None:
    of = exhibits_study.study(grid=GRID, **change)
    with pytest.raises(BeamUQError, match=told):
        list_of_exhibits.exhibit("augrc", of).artifacts(of)
