"""The printed numbers as data, where a study measures them, and the declared files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beamuq.comparison import claims, errata
from beamuq.comparison.decisions import HowMade, decisions_behind, named, ordered, other_template
from beamuq.comparison.paper_settings import Measurement, compared_paths, incomparable, setting_paths
from beamuq.comparison.printed_numbers import RowKey, measured_place, read_printed_numbers
from beamuq.comparison.tolerances_and_families import FOLDER, read_rules
from beamuq.errors import BeamUQError
from beamuq.exhibits.read_evaluation import Key
from beamuq.methods.registry import METHODS
from beamuq.parquet_tables import file_sha256
from beamuq.strategy_names import KINDS
from beamuq.study_config import PROMPTS, STUDIES, Study, load_study
from simulated_paper_run import PRINTED, RULES, study

COQA = Measurement("gemma-3-4b-base", ("coqa",), "main", scorer="nli", method="Dissimilarity")
ACCURACY = replace(COQA, part="accuracy", scorer="", metric="accuracy", method="")
CANDIDATES = replace(COQA, part="candidates", scorer="", method="")


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of the declared files with one text replaced once."""
    folder = tmp_path / "published"
    shutil.copytree(FOLDER, folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


def row(**changes: str) -> RowKey:
    key = RowKey("tab:qa_gemma4b", "gemma-3-4b-base", "coqa", "PRR", "Dissimilarity", "beamsearch", "")
    return key._replace(**changes)


def test_all_printed_numbers_are_there() -> None:
    assert len(PRINTED) == 1958
    assert sum(table.rows for table in RULES.tables.values()) == 1958
    assert sum(printed.std is not None for printed in PRINTED) == 840


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.41,0.019", "nan,0.019", "is not a number of the paper"),
        ("0.41,0.019", "1.41,0.019", "is not a number of the paper"),
        ("0.41,0.019", "0.41,0", "is not a number of the paper"),
        ("0.41,0.019", "x,0.019", "line 2"),
        ("PRR,Prob,", "PRR,Probe,", "is not a number of the paper"),
        ("value,std", "number,std", "columns are"),
    ],
)
def test_a_damaged_file_of_values_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(BeamUQError, match=message):
        read_printed_numbers(RULES, changed(tmp_path, "paper_values.csv", old, new))


def test_a_missing_and_a_repeated_row_are_refused(tmp_path: Path) -> None:
    first = (FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[1]
    with pytest.raises(BeamUQError, match="119 rows, expected 120"):
        read_printed_numbers(RULES, changed(tmp_path / "a", "paper_values.csv", first + "\n", ""))
    second = (FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[2]
    with pytest.raises(BeamUQError, match="stands twice"):
        read_printed_numbers(RULES, changed(tmp_path / "b", "paper_values.csv", second, first))


@pytest.mark.parametrize(
    ("name", "old", "new", "read"),
    [
        ("tolerances_and_families.yaml", "power:", "tolerance:", read_rules),
        ("errata.yaml", "mean_columns:", "tolerance:", errata.read_ledger),
        ("claims.yaml", "where:", "tolerance:", claims.read_claims),
        ("claims.yaml", "missing:", "decided_by: {kind: counterexample}\n  missing:", claims.read_claims),
    ],
)
def test_a_damaged_declared_file_is_named(tmp_path: Path, name: str, old: str, new: str, read: Any) -> None:
    with pytest.raises(BeamUQError, match=name):
        read(changed(tmp_path, name, old, new))


def test_every_printed_number_has_a_place_in_the_papers_study() -> None:
    of = study()
    assert not [found for r in PRINTED if isinstance(found := measured_place(of, r.key, RULES), str)]


SAMPLING, SAMPLED = {"table": "tab:abl_sampling"}, {"table": "tab:abl_sampling", "variant": "multinomial"}


@pytest.mark.parametrize(
    ("printed", "recipe", "scorer", "stored"),
    [
        ({}, "main", "nli", {}),
        ({"table": "tab:abl_rocauc", "metric": "ROC-AUC"}, "main", "nli", {"metric": "ROC-AUC"}),
        ({"table": "tab:abl_crossencoder"}, "main", "crossencoder", {}),
        (SAMPLING | {"setting": "beam"}, "strategies", "nli", {}),
        (
            SAMPLED | {"setting": "multinomial T=0.7"},
            *("strategies", "nli", {"variant": "multinomial", "setting": "sample T=0.7"}),
        ),
        (SAMPLED | {"setting": "multinomial T=1.0"}, "strategies", "nli", {"variant": "multinomial"}),
        (
            {"table": "tab:abl_ecc_params", "method": "Eccentricity", "setting": "K=3"},
            *("strategies", "nli", {"method": "Eccentricity", "setting": "K=3"}),
        ),
    ],
)
def test_a_printed_row_is_looked_up_where_it_was_measured(
    printed: dict[str, str], recipe: str, scorer: str, stored: dict[str, str]
) -> None:
    found = measured_place(study(), row(**printed), RULES)
    assert not isinstance(found, str)
    assert [(artifact.recipe, artifact.scorer) for artifact in found.files] == [(recipe, scorer)]
    assert found.key == Key("PRR", "Dissimilarity", "beamsearch")._replace(**stored)


def test_a_mean_needs_every_dataset_and_the_top_beams_table_the_top_beam() -> None:
    found = measured_place(study(), row(table="tab:topbeam_scoring", dataset="mean"), RULES)
    assert not isinstance(found, str)
    assert len(found.files) == 6
    assert found.key.answer_source == "top_beam"


def with_setting(path: str, value: object) -> Study:
    """The paper's study with what stands at a path replaced."""
    content = study().model_dump(mode="json")
    *names, last = path.split("/")
    node = content
    for name in names:
        node = node[int(name) if isinstance(node, list) else name]
    node[last] = value
    return study(**content)


def test_every_setting_of_a_study_is_compared_or_harmless_with_its_reason() -> None:
    """A new setting of a study is compared, unless tolerances_and_families.yaml says why it is harmless."""
    compared = compared_paths(RULES.decided.paths.union(RULES.harmless))
    assert set(setting_paths()) == {*compared, *RULES.harmless, *RULES.decided.paths}
    assert not RULES.decided.paths & RULES.harmless.keys()
    assert not {*compared} & {*RULES.harmless}
    assert all(RULES.harmless.values())
    for part, settings in PAPER.items():
        assert {path for path in compared if path.startswith(part)} == {f"{part}.{name}" for name in settings}, part


PAPER = {  # by hand: what makes a measurement the paper's
    "models": {"*.source", "*.style", "*.enable_thinking"},
    "datasets.*": {"adapter", "source", "config", "split", "few_shot_split", "few_shot", "max_new_tokens"},
    "recipes.*": {"sample.size", "diverse.size", "hybrid.size"},
    "scorers.*": {"kind", "source", "proxy_for"},
    "quality.*": {"metric", "source", "backbone", "threshold", "proxy_for"},
    "main": {"sample", "beam", "num_candidates", "alpha", "epsilon"},
    "evaluation": {"max_rejection"},
}


def test_the_papers_study_is_the_papers() -> None:
    """By hand: an edit of studies/paper.yaml that is no longer the paper's would otherwise be held against itself."""
    of = load_study(STUDIES / "paper.yaml")
    assert {name: model.source.removeprefix("hub:") for name, model in of.models.items()} == {
        "llama-3.1-8b-base": "meta-llama/Llama-3.1-8B",
        "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
        "gemma-3-4b-base": "google/gemma-3-4b-pt",
        "gemma-3-4b-instruct": "google/gemma-3-4b-it",
        "qwen-3-8b-base": "Qwen/Qwen3-8B-Base",
        "qwen-3-8b-instruct": "Qwen/Qwen3-8B",
    }
    assert {name: (d.questions, d.few_shot, d.max_new_tokens, d.split) for name, d in of.datasets.items()} == {
        "triviaqa": (2000, 5, 20, "validation"),
        "webquestions": (1490, 5, 20, "test"),
        "coqa": (2000, 0, 20, "validation"),
        "hotpotqa": (2000, 0, 20, "validation"),
        "commonsenseqa": (1221, 2, 10, "validation"),
        "arc-challenge": (447, 2, 20, "test"),
    }
    main = of.main
    assert (main.num_candidates, main.sample, main.beam, main.alpha) == (10, "sample T=1.0", "beam M=10", 0.9)
    assert (main.epsilon, of.main_quality.threshold, of.evaluation.max_rejection[0]) == (0.0, 0.5, 0.5)
    assert (of.newline_stops, of.recipes[of.main.recipe].merge_stop_tokens) == (True, False)
    assert {scorer.source for scorer in of.scorers.values()} == {
        "hub:microsoft/deberta-large-mnli",
        "hub:cross-encoder/stsb-roberta-large",
    }


def test_a_study_like_the_papers_is_comparable_in_every_row() -> None:
    of, every = study(), tuple(RULES.paper.datasets)
    for model in RULES.paper.models:
        for measurement in (COQA, ACCURACY, CANDIDATES, replace(COQA, method="SAR"), replace(COQA, metric="ROC-AUC")):
            assert not incomparable(of, RULES, replace(measurement, model=model, datasets=every))
    assert not incomparable(of, RULES, replace(COQA, scorer="crossencoder", role="cross_encoder"))
    for recipe in of.recipes:
        assert not incomparable(of, RULES, replace(COQA, recipe=recipe, setting="diverse G=2 lambda=0.5"))


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("models/gemma-3-4b-base/source", "gemma-3-4b-pt"),
        ("datasets/coqa/source", "coqa"),
        ("quality/0/source", "AlignScore-large"),
        ("quality/0/source", "AlignScore-large.ckpt"),
    ],
)
def test_a_folder_of_the_same_name_is_the_same(path: str, folder: str) -> None:
    assert not incomparable(with_setting(path, f"folder:/there/{folder}"), RULES, COQA)
    assert incomparable(with_setting(path, f"folder:/there/{folder}-2"), RULES, COQA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("models/gemma-3-4b-base/source", "hub:google/gemma-3-1b-pt"),
        ("models/gemma-3-4b-base/style", "instruct"),
        ("models/gemma-3-4b-base/enable_thinking", True),
        ("datasets/coqa/adapter", "trivia_qa"),
        ("datasets/coqa/source", "hub:other/coqa"),
        ("datasets/coqa/config", "rc"),
        ("datasets/coqa/split", "train"),
        ("datasets/coqa/few_shot_split", "validation"),
        ("datasets/coqa/max_new_tokens", 30),
        ("datasets/triviaqa/few_shot", 4),
        ("quality/0/source", "hub:yzha/AlignScore/AlignScore-base.ckpt"),
        ("quality/0/backbone", "hub:FacebookAI/roberta-base"),
        ("quality/0/proxy_for", "AlignScore"),
        ("evaluation/max_rejection", [1.0, 0.5]),
        ("main/num_candidates", 9),
        ("main/alpha", 0.8),
        ("main/epsilon", 0.1),
        ("scorers/nli/source", "hub:other/nli"),
        ("scorers/nli/proxy_for", "DeBERTa"),
    ],
)
def test_what_differs_from_the_papers_protocol_is_named(path: str, value: object) -> None:
    recipe = "pool" if path.startswith("recipes/pool") else COQA.recipe
    of = replace(COQA, datasets=("triviaqa", "coqa"), method="Eccentricity", recipe=recipe)
    found = incomparable(with_setting(path, value), RULES, of)
    assert found.startswith(f"{path.replace('/0', '').replace('/', '.')} is {value}, the paper's is ")


def test_fewer_samples_than_the_papers_are_named() -> None:
    """Of a recipe outside the grid: one within it has to draw as many as are looked at."""
    content = study().model_dump(mode="json")
    content["grid"] = [entry for entry in content["grid"] if entry["recipe"] != "pool"]
    content["recipes"]["pool"]["sample"]["size"] = 9
    found = incomparable(study(**content), RULES, replace(COQA, recipe="pool"))
    assert found == "recipes.pool.sample.size is 9, the paper's is 10"


def test_a_metric_that_is_not_the_papers_is_named() -> None:
    other = with_setting("quality", [{"metric": "answer_f1", "title": "F1"}])
    assert incomparable(other, RULES, COQA) == "quality.metric is answer_f1, the paper's is alignscore"


def test_another_main_search_is_named() -> None:
    content = study().model_dump(mode="json")
    content["main"]["beam"] = "beam M=5"
    content["recipes"]["main"]["beam"]["widths"] = [5, 10]
    assert incomparable(study(**content), RULES, COQA) == "main.beam is beam M=5, the paper's is beam M=10"
    content["recipes"]["main"]["sample"]["temperatures"] = [1.0, 0.5]
    content["main"] |= {"beam": "beam M=10", "sample": "sample T=0.5"}
    assert incomparable(study(**content), RULES, COQA).startswith("main.sample is sample T=0.5")


@pytest.mark.parametrize("change", [("main/relevance", "nli"), ("scorers/crossencoder/source", "hub:other/sts")])
def test_the_scorer_of_relevance_affects_sar_alone(change: tuple[str, object]) -> None:
    of = with_setting(*change)
    assert incomparable(of, RULES, replace(COQA, method="SAR")).startswith("SAR's relevance: scorers.")
    assert not incomparable(of, RULES, COQA)


@pytest.mark.parametrize(
    ("path", "value", "affected", "not_affected"),
    [
        ("quality/0/proxy_for", "AlignScore", ACCURACY, CANDIDATES),
        ("quality/0/threshold", 0.4, replace(COQA, metric="ROC-AUC"), COQA),
        ("quality/0/threshold", 0.4, ACCURACY, CANDIDATES),
        ("evaluation/max_rejection", [1.0], COQA, replace(COQA, metric="ROC-AUC")),
        ("main/alpha", 0.8, replace(COQA, method="Eccentricity"), COQA),
        ("main/num_candidates", 5, CANDIDATES, ACCURACY),
        ("main/epsilon", 0.1, COQA, CANDIDATES),
        ("scorers/nli/proxy_for", "DeBERTa", COQA, CANDIDATES),
        (
            "recipes/strategies/diverse/size",
            20,
            replace(COQA, recipe="strategies", setting="diverse G=2 lambda=0.5"),
            replace(COQA, recipe="strategies", setting="hybrid B=3"),
        ),
        (
            "recipes/strategies/hybrid/size",
            20,
            replace(COQA, recipe="strategies", setting="hybrid B=3"),
            replace(COQA, recipe="strategies", setting="diverse G=2 lambda=0.5"),
        ),
    ],
)
def test_a_setting_affects_the_rows_that_it_changes(
    path: str, value: object, affected: Measurement, not_affected: Measurement | None
) -> None:
    of = with_setting(path, value)
    assert incomparable(of, RULES, affected)
    assert not_affected is None or not incomparable(of, RULES, not_affected)


BEAM = replace(COQA, variant="beamsearch")
TEMPLATES = dict.fromkeys(RULES.paper.datasets, "declared")
WORDING = RULES.decided.templates["p_true.txt"]
KNOWN = HowMade(frozenset({"float32"}), TEMPLATES, frozenset({WORDING}))


def release_like() -> Study:
    """The paper's study with generate's defaults for beams, and endings merged."""
    content = study().model_dump(mode="json")
    content["recipes"]["main"]["merge_stop_tokens"] = True
    content["recipes"]["main"]["beam"] |= {"length_penalty": 1.0, "early_stopping": False}
    content["main"]["beam"] = "beam M=10 length_penalty=1.0 early_stopping=False"
    return study(**content)


def test_what_print_does_not_state_may_differ_and_is_told() -> None:
    """It was refused as "not the paper's", though print states neither."""
    of = release_like()
    assert not incomparable(of, RULES, BEAM)
    behind = decisions_behind(of, RULES, BEAM, KNOWN)
    search = "beam search (recipes.main.beam.length_penalty is 1.0, recipes.main.beam.early_stopping is False)"
    assert {search, "ending (recipes.main.merge_stop_tokens is True)"} <= behind.keys()
    assert {"beam search", "ending"} <= decisions_behind(study(), RULES, BEAM, KNOWN).keys()
    assert not any(name.startswith("beam search") for name in decisions_behind(of, RULES, COQA, KNOWN))


@pytest.mark.parametrize(
    ("dtypes", "told"),
    [
        (frozenset({"float32"}), None),
        (frozenset({"bfloat16", "float32"}), "precision (bfloat16)"),
        (frozenset(), "precision (not known)"),
    ],
)
def test_what_models_ran_in_is_a_decision_where_it_is_not_the_release_s(dtypes: frozenset[str], told: str) -> None:
    behind = decisions_behind(study(), RULES, COQA, HowMade(dtypes))
    assert [name for name in behind if name.startswith("precision")] == ([told] if told else [])


@pytest.mark.parametrize(
    ("of", "there", "absent"),
    [
        (replace(COQA, method="PTrue"), {"P(True)", "greedy answer", "rejection"}, {"SAR", "sampling", "beam search"}),
        (replace(COQA, variant="multinomial"), {"sampling", "similarity"}, {"beam search", "top beam"}),
        (replace(BEAM, answer_source="top_beam"), {"top beam", "beam search"}, {"greedy answer", "sampling"}),
        (replace(BEAM, setting="hybrid B=3"), {"remainder draws"}, {"repeated diverse beams"}),
        (replace(COQA, metric="ROC-AUC"), {"ties"}, {"rejection"}),
        (ACCURACY, {"quality", "prompts"}, {"ties", "texts", "similarity", "subset of unknown rule"}),
        (replace(COQA, datasets=("coqa", "arc-challenge")), {"subset of unknown rule"}, set()),
    ],
)
def test_a_number_rests_on_the_decisions_that_concern_it(of: Measurement, there: set[str], absent: set[str]) -> None:
    behind = decisions_behind(study(), RULES, of, KNOWN)
    assert there <= behind.keys()
    assert not absent & behind.keys()


@pytest.mark.parametrize(
    ("method", "made", "told"),
    [
        ("Dissimilarity", HowMade(), ["prompts (template not known)"]),
        ("PTrue", replace(KNOWN, p_true=frozenset({WORDING})), ["prompts", "P(True)"]),
        ("PTrue", replace(KNOWN, p_true=frozenset({WORDING, "0" * 64})), ["prompts", "P(True) (another wording)"]),
        ("PTrue", replace(KNOWN, p_true=frozenset({WORDING, ""})), ["prompts", "P(True) (wording not known)"]),
        ("PTrue", HowMade(), ["prompts (template not known)", "P(True) (wording not known)"]),
    ],
)
def test_a_template_that_is_another_one_or_not_known_is_told(method: str, made: HowMade, told: list[str]) -> None:
    """A changed wording of P(True), and a run without its prompts beside it, passed unseen."""
    behind = decisions_behind(study(), RULES, replace(COQA, method=method), made)
    assert [name for name in behind if name.startswith(("prompts", "P(True)"))] == told


def test_decisions_of_several_numbers_stand_once_in_the_declared_order() -> None:
    several = [
        decisions_behind(study(), RULES, replace(COQA, method="PTrue"), KNOWN),
        decisions_behind(study(), RULES, replace(BEAM, method="PTrue"), replace(KNOWN, p_true=frozenset({"0"}))),
    ]
    joined = ordered({name: source for behind in several for name, source in behind.items()}, RULES)
    assert named(joined, "ours") == (
        "prompts; questions; ending; greedy answer; beam search; texts; P(True) (another wording); ties"
    )
    assert named(joined, "release") == "rejection; quality"


def test_every_decision_names_methods_and_settings_that_there_are() -> None:
    for decision in RULES.decided.decisions:
        assert {*decision.of.methods} <= METHODS.keys()
        assert {*decision.of.settings} <= {*KINDS}
        assert {*decision.of.datasets} <= RULES.paper.datasets.keys()
        assert {*decision.paths} <= {*setting_paths()}


def test_templates_are_those_declared_and_another_is_not_comparable() -> None:
    used = {name: file_sha256(PROMPTS / name) for name in RULES.decided.templates}
    assert used == RULES.decided.templates
    assert not other_template(study(), RULES, COQA, {"coqa": used["base/coqa.txt"]})
    assert "base/coqa.txt" in other_template(study(), RULES, COQA, {"coqa": "0" * 64})
