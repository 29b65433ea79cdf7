"""The printed numbers as data, where a study measures them, and the declared files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from beamuq.comparison import claims, comparison_rules, printed_numbers
from beamuq.comparison.paper_settings import COUNTED, Measurement, incomparable, paths
from beamuq.comparison.printed_numbers import RowKey, place
from beamuq.errors import BeamUQError
from beamuq.study import Study
from simulated_paper_run import PRINTED, RULES, study

COQA = Measurement("gemma-3-4b-base", ("coqa",), "main", scorer="nli", method="Dissimilarity")
ACCURACY = replace(COQA, part="accuracy", scorer="", metric="accuracy", method="")
CANDIDATES = replace(COQA, part="candidates", scorer="", method="")

# Settings of a study that need not be the paper's, and why. A new one that changes a measurement belongs into the
# protocol of comparison.yaml, not here.
HARMLESS = {
    "title": "words",
    "demo": "a demo is held against nothing",
    "seed": "chance, within the spread",
    "batch_questions": "how many questions at once: rounding alone",
    "models.*.label": "words",
    "models.*.title": "words",
    "datasets.*.title": "words",
    "datasets.*.category": "words",
    "datasets.*.licence": "words",
    "recipes.*.sample.temperatures": "in the strategies' names",
    "recipes.*.beam.widths": "in the strategies' names",
    "recipes.*.diverse.groups": "in the strategies' names",
    "recipes.*.diverse.penalties": "in the strategies' names",
    "recipes.*.hybrid.beams": "in the strategies' names",
    "recipes.*.custom.*.strategy": "rows that the paper lacks",
    "recipes.*.custom.*.policy": "rows that the paper lacks",
    "recipes.*.custom.*.options": "rows that the paper lacks",
    "recipes.*.shipped": "rows that the paper lacks",
    "grid.*.recipe": "which rows there are",
    "grid.*.models": "which rows there are",
    "grid.*.datasets": "which rows there are",
    "grid.*.questions": "counted where they were asked",
    "grid.*.scorers": "which rows there are; their settings are compared by part",
    "scorers.*.title": "words",
    "scorers.*.equivalence_threshold": "no printed row of a scorer without classes uses it",
    "quality.title": "words",
    "main.recipe": "a name",
    "main.scorer": "a name; the scorer's settings are compared",
    "main.relevance": "a name; the scorer's settings are compared, of SAR alone",
    "scoring.*.methods": "which rows there are",
    "scoring.*.every_strategy": "which rows there are",
    "scoring.*.epsilon": "which rows there are",
    "scoring.*.alpha": "which rows there are",
    "scoring.*.fixed_k": "which rows there are",
    "scoring.*.budgets": "which rows there are",
    "answer_source": "which rows there are",
    "evaluation.metrics": "which rows there are",
    "evaluation.resamples": "told where they are fewer than declared",
    "evaluation.confidence": "of intervals, which are not held against print",
    "exhibits": "which pages there are",
}


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of the declared files with one text replaced once."""
    folder = tmp_path / "published"
    shutil.copytree(comparison_rules.FOLDER, folder)
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
        printed_numbers.read_printed_numbers(RULES, changed(tmp_path, "paper_values.csv", old, new))


def test_a_missing_and_a_repeated_row_are_refused(tmp_path: Path) -> None:
    first = (comparison_rules.FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[1]
    with pytest.raises(BeamUQError, match="119 rows, expected 120"):
        printed_numbers.read_printed_numbers(RULES, changed(tmp_path / "a", "paper_values.csv", first + "\n", ""))
    second = (comparison_rules.FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[2]
    with pytest.raises(BeamUQError, match="stands twice"):
        printed_numbers.read_printed_numbers(RULES, changed(tmp_path / "b", "paper_values.csv", second, first))


@pytest.mark.parametrize("name", ["comparison_rules.yaml", "errata.yaml", "claims.yaml"])
def test_an_unknown_key_of_a_declared_file_is_named(tmp_path: Path, name: str) -> None:
    word = {"comparison_rules.yaml": "power:", "errata.yaml": "mean_columns:", "claims.yaml": "where:"}[name]
    folder = changed(tmp_path, name, word, "tolerance:")
    readers = {
        "comparison_rules.yaml": comparison_rules.read,
        "errata.yaml": _ledger,
        "claims.yaml": claims.read_claims,
    }
    with pytest.raises(BeamUQError, match=name):
        readers[name](folder)


def _ledger(folder: Path) -> object:
    from beamuq.comparison.errata import read_ledger

    return read_ledger(folder)


def test_every_printed_number_has_a_place_in_the_papers_study() -> None:
    of = study()
    assert not [found for r in PRINTED if isinstance(found := place(of, r.key, RULES), str)]


@pytest.mark.parametrize(
    ("key", "recipe", "scorer", "stored"),
    [
        (row(), "main", "nli", ("PRR", "Dissimilarity", "beamsearch", "", "greedy")),
        (row(table="tab:abl_rocauc", metric="ROC-AUC"), "main", "nli", ("ROC-AUC", *row()[4:6], "", "greedy")),
        (row(table="tab:abl_crossencoder"), "main", "crossencoder", ("PRR", *row()[4:6], "", "greedy")),
        (row(table="tab:abl_sampling", setting="beam"), "strategies", "nli", ("PRR", *row()[4:6], "", "greedy")),
        (
            row(table="tab:abl_sampling", variant="multinomial", setting="multinomial T=0.7"),
            "strategies",
            "nli",
            ("PRR", "Dissimilarity", "multinomial", "sample T=0.7", "greedy"),
        ),
        (
            row(table="tab:abl_sampling", variant="multinomial", setting="multinomial T=1.0"),
            "strategies",
            "nli",
            ("PRR", "Dissimilarity", "multinomial", "", "greedy"),
        ),
        (
            row(table="tab:abl_ecc_params", method="Eccentricity", setting="K=3"),
            "strategies",
            "nli",
            ("PRR", "Eccentricity", "beamsearch", "K=3", "greedy"),
        ),
    ],
)
def test_a_printed_row_is_looked_up_where_it_was_measured(
    key: RowKey, recipe: str, scorer: str, stored: tuple[str, ...]
) -> None:
    found = place(study(), key, RULES)
    assert not isinstance(found, str)
    assert [(need.recipe, need.scorer) for need in found.needs] == [(recipe, scorer)]
    assert tuple(found.key) == stored


def test_a_mean_needs_every_dataset_and_the_top_beams_table_the_top_beam() -> None:
    found = place(study(), row(table="tab:topbeam_scoring", dataset="mean"), RULES)
    assert not isinstance(found, str)
    assert len(found.needs) == 6
    assert found.key.answer_source == "top_beam"


def with_setting(path: str, value: object) -> Study:
    """The paper's study with what stands at a path replaced."""
    content = study().model_dump(mode="json")
    *names, last = path.split("/")
    node = content
    for name in names:
        node = node[name]
    node[last] = value
    return study(**content)


def test_every_setting_of_a_study_must_be_the_papers_or_is_harmless() -> None:
    settings, required = set(paths(Study)), set(paths(comparison_rules.Protocol))
    assert not required & set(HARMLESS)
    assert settings == required | set(HARMLESS), "declare it in comparison.yaml's protocol, or list it as harmless"
    assert COUNTED in required


def test_a_study_like_the_papers_is_comparable_in_every_row() -> None:
    of, every = study(), tuple(RULES.protocol.datasets)
    for model in RULES.protocol.models:
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
        ("quality/source", "AlignScore-large"),
        ("quality/source", "AlignScore-large.ckpt"),
    ],
)
def test_a_folder_of_the_same_name_is_the_same(path: str, folder: str) -> None:
    assert not incomparable(with_setting(path, f"folder:/there/{folder}"), RULES, COQA)
    assert incomparable(with_setting(path, f"folder:/there/{folder}-2"), RULES, COQA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("newline_stops", False),
        ("merge_stop_tokens", True),
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
        ("recipes/pool/beam/early_stopping", True),  # main's own is named in main.beam too
        ("quality/source", "hub:yzha/AlignScore/AlignScore-base.ckpt"),
        ("quality/backbone", "hub:FacebookAI/roberta-base"),
        ("quality/proxy_for", "AlignScore"),
        ("evaluation/max_rejection", 1.0),
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
    assert found.startswith(f"{path.replace('/', '.')} is {value}, the paper's is ")


def test_fewer_samples_than_the_papers_are_named() -> None:
    """Of a recipe outside the grid: one within it has to draw as many as are looked at."""
    content = study().model_dump(mode="json")
    content["grid"] = [entry for entry in content["grid"] if entry["recipe"] != "pool"]
    content["recipes"]["pool"]["sample"]["size"] = 9
    found = incomparable(study(**content), RULES, replace(COQA, recipe="pool"))
    assert found == "recipes.pool.sample.size is 9, the paper's is 10"


def test_a_metric_that_is_not_the_papers_is_named() -> None:
    other = with_setting("quality", {"metric": "answer_f1", "title": "F1"})
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
        ("quality/proxy_for", "AlignScore", ACCURACY, CANDIDATES),
        ("quality/threshold", 0.4, replace(COQA, metric="ROC-AUC"), COQA),
        ("quality/threshold", 0.4, ACCURACY, CANDIDATES),
        ("evaluation/max_rejection", 1.0, COQA, replace(COQA, metric="ROC-AUC")),
        ("main/alpha", 0.8, replace(COQA, method="Eccentricity"), COQA),
        ("main/num_candidates", 5, CANDIDATES, ACCURACY),
        ("main/epsilon", 0.1, COQA, CANDIDATES),
        ("scorers/nli/proxy_for", "DeBERTa", COQA, CANDIDATES),
        ("newline_stops", False, ACCURACY, None),
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
