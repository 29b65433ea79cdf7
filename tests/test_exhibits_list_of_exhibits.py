"""Every label of the paper has an exhibit; what each asks for, and what a study that cannot supply it is told."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import exhibits_study
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits import exhibit_inputs, list_of_exhibits
from beamuq.machine_config import Machine
from beamuq.parquet_tables import Artifact
from beamuq.plan.study_on_machine import BEYOND_PAPER, Plan
from beamuq.study_config import STUDIES, Study, load_study

PUBLISHED = Path(__file__).resolve().parents[1] / "workflow" / "paper_numbers" / "paper_values.csv"
TABLES = {
    *("test_datasets", "lmpoly_methods", "qa_mean_prr", "abl_sampling", "abl_normalization", "abl_other_methods"),
    *("abl_ecc_params", "abl_crossencoder", "prompts", "base_accs", "topbeam_scoring", "abl_rocauc", "abl_prauc"),
}
FIGURES = {
    *("sampling_vs_beamsearch", "redundancy", "beam_mass_threshold", "abl_length", "abl_nsamples", "prr_curves"),
    *("sement_different_nsamples", "rebuttal_nsamples_across_data", "abl_prob_mass"),
    *("triviaqa-gemma4b", "webq-gemma4b", "coqa-gemma4b-one"),
}
STUDY = exhibits_study.study()


def test_every_label_of_the_paper_has_an_exhibit() -> None:
    paper = load_study(STUDIES / "paper.yaml")
    family = {f"qa_{model.label}" for model in paper.models.values()}
    by_kind: dict[str, set[str]] = {"table": set(), "figure": set()}
    for name in list_of_exhibits.labels(paper):
        exhibit = list_of_exhibits.exhibit(name, paper)
        if not exhibit.beyond_paper:
            by_kind[exhibit.kind].add(name)
    assert by_kind == {"table": TABLES | family, "figure": FIGURES}
    assert (len(by_kind["table"]), len(by_kind["figure"])) == (19, 12)


def test_what_is_held_against_print_is_not_beyond_the_paper_and_the_report_shows_that_apart() -> None:
    plan = Plan(load_study(STUDIES / "paper.yaml"), Machine(study="paper"), "paper", STUDIES / "paper.yaml")
    section = plan.report_section("1 Tables")
    shown = {name: section(SimpleNamespace(name=name)) for name in list_of_exhibits.labels(plan.study)}
    assert shown["qa_mean_prr_1"] == shown["quality_agreement"] == BEYOND_PAPER
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        assert {shown[row["table"].removeprefix("tab:")] for row in csv.DictReader(file)} == {"1 Tables"}


@pytest.mark.parametrize(
    ("label", "told"), [("PRR_curve", "did you mean 'prr_curves'"), ("qa_gemma4b", "no such exhibit")]
)
def test_an_unknown_label_or_one_of_another_study_s_model_is_refused(label: str, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        list_of_exhibits.exhibit(label, STUDY)


@pytest.mark.parametrize("name", list_of_exhibits.labels(STUDY))
def test_needs_are_distinct_files_of_the_grid(name: str) -> None:
    needs = list_of_exhibits.exhibit(name, STUDY).artifacts(STUDY)
    cells = {(e.recipe, m, d) for e in STUDY.grid for m in e.models for d in e.datasets}
    assert len(set(needs)) == len(needs)
    assert all((need.recipe, need.model, need.dataset) in cells for need in needs if need.recipe)


@pytest.mark.parametrize("name", ["redundancy", "beam_mass_threshold", "abl_prob_mass", "triviaqa-gemma4b"])
def test_figure_asks_for_the_one_cell_it_shows(name: str) -> None:
    needs = list_of_exhibits.exhibit(name, STUDY).artifacts(STUDY)
    assert {(need.model, need.dataset) for need in needs if need.model} == {(exhibits_study.BASE, "triviaqa")}


MERGED = {"recipe": "merged", "models": [exhibits_study.BASE], "datasets": ["coqa"], "scorers": ["cosine"]}
MAIN_ONLY = {"grid": [exhibits_study.CONTENT["grid"][0] | {"scorers": ["cosine"]}]}

MAIN_MERGED = exhibits_study.CONTENT["recipes"] | {
    "main": exhibits_study.CONTENT["recipes"]["main"] | {"merge_stop_tokens": True}
}
NO_PROB = exhibits_study.CONTENT["scoring"] | {"main": {"methods": ["Dissimilarity", "CocoaMSP", "CocoaPPL"]}}


@pytest.mark.parametrize(
    ("name", "changes", "fix"),
    [
        ("topbeam_scoring", {"answer_source": ["greedy"]}, "add top_beam to answer_source"),
        ("abl_rocauc", {"evaluation": {"metrics": ["PRR"]}}, "add it to evaluation.metrics"),
        ("abl_prauc", {"evaluation": {"metrics": ["PRR"]}}, "add it to evaluation.metrics"),
        ("abl_crossencoder", MAIN_ONLY, "add it to the grid's scorers"),
        ("abl_sampling", MAIN_ONLY, "add one or drop the exhibit"),
        ("abl_normalization", MAIN_ONLY, "add one or drop the exhibit"),
        ("abl_ecc_params", MAIN_ONLY, "add one or drop the exhibit"),
        ("abl_nsamples", MAIN_ONLY, "add one or drop the exhibit"),
        ("sement_different_nsamples", MAIN_ONLY, "add one or drop the exhibit"),
        ("rebuttal_nsamples_across_data", MAIN_ONLY, "add one or drop the exhibit"),
        ("endings", MAIN_ONLY, r"recipe of the grid with merge_stop_tokens: true and 'beam M=10'.* drop the exhibit"),
        ("endings", {"grid": [*MAIN_ONLY["grid"], MERGED | {"questions": 3}]}, "asks 3 questions .*, 24 in 'main'"),
        ("endings", {"grid": [MERGED, MERGED | {"recipe": "main", "models": ["tiny-chat"]}]}, "lacks tiny-base/coqa"),
        ("endings", {"recipes": MAIN_MERGED}, "recipes.main.merge_stop_tokens is true; remove it there or drop"),
        ("endings", {"scoring": NO_PROB}, "scoring.main.methods lacks Prob; add it or drop the exhibit"),
    ],
)
def test_study_that_cannot_supply_an_exhibit_is_told_the_fix(name: str, changes: dict[str, object], fix: str) -> None:
    study = exhibits_study.study(**changes)
    with pytest.raises(BeamUQError, match=fix) as told:
        list_of_exhibits.exhibit(name, study).artifacts(study)
    assert "\n" not in str(told.value)


def of_fewer_datasets(datasets: tuple[str, ...], scorer: str = "cosine") -> Study:
    """The study, its chat model on these datasets alone."""
    main, *others = exhibits_study.CONTENT["grid"]
    chat = {"models": [exhibits_study.CHAT], "datasets": list(datasets), "scorers": [scorer]}
    return exhibits_study.study(grid=[main | {"models": [exhibits_study.BASE]}, main | chat, *others])


@pytest.mark.parametrize("name", ["qa_mean_prr", "augrc"])
def test_the_heading_of_a_mean_over_fewer_datasets_names_them(tmp_path: Path, name: str) -> None:
    study = of_fewer_datasets(("triviaqa", "coqa"))
    whole = exhibits_study.Results(tmp_path, STUDY).built(name).csv()
    built = exhibits_study.Results(tmp_path, study).built(name)
    heads = {title.replace("†", "") for title in built.grid.header[0 if name == "augrc" else -1]}
    assert heads == {"Tiny 1B base", "Tiny 1B instruct (TriviaQA and CoQA alone)"}
    rows, of_all = (pd.read_csv(io.StringIO(text)).set_index("model") for text in (built.csv(), whole))
    pd.testing.assert_frame_equal(rows.loc[exhibits_study.BASE], of_all.loc[exhibits_study.BASE])
    chat = rows.loc[exhibits_study.CHAT]
    assert set(chat[chat["dataset"] == "mean"]["n"]) == {2 * exhibits_study.SIZE["main"]}


def test_a_cell_that_the_study_lacks_has_a_dash(tmp_path: Path) -> None:
    built = exhibits_study.Results(tmp_path, of_fewer_datasets(("coqa",))).built("base_accs")
    texts = {row.titles[0]: [cell.text for cell in row.cells] for row in built.grid.body}
    assert [text == "–" for text in texts["Tiny 1B instruct"]] == [name != "coqa" for name in exhibits_study.DATASETS]
    assert "–" not in texts["Tiny 1B base"]
    assert "–: not in the study." in built.caption


def test_a_model_without_any_main_cell_is_refused() -> None:
    study = of_fewer_datasets(("coqa",), "rouge")
    with pytest.raises(BeamUQError, match="lacks tiny-chat in recipe 'main' with scorer 'cosine'; add it to grid"):
        list_of_exhibits.exhibit("qa_mean_prr", study).artifacts(study)


def test_file_of_another_cell_is_refused(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    wanted, other = Artifact("questions", dataset="triviaqa"), Artifact("questions", dataset="coqa")
    (path,) = results.paths([other])
    path.rename(tmp_path / wanted.path)
    with pytest.raises(BeamUQError, match=r"questions/triviaqa.parquet: holds .*coqa.*, expected .*triviaqa"):
        exhibit_inputs.Inputs.read(tmp_path, [wanted])


def test_evaluation_without_the_row_is_named(tmp_path: Path) -> None:
    item = list_of_exhibits.exhibit("qa_tiny", STUDY)
    needs = item.artifacts(STUDY)
    paths = exhibits_study.Results(tmp_path, STUDY).paths(needs)
    table = parquet_tables.read(paths[0], "evaluation").table
    kept = table.filter([row["method"] != "MTE" for row in table.to_pylist()])
    parquet_tables.write(paths[0], "evaluation", kept, cell=needs[0].cell)
    with pytest.raises(BeamUQError, match="evaluation: no row for tiny-base triviaqa MTE"):
        item.build(STUDY, exhibit_inputs.Inputs.read(tmp_path, needs))
