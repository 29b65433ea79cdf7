"""A bad study or machine is told in one line: file, key, value and fix."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError
from beamuq_study.machine_config import load_machine
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.study_config import STUDIES, Recipe, load_study, study_path

DEMO = yaml.safe_load((STUDIES / "demo.yaml").read_text())


DROP = object()


def changed(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with ``value`` at a dotted key; a last part ``+`` appends to a list, ``DROP`` removes
    the key.
    """
    content = copy.deepcopy(content)
    *parents, last = key.split(".")
    place: Any = content
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if last == "+":
        place.append(value)
    elif value is DROP:
        place.remove(last) if isinstance(place, list) else place.pop(last)
    else:
        place[last] = value
    return content


def refused(tmp_path: Path, content: dict[str, Any]) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(BeamUQError) as error:
        Plan.load({"study": str(path)})
    message = str(error.value)
    assert "\n" not in message
    assert "mine.yaml" in message
    return message


CHAT = "models.smollm2-135m-chat"
WIDE = {"strategy": "wide M=4", "policy": "a:B"}
CASES: list[tuple[str, Any, list[str]]] = [
    (f"{CHAT}.stile", "x", ["stile", "did you mean 'title'"]),
    ("exibits", [], ["exibits", "did you mean 'exhibits'"]),
    ("seed", DROP, ["seed", "missing"]),
    (
        "grid.0.models.+",
        "smollm2-135m-plan",
        ["grid[0].models", "'smollm2-135m-plan'", "mean 'smollm2-135m-plain'"],
    ),
    ("grid.0.recipe", "mian", ["grid[0].recipe", "did you mean 'main'"]),
    ("grid.0.scorers", ["nli"], ["grid[0].scorers", "'nli'", "embedding"]),
    ("main.relevance", DROP, ["main.relevance", "SAR"]),
    ("main.beam", "beam M=1O", ["main.beam", "did you mean 'beam M=10'"]),
    (
        "exhibits.+",
        "qa_mean_pr",
        [f"exhibits[{len(DEMO['exhibits'])}]", "qa_mean_pr", "qa_mean_prr"],
    ),
    ("scoring.main.methods.+", "Probb", ["methods[20]", "Probb", "Prob"]),
    (
        "scoring.main.estimators",
        ["unnormalised beams"],
        ["main.estimators[0]", "'beams'", "mean 'beam'"],
    ),
    (
        "scoring.main.estimators",
        ["unnormalised exact"],
        ["main.estimators[0]", "'exact'", "recipes.main", "add it"],
    ),
    (
        "scorers.embedding.kind",
        "embeding",
        ["scorers.embedding.kind", '"embeding"', "did you mean 'embedding'"],
    ),
    (
        "quality.0.metric",
        "f1",
        ["quality[0].metric", '"f1"', "alignscore, answer_f1", "module:attribute"],
    ),
    (
        "quality.0.datasets",
        ["coqa"],
        ["quality: ", "the first is that of every exhibit", "remove the key"],
    ),
    (
        "quality.2.datasets",
        DROP,
        ['quality[2].metric: "gold_label"', "triviaqa have no options", "[2].datasets"],
    ),
    ("models.UP", DEMO["models"]["smollm2-135m-chat"], ["UP"]),
    (f"{CHAT}.label", "smollm2", ["label", "change one"]),
    (
        f"{CHAT}.source",
        "packaged:smollm3-135m-instruct",
        ["did you mean 'packaged:smollm2-135m-instruct'"],
    ),
    (
        "datasets.coqa.turns_left_out",
        [0],
        ["datasets.coqa.turns_left_out", "0", "greater than or equal to 1"],
    ),
    (
        "datasets.triviaqa.only_turns",
        [1],
        ["datasets.triviaqa", "only_turns", "adapter coqa", "remove the key"],
    ),
    (f"{CHAT}.source", "folder:/nowhere", ["folder:/nowhere", "config.json"]),
    (
        "recipes.main.custom",
        [WIDE | {"policy": "Wide"}],
        ["recipes.main.custom[0].policy", '"Wide"'],
    ),
    (
        "recipes.main.custom",
        [WIDE | {"strategy": "Wide-4"}],
        ["recipes.main.custom[0].strategy", '"Wide-4"'],
    ),
    ("recipes.main.custom", [WIDE, WIDE], ["recipes.main", '"wide M=4" stands twice']),
    (
        "recipes.main.all_above",
        {"p": 0.1, "draws": 10, "lattices": 3},
        ["main.all_above", "lattices 3", "draws 10", "divisor"],
    ),
    ("recipes.main.exact", {"sizes": [5, 5]}, ["recipes.main.exact.sizes: 5 stands twice"]),
    ("main.beam", "sample T=1.0", ["main.beam", "'sample T=1.0' is no search", "beam M=10"]),
    ("recipes.main.sample", DROP, ["main.sample", "'sample T=1.0'", "add recipes.main.sample"]),
    (
        "main.num_candidates",
        5,
        ["main.num_candidates: 5", "10 candidates of main.beam", "write num_candidates: 10"],
    ),
    (f"{CHAT}.source", "./mymodel", [f"{CHAT}.source", "./mymodel", "write hub:ORG/NAME"]),
    (f"{CHAT}.source", "packaged:smollm2", [f"{CHAT}.source", "packaged:smollm2"]),
    (f"{CHAT}.label", "mean_prr", [f'{CHAT}.label: "mean_prr"', "qa_mean_prr", "another label"]),
    ("models.Cold", DEMO["models"]["smollm2-135m-chat"], ["models", "Cold", "small letters"]),
    ("datasets.coqa.source", "coqa", ["datasets.coqa.source", "write hub:ORG/NAME"]),
    ("datasets.mean", DEMO["datasets"]["coqa"], ["datasets.mean", "rename the dataset"]),
    (
        "recipes.strategies.sample.size",
        9,
        ["num_candidates", "10", "recipes.strategies.sample.size (9)"],
    ),
    ("recipes.main.sample.temperatures", [0.0], ["temperatures[0]"]),
    ("datasets.coqa.questions", -3, ["questions", "-3"]),
    ("datasets.coqa.few_shot", 3, ["few_shot", "write few_shot: 0"]),
    (
        "grid.0.questions",
        99,
        ["grid[0].questions", "99", str(DEMO["datasets"]["triviaqa"]["questions"])],
    ),
    ("scoring.beam_widths.budgets.+", 16, ["scoring.beam_widths.budgets", "16", "sample.size 15"]),
    ("evaluation.max_rejection", float("nan"), ["max_rejection"]),
    ("answer_source", ["greedy", "greedy"], ["answer_source", '"greedy" stands twice']),
    ("grid.+", DEMO["grid"][0], [f"grid[{len(DEMO['grid'])}]", "already in grid[0]"]),
    (
        "recipes.repeated_draws.sample.size",
        10**12,
        ["recipes.repeated_draws.sample.size", "equal to 1000000"],
    ),
]


@pytest.mark.parametrize(("key", "value", "told"), CASES)
def test_a_bad_study_is_told_in_one_line(
    key: str, value: Any, told: list[str], tmp_path: Path
) -> None:
    message = refused(tmp_path, changed(DEMO, key, value))
    assert [words for words in told if words not in message] == [], message


def test_how_many_candidates_a_search_gives_is_read_from_its_recipe() -> None:
    diverse = {"size": 6, "groups": [2], "penalties": [0.5]}
    recipe = Recipe.model_validate({"beam": {"widths": [5]}, "diverse": diverse})
    assert {search: recipe.width(search) for search in recipe.searches()} == {
        "beam M=5": 5,
        "diverse G=2 lambda=0.5": 6,
    }


@pytest.mark.parametrize("name", ["demo", "paper", "real", "real_reference", "small", "tuned"])
def test_shipped_studies_are_valid(name: str) -> None:
    assert load_study(study_path(name)).models


def test_the_demo_runs_every_recipe_of_the_paper() -> None:
    demo, paper = load_study(STUDIES / "demo.yaml"), load_study(STUDIES / "paper.yaml")
    # `released` explains differences from the paper, and a demo is compared with nothing
    expected = {name: recipe for name, recipe in paper.recipes.items() if name != "released"}
    asks_fewer_candidates = "reference"
    shared = expected.keys() - {asks_fewer_candidates}
    assert {name: demo.recipes[name] for name in shared} == {
        name: expected[name] for name in shared
    }
    assert demo.recipes.keys() == expected.keys()
    assert {entry.recipe for entry in demo.grid} == set(demo.recipes)


def test_the_demo_has_every_kind_of_strategy_of_the_papers_reference() -> None:
    recipes = [
        load_study(STUDIES / f"{name}.yaml").recipes["reference"] for name in ("demo", "paper")
    ]
    in_demo, in_paper = ({key for key, value in recipe if value is not None} for recipe in recipes)
    assert in_demo == in_paper


@pytest.mark.parametrize("number", ["010", "-010", "1:30", "1:30.5", "1_000", "0x1F", "00"])
def test_what_versions_of_yaml_read_as_other_numbers_is_no_number(
    number: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(f"seed: {number}")
    assert read_yaml(tmp_path / "mine.yaml") == {"seed": number}


@pytest.mark.parametrize("key", ["2024", "no", "1.0", "true", "null", "~", "2024-11-27"])
def test_a_key_is_the_text_that_is_written(key: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"base: &base {{{key}: 1}}\nmodels: {{<<: *base, other: 2}}"
    )
    assert read_yaml(tmp_path / "mine.yaml") == {"base": {key: 1}, "models": {key: 1, "other": 2}}


def test_a_name_in_a_list_that_yaml_reads_as_a_number_is_to_be_quoted(tmp_path: Path) -> None:
    message = refused(tmp_path, changed(DEMO, "grid.0.models", [2024]))
    assert all(words in message for words in ("grid[0].models", "2024", "quotes")), message


def test_decimal_numbers_of_yaml_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("[0, -7, +12, 1.5, .5, 2., 1e-3, -0.0, 1.5E+2, .inf, 0.10]")
    found = read_yaml(tmp_path / "mine.yaml")
    assert found == [0, -7, 12, 1.5, 0.5, 2.0, 0.001, 0.0, 150.0, float("inf"), 0.1]
    assert [type(number) for number in found] == [int] * 3 + [float] * 8


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("title: [", "not valid YAML"),
        ("- title", "Input should be a valid dictionary"),
        ("seed: 1\nseed: 2", ".*'seed' stands twice"),
    ],
)
def test_a_file_that_is_no_yaml_mapping_is_told_in_one_line(
    content: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(BeamUQError, match=rf"mine\.yaml: {told}"):
        load_study(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("key", "written", "due"),
    [
        ("recipes.repeated_draws", None, "keys with values, or leave the key out"),
        ("recipes.main.sample.size", None, "a whole number"),
        ("recipes.reference.all_above.draws", None, "a whole number, or leave the key out"),
        ("scoring.main.methods.+", "scoring.main.methods[20]", "a text, or remove this entry"),
        ("grid", None, "a list"),
        ("title", None, "a text"),
    ],
)
def test_a_key_without_a_value_is_told_with_what_is_due_there(
    key: str, written: str | None, due: str, tmp_path: Path
) -> None:
    message = refused(tmp_path, changed(DEMO, key, None))
    assert message.endswith(f"mine.yaml: {written or key}: null: nothing stands here; give {due}")


def test_an_unknown_study_suggests_a_near_one() -> None:
    with pytest.raises(BeamUQError, match="did you mean 'demo'"):
        study_path("dmo")


@pytest.mark.parametrize(("value", "name"), [(2024, "2024"), (1.5, "1.5"), ("2024", "2024")])
def test_a_study_may_be_called_like_a_number(value: object, name: str) -> None:
    assert load_machine({"study": value}).study == name


def test_a_study_that_yaml_reads_as_a_truth_value_is_to_be_quoted() -> None:
    with pytest.raises(BeamUQError, match=r"config\.yaml: study: false: .*quotes"):
        load_machine({"study": False})


def test_an_unknown_key_of_the_machine_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"config\.yaml: devise: .*did you mean 'device'"):
        load_machine({"devise": "x"})


@pytest.mark.parametrize("key", ["models_root", "datasets_root"])
@pytest.mark.parametrize("place", ["$HOME/models", "~nobody-of-this-name/models", ""])
def test_a_folder_that_the_shell_would_read_otherwise_is_refused(key: str, place: str) -> None:
    with pytest.raises(BeamUQError, match=rf"config\.yaml: {key}: .*write a path with") as error:
        load_machine({key: place})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["my study", "study;id", "{model}", "-n", "über"])
def test_a_study_whose_name_is_no_folder_of_a_command_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text("title: x")
    with pytest.raises(BeamUQError, match=r"config\.yaml: study: .*rename the file"):
        study_path(str(path))


def test_a_scorer_that_nothing_asks_is_not_fetched(tmp_path: Path) -> None:
    content = copy.deepcopy(DEMO)
    content["scorers"]["unused"] = content["scorers"]["embedding"] | {
        "source": "hub:someone/unused"
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert (
        "hub:someone/unused"
        not in Plan.load({"study": str(tmp_path / "mine.yaml")}).grid.model_sources
    )
    content["main"]["scorer"] = "unused"  # the judge of CCP, in no cell of the grid
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content | {"exhibits": []}))
    assert (
        "hub:someone/unused" in Plan.load({"study": str(tmp_path / "mine.yaml")}).grid.model_sources
    )


def test_a_missing_data_root_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(
        BeamUQError, match=r"data_root.*trivia_qa.*does not exist|data_root.*does not exist"
    ):
        Plan.load({"study": "real", "data_root": str(tmp_path)})


def test_a_dataset_that_names_turns_twice_is_refused(tmp_path: Path) -> None:
    twice = changed(DEMO, "datasets.coqa.only_turns", [1])
    message = refused(tmp_path, changed(twice, "datasets.coqa.turns_left_out", [2]))
    assert "only_turns and turns_left_out" in message
    assert "drop one" in message
