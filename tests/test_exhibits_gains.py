"""What beams gain: paired differences in PRR, by dataset, by number of candidates and by how candidates are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq.exhibits import list_of_exhibits
from beamuq.exhibits.estimates_table import EstimatesTable, Row
from beamuq.exhibits.exhibit_types import BuiltTable
from beamuq.parquet_tables import Artifact
from exhibits_study import BASE, BOTH_FORMS, DATASETS, SIZE

STUDY = exhibits_study.study()
HOTPOTQA = Artifact("evaluation", "hotpotqa", BASE, "main", "cosine")
PLACE = ["model", "dataset", "method"]


class Noisy(exhibits_study.Results):
    """Replicates of a row are its value and noise of its own."""

    def _replicate_rows(self, need: Any) -> list[np.ndarray[Any, Any]]:
        rows = self._measured(need)
        noise = exhibits_study.generator(need.path).normal(scale=0.3, size=(len(rows), exhibits_study.RESAMPLES))
        return [(row["value"] + of).astype(np.float32) for row, of in zip(rows, noise, strict=True)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Noisy:
    return Noisy(tmp_path_factory.mktemp("gains"), STUDY)


def values(results: exhibits_study.Results, label: str) -> pd.DataFrame:
    built: BuiltTable = results.built(label)
    return built.values


def forms(results: exhibits_study.Results, recipe: str, dataset: str, kind: str) -> dict[tuple[str, str, str], Any]:
    """PRR of greedy answers of the base model by method, variant and setting: values, or arrays of replicates."""
    need = Artifact(kind, dataset, BASE, recipe, "cosine")
    table = results.inputs([need])[need].table.to_pylist()
    return {
        (row["method"], row["variant"], row["setting"]): row["value"]
        if kind == "evaluation"
        else np.array(row["values"])
        for row in table
        if (row["metric"], row["answer_source"], row["quality"], row["subset"]) == ("PRR", "greedy", "answer_f1", "all")
    }


def test_every_method_with_both_forms_has_its_paired_difference(results: Noisy) -> None:
    found = values(results, "gains_tiny").set_index(["dataset", "method"])
    assert set(found.index.get_level_values("method")) == set(BOTH_FORMS)
    for dataset in DATASETS:
        of, drawn = (forms(results, "main", dataset, kind) for kind in ("evaluation", "replicates"))
        for method in BOTH_FORMS:
            row, pair = found.loc[dataset, method], [(method, form, "") for form in ("beamsearch", "multinomial")]
            assert row["value"] == pytest.approx(of[pair[0]] - of[pair[1]], abs=1e-12)
            expected = np.quantile(drawn[pair[0]] - drawn[pair[1]], [0.025, 0.975])
            np.testing.assert_allclose([row["low"], row["high"]], expected, atol=1e-6)


def test_the_mean_is_of_the_datasets_each_resampled_on_its_own(results: Noisy) -> None:
    found = values(results, "gains_tiny").set_index(["dataset", "method"])
    drawn = [forms(results, "main", dataset, "replicates") for dataset in DATASETS]
    for method in BOTH_FORMS:
        each = [of[method, "beamsearch", ""] - of[method, "multinomial", ""] for of in drawn]
        row = found.loc["mean", method]
        assert row["value"] == pytest.approx(np.mean([found.loc[d, method]["value"] for d in DATASETS]), abs=1e-12)
        np.testing.assert_allclose([row["low"], row["high"]], np.quantile(np.mean(each, 0), [0.025, 0.975]), atol=1e-6)
        assert row["n"] == len(DATASETS) * SIZE["main"]


def test_a_cell_of_empty_answers_is_marked_and_left_out_of_the_mean(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    exhibits_study.rewrite(results, HOTPOTQA, lambda row: row | ({"n": 18} if row["subset"] == "answered" else {}))
    built: BuiltTable = results.built("gains_tiny")
    assert [head for head in built.grid.header[-1] if "†" in head] == ["HotpotQA †"]
    wide = built.values.pivot(index="method", columns="dataset", values="value")
    np.testing.assert_allclose(wide["mean"], wide.drop(columns=["mean", "hotpotqa"]).mean(axis=1))


def test_bold_is_what_leaves_out_zero_and_the_caption_counts_it(results: Noisy) -> None:
    built: BuiltTable = results.built("gains_tiny")
    clear = (built.values["low"] > 0) | (built.values["high"] < 0)
    assert 0 < clear.sum() < len(clear)
    assert [cell.mark == "best" for cell in built.grid.cells] == clear.tolist()
    assert f"uncorrected for how many there are: {clear.sum()} of {len(clear)}." in built.caption


def test_each_number_of_candidates_compares_as_many_beams_as_samples(results: Noisy) -> None:
    found = values(results, "gains_by_candidates").set_index(["model", "dataset", "method", "setting"])
    of = forms(results, "widths", "triviaqa", "evaluation")
    for M in range(1, 16):
        row = found.loc[BASE, "triviaqa", "Dissimilarity", f"M={M}"]
        pair = [of["Dissimilarity", form, f"M={M}"] for form in ("beamsearch", "multinomial")]
        assert row["value"] == pytest.approx(pair[0] - pair[1], abs=1e-12)
        assert row["variant"] == "beamsearch - multinomial"


def test_each_other_way_is_the_papers_row_less_its_beams(results: Noisy) -> None:
    gains, table = (values(results, label) for label in ("gains_by_strategy", "abl_sampling"))
    beams = table[table["setting"] == "beam"].set_index(PLACE)["value"]
    others = table[table["setting"] != "beam"].set_index([*PLACE, "setting"])["value"]
    found = gains[gains["dataset"] != "mean"].set_index([*PLACE, "setting"])["value"]
    for key, value in others.items():
        assert found[(*key[:3], f"{key[3]} - beam")] == pytest.approx(value - beams[key[:3]], abs=1e-12)
    floors = [f"epsilon={floor} - beam" for floor in ("1.0", "0.1", "0.05", "0.01", "0.001", "0.00001")]
    assert set(found.index.get_level_values("setting")) == {f"{key[3]} - beam" for key in others.index} | set(floors)


def test_the_floor_of_the_main_beams_has_no_row() -> None:
    study = exhibits_study.study(main=exhibits_study.CONTENT["main"] | {"epsilon": 0.1})
    table = list_of_exhibits.exhibit("gains_by_strategy", study)
    assert isinstance(table, EstimatesTable)
    floors = [row.titles[1] for row in table.rows(study, "strategies") if isinstance(row, Row)][-6:]
    assert floors == ["ε=1.0", "ε=0.05", "ε=0.01", "ε=0.001", "ε=0.00001", "ε=0"]


def test_a_difference_with_an_undefined_side_is_undefined_and_says_why(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    lost = {"value": None, "low": None, "high": None, "std": None, "note": "all wrong"}
    exhibits_study.rewrite(
        results, HOTPOTQA, lambda row: row | (lost if (row["method"], row["variant"]) == ("SAR", "beamsearch") else {})
    )
    built: BuiltTable = results.built("gains_tiny")
    found = built.values.set_index(["dataset", "method"])["value"]
    assert found[[("hotpotqa", "SAR"), ("mean", "SAR")]].isna().all()
    assert found.drop([("hotpotqa", "SAR"), ("mean", "SAR")]).notna().all()
    assert built.notes == ["(a) all wrong", "(b) PRR is undefined on HotpotQA: all wrong"]


def test_of_a_single_dataset_there_is_no_mean(tmp_path: Path) -> None:
    study = exhibits_study.study(
        grid=[{"recipe": "main", "models": [BASE], "datasets": ["coqa"], "scorers": ["cosine"]}], exhibits=[]
    )
    built: BuiltTable = exhibits_study.Results(tmp_path, study).built("gains_tiny", study)
    assert built.grid.header == (("CoQA",),)


@pytest.mark.parametrize(
    ("label", "recipe", "change", "message"),
    [
        ("gains_tiny", "main", {"methods": ["Prob", "Perplexity"]}, "add it to scoring.main"),
        ("gains_by_candidates", "widths", {"budgets": []}, "whose scoring has budgets"),
        ("gains_by_strategy", "strategies", {"every_strategy": False}, "every_strategy"),
    ],
)
def test_a_study_without_what_is_compared_is_told_the_fix(
    label: str, recipe: str, change: dict[str, Any], message: str
) -> None:
    scoring = exhibits_study.CONTENT["scoring"]
    study = exhibits_study.study(scoring=scoring | {recipe: scoring[recipe] | change})
    with pytest.raises(BeamUQError, match=message):
        list_of_exhibits.exhibit(label, study).artifacts(study)


@pytest.mark.parametrize(
    ("decoded", "message"),
    [
        ({"sample": {"size": 10}}, "of the grid with 'beam M=10'"),
        ({"beam": {"widths": [10]}}, "has no row in recipe 'strategies'"),
    ],
)
def test_strategies_need_the_main_beams_and_something_beside_them(decoded: dict[str, Any], message: str) -> None:
    scoring = exhibits_study.CONTENT["scoring"]
    study = exhibits_study.study(
        recipes=exhibits_study.CONTENT["recipes"] | {"strategies": decoded},
        scoring=scoring | {"strategies": scoring["strategies"] | {"epsilon": []}},
    )
    with pytest.raises(BeamUQError, match=message):
        list_of_exhibits.exhibit("gains_by_strategy", study).artifacts(study)
