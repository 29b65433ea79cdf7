"""Tables that the paper lacks: what beams gain, empty answers, AUGRC, further qualities, endings,
decisions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import decided_cells
import exhibits_study
from beamuq.evaluation.estimates import ALL_EMPTY
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq_study import parquet_tables
from beamuq_study.exhibits import list_of_exhibits, table_of_places
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from exhibits_study import BASE, BOTH_FORMS, CHAT, DATASETS, EMPTY, SIZE, Results

STUDY = exhibits_study.study()
HOTPOTQA = Artifact("evaluation", "hotpotqa", BASE, "main", "cosine")
LOST = {"value": None, "low": None, "high": None, "std": None, "note": "all wrong"}


class Noisy(Results):
    """Replicates of a row are its value and noise of its own."""

    def _replicate_rows(self, need: Any) -> list[np.ndarray[Any, Any]]:
        rows = self._measured(need)
        noise = exhibits_study.generator(need.path).normal(
            scale=0.3, size=(len(rows), exhibits_study.RESAMPLES)
        )
        return [(row["value"] + of).astype(np.float32) for row, of in zip(rows, noise, strict=True)]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Noisy:
    return Noisy(tmp_path_factory.mktemp("noisy"), STUDY)


def stored(
    results: Results,
    recipe: str,
    dataset: str,
    kind: str,
    quality: str = "answer_f1",
    metric: str = "PRR",
    answer: str = "greedy",
) -> dict[tuple[str, str, str], Any]:
    """A metric of answers of the base model by method, variant and setting: values, or arrays of
    replicates.
    """
    need = Artifact(kind, dataset, BASE, recipe, "cosine")
    rows = results.inputs([need]).frame(need)
    keys = {"metric": metric, "answer_source": answer, "quality": quality, "subset": "all"}
    chosen = rows[(rows[list(keys)] == list(keys.values())).all(axis=1)].set_index(
        ["method", "variant", "setting"]
    )
    return dict(chosen["value" if kind == "evaluation" else "values"])


def gain(stored: dict[tuple[str, str, str], Any], method: str, setting: str = "") -> Any:
    """Beam − multinomial."""
    return stored[method, "beamsearch", setting] - stored[method, "multinomial", setting]


def test_every_method_with_both_forms_has_its_paired_difference_and_mean(noisy: Noisy) -> None:
    built = noisy.built("gains_tiny")
    found = built.frame.set_index(["dataset", "method"])
    assert set(built.frame["method"]) == set(BOTH_FORMS)
    kinds = ("evaluation", "replicates")
    every = [[stored(noisy, "main", dataset, kind) for dataset in DATASETS] for kind in kinds]
    for method in BOTH_FORMS:
        of, drawn = ([gain(of_dataset, method) for of_dataset in of_kind] for of_kind in every)
        for place, dataset in enumerate([*DATASETS, "mean"]):
            row = found.loc[dataset, method]
            value, values = (
                (np.mean(of), np.mean(drawn, 0)) if dataset == "mean" else (of[place], drawn[place])
            )
            assert row["value"] == pytest.approx(value, abs=1e-12)
            np.testing.assert_allclose(
                [row["low"], row["high"]], np.quantile(values, [0.025, 0.975]), atol=1e-6
            )
            assert row["n"] == SIZE["main"] * (len(DATASETS) if dataset == "mean" else 1)
    clear = (built.frame["low"] > 0) | (built.frame["high"] < 0)
    assert [cell.mark == "best" for cell in built.shown.cells] == clear.tolist()
    assert f"uncorrected for how many there are: {clear.sum()} of {len(clear)}." in built.caption


def test_each_other_way_is_the_papers_row_less_its_beams(noisy: Noisy) -> None:
    place = ["model", "dataset", "method"]
    gains, table = (noisy.built(label).frame for label in ("gains_by_strategy", "abl_sampling"))
    beams = table[table["setting"] == "beam"].set_index(place)["value"]
    others = table[table["setting"] != "beam"].set_index([*place, "setting"])["value"]
    found = gains[gains["dataset"] != "mean"].set_index([*place, "setting"])["value"]
    for key, value in others.items():
        assert found[(*key[:3], f"{key[3]} - beam")] == pytest.approx(
            value - beams[key[:3]], abs=1e-12
        )
    floors = {
        f"epsilon={floor} - beam" for floor in ("1.0", "0.1", "0.05", "0.01", "0.001", "0.00001")
    }
    assert (
        set(found.index.get_level_values("setting"))
        == {f"{key[3]} - beam" for key in others.index} | floors
    )


@pytest.fixture(scope="module")
def six_empty(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The base model left six of 24 questions of HotpotQA without an answer, and one everywhere
    else.
    """
    found = Results(tmp_path_factory.mktemp("empty"), STUDY)
    empty = ("answered", "greedy")
    exhibits_study.rewrite(
        found,
        HOTPOTQA,
        lambda row: row | ({"n": 18} if (row["subset"], row["answer_source"]) == empty else {}),
    )
    return found


def column(built: Any, model: str, dataset: str) -> np.ndarray[Any, Any]:
    values = built.frame
    return values[(values["model"] == model) & (values["dataset"] == dataset)]["value"].to_numpy(
        dtype=float
    )


def test_a_mean_leaves_the_cell_out_and_marks_it(six_empty: Results) -> None:
    built, means = six_empty.built("qa_tiny"), six_empty.built("qa_mean_prr")
    kept = [column(built, BASE, dataset) for dataset in DATASETS if dataset != "hotpotqa"]
    for of in (built, means):
        np.testing.assert_allclose(column(of, BASE, "mean"), np.mean(kept, axis=0))
    assert [head for head in built.shown.header[-1] if "†" in head] == ["HotpotQA †"]
    assert means.shown.header[-1] == ("Tiny 1B base †", "Tiny 1B instruct")
    assert set(means.frame["n"]) == {5 * SIZE["main"], 6 * SIZE["main"]}
    assert "Tiny 1B base on TriviaQA 1 of 24" in means.caption
    assert "HotpotQA 6 of 24 †" in means.caption
    assert six_empty.built("topbeam_scoring").shown.header[-1] == (
        "Tiny 1B base",
        "Tiny 1B instruct",
    )


def test_a_mean_over_answered_questions_leaves_no_cell_out(six_empty: Results) -> None:
    built = six_empty.built("answered")
    assert not any("†" in head for head in built.shown.header[-1])
    n = built.frame[built.frame["dataset"] == "mean"].set_index("model")["n"]
    assert set(n[BASE]) == {5 * (SIZE["main"] - EMPTY) + 18}
    assert set(n[CHAT]) == {6 * (SIZE["main"] - EMPTY)}


def test_the_table_has_both_numbers_of_every_cell(six_empty: Results) -> None:
    built = six_empty.built("empty_answers")
    values = built.frame[(built.frame["model"] == BASE) & (built.frame["dataset"] == "hotpotqa")]
    share = values[values["metric"] == "empty answers"]
    assert share[["value", "n"]].to_numpy().tolist() == [[0.25, 24]]
    rows = parquet_tables.read(six_empty.folder / HOTPOTQA.path, "evaluation").table.to_pandas()
    keys = {
        "quality": "answer_f1",
        "answer_source": "greedy",
        "metric": "PRR",
        "method": "Dissimilarity",
        "setting": "",
    }
    wanted = rows[
        (rows[[*keys, "variant"]] == [*keys.values(), "beamsearch"]).all(axis=1)
    ].set_index("subset")["value"]
    found = values.query("method == 'Dissimilarity' and variant == 'beamsearch'").set_index(
        "setting"
    )["value"]
    assert found.to_dict() == wanted.to_dict()
    titles = [(row.group, *row.titles) for row in built.shown.rows]
    assert ("Tiny 1B base", "HotpotQA †", "6 of 24", "all") in titles


class NoneEmpty(Results):
    """No answer is empty: an evaluation of the answered questions is that of all, and replicates
    are written once.
    """

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        of_all = [row for row in super()._evaluation(need) if row["subset"] == "all"]
        return [row | {"subset": subset} for subset in ("all", "answered") for row in of_all]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return [row for row in super()._replicates(need) if row["subset"] == "all"]


def test_where_no_answer_is_empty_it_is_the_table_of_all(tmp_path: Path) -> None:
    results = NoneEmpty(tmp_path, STUDY)
    answered, of_all = (
        results.built(label).frame.drop(columns="table") for label in ("answered", "qa_mean_prr")
    )
    pd.testing.assert_frame_equal(answered, of_all)


def areas(noisy: Noisy, answer: str) -> np.ndarray[Any, Any]:
    """AUGRC of Dissimilarity over beams on CoQA, of the data and of every resample of its
    stories.
    """
    auc = [
        stored(noisy, "main", "coqa", kind, metric="ROC-AUC", answer=answer)[
            "Dissimilarity", "beamsearch", ""
        ]
        for kind in ("evaluation", "replicates")
    ]
    cell = Cell(BASE, "coqa", "main", "cosine")
    ids = [f"coqa-{number:03d}" for number in range(SIZE["main"])]
    counts = noisy.inputs([cell.file("questions")]).resample_counts(cell, ids)
    right = exhibits_study.quality_values(BASE, "coqa", SIZE["main"], answer) > 0.5
    accuracy = np.append(right.mean(), right @ counts / counts.sum(axis=0))
    return area_under_generalised_risk(accuracy, np.append(*auc))


def test_augrc_follows_from_accuracy_and_roc_auc_in_every_resample(noisy: Noisy) -> None:
    greedy, top_beam = (areas(noisy, answer) for answer in ("greedy", "top_beam"))
    built = noisy.built("augrc")
    rows = built.frame[built.frame["metric"] == "AUGRC"].set_index(
        ["model", "dataset", "method", "variant", "setting"]
    )
    for setting, expected in (("greedy", greedy), ("top_beam - greedy", top_beam - greedy)):
        row = rows.loc[BASE, "coqa", "Dissimilarity", "beamsearch", setting]
        assert row["value"] == pytest.approx(expected[0])
        assert (row["low"], row["high"]) == pytest.approx(
            np.quantile(expected[1:], [0.025, 0.975]), abs=1e-6
        )
    assert built.shown.header[-1][:2] == ("Greedy", "Δ top beam")


def test_each_quality_is_held_against_the_first_where_it_is_measured(noisy: Noisy) -> None:
    built = noisy.built("quality_agreement")
    values = built.frame[built.frame["model"] == BASE]
    tau = values[values["metric"] == "Kendall tau"]
    datasets = tau.groupby("setting")["dataset"].nunique().to_dict()
    assert datasets == {"answer_f1 / exact_match": 6, "answer_f1 / gold_label": 2}
    assert tau["value"].between(-1, 1).all()
    gains = values[values["metric"] == "PRR"].set_index(["dataset", "setting", "method"])
    for quality in ("answer_f1", "exact_match"):
        row = gains.loc["coqa", quality, "Dissimilarity"]
        of, drawn = (
            gain(stored(noisy, "main", "coqa", kind, quality), "Dissimilarity")
            for kind in ("evaluation", "replicates")
        )
        assert row["value"] == pytest.approx(of)
        assert (row["low"], row["high"]) == pytest.approx(
            np.quantile(drawn, [0.025, 0.975]), abs=1e-6
        )


def test_a_quality_without_spread_leaves_difference_and_order_undefined(tmp_path: Path) -> None:
    results = Results(tmp_path, STUDY)
    exhibits_study.rewrite(
        results, HOTPOTQA, lambda row: row | (LOST if row["quality"] == "exact_match" else {})
    )
    built = results.built("quality_agreement")
    values = built.frame[
        (built.frame["model"] == BASE) & (built.frame["dataset"] == "hotpotqa")
    ].set_index("setting")
    undefined = values["value"].isna()
    assert undefined.loc[["exact_match", "answer_f1 / exact_match"]].all()
    assert not undefined.loc["answer_f1"].any()
    assert "all wrong" in built.shown.reasons


def test_endings_counts_texts_and_mass_and_prr_with_and_without(tmp_path: Path) -> None:
    """Main cells whose beams come in pairs of one text, as where answers end in two ways."""
    own = Results(tmp_path, STUDY)
    files = [Artifact("candidates", "coqa", BASE, recipe) for recipe in ("main", "merged")]
    exhibits_study.rewrite(own, files[0], lambda row: row | {"text": f"answer {row['rank'] // 2}"})
    values = (
        own.built("endings")
        .frame.set_index(["model", "dataset", "metric", "method", "setting"])
        .sort_index()
    )
    assert set(values["n"]) == {24}
    of: Any = values.loc[BASE, "coqa"]
    for metric, apart, merged in (("distinct texts", 5, 10), ("redundant texts", 0.5, 0)):
        assert list(of.loc[metric, ""]["value"]) == pytest.approx([apart, merged, merged - apart])
    masses = []
    for path in own.paths(files):
        frame = parquet_tables.read(path, "candidates").table.to_pandas()
        beams = frame[frame["strategy"] == "beam M=10"]
        masses.append(np.exp(beams["logprob"]).groupby(beams["id"]).sum().sort_index().to_numpy())
    difference, rows = np.subtract(*masses[::-1]), of.loc["covered mass", ""]
    assert list(rows["value"]) == pytest.approx(
        [masses[0].mean(), masses[1].mean(), difference.mean()]
    )
    stories = pd.Series(difference).groupby(np.arange(24) // 3).mean()
    assert rows["std"].iloc[2] == pytest.approx(stories.std() / len(stories) ** 0.5, rel=0.2)
    of_apart, of_merged = (
        stored(own, recipe, "coqa", "evaluation") for recipe in ("main", "merged")
    )
    for method, variant in (
        ("Prob", ""),
        ("Dissimilarity", "beamsearch"),
        ("CocoaMSP", "beamsearch"),
    ):
        found = of.loc["PRR", method, "merged − apart"]["value"]
        assert found == pytest.approx(
            of_merged[method, variant, ""] - of_apart[method, variant, ""]
        )


def test_accuracy_is_of_greedy_answers_strictly_above_the_threshold(noisy: Noisy) -> None:
    values: Any = noisy.built("base_accs").frame.set_index(["model", "dataset"])
    for (model, dataset), row in values.iterrows():
        quality = exhibits_study.quality_values(model, dataset, 24)
        assert (quality == 0.5).any()
        assert row["value"] == pytest.approx(float((quality > 0.5).mean()))
        assert row["low"] < row["value"] < row["high"]
    assert len(values) == 12


DECIDED = decided_cells.STUDY


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> decided_cells.Larger:
    return decided_cells.Larger(tmp_path_factory.mktemp("larger"), DECIDED)


def test_a_mean_counts_what_cannot_be_shown_as_nothing(larger: decided_cells.Larger) -> None:
    built = larger.built("decisions")
    values = built.frame.set_index(["variant", "metric", "setting", "dataset"]).sort_index()[
        "value"
    ]
    shown, wrong = (
        values["beamsearch", metric, "risk=0.2"] for metric in ("shown", "wrong of shown")
    )
    assert shown["mean"] == pytest.approx(shown.drop("mean").mean())
    assert min(shown) > 0
    assert wrong["mean"] == pytest.approx(
        (shown * wrong).drop("mean").fillna(0).sum() / shown.drop("mean").sum()
    )
    samples = values["multinomial", "shown", "risk=0.2"]
    assert values["beamsearch - multinomial", "shown", "risk=0.2"]["mean"] == pytest.approx(
        (shown - samples)["mean"]
    )
    assert "refused" not in {cell.text for cell in built.shown.cells}


@pytest.mark.parametrize("empty", [("triviaqa",), ("triviaqa", "coqa")])
def test_a_mean_of_decisions_leaves_out_cells_of_empty_answers(
    empty: tuple[str, ...], tmp_path: Path
) -> None:
    results = decided_cells.Larger(tmp_path, DECIDED)
    needs = list_of_exhibits.exhibit("decisions", DECIDED).artifacts(DECIDED)
    for need, path in zip(needs, results.paths(needs), strict=True):
        rows = parquet_tables.read(path, need.kind).table.to_pylist()
        told = {"empty": {"greedy": [3 if need.dataset in empty else 2, 10]}}
        parquet_tables.write(path, need.kind, rows, cell=need.cell, provenance=told)
    built = results.built("decisions")
    columns = built.frame.set_index(["dataset", "method", "variant", "metric", "setting"])["value"]
    means, coqa = columns["mean"], columns["coqa"]
    assert means.notna().any() == (len(empty) == 1)
    assert means.dropna().to_dict() == pytest.approx(coqa[means.dropna().index].to_dict())
    assert (ALL_EMPTY in built.caption) == (len(empty) == 2)
    assert "Tiny 1B base on TriviaQA 3 of 10 †" in results.inputs(needs).empty_sentence(needs)


def test_too_few_questions_are_refused(noisy: Noisy) -> None:
    assert {cell.text for cell in noisy.built("decisions_tiny").shown.cells} >= {"refused", "–"}


def test_a_mean_over_one_dataset_is_not_counted_beside_it(results: Results) -> None:
    grid = [dict(entry) for entry in exhibits_study.CONTENT["grid"]]
    widths = next(entry for entry in grid if entry["recipe"] == "beam_widths")
    alone = widths | {"models": ["tiny-chat"], "datasets": ["triviaqa"]}
    grid[grid.index(widths)] = widths | {"models": ["tiny-base"]}
    built = results.built("gains_by_candidates", exhibits_study.study(grid=[*grid, alone]))
    datasets = built.frame.groupby("model")["dataset"].unique().map(list).to_dict()
    assert datasets == {
        "tiny-base": ["triviaqa", "arc-challenge", "mean"],
        "tiny-chat": ["triviaqa"],
    }
    counted = int(re.search(r"(\d+) of (\d+)\.", built.caption)[2])  # type: ignore[index]
    assert counted == len(built.frame)


def test_a_cell_whose_beams_claim_more_than_they_hold_is_named_beside_the_map(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    resamples = np.linspace(-0.05, 0.05, 101)

    def coordinates(_: Any, __: Any, cell: Cell) -> dict[str, np.ndarray[Any, Any]]:
        # the interval of 0.48 reaches above the lower end of the mass, not above its upper end
        held = 0.3 if cell.dataset == "coqa" else 0.48
        values = {"mass": 0.5, "held": held, "kappa": 0.8}
        return {name: np.array([value, *(value + resamples)]) for name, value in values.items()}

    monkeypatch.setattr(table_of_places, "coordinates_of", coordinates)
    built = results.built("places")
    coqa = built.frame.query("model == @BASE and dataset == 'coqa'").set_index("metric")
    assert coqa["value"].to_dict() == {"mass": 0.5, "held": 0.3, "kappa": 0.8}
    assert (coqa["n"] == SIZE["main"]).all()
    assert coqa["low"]["held"] == pytest.approx(0.2525)
    titles = [STUDY.models[model].title for model in (BASE, CHAT)]
    beside = "; ".join(f"CoQA, {title}" for title in titles)
    assert f"does not apply: {beside}." in built.caption
