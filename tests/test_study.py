"""A bad study or machine is told in one line: file, key, value and fix."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamuq.errors import BeamUQError
from beamuq.machine import load_machine
from beamuq.plan.plan import Plan
from beamuq.study import STUDIES, load_study, study_path

DEMO = yaml.safe_load((STUDIES / "demo.yaml").read_text())


def refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    content = copy.deepcopy(DEMO)
    change(content)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(BeamUQError) as error:
        Plan.load({"study": str(path)})
    message = str(error.value)
    assert "\n" not in message
    assert "mine.yaml" in message
    return message


CASES: dict[str, tuple[Callable[[dict[str, Any]], Any], list[str]]] = {
    "unknown key": (lambda s: s["models"]["smollm2-135m-chat"].update(stile="x"), ["stile", "did you mean 'title'"]),
    "unknown key at the top": (lambda s: s.update(exibits=[]), ["exibits", "did you mean 'exhibits'"]),
    "unknown model in the grid": (
        lambda s: s["grid"][0]["models"].append("smollm2-135m-plan"),
        ["grid[0].models", "'smollm2-135m-plan'", "did you mean 'smollm2-135m-plain'"],
    ),
    "unknown dataset in the grid": (
        lambda s: s["grid"][0]["datasets"].append("squad"),
        ["grid[0].datasets", "'squad'"],
    ),
    "unknown recipe": (lambda s: s["grid"][0].update(recipe="mian"), ["grid[0].recipe", "did you mean 'main'"]),
    "unknown scorer": (lambda s: s["grid"][0].update(scorers=["nli"]), ["grid[0].scorers", "'nli'", "embedding"]),
    "SAR without its judge": (lambda s: s["main"].pop("relevance"), ["main.relevance", "SAR"]),
    "unknown exhibit": (lambda s: s["exhibits"].append("qa_mean_pr"), ["exhibits[27]", "qa_mean_pr", "qa_mean_prr"]),
    "unknown method": (lambda s: s["scoring"]["main"]["methods"].append("Probb"), ["methods[16]", "Probb", "Prob"]),
    "exhibit without its cells": (lambda s: s["grid"][0]["datasets"].remove("triviaqa"), ["exhibits[", "grid"]),
    "unknown kind of scorer": (
        lambda s: s["scorers"]["embedding"].update(kind="embeding"),
        ["scorers.embedding.kind", "\"embeding\": unknown name; did you mean 'embedding'?"],
    ),
    "unknown metric of quality": (
        lambda s: s["quality"].update(metric="f1"),
        ["quality.metric", '"f1": unknown name; known: alignscore, answer_f1', "module:attribute"],
    ),
    "policy without a module": (
        lambda s: s["recipes"]["main"].update(custom=[{"strategy": "wide M=4", "policy": "Wide"}]),
        ["recipes.main.custom[0].policy", '"Wide": write module:attribute'],
    ),
    "strategy outside the grammar": (
        lambda s: s["recipes"]["main"].update(custom=[{"strategy": "Wide-4", "policy": "mine:Wide"}]),
        ["recipes.main.custom[0].strategy", '"Wide-4": write a word and key=number pairs'],
    ),
    "draws as the main search": (
        lambda s: s["main"].update(beam="sample T=1.0"),
        ["main.beam", "'sample T=1.0' is no search", "beam M=10"],
    ),
    "a hybrid, which draws too, as the main search": (
        lambda s: (s["recipes"]["main"].update(hybrid={"size": 10, "beams": [5]}), s["main"].update(beam="hybrid B=5")),
        ["main.beam", "'hybrid B=5' is no search", "beam M=10"],
    ),
    "a search as the main samples": (
        lambda s: s["main"].update(sample="beam M=10"),
        ["main.sample", "'beam M=10' is no sample strategy", "sample T=1.0"],
    ),
    "no main samples": (
        lambda s: s["recipes"]["main"].pop("sample"),
        ["main.sample", "'sample T=1.0' is no sample strategy", "add recipes.main.sample"],
    ),
    "more samples looked at than drawn": (
        lambda s: s["main"].update(num_candidates=11),
        ["main.num_candidates", "11", "recipes.main.sample.size (10)"],
    ),
    "more samples looked at than another recipe draws": (
        lambda s: s["recipes"]["strategies"]["sample"].update(size=9),
        ["main.num_candidates", "10", "recipes.strategies.sample.size (9)"],
    ),
    "more samples looked at than drawn at other temperatures": (
        lambda s: s["recipes"]["strategies"].update(sample={"size": 9, "temperatures": [0.7]}),
        ["main.num_candidates", "10", "recipes.strategies.sample.size (9)"],
    ),
    "no produced answer in a recipe": (
        lambda s: (s.update(answer_source=["top_beam"]), s["recipes"]["pool"].pop("beam")),
        ["answer_source", "recipes.pool decodes none of top_beam", "add greedy"],
    ),
    "produced twice": (
        lambda s: s.update(answer_source=["greedy", "greedy"]),
        ["answer_source", '"greedy" stands twice'],
    ),
    "own strategy twice": (
        lambda s: s["recipes"]["main"].update(custom=[{"strategy": "wide M=4", "policy": "a:B"}] * 2),
        ["recipes.main", '"wide M=4" stands twice'],
    ),
    "method twice": (
        lambda s: s["scoring"]["main"]["methods"].append("Prob"),
        ["scoring.main.methods", '"Prob" stands twice'],
    ),
    "scorer twice": (lambda s: s["grid"][0]["scorers"].append("lexical"), ["grid[0].scorers", '"lexical" stands']),
    "metric twice": (lambda s: s["evaluation"]["metrics"].append("PRR"), ["evaluation.metrics", '"PRR" stands twice']),
    "unknown main strategy": (lambda s: s["main"].update(beam="beam M=1O"), ["main.beam", "did you mean 'beam M=10'"]),
    "unknown adapter": (
        lambda s: s["datasets"]["coqa"].update(adapter="coca"),
        ["coqa.adapter", "mean 'coqa'"],
    ),
    "negative number of questions": (lambda s: s["datasets"]["coqa"].update(questions=-3), ["questions", "-3"]),
    "questions as text": (lambda s: s["datasets"]["coqa"].update(questions="many"), ["questions", '"many"']),
    "temperature zero": (lambda s: s["recipes"]["main"]["sample"].update(temperatures=[0.0]), ["temperatures[0]"]),
    "few-shot without a block": (lambda s: s["datasets"]["coqa"].update(few_shot=3), ["few_shot", "write few_shot: 0"]),
    "prefix longer than the dataset": (lambda s: s["grid"][0].update(questions=99), ["grid[0].questions", "99", "24"]),
    "budget that is not decoded": (
        lambda s: s["scoring"]["widths"]["budgets"].append(16),
        ["scoring.widths.budgets", "16", "sample.size 15"],
    ),
    "own strategy of two points": (
        lambda s: s["recipes"]["main"].update(custom=[{"strategy": "wide M=1.2.3", "policy": "a:B"}]),
        ["recipes.main.custom[0].strategy", "wide M=1.2.3"],
    ),
    "cell twice": (lambda s: s["grid"].append(s["grid"][0]), ["grid[5]", "already in grid[0]"]),
    "label twice": (lambda s: s["models"]["smollm2-135m-chat"].update(label="smollm2"), ["label", "change one"]),
    "name unsafe in a path": (lambda s: s["models"].update({"../up": s["models"]["smollm2-135m-chat"]}), ["../up"]),
    "unknown packaged model": (
        lambda s: s["models"]["smollm2-135m-chat"].update(source="packaged:smollm3-135m-instruct"),
        ["packaged:smollm3-135m-instruct", "did you mean 'packaged:smollm2-135m-instruct'"],
    ),
    "misspelt key that is required": (lambda s: s.update(sed=s.pop("seed")), ["sed", "did you mean 'seed'"]),
    "missing key": (lambda s: s.pop("seed"), ["seed", "missing"]),
    "not a number": (lambda s: s["evaluation"].update(max_rejection=float("nan")), ["max_rejection"]),
    "folder that is not a model": (
        lambda s: s["models"]["smollm2-135m-chat"].update(source="folder:/nowhere"),
        ["folder:/nowhere", "config.json"],
    ),
    "remote code": (lambda s: s["models"]["smollm2-135m-chat"].update(trust_remote_code=True), ["trust_remote_code"]),
}


RENAMED = {
    "wave": (lambda s: s.update(wave=4), "wave", "batch_questions"),
    "one_ending": (lambda s: s.update(one_ending=True), "one_ending", "merge_stop_tokens"),
    "produced": (lambda s: s.update(produced=["greedy"]), "produced", "answer_source"),
    "own": (lambda s: s["recipes"]["main"].update(own=[]), "recipes.main.own", "custom"),
    "same_meaning": (
        lambda s: s["scorers"]["embedding"].update(same_meaning=0.8),
        "scorers.embedding.same_meaning",
        "equivalence_threshold",
    ),
    "stand_in_for": (
        lambda s: s["scorers"]["embedding"].update(stand_in_for="x"),
        "scorers.embedding.stand_in_for",
        "proxy_for",
    ),
    "stand_in_for of quality": (lambda s: s["quality"].update(stand_in_for="x"), "quality.stand_in_for", "proxy_for"),
    "size": (lambda s: s["main"].update(size=10), "main.size", "num_candidates"),
}


@pytest.mark.parametrize("case", RENAMED)
def test_a_key_of_the_first_version_is_refused_with_its_new_name(case: str, tmp_path: Path) -> None:
    change, key, new = RENAMED[case]
    assert re.search(rf"mine\.yaml: {re.escape(key)}: .*now called '{new}'", refused(tmp_path, change))


def test_a_machine_key_of_the_first_version_is_refused_with_its_new_name() -> None:
    with pytest.raises(BeamUQError, match=r"config\.yaml: memo_root: .*now called 'cache_root'"):
        load_machine({"memo_root": "x"})


NUMBERS = {
    "recipes.strategies.sample.temperatures": (0.7, "0.7"),
    "recipes.strategies.diverse.groups": (5, "5"),
    "recipes.strategies.diverse.penalties": (2, "2.0"),
    "recipes.strategies.hybrid.beams": (9, "9"),
    "recipes.widths.beam.widths": (15, "15"),
    "scoring.strategies.epsilon": (0.1, "0.1"),
    "scoring.strategies.alpha": (0.99, "0.99"),
    "scoring.strategies.fixed_k": (10, "10"),
    "scoring.widths.budgets": (15, "15"),
}


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_that_stands_twice_is_told(key: str, tmp_path: Path) -> None:
    number, shown = NUMBERS[key]

    def change(content: dict[str, Any]) -> None:
        for part in key.split("."):
            content = content[part]
        content.append(number)  # type: ignore[attr-defined]

    assert f"mine.yaml: {key}: {shown} stands twice; drop one" in refused(tmp_path, change)


@pytest.mark.parametrize("case", CASES)
def test_a_bad_study_is_told_in_one_line(case: str, tmp_path: Path) -> None:
    change, expected = CASES[case]
    message = refused(tmp_path, change)
    for words in expected:
        assert words in message


@pytest.mark.parametrize("name", ["demo", "paper", "real"])
def test_shipped_studies_are_valid(name: str) -> None:
    assert load_study(study_path(name)).models


def test_the_demo_runs_every_recipe_of_the_paper() -> None:
    demo, paper = load_study(STUDIES / "demo.yaml"), load_study(STUDIES / "paper.yaml")
    assert demo.recipes == paper.recipes
    assert {entry.recipe for entry in demo.grid} == set(paper.recipes)


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("seed: 1\nseed: 2\n")
    with pytest.raises(BeamUQError, match=r"twice\.yaml.*'seed' stands twice"):
        load_study(path)


def test_yaml_tags_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tag.yaml"
    path.write_text("title: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(BeamUQError, match=r"tag\.yaml: not valid YAML"):
        load_study(path)


def test_an_unknown_study_suggests_a_near_one() -> None:
    with pytest.raises(BeamUQError, match="did you mean 'demo'"):
        study_path("dmo")


def test_an_unknown_machine_key_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"config\.yaml: devise: .*did you mean 'device'"):
        load_machine({"devise": "cpu"})


@pytest.mark.parametrize("key", ["models_root", "datasets_root"])
@pytest.mark.parametrize("place", ["/big disk/models", "it's", "$HOME/models", "~nobody-of-this-name/models", ""])
def test_a_folder_that_the_shell_would_read_otherwise_is_refused(key: str, place: str) -> None:
    with pytest.raises(BeamUQError, match=rf"config\.yaml: {key}: .*write a path of letters") as error:
        load_machine({key: place})
    assert "\n" not in str(error.value)


def test_a_home_is_meant_where_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    keys = ("data_root", "models_root", "datasets_root", "cache_root")
    machine = load_machine({key: f"~/{key}" for key in keys})
    assert [getattr(machine, key) for key in keys] == [f"/home/someone/{key}" for key in keys]
    as_written = load_machine({key: f"./a//~/{key}" for key in ("data_root", "cache_root")})
    assert (as_written.data_root, as_written.cache_root) == ("./a//~/data_root", "./a//~/cache_root")


def test_a_folder_at_home_is_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    content = copy.deepcopy(DEMO)
    content["models"]["smollm2-135m-chat"]["source"] = "folder:~/model"
    content["datasets"]["coqa"]["source"] = "folder:~/data"
    content["scorers"]["embedding"]["source"] = "folder:~/scorer"
    content["quality"] = {
        "metric": "alignscore",
        "title": "AlignScore",
        "source": "folder:~/a",
        "backbone": "folder:~/b",
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    study = load_study(tmp_path / "mine.yaml")
    named = study.models["smollm2-135m-chat"], study.datasets["coqa"], study.scorers["embedding"], study.quality
    ends = ("model", "data", "scorer", "a")
    assert [each.source for each in named] == [f"folder:/home/someone/{end}" for end in ends]
    assert study.quality.backbone == "folder:/home/someone/b"


def test_a_study_at_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.yaml").write_text("title: x")
    assert study_path("~/mine.yaml") == tmp_path / "mine.yaml"


@pytest.mark.parametrize("name", ["my study", "study;id", "{model}", "-n", "über"])
def test_a_study_whose_name_is_no_folder_of_a_command_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text("title: x")
    with pytest.raises(BeamUQError, match=r"config\.yaml: study: .*rename the file"):
        study_path(str(path))


def test_a_scorer_that_nothing_asks_is_not_fetched(tmp_path: Path) -> None:
    content = copy.deepcopy(DEMO)
    content["scorers"]["unused"] = content["scorers"]["embedding"] | {"source": "hub:someone/unused"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert "hub:someone/unused" not in Plan.load({"study": str(tmp_path / "mine.yaml")}).grid.model_uses
    content["main"]["scorer"] = "unused"  # the judge of CCP, in no cell of the grid
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content | {"exhibits": []}))
    assert Plan.load({"study": str(tmp_path / "mine.yaml")}).grid.model_uses["hub:someone/unused"] == "scorer unused"


def test_a_missing_data_root_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"data_root.*trivia_qa.*does not exist|data_root.*does not exist"):
        Plan.load({"study": "real", "data_root": str(tmp_path)})
