"""Estimates of U held against U: errors, ranks and efforts by hand, and the exhibits that show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import exhibits_study
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits import exact_value, holm_bold
from beamuq.exhibits.exact_value import CellEstimates, Estimator, effort_of_samples, spearman
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableRow
from beamuq.exhibits.fair_share_figure import CORRECTED, FAIR, IN_FACT, PRINTED, conditions
from beamuq.exhibits.read_evaluation import Measured
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures
from beamuq.parquet_tables import Artifact

STUDY = exhibits_study.study()
CELL = (exhibits_study.BASE, "triviaqa", "truth")
RESAMPLES = exhibits_study.RESAMPLES
BLANK = {"policy_logprob": None, "entropies": None, "top_ids": None, "top_texts": None, "top_logprobs": None}
SAMPLES = Estimator("uniform", "sample T=1.0", 10, "sample T=1.0 M=10")
BEAMS = Estimator("normalised", "beam M=10", 10, "beam M=10")
DRAWS = [f"sample T=1.0 M=10 draw={draw}" for draw in range(1, 11)]


def row(key: str, strategy: str, rank: int, tokens: list[int], p: float, **more: Any) -> dict[str, Any]:
    found = {
        "id": key,
        "strategy": strategy,
        "rank": rank,
        "text": f"{tokens}",
        "token_ids": tokens,
        "terminated": True,
    }
    shares = {"token_texts": ["t"] * len(tokens), "token_logprobs": [0.0] * len(tokens), "logprob": float(np.log(p))}
    return found | BLANK | shares | more


def question(key: str) -> dict[str, Any]:
    return {"id": key, "question": "?", "context": [], "history": [], "options": [], "references": ["r"], "group": key}


def made(folder: Path, rows: list[dict[str, Any]], scores: dict[tuple[str, str], list[float]]) -> CellEstimates:
    """A cell of recipe truth with these candidates and scores by weighting and setting, one a question."""
    files = exact_value.question_files(STUDY, *CELL)
    ids = list(dict.fromkeys(one["id"] for one in rows))
    keys = [{"answer_source": "greedy", "method": "Dissimilarity", "variant": v, "setting": s} for v, s in scores]
    measured = [key | {"quality": "answer_f1", "subset": "all", "metric": "PRR"} for key in keys]
    numbers = {"value": 0.5, "low": None, "high": None, "std": None, "n": len(ids), "note": ""}
    tables: dict[str, list[dict[str, Any]]] = {
        "candidates": rows,
        "questions": [question(key) for key in ids],
        "quality": [{"id": key, "answer_source": "greedy", "value": 0.5} for key in ids],
        "scores": [
            key | {"id": name, "value": value}
            for key, of in zip(keys, scores.values(), strict=True)
            for name, value in zip(ids, of, strict=True)
        ],
        "evaluation": [key | numbers for key in measured],
        "replicates": [
            key | {"values": np.full(RESAMPLES, 0.5 + 0.1 * place, np.float32)} for place, key in enumerate(measured)
        ],
    }
    for file in files:
        parquet_tables.write(folder / file.path, file.kind, tables[file.kind], cell=file.cell)
    return CellEstimates(STUDY, Inputs.read(folder, files), *CELL)


def greedy(*keys: str) -> list[dict[str, Any]]:
    return [row(key, "greedy", 0, [1, 2], 0.5) for key in keys]


U = {("stratified", exhibits_study.OF_U): [0.2, 0.8], ("standard error", exhibits_study.OF_U): [0.0, 0.1]}


def drawn(first: float, second: float) -> dict[tuple[str, str], list[float]]:
    """Ten draws of ten samples, half of them at each of two values of the first question; .8 of the second."""
    return {("uniform", name): [first if place % 2 else second, 0.8] for place, name in enumerate(DRAWS)}


def test_squared_errors_bias_and_ratio_by_hand(tmp_path: Path) -> None:
    found = made(tmp_path, greedy("a", "b"), U | drawn(0.1, 0.3) | {("normalised", "beam M=10"): [0.5, 0.9]})
    # (.5 − .2)² = .09; (.9 − .8)² less the error of U itself, .1² = 0
    assert found.squared_error(BEAMS) == pytest.approx([0.09, 0.0])
    assert found.mean((found.estimates(BEAMS) - found.U).mean(axis=0)).value == pytest.approx(0.2)  # (.3 + .1)/2
    # draws of .1 and .3, five each: their variance is 10/9 · .01, a sample's ten times that
    assert found.variance_of_a_sample == pytest.approx([1 / 9, 0.0])
    assert found.error_of_samples(20) == pytest.approx([1 / 180, 0.0])
    assert found.error_ratio(BEAMS).value == pytest.approx((0.09 / (1 / 90)) ** 0.5)
    assert found.error_ratio(SAMPLES).value == pytest.approx(1.0)
    assert (found.n, found.uncertain) == (2, 1)


def test_where_samples_make_no_error_the_ratio_is_undefined(tmp_path: Path) -> None:
    found = made(tmp_path, greedy("a", "b"), U | drawn(0.2, 0.2) | {("normalised", "beam M=10"): [0.5, 0.9]})
    assert (found.error_ratio(BEAMS).value, found.error_ratio(BEAMS).note) == (None, "undefined: samples make no error")


def test_prr_of_samples_is_the_mean_over_their_draws(tmp_path: Path) -> None:
    found = made(tmp_path, greedy("a", "b"), U | drawn(0.1, 0.3))
    replicates = found.prr(SAMPLES).replicates
    assert replicates is not None
    # rows 2 to 11 of the file: .5 + .1 · place, mean .5 + .1 · 6.5
    np.testing.assert_allclose(replicates, 1.15, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_rank_correlation_in_a_resample_is_scipys_of_its_questions(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 4, 9).astype(float), random.normal(size=9)
    counts = random.multinomial(9, [1 / 9] * 9, size=5).T
    expected = [spearmanr(np.repeat(a, of), np.repeat(b, of)).statistic for of in counts.T]
    np.testing.assert_allclose(spearman(a, b, counts), expected)


def test_a_constant_has_no_rank_correlation() -> None:
    assert np.isnan(spearman(np.zeros(3), np.arange(3.0), np.ones((3, 1), dtype=np.int64))).all()


def loaded(folder: Path, rows: list[dict[str, Any]], *keys: str) -> CandidateMeasures:
    files = Artifact("questions", "triviaqa"), Artifact("candidates", "triviaqa", exhibits_study.BASE, "truth")
    parquet_tables.write(folder / files[0].path, "questions", [question(key) for key in keys], cell=files[0].cell)
    parquet_tables.write(folder / files[1].path, "candidates", rows, cell=files[1].cell)
    return CandidateMeasures(Inputs.read(folder, files), files[1], files[0])


def test_rows_of_samples_are_the_prefixes_that_they_continue_each_once(tmp_path: Path) -> None:
    tokens = [[5, 6, 2], [5, 6, 2], [5, 7, 8, 2], [9]]
    rows = [*greedy("a"), *(row("a", "sample T=1.0", rank, of, 0.1) for rank, of in enumerate(tokens))]
    found = loaded(tmp_path, rows, "a")
    # of the first three: 5; 5 6; 5 7; 5 7 8. Of the first two: 5; 5 6
    assert [of.tolist() for of in effort_of_samples(found, "sample T=1.0", 3)] == [[4.0], [3.0]]
    assert [of.tolist() for of in effort_of_samples(found, "sample T=1.0", 2)] == [[2.0], [2.0]]
    assert effort_of_samples(found, "sample T=1.0", 4)[0].tolist() == [4.0]  # an answer of one token continues none


def test_conditions_of_a_question_by_hand(tmp_path: Path) -> None:
    """Ten of mass .85, of .95, and of .05: the latter's first has .02, under its fair share of .1."""
    rows = greedy("a", "b", "c")
    for key, masses in (("a", [0.085] * 10), ("b", [0.095] * 10), ("c", [0.02, *[0.03 / 9] * 9])):
        for strategy in ("beam M=10", "exact M=10"):
            rows += [row(key, strategy, rank, [10 + rank, 2], p) for rank, p in enumerate(masses)]
    scores = {
        ("stratified", exhibits_study.OF_U): [0.5] * 3,
        ("standard error", exhibits_study.OF_U): [0.0] * 3,
        **{("uniform", name): [0.4 if place % 2 else 0.6] * 3 for place, name in enumerate(DRAWS)},
        ("normalised", "beam M=10"): [0.5, 0.55, 0.9],  # squared errors 0, .0025, .16 against .0111 of samples
    }
    met = conditions(made(tmp_path, rows, scores), "beam M=10", "exact M=10", 10)
    assert met[PRINTED].tolist() == [True, True, False]  # above .842
    assert met[CORRECTED].tolist() == [False, True, False]  # above .909
    # one of .085 misses .1, and nine of mass .765 miss .9; so a misses it, b of .095 each too, and c
    assert met[FAIR].tolist() == [False, False, False]
    assert met[IN_FACT].tolist() == [True, True, False]


def test_one_probable_outcome_is_its_fair_share(tmp_path: Path) -> None:
    rows = greedy("a")
    for strategy in ("beam M=10", "exact M=10"):
        rows += [row("a", strategy, rank, [10 + rank, 2], p) for rank, p in enumerate([0.1, *[0.01] * 9])]
    scores = {
        ("stratified", exhibits_study.OF_U): [0.5],
        ("standard error", exhibits_study.OF_U): [0.0],
        **{("uniform", name): [0.5] for name in DRAWS},
        ("normalised", "beam M=10"): [0.5],
    }
    met = conditions(made(tmp_path, rows, scores), "beam M=10", "exact M=10", 10)
    assert {name: bool(of[0]) for name, of in met.items()} == {
        PRINTED: False,
        CORRECTED: False,
        FAIR: True,
        IN_FACT: False,  # both are exact: no smaller error
    }


# -- the exhibits ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    return exhibits_study.Results(tmp_path_factory.mktemp("results"), STUDY)


def test_the_table_of_estimators_has_every_one_at_every_size_and_its_difference_to_samples(
    results: exhibits_study.Results,
) -> None:
    table: BuiltTable = results.built("estimators_triviaqa")
    rows = [item for item in table.grid.body if isinstance(item, TableRow)]
    assert [row.titles[0] for row in rows if row.titles[0]] == ["5", "10", "20"]
    assert len(rows) == 1 + 9 + 10 + 9  # U; the hybrid is of ten alone
    values = table.values.set_index(["metric", "variant", "setting"])
    prr, gain = values.loc["PRR"], values.loc["ΔPRR"]
    samples = np.mean([_stored(results, "uniform", name) for name in DRAWS])
    assert prr.loc[("uniform", "sample T=1.0 M=10"), "value"] == pytest.approx(samples)
    beams = _stored(results, "normalised", "beam M=10")
    assert gain.loc[("normalised", "beam M=10"), "value"] == pytest.approx(beams - samples)
    assert (values["n"].dropna() == 24).all()
    assert "24 questions" in table.caption


def _stored(results: exhibits_study.Results, variant: str, setting: str) -> float:
    (file,) = results.paths([Artifact("evaluation", "triviaqa", exhibits_study.BASE, "truth", "cosine")])
    frame = parquet_tables.read(file, "evaluation").table.to_pandas()
    frame = frame[(frame["answer_source"] == "greedy") & (frame["subset"] == "all")]
    chosen = (frame["metric"] == "PRR") & (frame["method"] == "Dissimilarity")
    (value,) = frame[chosen & (frame["variant"] == variant) & (frame["setting"] == setting)]["value"]
    return float(value)


@pytest.mark.parametrize("label", ["estimators", "fair_share", "matched_rows"])
def test_a_study_without_the_recipe_is_told(label: str, results: exhibits_study.Results) -> None:
    content = exhibits_study.CONTENT
    without = exhibits_study.study(grid=[entry for entry in content["grid"] if entry["recipe"] != "truth"])
    with pytest.raises(BeamUQError, match="needs a recipe of the grid"):
        results.built(label, without)


def test_gains_are_corrected_over_all_that_are_defined_and_count_one_without_an_interval() -> None:
    def drawn(crossed: int, undefined: int = 0) -> Measured:
        replicates = np.array([-1.0] * crossed + [np.nan] * undefined + [1.0] * (199 - crossed - undefined))
        return Measured(1.0, None, None, None, 9, replicates=replicates)

    other = replace(drawn(0), value=0.0, replicates=np.zeros(199))
    rows = {"b": drawn(1), "a": drawn(0), "c": drawn(4), "no interval": drawn(0, 9)}
    rows["undefined"] = replace(other, value=None)
    found = holm_bold.gains({name: (row, other) for name, row in rows.items()}, 0.95)
    raw, adjusted = ({name: each[at] for name, each in found.items()} for at in (0, 1))
    assert [raw[name].p for name in "abc"] == pytest.approx([0.01, 0.02, 0.05])
    assert adjusted == pytest.approx({"b": 0.06, "a": 0.04, "c": 0.1, "no interval": 1.0})
