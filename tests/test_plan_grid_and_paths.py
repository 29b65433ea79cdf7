"""What a study's text says of its jobs, and where their files lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq_study.grid import CCP, P_TRUE, SAR, Grid, select
from beamuq_study.machine_config import load_machine
from beamuq_study.plan import check_study
from beamuq_study.plan.paths import Paths
from beamuq_study.study_config import STUDIES, Dataset, Study, load_study

DEMO = load_study(STUDIES / "demo.yaml")


@pytest.fixture
def grid() -> Grid:
    return Grid(DEMO)


def test_a_recipe_asks_for_what_its_methods_need(grid: Grid) -> None:
    assert grid.judgements_of("main") == {CCP, P_TRUE, SAR}
    assert grid.judges_of("main") == {"nli": DEMO.main.scorer, "relevance": DEMO.main.relevance}
    assert grid.judgements_of("beam_widths") == set()
    assert grid.judges_of("beam_widths") == {}


def test_of_several_recipes_the_first_all_or_the_first_of_each_dataset_are_taken() -> None:
    widths = [("triviaqa", "beam_widths"), ("commonsenseqa", "beam_widths")]
    references = [("triviaqa", "reference"), ("coqa", "reference")]
    content = DEMO.model_dump(mode="json")
    entry = next(entry for entry in content["grid"] if entry["recipe"] == "reference")
    entry["datasets"] = ["triviaqa", "coqa"]
    study = Study.model_validate(content)
    taken = {
        take: [
            (cell.dataset, cell.recipe)
            for cell in select(study, strategies=["beam M=5"], take=take)
        ]
        for take in ("first", "all", "each")
    }
    assert taken["first"] == widths
    assert taken["all"] == [*widths, *references]
    assert sorted(taken["each"]) == sorted([*widths, ("coqa", "reference")])


def test_an_estimator_is_of_every_strategy_of_its_kind_that_allows_it(grid: Grid) -> None:
    assert grid.estimators_of("strategies", ["uniform sample", "unnormalised beam"]) == [
        "uniform sample T=1.0",
        "unnormalised beam M=10",
    ]
    assert grid.estimators_of("strategies", ["stratified hybrid"])[:2] == [
        "stratified hybrid B=1",
        "stratified hybrid B=2",
    ]


def test_a_method_over_beams_is_refused_where_a_recipe_decodes_none() -> None:
    content = load_study(STUDIES / "small.yaml").model_dump(mode="json")
    content["scoring"]["map"] = {"methods": ["Prob", "PRO"]}
    check_study._check_methods(Grid(Study.model_validate(content)))  # an exact set will do
    content["recipes"]["map"] = {"sample": {"size": 10}}
    drawn_alone = Grid(Study.model_validate(content))
    with pytest.raises(BeamUQError, match=r"scoring\.map\.methods\[1\]: reads beams.*'beam M=10'"):
        check_study._check_methods(drawn_alone)


def test_the_explorer_shows_main_cells_or_where_there_are_none_all(grid: Grid) -> None:
    main = {cell.recipe for cell in grid.explored}
    others = [entry for entry in DEMO.grid if entry.recipe != DEMO.main.recipe]
    without = Grid(DEMO.model_copy(update={"grid": others}))
    assert main == {DEMO.main.recipe}
    assert {cell.recipe for cell in without.explored} == {entry.recipe for entry in others}


def test_a_split_is_found_in_its_folder_or_asked_for_by_name(tmp_path: Path) -> None:
    dataset = DEMO.datasets["triviaqa"]

    def split(source: str, **machine: object) -> Path:
        changed: Dataset = dataset.model_copy(update={"source": source})
        return Paths("own", Path("own.yaml"), load_machine(machine)).split(
            "triviaqa", changed, "test"
        )

    assert split(f"folder:{tmp_path}") == tmp_path / "test.jsonl"
    (tmp_path / "test.parquet").touch()
    assert split(f"folder:{tmp_path}") == tmp_path / "test.parquet"
    assert split("hub:x/y", data_root=str(tmp_path)) == tmp_path / dataset.adapter / "test.parquet"
    assert split("hub:x/y") == Path("resources/datasets/triviaqa/test.parquet")
    assert split("demo").is_absolute() is False
