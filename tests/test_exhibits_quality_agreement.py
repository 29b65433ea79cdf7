"""Where two qualities disagree: signs of beam − multinomial, and the order of the methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

import exhibits_study
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable
from beamuq.exhibits.quality_agreement import QualityAgreement, agreement, kendall_tau
from beamuq.exhibits.read_evaluation import Key, Measurements
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

STUDY = exhibits_study.study()
CELL = {"dataset": "triviaqa", "model": exhibits_study.BASE, "recipe": "main", "scorer": "cosine"}
EVALUATION, REPLICATES = (Artifact(kind, **CELL) for kind in ("evaluation", "replicates"))
SAMPLES, BEAM, PROB = (
    Key("PRR", "Dissimilarity", "multinomial"),
    Key("PRR", "Dissimilarity", "beamsearch"),
    Key("PRR", "Prob", ""),
)
Row = tuple[float | None, list[float]]  # a value and its replicates


def cell(folder: Path, rows: dict[str, dict[Key, Row]]) -> tuple[Measurements, Measurements]:
    """One cell of 24 questions under answer_f1 and exact_match."""
    measured: list[dict[str, Any]] = []
    replicates: list[dict[str, Any]] = []
    for quality, of in rows.items():
        for key, (value, values) in of.items():
            row = {"quality": quality, "subset": "all"} | key._asdict()
            note = "undefined: every answer has the same quality" if value is None else ""
            empty = {"low": None, "high": None, "std": None, "n": 24, "note": note}
            measured.append(row | empty | {"value": value})
            replicates.append(row | {"values": np.array(values, np.float32)})
    for artifact, found in ((EVALUATION, measured), (REPLICATES, replicates)):
        parquet_tables.write(folder / artifact.path, artifact.kind, found, cell=artifact.cell)
    inputs = Inputs.read(folder, [EVALUATION, REPLICATES])
    main, other = (Measurements(STUDY, inputs, EVALUATION, REPLICATES, quality) for quality in rows)
    return main, other


def test_signs_and_orders_of_two_qualities_by_hand(tmp_path: Path) -> None:
    rows: dict[str, dict[Key, Row]] = {
        "answer_f1": {PROB: (0.1, [0.1, 0.0]), SAMPLES: (0.2, [0.2, 0.1]), BEAM: (0.3, [0.4, 0.2])},
        "exact_match": {PROB: (0.1, [0.1, 0.5]), SAMPLES: (0.4, [0.4, 0.4]), BEAM: (0.2, [0.2, 0.3])},
    }
    found = agreement(*cell(tmp_path, rows), [PROB, SAMPLES, BEAM], ["Dissimilarity"], 0.9)
    first, second = found.differences["Dissimilarity"]
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == (pytest.approx(0.1), pytest.approx(-0.2))
    # the differences of the two resamples: .2 and .1; −.2 and −.1, of which 5 % and 95 % are
    assert (first.low, first.high) == (pytest.approx(0.105), pytest.approx(0.195))
    assert (second.low, second.high) == (pytest.approx(-0.195), pytest.approx(-0.105))
    assert found.tau.value == pytest.approx(1 / 3)  # of three pairs, one is turned round
    assert found.tau.low == pytest.approx(1 / 3 - 0.95 * 4 / 3)  # in the resamples 1/3 and −1
    assert found.n == 24


def test_a_quality_without_spread_leaves_difference_and_order_undefined(tmp_path: Path) -> None:
    nan = [np.nan, np.nan]
    rows: dict[str, dict[Key, Row]] = {
        "answer_f1": {SAMPLES: (0.2, [0.2, 0.1]), BEAM: (0.3, [0.4, 0.2])},
        "exact_match": {SAMPLES: (None, nan), BEAM: (None, nan)},
    }
    found = agreement(*cell(tmp_path, rows), [SAMPLES, BEAM], ["Dissimilarity"], 0.9)
    assert found.differences["Dissimilarity"][1] is None
    assert (found.tau.value, found.tau.low) == (None, None)
    assert found.tau.note == found.note == "undefined: every answer has the same quality"


@pytest.mark.parametrize("seed", range(4))
def test_kendalls_tau_is_scipys_with_ties(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 4, (2, 5, 8)).astype(float)
    expected = [kendalltau(*pair).statistic for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall_tau(a, b), expected)


def test_an_order_with_an_undefined_value_or_nothing_but_ties_is_undefined() -> None:
    assert np.isnan(kendall_tau(np.array([[1.0, np.nan, 3.0], [1.0, 1.0, 1.0]]), np.array([1.0, 2.0, 3.0]))).all()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> BuiltTable:
    built: BuiltTable = exhibits_study.Results(tmp_path_factory.mktemp("agreement"), STUDY).built("quality_agreement")
    return built


def test_each_quality_is_held_against_the_first_where_it_is_measured(table: BuiltTable) -> None:
    tau = table.values[table.values["metric"] == "Kendall tau"]
    assert tau.groupby("setting")["dataset"].nunique().to_dict() == {
        "answer_f1 / exact_match": 6,
        "answer_f1 / gold_label": 2,
    }
    assert tau["value"].between(-1, 1).all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"quality": exhibits_study.CONTENT["quality"][:1]}, "the study has one; make quality a list and add another"),
        ({"evaluation": {"metrics": ["ROC-AUC"]}}, "needs PRR; add it to evaluation.metrics"),
    ],
)
def test_a_study_that_cannot_supply_it_is_told(change: dict[str, Any], told: str) -> None:
    of: Study = exhibits_study.study(**change)
    with pytest.raises(BeamUQError, match=told):
        QualityAgreement("quality_agreement").artifacts(of)
