"""Where a study measures the paper's numbers, and whether it measures as the paper did."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beamuq.io import file_sha256
from beamuq.methods.registry import METHODS
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study import parquet_tables
from beamuq_study.comparison import comparison_inputs
from beamuq_study.comparison.comparison_inputs import (
    ComparisonInputs,
    differences,
    settings,
    table_cell,
)
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import Inputs, as_stored
from beamuq_study.study_config import STUDIES, Study, load_study
from simulated_paper_run import NUMBERS, RULES, study

COQA = Cell("gemma-3-4b-base", "coqa", "main", "nli")
SCORES, CANDIDATES, ACCURACY = {"scores", "PRR", "Dissimilarity"}, {"candidates"}, {"accuracy"}
SPECTRAL, ROC_AUC = {"scores", "PRR", "Eccentricity"}, {"scores", "ROC-AUC", "Dissimilarity"}
SAR = {"scores", "PRR", "SAR"}
DIVERSE, HYBRID = ({"scores", "PRR", "Dissimilarity", kind} for kind in ("diverse", "hybrid"))


def first(of: Study, kinds: set[str] = SCORES, cell: Cell = COQA, role: str | None = "nli") -> str:
    """The first setting that is not the paper's."""
    return comparison_inputs.first(differences(of, RULES, cell, role), kinds, RULES)


def with_setting(path: str, value: object) -> Study:
    """The paper's study with what stands at a path replaced."""
    content = study().model_dump(mode="json")
    *names, last = path.split("/")
    node: Any = content
    for name in names:
        node = node[int(name) if isinstance(node, list) else name]
    node[last] = value
    return study(**content)


def test_all_numbers_of_the_paper_are_there_and_have_a_place_in_the_papers_study() -> None:
    keys = NUMBERS[["table", "model", "dataset", "metric", "method", "variant", "setting"]]
    assert len(keys) == len(keys.drop_duplicates()) == 1958
    assert NUMBERS["printed_std"].notna().sum() == 840
    assert NUMBERS["printed"].between(-1, 1).all()
    assert not (NUMBERS["printed_std"] <= 0).any()
    assert set(NUMBERS["method"]) - {""} <= METHODS.keys()
    places = NUMBERS[NUMBERS["dataset"] != "mean"][["table", "model", "dataset"]].drop_duplicates()
    cells = [table_cell(study(), RULES.tables[name], *place) for name, *place in places.to_numpy()]
    assert None not in cells


@pytest.mark.parametrize(
    ("table", "recipe", "scorer"),
    [
        ("tab:qa_gemma4b", "main", "nli"),
        ("tab:abl_rocauc", "main", "nli"),
        ("tab:abl_crossencoder", "main", "crossencoder"),
        ("tab:abl_sampling", "strategies", "nli"),
        ("tab:abl_ecc_params", "strategies", "nli"),
        ("tab:base_accs", "main", ""),
    ],
)
def test_a_table_of_the_paper_is_looked_up_where_it_was_measured(
    table: str, recipe: str, scorer: str
) -> None:
    found = table_cell(study(), RULES.tables[table], COQA.model, COQA.dataset)
    assert found == replace(COQA, recipe=recipe, scorer=scorer)
    assert table_cell(study(), RULES.tables[table], COQA.model, "no-such") is None


@pytest.mark.parametrize(
    ("method", "variant", "setting", "stored"),
    [
        ("Dissimilarity", "beamsearch", "beam", ("beamsearch", "")),
        ("Dissimilarity", "multinomial", "multinomial T=0.7", ("multinomial", "sample T=0.7")),
        ("Dissimilarity", "multinomial", "multinomial T=1.0", ("multinomial", "")),
        ("Eccentricity", "beamsearch", "K=3", ("beamsearch", "K=3")),
        ("SemanticEntropy", "", "", ("multinomial", "")),
        ("Prob", "", "", ("", "")),
    ],
)
def test_a_row_of_the_paper_is_stored_under_its_form_and_setting(
    method: str, variant: str, setting: str, stored: tuple[str, str]
) -> None:
    row = NUMBERS.iloc[:1].assign(method=method, variant=variant, setting=setting)
    assert tuple(as_stored(study(), row).iloc[0][["variant", "setting"]]) == stored


def test_what_makes_a_measurement_the_papers_is_compared_or_harmless_with_its_reason() -> None:
    """By hand: a setting that is neither compared nor declared harmless would pass unseen."""
    compared = set(settings(RULES.paper, COQA)) - set(RULES.harmless)
    assert {
        path for path in compared if re.match(r"(models|datasets|scorers|main|evaluation)\.", path)
    } == {
        *(f"models.*.{name}" for name in ("source", "style", "enable_thinking", "temperature")),
        "models.*.tokenizer",
        *(
            f"datasets.*.{name}"
            for name in ("adapter", "source", "config", "split", "few_shot_split", "few_shot")
        ),
        "datasets.*.max_new_tokens",
        "datasets.*.normalizer",
        *(f"datasets.*.{name}" for name in ("only_turns", "turns_left_out")),
        *(f"scorers.*.{name}" for name in ("kind", "source", "proxy_for")),
        *(f"main.{name}" for name in ("sample", "beam", "num_candidates", "alpha", "epsilon")),
        "evaluation.max_rejection",
    }
    assert all(RULES.harmless.values())


def test_the_papers_study_is_the_papers() -> None:
    """By hand: an edit of studies/paper.yaml that is no longer the paper's would otherwise be
    compared with itself.
    """
    of = load_study(STUDIES / "paper.yaml")
    assert {name: model.source.removeprefix("hub:") for name, model in of.models.items()} == {
        "llama-3.1-8b-base": "meta-llama/Llama-3.1-8B",
        "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
        "gemma-3-4b-base": "google/gemma-3-4b-pt",
        "gemma-3-4b-instruct": "google/gemma-3-4b-it",
        "qwen-3-8b-base": "Qwen/Qwen3-8B-Base",
        "qwen-3-8b-instruct": "Qwen/Qwen3-8B",
    }
    assert {
        name: (d.questions, d.few_shot, d.max_new_tokens, d.split)
        for name, d in of.datasets.items()
    } == {
        "triviaqa": (2000, 5, 20, "validation"),
        "webquestions": (1490, 5, 20, "test"),
        "coqa": (2000, 0, 20, "validation"),
        "hotpotqa": (2000, 0, 20, "validation"),
        "commonsenseqa": (1221, 2, 10, "validation"),
        "arc-challenge": (447, 2, 20, "test"),
    }
    main = of.main
    assert (main.num_candidates, main.sample, main.beam, main.alpha) == (
        10,
        "sample T=1.0",
        "beam M=10",
        0.9,
    )
    assert (main.epsilon, of.main_quality.threshold, of.evaluation.max_rejection[0]) == (
        0.0,
        0.5,
        0.5,
    )
    assert (of.newline_stops, of.recipes[of.main.recipe].merge_stop_tokens) == (True, False)
    sources = {"hub:microsoft/deberta-large-mnli", "hub:cross-encoder/stsb-roberta-large"}
    assert {scorer.source for scorer in of.scorers.values()} == sources


def test_a_study_like_the_papers_is_comparable_in_every_cell() -> None:
    of = study()
    for model in RULES.paper.models:
        for dataset in RULES.paper.datasets:
            assert not differences(of, RULES, Cell(model, dataset, "main", "nli"))
    assert not differences(of, RULES, replace(COQA, scorer="crossencoder"), "cross_encoder")
    assert not differences(of, RULES, replace(COQA, scorer=""), None)
    for recipe in of.recipes:
        assert not differences(of, RULES, replace(COQA, recipe=recipe))


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
    assert not first(with_setting(path, f"folder:/there/{folder}"))
    assert first(with_setting(path, f"folder:/there/{folder}-2"))


@pytest.mark.parametrize(
    ("path", "value", "affected", "not_affected"),
    [
        ("models/gemma-3-4b-base/source", "hub:google/gemma-3-1b-pt", CANDIDATES, None),
        ("models/gemma-3-4b-base/enable_thinking", True, ACCURACY, None),
        ("datasets/coqa/split", "train", ACCURACY, None),
        ("datasets/coqa/max_new_tokens", 30, CANDIDATES, None),
        ("quality/0/backbone", "hub:FacebookAI/roberta-base", SCORES, CANDIDATES),
        ("quality/0/proxy_for", "AlignScore", ACCURACY, CANDIDATES),
        ("quality/0/threshold", 0.4, ROC_AUC, SCORES),
        ("quality/0/threshold", 0.4, ACCURACY, CANDIDATES),
        ("evaluation/max_rejection", [1.0, 0.5], SCORES, ROC_AUC),
        ("main/alpha", 0.8, SPECTRAL, SCORES),
        ("main/epsilon", 0.1, SCORES, CANDIDATES),
        ("scorers/nli/source", "hub:other/nli", SCORES, ACCURACY),
        ("main/relevance", "nli", SAR, SCORES),
        ("scorers/crossencoder/source", "hub:other/sts", SAR, SCORES),
        ("recipes/strategies/diverse/size", 20, DIVERSE, HYBRID),
        ("recipes/strategies/hybrid/size", 20, HYBRID, DIVERSE),
    ],
)
def test_a_setting_that_is_not_the_papers_affects_the_numbers_that_it_changes(
    path: str, value: object, affected: set[str], not_affected: set[str] | None
) -> None:
    of = with_setting(path, value)
    cell = replace(COQA, recipe="strategies") if path.startswith("recipes") else COQA
    assert "the paper's is" in first(of, affected, cell)
    assert not_affected is None or not first(of, not_affected, cell)


def test_another_number_of_candidates_affects_scores_and_no_accuracy() -> None:
    content = study()
    main = content.main.model_copy(update={"num_candidates": 9})
    fewer = content.model_copy(update={"main": main})
    assert "main.num_candidates is 9, the paper's is 10" in first(fewer, CANDIDATES)
    assert not first(fewer, ACCURACY)


def test_fewer_samples_and_another_search_or_metric_are_named() -> None:
    content = study().model_dump(mode="json")
    content["grid"] = [entry for entry in content["grid"] if entry["recipe"] != "repeated_draws"]
    # of a recipe outside the grid: one within has to draw enough
    content["recipes"]["repeated_draws"]["sample"]["size"] = 9
    assert "recipes.repeated_draws.sample.size is 9" in first(
        study(**content), CANDIDATES, replace(COQA, recipe="repeated_draws")
    )
    content["main"] |= {"beam": "beam M=5", "num_candidates": 5}
    content["recipes"]["main"]["beam"]["widths"] = [5, 10]
    assert first(study(**content)) == "main.beam is beam M=5, the paper's is beam M=10"
    other = with_setting("quality", [{"metric": "answer_f1", "title": "F1"}])
    assert first(other) == "quality.metric is answer_f1, the paper's is alignscore"


def test_what_print_does_not_state_may_differ() -> None:
    content = study().model_dump(mode="json")
    content["recipes"]["main"]["merge_stop_tokens"] = True
    content["recipes"]["main"]["beam"] |= {"length_penalty": 1.0, "early_stopping": False}
    content["main"]["beam"] = "beam M=10 length_penalty=1.0 early_stopping=False"
    assert not first(study(**content))


def test_another_model_dataset_or_template_is_named(tmp_path: Path) -> None:
    content = study().model_dump(mode="json")
    content["models"]["own"] = content["models"][COQA.model] | {"label": "own"}
    assert (
        first(study(**content), cell=replace(COQA, model="own"))
        == "own is none of the paper's models"
    )
    assert {name: file_sha256(PROMPTS / name) for name in RULES.templates} == RULES.templates
    prompts = Artifact("prompts", "coqa", style="base")
    for digest, named in ((RULES.templates["base/coqa.txt"], []), ("0" * 64, ["prompts"])):
        made = {"template_sha256": digest}
        parquet_tables.write(
            tmp_path / prompts.path, "prompts", [], cell=prompts.cell, provenance=made
        )
        results = ComparisonInputs(study(), Inputs({}, study()), NUMBERS, RULES, tmp_path)
        assert [path for path, _ in results.differences(COQA)] == named
