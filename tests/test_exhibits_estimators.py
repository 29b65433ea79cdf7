"""Exhibits of estimators of U: the synthetic study's tables and figures against its stored
numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import exhibits_study
from beamuq.evaluation.candidate_sets import equal_bins
from beamuq.evaluation.estimates import Estimates
from beamuq_study import parquet_tables
from beamuq_study.errors_where_u_is_known import BEAMS, spread
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from exhibits_study import Results
from one_metric import measure

STUDY = exhibits_study.study()
CELL = Cell(exhibits_study.BASE, "triviaqa", "reference", "cosine")
DRAWS = [f"sample T=1.0 M=10 draw={draw}" for draw in range(1, 11)]


def stored(results: Results, variant: str, setting: str) -> float:
    (file,) = results.paths([CELL.file("evaluation")])
    frame = parquet_tables.read(file, "evaluation").table.to_pandas()
    frame = frame[(frame["answer_source"] == "greedy") & (frame["subset"] == "all")]
    chosen = (frame["metric"] == "PRR") & (frame["method"] == "Dissimilarity")
    (value,) = frame[chosen & (frame["variant"] == variant) & (frame["setting"] == setting)][
        "value"
    ]
    return float(value)


def test_the_table_has_every_estimator_at_every_size_and_its_difference_to_samples(
    results: Results,
) -> None:
    built = results.built("estimators_triviaqa")
    rows = built.shown.rows
    assert list(dict.fromkeys(row.titles[0] for row in rows)) == ["", "5", "10", "20"]
    assert len(rows) == 1 + 9 + 10 + 9  # U; the hybrid is of ten alone
    values = built.frame.set_index(["metric", "variant", "setting"])
    prr, gain = values.loc["PRR"], values.loc["ΔPRR"]
    samples = np.mean([stored(results, "uniform", name) for name in DRAWS])
    assert prr.loc[("uniform", "sample T=1.0 M=10"), "value"] == pytest.approx(samples)
    beams = stored(results, "normalised", "beam M=10")
    assert gain.loc[("normalised", "beam M=10"), "value"] == pytest.approx(beams - samples)
    assert gain["p_holm"].notna().all()
    assert (values["n"].dropna() == 24).all()


def test_gain_is_noise_and_target_at_every_m_and_the_main_one_over_all_draws(
    results: Results,
) -> None:
    data = results.built("why_beams_win").frame
    assert set(data["dataset"]) == {"triviaqa", "coqa", "mean"}
    for _, part in data.groupby(["dataset", "part"]):
        points = [*((M, 1) for M in range(1, 11)), (10, 10), *((M, 1) for M in range(11, 16))]
        assert [*zip(part["M"], part["draws"], strict=True)] == points
    wide = data.pivot(index=["dataset", "M", "draws"], columns="part", values="value")
    np.testing.assert_allclose(wide["beams - samples"], wide["noise"] + wide["target"], atol=1e-12)
    np.testing.assert_allclose(
        wide["beams - samples"], wide["PRR of beams"] - wide["PRR of samples"], atol=1e-12
    )
    mean = wide.loc["mean"] - (wide.loc["triviaqa"] + wide.loc["coqa"]) / 2
    np.testing.assert_allclose(mean, 0, atol=1e-12)


def test_the_gain_within_a_bin_of_mass_is_of_its_questions_alone(results: Results) -> None:
    data = results.built("gain_by_mass").frame
    inputs = results.inputs(list_of_exhibits.exhibit("gain_by_mass", STUDY).artifacts(STUDY))
    mass, scores = inputs.candidates(CELL).mass("beam M=10", 10), inputs.scores(CELL)
    assert data["bin"].max() == len(mass) // 12  # twelve questions a bin, where there are not sixty
    first, *_ = equal_bins(mass, len(mass) // 12)
    rows = data[(data["dataset"] == "triviaqa") & (data["bin"] == 1)].set_index("variant")

    def prr(*key: str) -> float:
        score, quality = (
            scores.scores("Dissimilarity", *key)[first.members],
            scores.quality[first.members],
        )
        return float(measure("PRR", score, quality)[0])

    draws = [prr("uniform", name) for name in DRAWS]
    assert rows.loc["unnormalised", "value"] == pytest.approx(
        prr("unnormalised", "beam M=10") - np.mean(draws)
    )
    assert set(rows["n"]) == {first.members.sum()}


def test_differences_of_controls_are_corrected_over_the_other_rows_of_a_block(
    results: Results,
) -> None:
    frame = results.built("controls").frame
    gains = frame[frame["metric"] == "ΔPRR"]
    assert set(gains["variant"]) == set(frame[frame["metric"] == "PRR"]["variant"]) - {BEAMS}
    assert gains.groupby("dataset").size().tolist() == [6, 6, 6]
    # no replicate crosses 0, so each p is 2/(R + 1) before Holm and six times that at most
    assert gains["p_holm"].to_numpy() == pytest.approx(6 * 2 / (exhibits_study.RESAMPLES + 1))


def spread_of(values: list[float], replicates: list[list[float]]) -> pd.DataFrame:
    """Of these PRR of draws, then of beams."""
    note = {value: "same quality" if value != value else "" for value in values}
    rows = [
        {"metric": "PRR", "setting": f"draw {n}", "value": value, "n": 24, "note": note[value]}
        for n, value in enumerate(values)
    ]
    every = Estimates.from_rows(rows, replicates)
    found = spread(every.rows(range(len(values) - 1)), every.rows([len(values) - 1]))
    return found.summary(0.5).set_index("setting")


def test_the_spread_of_draws_by_hand() -> None:
    values = [0.7, 0.4, 0.4, 0.5, 0.5]
    rows = spread_of(values, [*([value, value + 0.1] for value in values[:4]), [0.6, 0.4]])
    expected = {
        "first": 0.7,
        "mean": 0.5,
        "sd": np.sqrt(0.02),
        "lowest": 0.4,
        "highest": 0.7,
        "beams": 0.5,
    }
    expected |= {"beams - mean": 0.0, "beaten": 2}  # a draw that ties is not below
    assert rows.loc[list(expected), "value"].to_dict() == pytest.approx(expected)
    difference = rows.loc["beams - mean"]  # of the resamples: .1 and −.2
    assert (difference["low"], difference["high"]) == (pytest.approx(-0.125), pytest.approx(0.025))


def test_draws_of_undefined_prr_leave_their_spread_undefined() -> None:
    rows = spread_of([np.nan] * 3, [[np.nan, np.nan]] * 3)
    assert rows["value"].isna().all()
    assert set(rows["note"]) == {"same quality"}


def test_questions_whose_exact_value_is_uncertain_are_counted(tmp_path: Path) -> None:
    own = Results(tmp_path, STUDY)
    errors = dict.fromkeys(("triviaqa-003", "triviaqa-011"), 0.0123) | {"triviaqa-004": 0.01}

    def change(row: dict[str, Any]) -> dict[str, Any]:
        return (
            row | {"value": errors.get(row["id"], 0.002)}
            if row["variant"] == "standard error"
            else row
        )

    for dataset in ("triviaqa", "coqa"):
        exhibits_study.rewrite(
            own, Artifact("scores", dataset, exhibits_study.BASE, "reference", "cosine"), change
        )
    assert (
        "standard error is above 0.01 at 2 of 48 questions (at most 0.012)"
        in own.built("controls").caption
    )
