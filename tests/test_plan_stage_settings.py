"""What a study says of each rule's jobs: plain settings that Snakemake compares, and nothing of the
machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import content_of
from beamuq_study.plan.code_hashes import script_sources
from beamuq_study.plan.stage_settings import FORMATS
from beamuq_study.plan.study_on_machine import Plan, not_compared
from beamuq_study.study_config import STUDIES, Study

WHERE = {
    "model": "smollm2-135m-plain",
    "dataset": "triviaqa",
    "recipe": "main",
    "scorer": "embedding",
    "metric": "answer_f1",
    "style": "base",
    "folder": "all-minilm-l6-v2",
    "split": "validation",
    "name": "redundancy",
}
SETTINGS = (
    "fetch_model",
    "fetch_dataset",
    "questions",
    "candidates",
    "similarity",
    "quality",
    "judgements",
    "scores",
)
SETTINGS += ("evaluation", "decisions")
LOADING = ("candidates", "similarity", "quality", "judgements")


def where(**of: str) -> Any:
    return SimpleNamespace(**WHERE | of)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.load({"study": "demo", "device": "cpu"})


def compared(plan: Plan, **of: str) -> dict[str, Any]:
    """All that Snakemake compares of the jobs of one cell, by rule."""
    settings = {rule: getattr(plan.settings, rule)(where(**of)) for rule in SETTINGS}
    settings["study"] = plan.study.as_run()
    return settings | {
        f"{rule} loading": plan.settings.loading(rule)(where(**of)) for rule in LOADING
    }


def changed(plan: Plan, study: Study, **of: str) -> set[str]:
    before, after = compared(plan, **of), compared(replace(plan, study=study), **of)
    return {rule for rule in before if before[rule] != after[rule]}


def test_settings_are_what_snakemake_compares(plan: Plan) -> None:
    """It compares builtins and ignores any other object; the footers of tables hold the same, as
    JSON gives it back.
    """

    def check(value: object) -> None:
        assert type(value) in (dict, list, str, int, float, bool, type(None)), value
        for part in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            check(part)

    check(compared(plan))
    check(plan.settings.made_with("questions", "candidates", "further_qualities")(where()))


# a key of the study, another value, and the rules whose jobs run again for it (and what follows
# from their files)
CHANGES: list[tuple[str, Any, set[str]]] = [
    ("seed", 7, {"questions", "candidates", "scores", "evaluation", "decisions", "study"}),
    ("newline_stops", False, {"candidates", "study"}),
    ("batch_questions", 3, {"candidates"}),
    ("title", "Another", {"study"}),
    ("exhibits", [], set()),
    ("datasets.triviaqa.questions", 13, {"questions", "candidates", "study"}),
    ("datasets.triviaqa.few_shot", 2, {"questions", "study"}),
    ("datasets.triviaqa.max_new_tokens", 5, {"candidates", "study"}),
    ("datasets.triviaqa.title", "T", {"study"}),
    ("datasets.triviaqa.normalizer", "folded", {"quality", "judgements", "study"}),
    ("models.smollm2-135m-plain.style", "instruct", {"candidates", "judgements", "study"}),
    ("models.smollm2-135m-plain.title", "T", {"study"}),
    ("recipes.main.merge_stop_tokens", True, {"candidates", "study"}),
    ("scorers.embedding.equivalence_threshold", 0.5, {"judgements", "scores", "study"}),
    ("scorers.embedding.title", "T", {"study"}),
    ("main.alpha", 0.3, {"scores", "study"}),
    ("main.epsilon", 0.2, {"scores", "study"}),
    (
        "scoring.main.methods",
        ["Prob", "Dissimilarity"],
        {"similarity", "judgements", "scores", "study"},
    ),
    ("scoring.main.estimators", ["uniform sample"], {"scores", "study"}),
    ("evaluation.resamples", 777, {"evaluation", "decisions", "study"}),
    ("evaluation.metrics", ["PRR"], {"evaluation", "study"}),
    ("decisions.risks", [0.3], {"decisions", "study"}),
    ("decisions.confidence", 0.8, {"decisions", "study"}),
]


@pytest.mark.parametrize(("key", "value", "rules"), CHANGES, ids=[key for key, _, _ in CHANGES])
def test_a_changed_key_reruns_the_rules_that_depend_on_it(
    key: str, value: Any, rules: set[str], plan: Plan
) -> None:
    content = plan.study.model_dump(mode="json")
    *parents, last = key.split(".")
    place = content
    for name in parents:
        place = place[name]
    assert place[last] != value
    place[last] = value
    assert changed(plan, Study.model_validate(content, strict=False)) == rules


@pytest.mark.parametrize("key", ["turns_left_out", "only_turns"])
def test_turns_that_are_asked_reach_the_job_that_chooses_questions(key: str, plan: Plan) -> None:
    content = plan.study.model_dump(mode="json")
    content["datasets"]["coqa"][key] = [2]
    study = Study.model_validate(content, strict=False)
    assert changed(plan, study, dataset="coqa") == {"questions", "study"}
    settings = replace(plan, study=study).settings.questions(where(dataset="coqa"))
    assert settings[key] == [2]


def test_keys_that_say_nothing_are_in_no_record_and_no_setting(plan: Plan) -> None:
    """Else results from before these keys would be made again."""
    record = plan.study.as_run()
    for key in ("only_turns", "turns_left_out"):
        assert all(key not in dataset for dataset in record["datasets"].values())
    assert all("tokenizer" not in model for model in record["models"].values())
    assert all("every_draw" not in scoring for scoring in record["scoring"].values())
    assert "every_draw" not in plan.settings.scores(where())


def with_map(plan: Plan, recipe: dict[str, Any] | None = None, **beams_map: Any) -> Plan:
    """The demo with a map of when beams win."""
    content = plan.study.model_dump(mode="json")
    above = {"p": 0.01, "draws": 20}
    content["recipes"]["map"] = (
        {"exact": {"sizes": [10, 20]}, "all_above": above} if recipe is None else recipe
    )
    content["grid"].append(content["grid"][0] | {"recipe": "map"})
    content["scoring"]["map"] = {"methods": ["Prob", "Dissimilarity"], "beams_map": beams_map}
    return replace(plan, study=Study.model_validate(content, strict=False))


OF_MAP: dict[str, Any] = {
    "powers": [1.0, 2.0],
    "kappas": [1.0],
    "sizes": [3, 10],
    "draws": 7,
    "resamples": 200,
}
OF_MAP |= {"skip": {"triviaqa": 3}}


@pytest.mark.parametrize("key", OF_MAP)
def test_a_changed_setting_of_the_map_reruns_the_map_alone(key: str, plan: Plan) -> None:
    before, after = with_map(plan), with_map(plan, **{key: OF_MAP[key]})
    assert changed(before, after.study, recipe="map") <= {"study"}
    settings = [of.settings.beams_map(where(recipe="map")) for of in (before, after)]
    assert {name for name in settings[0] if settings[0][name] != settings[1][name]} - {
        "strategies"
    } == {key}


def test_questions_that_one_dataset_skips_are_not_skipped_by_another(plan: Plan) -> None:
    settings = with_map(plan, skip={"coqa": 3}).settings.beams_map(where(recipe="map"))
    assert settings == with_map(plan).settings.beams_map(where(recipe="map"))


def test_a_recipe_without_a_map_has_no_settings_of_one(plan: Plan) -> None:
    with pytest.raises(BeamUQError, match=r"scoring\.main: has no beams_map; add one there"):
        plan.settings.beams_map(where())


@pytest.mark.parametrize(
    "recipe",
    [
        {"exact": {"sizes": [20]}},
        {"exact": {"sizes": [10]}, "all_above": {"p": 0.01, "draws": 20}},
        {"exact": {"sizes": [20]}, "all_above": {"p": 0.01}},
        {"exact": {"sizes": [20]}, "all_above": {"p": 0.01, "draws": 20, "lattices": 2}},
    ],
    ids=["no above", "fewer exact", "no draws", "lattices"],
)
def test_a_recipe_that_does_not_tell_the_distribution_has_no_map(
    recipe: dict[str, Any], plan: Plan
) -> None:
    with pytest.raises(
        ValidationError, match=r"scoring\.map\.beams_map: needs .* 20 .*; add them to recipes\.map"
    ):
        with_map(plan, recipe)


def asks_for_output(parameter: Callable[..., object]) -> bool:
    """Whether Snakemake calls it with the output, and so does not compare what it gives."""
    return list(signature(parameter).parameters) == ["wildcards", "output"]


def test_how_a_machine_runs_jobs_is_not_compared(plan: Plan) -> None:
    machine = {"cache_root": "elsewhere", "offline": True, "memory_gb": 99, "shards": 3}
    assert compared(Plan.load({"study": "demo", "device": "cpu"} | machine)) == compared(plan)
    assert asks_for_output(not_compared(plan.cards))


def test_a_recipe_may_decode_fewer_questions_together_and_nothing_else_changes(plan: Plan) -> None:
    recipe = plan.study.recipes["reference"].model_copy(update={"batch_questions": 3})
    study = plan.study.model_copy(update={"recipes": plan.study.recipes | {"reference": recipe}})
    assert changed(plan, study, recipe="reference") == {"candidates"}
    assert changed(plan, study) == set()


def test_the_settings_of_the_tables_that_a_job_reads_are_asked_for(plan: Plan) -> None:
    kinds = (
        "questions",
        "candidates",
        "scores",
        "quality",
        "further_qualities",
        "judgements",
        "cross_similarity",
    )
    made = plan.settings.made_with(*kinds)(where())
    further = made.pop("quality exact_match")
    assert further == plan.settings.quality(where(metric="exact_match"))
    assert made.pop("cross_similarity") == plan.settings.similarity(
        where(scorer=plan.study.main.relevance)
    )
    candidates = plan.settings.candidates(where())
    assert (
        candidates.pop("batch_questions") == plan.study.batch_questions
    )  # rounding alone, so not asked of them
    assert made.pop("candidates") == candidates
    assert made == {name: getattr(plan.settings, name)(where()) for name in made}
    assert "judgements" not in plan.settings.made_with(*kinds)(where(recipe="beam_widths"))


def test_the_models_of_the_tables_behind_a_job_are_asked_for_as_far_as_they_are_known(
    tmp_path: Path,
) -> None:
    plan = Plan.load({"study": "demo", "device": "cpu", "models_root": str(tmp_path)})
    expected = plan.settings.expected("questions", "candidates", "similarity", "quality")
    before = expected(where(), None)
    study = plan.study
    source = study.scorers[where().scorer].source
    assert source is not None
    assert before["similarity"]["models"] == {"model": {"source": source}}
    assert before["candidates"]["models"] == {
        "model": {"source": study.models[where().model].source}
    }
    assert before["candidates"]["dtype"] == {"cpu": "float32", "cuda": "bfloat16"}
    assert before["similarity"]["dtype"] == {"cpu": "float32", "cuda": "float32"}
    assert before["questions"] == plan.settings.questions(where())
    folder = tmp_path / source.split(":")[1].replace("/", "--")
    folder.mkdir()
    manifest = {"source": source, "revision": "r", "files": {"config.json": {"sha256": "a"}}}
    (folder / "fetched.json").write_text(json.dumps(manifest))
    again = replace(plan).settings.expected("similarity")(where(), None)["similarity"]["models"][
        "model"
    ]
    assert again == {"source": source, "content": content_of({"config.json": "a"})}
    asked = Plan.load({"study": "demo", "device": "cpu", "dtype": "bfloat16"}).settings.expected(
        "candidates"
    )
    assert asked(where(), None)["candidates"]["dtype"] == {"cpu": "bfloat16", "cuda": "bfloat16"}
    assert asks_for_output(expected)


@pytest.mark.parametrize(("kind", "name"), [("table", "redundancy"), ("figure", "base_accs")])
def test_an_exhibit_of_the_other_kind_is_refused(kind: str, name: str, plan: Plan) -> None:
    with pytest.raises(
        BeamUQError, match=rf"'{name}' is a \w+, no {kind}; ask for it in the other folder"
    ):
        plan.files.exhibit(kind)(where(name=name))


def test_files_that_no_method_needs_are_not_read(plan: Plan) -> None:
    asking = (plan.files.judgements, plan.files.cross_similarity, plan.files.p_true_template)
    assert [len(files(where())) for files in asking] == [1, 1, 1]
    assert [files(where(recipe="beam_widths")) for files in asking] == [[], [], []]


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder and, beside it, a study that decodes with it and scores with it, where a
    user would start it.
    """
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("weights")
    study = yaml.safe_load((STUDIES / "demo.yaml").read_text())
    study["models"][WHERE["model"]]["source"] = study["scorers"]["embedding"]["source"] = (
        f"folder:{folder}"
    )
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.chdir(tmp_path)
    return folder


def folders_of(rule: str) -> dict[str, str]:
    return dict(
        Plan.load({"study": "own.yaml", "device": "cpu"}).settings.loading(rule)(where())["content"]
    )


LOADED = {
    "candidates": ["model"],
    "similarity": ["model"],
    "judgements": ["language_model", "nli"],
    "quality": [],
}


@pytest.mark.parametrize("rule", LOADED)
def test_the_weights_of_a_folder_of_ones_own_decide_what_runs_again(
    rule: str, own_model: Path
) -> None:
    first = folders_of(rule)
    assert list(first) == LOADED[rule]
    assert folders_of(rule) == first
    (own_model / "config.json").touch()
    (own_model / "checkpoint-500").mkdir()
    for name in ("README.md", "training_args.bin", "checkpoint-500/model.safetensors"):
        (own_model / name).write_text("which nothing loads")
    assert folders_of(rule) == first
    (own_model / "model.safetensors").write_text("retrained weights")
    again = folders_of(rule)
    assert all(again[name] != first[name] for name in LOADED[rule])


def test_scorers_run_in_float32_whatever_the_language_model_runs_in() -> None:
    """On a card everything ran in bfloat16, which the release's scorers do not."""
    loading = Plan.load({"study": "paper", "device": "cuda"}).settings.loading
    cell = where(model="gemma-3-4b-base", dataset="coqa", scorer="nli", metric="alignscore")
    assert loading("candidates")(cell)["dtype"] == "bfloat16"
    assert [loading(rule)(cell)["dtype"] for rule in ("similarity", "quality")] == [
        "float32",
        "float32",
    ]
    judged = loading("judgements")(cell)
    assert (judged["dtype"], judged["scorer_dtype"]) == ("bfloat16", "float32")


def test_code_that_a_program_imports_itself_or_through_others_makes_its_rule_run_again() -> None:
    sources = script_sources("scores")
    assert {"scores.py", "registry.py", "parquet_tables.py", "errors.py"} <= {
        path.name for path in sources
    }
    assert not {path.parent.name for path in sources} & {"decoding", "exhibits"}


@pytest.mark.parametrize(
    ("adapter", "normalizer"),
    [
        *[
            (name, "triviaqa")
            for name in ("trivia_qa", "web_questions", "hotpot_qa", "commonsense_qa", "ai2_arc")
        ],
        ("coqa", "coqa"),
        ("jsonl", "folded"),
    ],
)
def test_a_dataset_is_compared_by_the_rule_of_its_adapter(
    plan: Plan, adapter: str, normalizer: str
) -> None:
    """Footers of published tables of the paper's datasets name theirs, and lexical has no key for
    them.
    """
    datasets = plan.study.datasets
    study = plan.study.model_copy(
        update={
            "datasets": datasets
            | {"triviaqa": datasets["triviaqa"].model_copy(update={"adapter": adapter})}
        }
    )
    settings = replace(plan, study=study).settings
    assert settings.quality(where())["normalizer"] == normalizer
    words = settings.similarity(where(scorer="lexical")).get("words")
    assert words == ("folded" if normalizer == "folded" else None)
    assert "words" not in settings.similarity(where(scorer="embedding"))


def test_gold_label_has_a_format_of_its_own(plan: Plan) -> None:
    """It reads more letters than before; other qualities of published tables are as they were."""
    of_metric = {
        metric: plan.settings.quality(where(metric=metric))["format"]
        for metric in ("answer_f1", "exact_match")
    }
    assert of_metric == {"answer_f1": 1, "exact_match": 1}
    assert FORMATS["gold_label"] == 2
