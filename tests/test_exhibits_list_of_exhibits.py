"""Every label of the paper has an exhibit; what each asks for, and what a study that cannot supply
it is told.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.machine_config import Machine
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan import check_study
from beamuq_study.plan.study_on_machine import BEYOND_PAPER, Plan
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import STUDIES, load_study

PUBLISHED = Path(__file__).resolve().parents[1] / "workflow" / "paper_numbers" / "paper_values.csv"
TABLES = {
    *(
        "test_datasets",
        "lmpoly_methods",
        "qa_mean_prr",
        "abl_sampling",
        "abl_normalization",
        "abl_other_methods",
    ),
    *(
        "abl_ecc_params",
        "abl_crossencoder",
        "prompts",
        "base_accs",
        "topbeam_scoring",
        "abl_rocauc",
        "abl_prauc",
    ),
}
FIGURES = {
    *(
        "sampling_vs_beamsearch",
        "redundancy",
        "beam_mass_threshold",
        "abl_length",
        "abl_nsamples",
        "prr_curves",
    ),
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


def test_what_is_held_against_print_is_not_beyond_the_paper_and_the_report_shows_that_apart() -> (
    None
):
    plan = Plan(
        load_study(STUDIES / "paper.yaml"), Machine(study="paper"), "paper", STUDIES / "paper.yaml"
    )
    section = plan.report_section("1 Tables")
    shown = {
        name: section(SimpleNamespace(name=name)) for name in list_of_exhibits.labels(plan.study)
    }
    assert shown["qa_mean_prr_1"] == shown["quality_agreement"] == BEYOND_PAPER
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        assert {shown[row["table"].removeprefix("tab:")] for row in csv.DictReader(file)} == {
            "1 Tables"
        }


def test_a_label_of_another_study_s_model_is_refused() -> None:
    with pytest.raises(BeamUQError, match="no such exhibit"):
        list_of_exhibits.exhibit("qa_gemma4b", STUDY)


@pytest.mark.parametrize(
    ("kind", "told"), [("figure", "is in .* too; rename one"), ("figur", "write table or figure")]
)
def test_a_taken_label_and_an_unknown_kind_are_refused(
    kind: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(list_of_exhibits.exhibit("redundancy", STUDY), kind=kind)
    module = SimpleNamespace(__name__="own", exhibits=lambda _: [own])
    monkeypatch.setattr(list_of_exhibits, "MODULES", (module, *list_of_exhibits.MODULES))
    with pytest.raises(BeamUQError, match=told):
        check_study._check_labels(STUDY)


CONTENT = exhibits_study.CONTENT
MERGED = {
    "recipe": "merged",
    "models": [exhibits_study.BASE],
    "datasets": ["coqa"],
    "scorers": ["cosine"],
}
MAIN_ONLY = {"grid": [CONTENT["grid"][0] | {"scorers": ["cosine"]}]}


def recipe(name: str, **content: Any) -> dict[str, Any]:
    return {"recipes": CONTENT["recipes"] | {name: content}}


OF_U = ("why_beams_win", "gain_by_mass", "controls", "estimators", "fair_share", "matched_rows")
WITHOUT_ESTIMATORS = {"scoring": CONTENT["scoring"] | {"reference": {"methods": ["Dissimilarity"]}}}


def scoring(name: str, **change: Any) -> dict[str, Any]:
    return {"scoring": CONTENT["scoring"] | {name: CONTENT["scoring"][name] | change}}


def of_fewer_datasets(scorer: str) -> dict[str, Any]:
    """A grid in which the chat model has CoQA alone."""
    main, *others = CONTENT["grid"]
    chat = {"models": [exhibits_study.CHAT], "datasets": ["coqa"], "scorers": [scorer]}
    return {"grid": [main | {"models": [exhibits_study.BASE]}, main | chat, *others]}


BEAMS_ALONE = recipe("strategies", beam={"widths": [10]}) | scoring("strategies", epsilon=[])
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "topbeam_scoring",
        {"answer_source": ["greedy"]},
        "PRR in evaluation.metrics and top_beam in answer_source",
    ),
    ("abl_rocauc", {"evaluation": {"metrics": ["PRR"]}}, "ROC-AUC in evaluation.metrics"),
    ("augrc", {"answer_source": ["top_beam"]}, "greedy in answer_source"),
    ("qa_mean_prr", of_fewer_datasets("rouge"), "every model of .*'main' .* under the main scorer"),
    ("abl_crossencoder", MAIN_ONLY, "a scorer of kind cross_encoder"),
    ("abl_sampling", MAIN_ONLY, "every_strategy"),
    ("abl_nsamples", MAIN_ONLY, "its scoring with budgets"),
    ("endings", MAIN_ONLY, "merge_stop_tokens: true"),
    ("endings", {"grid": [*MAIN_ONLY["grid"], MERGED | {"questions": 3}]}, "on the same questions"),
    (
        "endings",
        recipe("main", **CONTENT["recipes"]["main"], merge_stop_tokens=True),
        "without merge_stop_tokens",
    ),
    ("endings", scoring("main", methods=["Dissimilarity", "CocoaMSP", "CocoaPPL"]), "methods Prob"),
    (
        "gains_tiny",
        scoring("main", methods=["Prob", "Perplexity"]),
        "a method of samples and of beams",
    ),
    ("gains_by_candidates", scoring("beam_widths", budgets=[]), "its scoring with budgets"),
    ("gains_by_strategy", scoring("strategies", every_strategy=False), "every_strategy"),
    ("gains_by_strategy", recipe("strategies", sample={"size": 10}), "decodes the main beams"),
    ("gains_by_strategy", BEAMS_ALONE, "a strategy or an epsilon beside the main ones"),
    ("quality_agreement", {"quality": CONTENT["quality"][:1]}, "make quality a list"),
    *((name, {"grid": CONTENT["grid"][:4]}, "lattices: 2 or more") for name in OF_U),
    *((name, WITHOUT_ESTIMATORS, "estimators") for name in (*OF_U, "draw_spread")),
]


@pytest.mark.parametrize(("name", "changes", "needs"), REFUSED)
def test_a_study_that_cannot_supply_an_exhibit_is_told_what_it_needs(
    name: str, changes: dict[str, Any], needs: str
) -> None:
    study = exhibits_study.study(**changes)
    with pytest.raises(BeamUQError, match=f"needs .*{needs}.*; add that, or drop the exhibit"):
        list_of_exhibits.exhibit(name, study).artifacts(study)


def test_a_cell_that_the_study_lacks_has_a_dash(tmp_path: Path) -> None:
    built = exhibits_study.Results(
        tmp_path, exhibits_study.study(**of_fewer_datasets("cosine"))
    ).built("base_accs")
    texts = {row.titles[0]: [cell.text for cell in row.cells] for row in built.shown.rows}
    assert [text == "–" for text in texts["Tiny 1B instruct"]] == [
        name != "coqa" for name in exhibits_study.DATASETS
    ]
    assert "–" not in texts["Tiny 1B base"]
    assert "–: not in the study." in built.caption


def test_file_of_another_cell_is_refused(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    wanted, other = Artifact("questions", dataset="triviaqa"), Artifact("questions", dataset="coqa")
    (path,) = results.paths([other])
    path.rename(tmp_path / wanted.path)
    with pytest.raises(
        BeamUQError, match=r"questions/triviaqa.parquet: holds .*coqa.*, expected .*triviaqa"
    ):
        Inputs.read(tmp_path, [wanted], STUDY)


def test_evaluation_without_the_row_is_named(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    need = Artifact("evaluation", "triviaqa", exhibits_study.BASE, "main", "cosine")
    (path,) = results.paths([need])
    rows = [
        row
        for row in parquet_tables.read(path, "evaluation").table.to_pylist()
        if row["method"] != "MTE"
    ]
    parquet_tables.write(path, "evaluation", rows, cell=need.cell)
    with pytest.raises(BeamUQError, match="evaluation: no row for tiny-base triviaqa PRR MTE"):
        results.built("qa_tiny")
