"""Gains of beams split into noise and target, by covered mass, beside controls, and against the luck of a draw."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq.evaluation import prr_and_auc
from beamuq.exhibits import controls, draw_spread, exact_value, list_of_exhibits, why_beams_win
from beamuq.exhibits.gain_by_mass import mass_bins
from beamuq.exhibits.read_evaluation import Measured, mean_of
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

STUDY = exhibits_study.study()
LABELS = ("why_beams_win", "gain_by_mass", "controls", "draw_spread")
CELL = {"dataset": "triviaqa", "model": exhibits_study.BASE, "recipe": "truth"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    return exhibits_study.Results(tmp_path_factory.mktemp("results"), STUDY)


def measured(value: float | None, *replicates: float, n: int = 24) -> Measured:
    note = "undefined: every answer has the same quality" if value is None else ""
    return Measured(value, None, None, None, n, note, np.array(replicates, np.float32))


def test_gain_is_noise_and_target_in_the_data_and_in_every_resample() -> None:
    rng = np.random.default_rng(0)
    beams, samples, exact = (measured(float(rng.normal()), *rng.normal(size=500)) for _ in range(3))
    found = why_beams_win.decomposition(beams, samples, exact, 0.95)
    gain, noise, target = (found[part] for part in why_beams_win.LOOKS)
    assert noise.value is not None
    assert target.value is not None
    assert gain.value == pytest.approx(noise.value + target.value, abs=1e-15)
    np.testing.assert_allclose(gain.replicates, noise.replicates + target.replicates, atol=1e-15)  # type: ignore[operator]


def test_the_interval_of_a_part_is_paired() -> None:
    samples, exact = measured(0.2, 0.1, 0.5, 0.3), measured(0.6, 0.4, 0.9, 0.8)  # differences .3, .4, .5
    noise = why_beams_win.decomposition(measured(0.5, 0.5, 0.5, 0.5), samples, exact, 0.5)[why_beams_win.NOISE]
    assert (noise.value, noise.low, noise.high) == pytest.approx((0.4, 0.35, 0.45))


def test_a_part_of_what_is_undefined_says_why() -> None:
    found = why_beams_win.decomposition(measured(0.5, 0.5), measured(0.2, 0.1), measured(None, np.nan), 0.95)
    assert found[why_beams_win.NOISE].value is found[why_beams_win.TARGET].value is None
    assert "same quality" in found[why_beams_win.TARGET].note
    assert found[why_beams_win.GAIN].value == pytest.approx(0.3)


def test_the_mean_over_cells_is_that_of_values_and_of_resamples() -> None:
    found = mean_of([measured(0.2, 0.1, 0.3, n=24), measured(0.4, 0.5, 0.9, n=16)], ["A", "B"], 0.5)
    assert (found.value, found.n) == (pytest.approx(0.3), 40)
    assert found.replicates == pytest.approx([0.3, 0.6])
    assert (found.low, found.high) == (pytest.approx(0.375), pytest.approx(0.525))


def test_a_mean_over_datasets_is_less_uncertain_than_its_parts() -> None:
    draws = np.random.default_rng(0).normal([[0.2], [0.6]], 0.1, size=(2, 4000))
    found = mean_of([measured(0.2, *draws[0]), measured(0.6, *draws[1])], ["A", "B"], 0.95)
    assert found.std == pytest.approx(0.1 / np.sqrt(2), rel=0.05)


def test_a_mean_with_an_undefined_part_is_undefined_and_names_it() -> None:
    found = mean_of([measured(0.2, 0.1, 0.3), measured(None, np.nan, np.nan)], ["A", "B"], 0.95)
    assert (found.value, found.low) == (None, None)
    assert found.note.startswith("B: ")


def test_the_figure_has_every_m_and_the_main_one_over_all_draws(results: exhibits_study.Results) -> None:
    data = results.built("why_beams_win").data
    assert set(data["dataset"]) == {"triviaqa", "coqa", "mean"}
    for _, part in data.groupby(["dataset", "part"]):
        assert [*zip(part["M"], part["draws"], strict=True)] == [
            *((M, 1) for M in range(1, 11)),
            (10, 10),
            *((M, 1) for M in range(11, 16)),
        ]
    wide = data.pivot(index=["dataset", "M", "draws"], columns="part", values="value")
    np.testing.assert_allclose(wide["beams - samples"], wide["noise"] + wide["target"], atol=1e-12)
    np.testing.assert_allclose(wide["beams - samples"], wide["PRR of beams"] - wide["PRR of samples"], atol=1e-12)
    of = wide.loc["mean"] - (wide.loc["triviaqa"] + wide.loc["coqa"]) / 2
    np.testing.assert_allclose(of, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("mass", "sizes"),
    [
        (np.arange(10) / 10, [2, 2, 2, 2, 2]),
        (np.arange(12)[::-1] / 12, [3, 2, 3, 2, 2]),
        (np.array([0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9]), [6, 2, 2]),  # no equal masses apart
        (np.array([0.1, 0.2, 0.3, 0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), [2, 2, 6]),
        (np.full(10, 1.0), [10]),
        (np.array([0.3, 0.2]), [1, 1]),
    ],
)
def test_bins_of_mass_hold_each_question_once_and_no_equal_masses_apart(mass: Any, sizes: list[int]) -> None:
    bins = mass_bins(mass, 5)
    assert [int(found.members.sum()) for found in bins] == sizes
    assert np.sum([found.members for found in bins], axis=0).tolist() == [1] * len(mass)
    assert all(found.lowest == mass[found.members].min() for found in bins)
    assert all(before.highest < after.lowest for before, after in itertools.pairwise(bins))


def test_the_gain_within_a_bin_of_mass_is_of_its_questions_alone(results: exhibits_study.Results) -> None:
    built = results.built("gain_by_mass")
    cell = exact_value.CellEstimates(
        STUDY, results.inputs(list_of_exhibits.exhibit("gain_by_mass", STUDY).artifacts(STUDY)), *_cell(), "truth"
    )
    mass = cell.found.mass("beam M=10", 10)
    assert built.data["bin"].max() == len(mass) // 12  # twelve questions a bin, where there are not sixty
    (first, *_) = mass_bins(mass, len(mass) // 12)
    rows = built.data[(built.data["dataset"] == "triviaqa") & (built.data["bin"] == 1)].set_index("variant")

    def prr(*key: str) -> float:
        score, quality = cell.scored.scores("Dissimilarity", *key)[first.members], cell.scored.quality[first.members]
        return float(prr_and_auc.measure("PRR", score, quality)[0])

    draws = [prr("uniform", f"sample T=1.0 M=10 draw={draw}") for draw in range(1, 11)]
    assert rows.loc["unnormalised", "value"] == pytest.approx(prr("unnormalised", "beam M=10") - np.mean(draws))
    assert set(rows["n"]) == {first.members.sum()}


def _cell() -> tuple[str, str]:
    return CELL["model"], CELL["dataset"]


def test_partial_rank_correlation_is_that_of_residual_ranks_in_every_resample() -> None:
    rng = np.random.default_rng(1)
    score, quality, given = rng.integers(0, 5, size=(3, 30)).astype(float)  # many ties
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=8).T
    found = controls.partial_rank_correlation(score, quality, given, counts)
    for column, value in zip(counts.T, found, strict=True):
        ranks = [rankdata(np.repeat(values, column)) for values in (score, quality, given)]
        basis = np.column_stack([ranks[2], np.ones(30)])
        left = [of - basis @ np.linalg.lstsq(basis, of, rcond=None)[0] for of in ranks[:2]]
        assert value == pytest.approx(np.corrcoef(*left)[0, 1])


def test_a_score_that_is_constant_or_in_the_order_of_prob_has_no_partial_correlation() -> None:
    given, every = np.arange(6.0), np.ones((6, 1), dtype=np.int64)
    quality = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    for score in (np.zeros(6), given**2):
        assert np.isnan(controls.partial_rank_correlation(score, quality, given, every)).all()


def test_differences_to_beams_are_corrected_over_all_rows_of_a_block() -> None:
    beams = {controls.PRR: measured(0.5, *[0.5] * 99)}
    far, near = measured(0.9, *[0.9] * 99), measured(0.6, *[0.6] * 50, *[0.4] * 49)
    rows = {controls.BEAMS: beams, "far": {controls.PRR: far}, "near": {controls.PRR: near}}
    assert controls.holm_of(rows, 0.95) == pytest.approx({"far": 2 * 0.02, "near": 1.0})


def test_the_spread_of_draws_by_hand() -> None:
    draws = [measured(value, value, value + 0.1) for value in (0.7, 0.4, 0.4, 0.5)]
    found = draw_spread.spread_of_draws(draws, measured(0.5, 0.6, 0.4), 0.5)
    values = {name: of.value for name, of in found.items()}
    assert values == pytest.approx(
        {
            "first": 0.7,
            "mean": 0.5,
            "sd": np.sqrt(0.02),
            "lowest": 0.4,
            "highest": 0.7,
            "beams": 0.5,
            "beams - mean": 0.0,
            "beaten": 2,  # a draw that ties is not below
        }
    )
    difference = found["beams - mean"]  # of the resamples: .1 and −.2
    assert (difference.low, difference.high) == (pytest.approx(-0.125), pytest.approx(0.025))


def test_draws_of_undefined_prr_leave_their_spread_undefined() -> None:
    found = draw_spread.spread_of_draws([measured(None, np.nan)] * 2, measured(None, np.nan), 0.95)
    assert {of.value for of in found.values()} == {None}
    assert {"same quality" in of.note for of in found.values()} == {True}


def test_questions_whose_exact_value_is_uncertain_are_counted_and_told(tmp_path: Path) -> None:
    own = exhibits_study.Results(tmp_path, STUDY)
    errors = dict.fromkeys(("triviaqa-003", "triviaqa-011"), 0.0123) | {"triviaqa-004": 0.01}

    def change(row: dict[str, Any]) -> dict[str, Any]:
        told = row["variant"] == "standard error"
        return row | {"value": errors.get(row["id"], 0.002)} if told else row

    for dataset in ("triviaqa", "coqa"):
        cell = CELL | {"dataset": dataset}
        exhibits_study.rewrite(own, Artifact("scores", scorer="cosine", **cell), change)
    for label in LABELS[:3]:
        assert "standard error is above 0.01 at 2 of 48 questions (at most 0.012)" in own.built(label).caption


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("missing", ["recipe", "estimators"])
def test_a_study_that_cannot_supply_it_is_told_in_one_line(label: str, missing: str) -> None:
    content = STUDY.model_dump(mode="json")
    if missing == "recipe":
        content["grid"] = [entry for entry in content["grid"] if entry["recipe"] != "truth"]
    else:
        content["scoring"]["truth"]["estimators"] = []
    study = Study.model_validate(content)
    with pytest.raises(BeamUQError, match=r"needs a recipe of the grid .*drop the exhibit"):
        list_of_exhibits.exhibit(label, study).artifacts(study)


@pytest.mark.parametrize("named", controls.NEEDED)
def test_controls_name_the_estimator_that_is_not_scored(named: str) -> None:
    content = STUDY.model_dump(mode="json")
    content["scoring"]["truth"]["estimators"].remove(named)
    study = Study.model_validate(content)
    with pytest.raises(BeamUQError, match=f"scoring.truth.estimators lacks {named}; add it"):
        list_of_exhibits.exhibit("controls", study).artifacts(study)
