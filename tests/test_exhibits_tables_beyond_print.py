"""Tables that print lacks: what beams gain, empty answers, AUGRC, further qualities, endings, decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import decided_cells
import exhibits_study
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_counts
from beamuq.evaluation.estimates import ALL_EMPTY
from beamuq.evaluation.metrics_of_scores import EvaluationSettings, evaluate
from beamuq.evaluation.prr_and_auc import rejection_curves
from beamuq.exhibits import empty_answers, list_of_exhibits
from beamuq.exhibits.exhibit import Built, Table, TableGrid
from beamuq.parquet_tables import SCHEMAS, Artifact
from exhibits_study import BASE, BOTH_FORMS, CHAT, DATASETS, EMPTY, SIZE

STUDY = exhibits_study.study()
HOTPOTQA = Artifact("evaluation", "hotpotqa", BASE, "main", "cosine")
LOST = {"value": None, "low": None, "high": None, "std": None, "note": "all wrong"}


def table_of(built: Built) -> Table:
    assert isinstance(built.shown, Table)
    return built.shown


def grid_of(built: Built) -> TableGrid:
    return table_of(built).grid


class Noisy(exhibits_study.Results):
    """Replicates of a row are its value and noise of its own."""

    def _replicate_rows(self, need: Any) -> list[np.ndarray[Any, Any]]:
        rows = self._measured(need)
        noise = exhibits_study.generator(need.path).normal(scale=0.3, size=(len(rows), exhibits_study.RESAMPLES))
        return [(row["value"] + of).astype(np.float32) for row, of in zip(rows, noise, strict=True)]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Noisy:
    return Noisy(tmp_path_factory.mktemp("noisy"), STUDY)


def stored(
    results: exhibits_study.Results, recipe: str, dataset: str, kind: str, quality: str = "answer_f1"
) -> dict[tuple[str, str, str], Any]:
    """PRR of greedy answers of the base model by method, variant and setting: values, or arrays of replicates."""
    need = Artifact(kind, dataset, BASE, recipe, "cosine")
    rows = results.inputs([need])[need].table.to_pylist()
    wanted = ("PRR", "greedy", quality, "all")
    chosen = [row for row in rows if tuple(map(row.get, ("metric", "answer_source", "quality", "subset"))) == wanted]
    name = "value" if kind == "evaluation" else "values"
    return {(row["method"], row["variant"], row["setting"]): np.array(row[name]) for row in chosen}


def gain(stored: dict[tuple[str, str, str], Any], method: str, setting: str = "") -> Any:
    """Beam − multinomial."""
    return stored[method, "beamsearch", setting] - stored[method, "multinomial", setting]


# -- gains -------------------------------------------------------------------------------------------------------------


def test_every_method_with_both_forms_has_its_paired_difference_and_mean(noisy: Noisy) -> None:
    built = noisy.built("gains_tiny")
    found = built.frame.set_index(["dataset", "method"])
    assert set(built.frame["method"]) == set(BOTH_FORMS)
    for method in BOTH_FORMS:
        of, drawn = (
            [gain(stored(noisy, "main", dataset, kind), method) for dataset in DATASETS]
            for kind in ("evaluation", "replicates")
        )
        for place, dataset in enumerate([*DATASETS, "mean"]):
            row = found.loc[dataset, method]
            value, values = (np.mean(of), np.mean(drawn, 0)) if dataset == "mean" else (of[place], drawn[place])
            assert row["value"] == pytest.approx(value, abs=1e-12)
            np.testing.assert_allclose([row["low"], row["high"]], np.quantile(values, [0.025, 0.975]), atol=1e-6)
            assert row["n"] == SIZE["main"] * (len(DATASETS) if dataset == "mean" else 1)
    clear = (built.frame["low"] > 0) | (built.frame["high"] < 0)
    assert [cell.mark == "best" for cell in grid_of(built).cells] == clear.tolist()
    assert f"uncorrected for how many there are: {clear.sum()} of {len(clear)}." in built.caption


def test_each_number_of_candidates_compares_as_many_beams_as_samples(noisy: Noisy) -> None:
    found = noisy.built("gains_by_candidates").frame.set_index(["model", "dataset", "method", "variant", "setting"])
    of = stored(noisy, "widths", "triviaqa", "evaluation")
    for M in range(1, 16):
        row = found.loc[BASE, "triviaqa", "Dissimilarity", "beamsearch - multinomial", f"M={M}"]
        assert row["value"] == pytest.approx(gain(of, "Dissimilarity", f"M={M}"), abs=1e-12)


def test_each_other_way_is_the_papers_row_less_its_beams(noisy: Noisy) -> None:
    place = ["model", "dataset", "method"]
    gains, table = (noisy.built(label).frame for label in ("gains_by_strategy", "abl_sampling"))
    beams = table[table["setting"] == "beam"].set_index(place)["value"]
    others = table[table["setting"] != "beam"].set_index([*place, "setting"])["value"]
    found = gains[gains["dataset"] != "mean"].set_index([*place, "setting"])["value"]
    for key, value in others.items():
        assert found[(*key[:3], f"{key[3]} - beam")] == pytest.approx(value - beams[key[:3]], abs=1e-12)
    floors = {f"epsilon={floor} - beam" for floor in ("1.0", "0.1", "0.05", "0.01", "0.001", "0.00001")}
    assert set(found.index.get_level_values("setting")) == {f"{key[3]} - beam" for key in others.index} | floors


def test_a_difference_with_an_undefined_side_is_undefined_and_says_why(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    undefined = ("SAR", "beamsearch")
    exhibits_study.rewrite(
        results, HOTPOTQA, lambda row: row | (LOST if (row["method"], row["variant"]) == undefined else {})
    )
    built = results.built("gains_tiny")
    found = built.frame.set_index(["dataset", "method"])["value"]
    assert found[[("hotpotqa", "SAR"), ("mean", "SAR")]].isna().all()
    assert found.drop([("hotpotqa", "SAR"), ("mean", "SAR")]).notna().all()
    assert table_of(built).reasons == ["all wrong", "PRR is undefined on HotpotQA: all wrong"]


# -- empty answers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def six_empty(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    """The base model left six of 24 questions of HotpotQA without an answer, and one everywhere else."""
    found = exhibits_study.Results(tmp_path_factory.mktemp("empty"), STUDY)
    empty = ("answered", "greedy")
    exhibits_study.rewrite(
        found, HOTPOTQA, lambda row: row | ({"n": 18} if (row["subset"], row["answer_source"]) == empty else {})
    )
    return found


def column(built: Built, model: str, dataset: str) -> np.ndarray[Any, Any]:
    values = built.frame
    return values[(values["model"] == model) & (values["dataset"] == dataset)]["value"].to_numpy(dtype=float)


def test_a_mean_leaves_the_cell_out_and_marks_it(six_empty: exhibits_study.Results) -> None:
    built, means = six_empty.built("qa_tiny"), six_empty.built("qa_mean_prr")
    kept = [column(built, BASE, dataset) for dataset in DATASETS if dataset != "hotpotqa"]
    for of in (built, means):
        np.testing.assert_allclose(column(of, BASE, "mean"), np.mean(kept, axis=0))
    assert [head for head in grid_of(built).header[-1] if "†" in head] == ["HotpotQA †"]
    assert grid_of(means).header[-1] == ("Tiny 1B base †", "Tiny 1B instruct")
    assert set(means.frame["n"]) == {5 * SIZE["main"], 6 * SIZE["main"]}
    assert "Tiny 1B base on TriviaQA 1 of 24" in means.caption
    assert "HotpotQA 6 of 24 †" in means.caption
    assert grid_of(six_empty.built("topbeam_scoring")).header[-1] == ("Tiny 1B base", "Tiny 1B instruct")


def test_a_mean_over_answered_questions_leaves_no_cell_out(six_empty: exhibits_study.Results) -> None:
    built = six_empty.built("answered")
    assert not any("†" in head for head in grid_of(built).header[-1])
    n = built.frame[built.frame["dataset"] == "mean"].set_index("model")["n"]
    assert set(n[BASE]) == {5 * (SIZE["main"] - EMPTY) + 18}
    assert set(n[CHAT]) == {6 * (SIZE["main"] - EMPTY)}


def test_the_table_has_both_numbers_of_every_cell(six_empty: exhibits_study.Results) -> None:
    built = six_empty.built("empty_answers")
    values = built.frame[(built.frame["model"] == BASE) & (built.frame["dataset"] == "hotpotqa")]
    share = values[values["metric"] == "empty answers"]
    assert share[["value", "n"]].to_numpy().tolist() == [[0.25, 24]]
    rows = parquet_tables.read(six_empty.folder / HOTPOTQA.path, "evaluation").table.to_pandas()
    keys = {"quality": "answer_f1", "answer_source": "greedy", "metric": "PRR", "method": "Dissimilarity"}
    wanted = rows[(rows[[*keys, "variant"]] == [*keys.values(), "beamsearch"]).all(axis=1)].set_index("subset")["value"]
    found = values.query("method == 'Dissimilarity' and variant == 'beamsearch'").set_index("setting")["value"]
    assert found.to_dict() == wanted.to_dict()
    titles = [(row.group, *row.titles) for row in grid_of(built).rows]
    assert ("Tiny 1B base", "HotpotQA †", "6 of 24", "all") in titles


class Emptied(exhibits_study.Results):
    """What is said of all questions together is another where ``garbled``; where ``none``, no answer is empty."""

    garbled = none = False

    def _rows(self, rows: list[dict[str, Any]], garble: dict[str, Any]) -> list[dict[str, Any]]:
        return [row | garble if self.garbled and row["subset"] == "all" else row for row in rows]

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        rows = self._rows(super()._evaluation(need), {"value": 0.11, "low": 0.1, "high": 0.12})
        of_all = [row for row in rows if row["subset"] == "all"]
        return [row | {"subset": subset} for subset in ("all", "answered") for row in of_all] if self.none else rows

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        rows = self._rows(super()._replicates(need), {"values": [0.0] * exhibits_study.RESAMPLES})
        return [row for row in rows if row["subset"] == "all" or not self.none]


def test_the_table_of_answered_questions_knows_nothing_of_the_others(tmp_path: Path) -> None:
    both = [Emptied(tmp_path / name, STUDY) for name in "ab"]
    both[1].garbled = True
    pd.testing.assert_frame_equal(*(results.built("answered").frame for results in both))
    assert not both[0].built("qa_tiny").frame.equals(both[1].built("qa_tiny").frame)


def test_where_no_answer_is_empty_it_is_the_table_of_all(tmp_path: Path) -> None:
    results = Emptied(tmp_path, STUDY)
    results.none = True
    answered, of_all = (results.built(label).frame.drop(columns="table") for label in ("answered", "qa_mean_prr"))
    pd.testing.assert_frame_equal(answered, of_all)


# -- AUGRC -------------------------------------------------------------------------------------------------------------


TWO = ["triviaqa", "coqa"]
ONE_MODEL = [{"recipe": "main", "models": [BASE], "datasets": TWO, "scorers": ["cosine"]}]
RANKED = exhibits_study.study(grid=ONE_MODEL)
METHOD = ("Dissimilarity", "beamsearch", "")


def by_definition(uncertainty: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    """Of Traub et al. (2024), trapezoids over the expected order of equal scores: docs/what_scores_mean.md."""
    curves = rejection_curves(uncertainty, right)
    shown = np.append(1 - curves.rejected, 0.0)
    return float(-np.trapezoid(shown * (1 - np.append(curves.uncertainty, 1.0)), shown))


class Evaluated(exhibits_study.Results):
    """The study's results with evaluations of its own scores and quality."""

    def rows(self, need: Artifact) -> list[list[dict[str, Any]]]:
        """Scores, quality and questions of a cell."""
        quality = replace(need, kind="quality", scorer="", metric="answer_f1")
        return [self._scores(replace(need, kind="scores")), self._quality(quality), self._questions(need)]

    def evaluated(self, need: Artifact) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        kinds = zip(("scores", "quality", "questions"), self.rows(need), strict=True)
        scores, quality, questions = (pa.Table.from_pylist(rows, schema=SCHEMAS[kind]) for kind, rows in kinds)
        of = EvaluationSettings(
            metrics=("ROC-AUC",), quality="answer_f1", resamples=exhibits_study.RESAMPLES, seed=self.study.seed
        )
        return evaluate(scores, quality, questions, of, need.dataset, {"greedy": set(), "top_beam": set()})

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        return self.evaluated(need)[0]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return self.evaluated(need)[1]

    def differences(self, dataset: str) -> np.ndarray[Any, Any]:
        """Top beam − greedy by definition, of the data and of every resample of its groups."""
        scores, quality, questions = self.rows(Artifact("evaluation", dataset, BASE, "main", "cosine"))
        groups = {row["id"]: row["group"] for row in questions}
        name = draws_name(dataset, groups.items())
        counts = resample_counts(list(groups.values()), exhibits_study.RESAMPLES, self.study.seed, name)
        drawn = [np.arange(len(groups)), *(np.repeat(np.arange(len(groups)), of) for of in counts.T)]
        found: list[np.ndarray[Any, Any]] = []
        for answer in ("top_beam", "greedy"):
            wanted = (answer, *METHOD)
            keys = ("answer_source", "method", "variant", "setting")
            u = {row["id"]: row["value"] for row in scores if tuple(map(row.get, keys)) == wanted}
            right = {row["id"]: float(row["value"] > 0.5) for row in quality if row["answer_source"] == answer}
            values, labels = (np.array([of[key] for key in groups]) for of in (u, right))
            found.append(np.array([by_definition(values[of], labels[of]) for of in drawn]))
        difference: np.ndarray[Any, Any] = found[0] - found[1]
        return difference


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("augrc"), RANKED)


@pytest.mark.parametrize("dataset", [*TWO, "mean"])
def test_augrc_and_its_interval_are_those_of_the_definition(evaluated: Evaluated, dataset: str) -> None:
    each = [evaluated.differences(name) for name in (TWO if dataset == "mean" else [dataset])]
    expected = np.mean(each, axis=0)
    keys = {"dataset": dataset, "metric": "AUGRC", "method": METHOD[0], "variant": METHOD[1]}
    keys |= {"setting": "top_beam - greedy"}
    values = evaluated.built("augrc").frame
    (row,) = values[(values[list(keys)] == list(keys.values())).all(axis=1)].to_dict("records")
    assert row["value"] == pytest.approx(expected[0])
    assert (row["low"], row["high"]) == pytest.approx(np.quantile(expected[1:], [0.025, 0.975]), abs=1e-6)
    assert row["n"] == 24 * len(each)


def test_of_greedy_answers_alone_nothing_is_compared_with_them(evaluated: Evaluated) -> None:
    greedy = exhibits_study.study(grid=ONE_MODEL, answer_source=["greedy"])
    assert grid_of(evaluated.built("augrc")).header[-1] == ("Greedy", "Δ top beam")
    assert grid_of(evaluated.built("augrc", greedy)).header[-1] == ("Greedy",)


# -- further qualities -------------------------------------------------------------------------------------------------


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
            gain(stored(noisy, "main", "coqa", kind, quality), "Dissimilarity") for kind in ("evaluation", "replicates")
        )
        assert row["value"] == pytest.approx(of)
        assert (row["low"], row["high"]) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=1e-6)


def test_a_quality_without_spread_leaves_difference_and_order_undefined(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    exhibits_study.rewrite(results, HOTPOTQA, lambda row: row | (LOST if row["quality"] == "exact_match" else {}))
    built = results.built("quality_agreement")
    values = built.frame[(built.frame["model"] == BASE) & (built.frame["dataset"] == "hotpotqa")].set_index("setting")
    undefined = values["value"].isna()
    assert undefined.loc[["exact_match", "answer_f1 / exact_match"]].all()
    assert not undefined.loc["answer_f1"].any()
    assert "all wrong" in table_of(built).reasons


# -- endings -----------------------------------------------------------------------------------------------------------


def test_endings_counts_texts_and_mass_and_prr_with_and_without(tmp_path: Path) -> None:
    """Main cells whose beams come in pairs of one text, as where answers end in two ways."""
    own = exhibits_study.Results(tmp_path, STUDY)
    for model in STUDY.models:
        for dataset in TWO:
            candidates = Artifact("candidates", dataset, model, "main")
            exhibits_study.rewrite(own, candidates, lambda row: row | {"text": f"answer {row['rank'] // 2}"})
    values = own.built("endings").frame.set_index(["model", "dataset", "metric", "method", "setting"])
    assert set(values["n"]) == {24}
    for model in STUDY.models:
        for dataset in TWO:
            of: Any = values.sort_index().loc[model, dataset]
            for metric, apart, merged in (("distinct texts", 5, 10), ("redundant texts", 0.5, 0)):
                assert list(of.loc[metric, ""]["value"]) == pytest.approx([apart, merged, merged - apart])
            masses = []
            for recipe in ("main", "merged"):
                (file,) = own.paths([Artifact("candidates", dataset, model, recipe)])
                frame = parquet_tables.read(file, "candidates").table.to_pandas()
                beams = frame[frame["strategy"] == "beam M=10"]
                masses.append(np.exp(beams["logprob"]).groupby(beams["id"]).sum().sort_index().to_numpy())
            difference = np.subtract(*masses[::-1])
            rows = of.loc["covered mass", ""]
            assert list(rows["value"]) == pytest.approx([masses[0].mean(), masses[1].mean(), difference.mean()])
            stories = pd.Series(difference).groupby(np.arange(24) // (3 if dataset == "coqa" else 1)).mean()
            assert rows["std"].iloc[2] == pytest.approx(stories.std() / len(stories) ** 0.5, rel=0.2)
    of_apart, of_merged = (stored(own, recipe, "coqa", "evaluation") for recipe in ("main", "merged"))
    for method, variant in (("Prob", ""), ("Dissimilarity", "beamsearch"), ("CocoaMSP", "beamsearch")):
        found = values.loc[BASE, "coqa", "PRR", method, "merged − apart"]["value"]
        assert found == pytest.approx(of_merged[method, variant, ""] - of_apart[method, variant, ""])


def test_accuracy_is_of_greedy_answers_strictly_above_the_threshold(noisy: Noisy) -> None:
    values: Any = noisy.built("base_accs").frame.set_index(["model", "dataset"])
    for (model, dataset), row in values.iterrows():
        quality = exhibits_study.quality_values(model, dataset, 24)
        assert (quality == 0.5).any()
        assert row["value"] == pytest.approx(float((quality > 0.5).mean()))
        assert row["low"] < row["value"] < row["high"]
    assert len(values) == 12


# -- decisions ---------------------------------------------------------------------------------------------------------

DECIDED = decided_cells.STUDY


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> decided_cells.Larger:
    return decided_cells.Larger(tmp_path_factory.mktemp("larger"), DECIDED)


def test_a_mean_counts_what_cannot_be_shown_as_nothing(larger: decided_cells.Larger) -> None:
    built = larger.built("decisions")
    values = built.frame.set_index(["variant", "metric", "setting", "dataset"]).sort_index()["value"]
    shown, wrong = (values["beamsearch", metric, "risk=0.2"] for metric in ("shown", "wrong of shown"))
    assert shown["mean"] == pytest.approx(shown.drop("mean").mean())
    assert min(shown) > 0
    assert wrong["mean"] == pytest.approx((shown * wrong).drop("mean").fillna(0).sum() / shown.drop("mean").sum())
    samples = values["multinomial", "shown", "risk=0.2"]
    assert values["beamsearch - multinomial", "shown", "risk=0.2"]["mean"] == pytest.approx((shown - samples)["mean"])
    assert "refused" not in {cell.text for cell in grid_of(built).cells}


@pytest.mark.parametrize("empty", [("triviaqa",), ("triviaqa", "coqa")])
def test_a_mean_of_decisions_leaves_out_cells_of_empty_answers(empty: tuple[str, ...], tmp_path: Path) -> None:
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
    assert "Tiny 1B base on TriviaQA 3 of 10 †" in empty_answers.sentence(DECIDED, results.inputs(needs), needs)


def test_shown_answers_that_are_all_right_keep_their_exact_interval(tmp_path: Path) -> None:
    values = decided_cells.Larger(tmp_path, DECIDED, errors=0.0).built("decisions").frame
    values = values[values["dataset"] == "triviaqa"]
    row = values[(values["metric"] == "wrong of shown") & (values["variant"] == "beamsearch")].iloc[0]
    assert (row["value"], row["low"]) == (0.0, pytest.approx(0, abs=1e-12))
    assert 0.001 < row["high"] < 0.02


def test_too_few_questions_are_refused(noisy: Noisy) -> None:
    assert {cell.text for cell in grid_of(noisy.built("decisions_tiny")).cells} >= {"refused", "–"}


# -- what a study lacks ------------------------------------------------------------------------------------------------

SCORING = exhibits_study.CONTENT["scoring"]


def scoring(recipe: str, **change: Any) -> dict[str, Any]:
    return {"scoring": SCORING | {recipe: SCORING[recipe] | change}}


STRATEGIES = exhibits_study.CONTENT["recipes"] | {"strategies": {"sample": {"size": 10}}}
BEAMS = exhibits_study.CONTENT["recipes"] | {"strategies": {"beam": {"widths": [10]}}}


@pytest.mark.parametrize(
    ("label", "changes", "told"),
    [
        ("gains_tiny", scoring("main", methods=["Prob", "Perplexity"]), "add it to scoring.main"),
        ("gains_by_candidates", scoring("widths", budgets=[]), "whose scoring has budgets"),
        ("gains_by_strategy", scoring("strategies", every_strategy=False), "every_strategy"),
        ("gains_by_strategy", {"recipes": STRATEGIES}, "of the grid with 'beam M=10'"),
        (
            "gains_by_strategy",
            {"recipes": BEAMS} | scoring("strategies", epsilon=[]),
            "has no row in recipe 'strategies'",
        ),
        ("augrc", {"evaluation": {"metrics": ["PRR"]}}, "add it to evaluation.metrics"),
        ("augrc", {"answer_source": ["top_beam"]}, "needs the greedy answer scored"),
        (
            "quality_agreement",
            {"quality": exhibits_study.CONTENT["quality"][:1]},
            "make quality a list and add another",
        ),
        ("quality_agreement", {"evaluation": {"metrics": ["ROC-AUC"]}}, "needs PRR; add it to evaluation.metrics"),
    ],
)
def test_a_study_without_what_is_shown_is_told_the_fix(label: str, changes: dict[str, Any], told: str) -> None:
    study = exhibits_study.study(**changes)
    with pytest.raises(BeamUQError, match=told):
        list_of_exhibits.exhibit(label, study).artifacts(study)
