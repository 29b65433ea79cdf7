"""The printed numbers as data, where a study measures them, and the declared files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beamuq import parquet_tables
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.paper_settings import Measurement, compared_paths, incomparable, other_template, setting_paths
from beamuq.comparison.printed_numbers import RowKey, measured_place
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.read_evaluation import Key
from beamuq.methods.registry import METHODS
from beamuq.parquet_tables import Artifact, file_sha256
from beamuq.study_config import PROMPTS, STUDIES, Study, load_study
from simulated_paper_run import PRINTED, RULES, study

COQA = Measurement("gemma-3-4b-base", ("coqa",), "main", scorer="nli", method="Dissimilarity")
ACCURACY = replace(COQA, part="accuracy", scorer="", metric="accuracy", method="")
CANDIDATES = replace(COQA, part="candidates", scorer="", method="")


def test_all_printed_numbers_are_there_and_have_a_place_in_the_papers_study() -> None:
    assert len(PRINTED) == len({printed.key for printed in PRINTED}) == 1958
    assert sum(printed.std is not None for printed in PRINTED) == 840
    assert all(-1 <= printed.value <= 1 and (printed.std is None or printed.std > 0) for printed in PRINTED)
    assert {printed.key.method for printed in PRINTED} - {""} <= METHODS.keys()
    of = study()
    assert not [found for printed in PRINTED if isinstance(found := measured_place(of, printed.key, RULES), str)]


def row(**changes: str) -> RowKey:
    key = RowKey("tab:qa_gemma4b", "gemma-3-4b-base", "coqa", "PRR", "Dissimilarity", "beamsearch", "")
    return key._replace(**changes)


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
    compared = compared_paths(frozenset(RULES.harmless))
    assert set(setting_paths()) == {*compared, *RULES.harmless}
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


def test_what_print_does_not_state_may_differ() -> None:
    """It was refused as "not the paper's", though print states neither."""
    content = study().model_dump(mode="json")
    content["recipes"]["main"]["merge_stop_tokens"] = True
    content["recipes"]["main"]["beam"] |= {"length_penalty": 1.0, "early_stopping": False}
    content["main"]["beam"] = "beam M=10 length_penalty=1.0 early_stopping=False"
    assert not incomparable(study(**content), RULES, COQA)


def test_templates_are_those_declared_and_another_is_not_comparable(tmp_path: Path) -> None:
    used = {name: file_sha256(PROMPTS / name) for name in RULES.templates}
    assert used == RULES.templates
    assert not other_template(study(), RULES, COQA, {"coqa": used["base/coqa.txt"]})
    assert "base/coqa.txt" in other_template(study(), RULES, COQA, {"coqa": "0" * 64})
    prompts = Artifact("prompts", "coqa", style="base")
    made = {"template_sha256": "0" * 64}
    parquet_tables.write(tmp_path / prompts.path, "prompts", [], cell=prompts.cell, provenance=made)
    results = MeasuredResults(study(), Inputs({}), [], tmp_path)
    assert results.templates(COQA.model, ["coqa", "triviaqa"]) == {"coqa": "0" * 64}
