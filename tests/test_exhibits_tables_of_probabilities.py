"""Tables of what beams' probabilities say: alone, as weights, and of which beam is the better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import equal_bins
from beamuq.evaluation.estimates import MEAN
from beamuq_study.errors_where_u_is_known import METHOD
from beamuq_study.exhibits import list_of_exhibits, tables_of_probabilities
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from exhibits_study import BASE, DATASETS, SIZE, Results

STUDY = exhibits_study.study()
SCORES = ("Prob", "Perplexity", "PRO", "BeamEntropy", "ProbMargin", "GNLL")
N = SIZE["main"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(tmp_path_factory.mktemp("probabilities"), STUDY)


def evaluated(results: Results, dataset: str, quality: str) -> pd.Series[float]:
    """PRR of the base model's greedy answers by method, variant and setting."""
    need = Artifact("evaluation", dataset, BASE, "main", "cosine")
    rows = results.inputs([need]).frame(need)
    keys = {"metric": "PRR", "answer_source": "greedy", "quality": quality, "subset": "all"}
    chosen = rows[(rows[list(keys)] == list(keys.values())).all(axis=1)]
    prr: pd.Series[float] = chosen.set_index(["method", "variant", "setting"])["value"]
    return prr


@pytest.mark.parametrize("quality", ["answer_f1", "exact_match"])
def test_each_score_stands_beside_dissimilarity_over_beams_by_each_quality(
    results: Results, quality: str
) -> None:
    built = results.built("probabilities_alone")
    of_model = built.frame[(built.frame["model"] == BASE) & (built.frame["setting"] == quality)]
    found = of_model.set_index(["dataset", "metric", "method", "variant"])["value"]
    every = [evaluated(results, dataset, quality) for dataset in DATASETS]
    forms = {(name, ""): (name, "", "") for name in SCORES}
    forms["GNLL", "exact M=1"] = ("GNLL", "", "exact M=1")
    forms["Dissimilarity", "multinomial"] = ("Dissimilarity", "multinomial", "")
    for form, stored in forms.items():
        prr = [values[stored] for values in every]
        beams = [values["Dissimilarity", "beamsearch", ""] for values in every]
        assert found[(MEAN, "PRR", *form)] == pytest.approx(np.mean(prr), abs=1e-6)
        lead = np.mean(prr) - np.mean(beams)
        assert found[(MEAN, "ΔPRR", *form)] == pytest.approx(lead, abs=1e-6)
        assert found[("coqa", "PRR", *form)] == pytest.approx(prr[DATASETS.index("coqa")])
    assert (MEAN, "ΔPRR", "Dissimilarity", "beamsearch") not in found.index


def test_scores_of_probabilities_are_in_no_table_of_the_paper_s_methods(results: Results) -> None:
    for label in ("qa_mean_prr", "qa_tiny", "topbeam_scoring"):
        assert not {"PRO", "BeamEntropy", "ProbMargin", "GNLL"} & set(
            results.built(label).frame["method"]
        )


def test_a_power_is_chosen_on_one_half_and_tested_on_the_other(results: Results) -> None:
    item = list_of_exhibits.exhibit("weight_powers", STUDY)
    needs = item.artifacts(STUDY)
    (cell,) = [
        cell
        for cell in tables_of_probabilities._with_powers(STUDY)
        if (cell.model, cell.dataset) == (BASE, "coqa")
    ]
    scored = results.inputs(needs).scores(cell)
    first = tables_of_probabilities._first_half(scored.groups, STUDY.seed)
    assert 0 < first.sum() < N
    stories = pd.Series(first).groupby(scored.groups)
    assert (stories.nunique() == 1).all()  # a story is in one half alone
    keys = {1.0: "", **{power: f"power={power:g}" for power in (0.0, 0.5, 2.0)}}
    keys[0.5], keys[2.0] = "power=0.5", "power=2.0"
    found = results.built("weight_powers").frame
    row = found[(found["model"] == BASE) & (found["dataset"] == "coqa")].set_index("setting")
    tested = []
    for half, members in (("half 1", first), ("half 2", ~first)):
        by_power = {power: prr(scored, members, setting) for power, setting in keys.items()}
        power = max(by_power, key=lambda power: by_power[power])
        assert row["value"][half] == power
        tested.append(prr(scored, ~members, keys[power]))
    assert row["value"]["chosen"] == pytest.approx(np.mean(tested))
    difference = row["value"]["chosen"] - row["value"]["power=1"]
    assert row["value"]["chosen - power=1"] == pytest.approx(difference)
    assert set(row["n"]) == {N}
    assert "power" not in set(found[found["dataset"] == MEAN]["metric"])


def prr(scored: Any, members: Any, setting: str) -> float:
    estimates = scored.prr(members, "any", [(METHOD, "beamsearch", setting)], resamples=1)
    return float(estimates.frame["value"].iloc[0])


def test_gains_by_mass_are_of_all_questions_once_and_by_the_gold_label(results: Results) -> None:
    gold = Artifact("quality", "commonsenseqa", BASE, "main", metric="gold_label")
    gold_alone = exhibits_study.Results(results.folder, STUDY)
    exhibits_study.rewrite(
        gold_alone, gold, lambda row: row | {"value": float(row["id"].endswith(("1", "2", "3")))}
    )
    built = gold_alone.built("gain_by_mass_gold")
    found = built.frame[(built.frame["model"] == BASE) & (built.frame["dataset"] == gold.dataset)]
    right = found[found["metric"] == "accuracy"]
    assert right["n"].sum() == N
    labels = gold_alone.inputs([gold]).frame(gold)
    labels = labels[labels["answer_source"] == "greedy"]["value"]
    assert np.average(right["value"], weights=right["n"]) == pytest.approx(labels.mean())
    assert set(built.frame["dataset"]) == {"commonsenseqa", "arc-challenge"}
    needs = list_of_exhibits.exhibit("gain_by_mass_gold", STUDY).artifacts(STUDY)
    inputs = gold_alone.inputs(needs)
    cell = Cell(BASE, gold.dataset, "main", "cosine")
    scored = inputs.scores(cell, "gold_label")
    values = found.set_index(["setting", "metric", "variant"])["value"]
    for number, part in enumerate(equal_bins(inputs.candidates(cell).mass("beam M=10", 10)), 1):
        place = f"mass {number}"
        assert values[place, "accuracy", ""] == scored.quality[part.members].mean()
        in_bin = prr(scored, part.members, "")
        assert values[place, "PRR", "beamsearch"] == pytest.approx(in_bin, nan_ok=True)


def test_the_order_of_beams_by_hand() -> None:
    judged = pd.DataFrame(
        [
            # pairs of unequal quality: 0–1 and 0–2 in order, 2–1 not
            ("a", 1.0, -1.0),
            ("a", 0.0, -2.0),
            ("a", 0.5, -3.0),
            # a tie of probabilities counts half
            ("b", 1.0, -1.0),
            ("b", 0.0, -1.0),
            # no two of unequal quality
            ("c", 0.5, -1.0),
            ("c", 0.5, -2.0),
        ],
        columns=["id", "quality", "logprob"],
    )
    found = tables_of_probabilities._order_within_questions(judged)
    np.testing.assert_allclose(found["concordance"], [2 / 3, 0.5, np.nan])
    np.testing.assert_allclose(found["first"], [1.0, 1.0, 0.5])
    np.testing.assert_allclose(found["mean"], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(found["best"], [1.0, 1.0, 0.5])


def test_beams_are_judged_by_each_quality_of_texts(tmp_path: Any) -> None:
    made = Results(tmp_path, STUDY)

    def with_answer(row: dict[str, Any]) -> dict[str, Any]:
        in_front = int(row["id"][-1]) % 2 == 0  # "Eddystone" is the most probable beam
        return row | {"references": ["Eddystone" if in_front else "Bell Rock"]}

    exhibits_study.rewrite(made, Artifact("questions", "triviaqa"), with_answer)
    found = made.built("beams_by_probability").frame
    of_cell = found[(found["model"] == BASE) & (found["dataset"] == "triviaqa")]
    exact = of_cell[of_cell["setting"] == "exact_match"].set_index("metric")
    assert exact["value"]["first"] == exact["value"]["differing"] / 2 == 0.5
    assert exact["value"]["best"] == 1.0
    assert exact["value"]["mean"] == pytest.approx(0.1)
    # of nine pairs all are in order, or two stand before the third beam
    assert exact["value"]["concordance"] == pytest.approx((1 + 7 / 9) / 2)
    assert exact["low"]["concordance"] < exact["value"]["concordance"]
    of_choice = found[found["dataset"] == "arc-challenge"]
    assert set(of_choice["setting"]) == {"answer_f1", "exact_match", "gold_label"}


def test_a_study_without_powers_is_told_what_the_table_needs() -> None:
    content = STUDY.model_dump(mode="json")["scoring"]
    content["main"]["powers"] = []
    without = exhibits_study.study(scoring=content)
    item = list_of_exhibits.exhibit("weight_powers", STUDY)
    with pytest.raises(BeamUQError, match=r"powers and method Dissimilarity in scoring\.main"):
        item.artifacts(without)
