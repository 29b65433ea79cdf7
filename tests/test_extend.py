"""docs/extend.md does what it says: each addition from outside the package is found in a table."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import exhibits_study
from beamuq.errors import BeamUQError
from beamuq_study.exhibits import captions, list_of_exhibits, table_formats
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.stages.recipe_to_policies import policies_of
from beamuq_study.study_config import Recipe
from conftest import Once
from docs_blocks import DOCS, follow
from run_snakemake import snakemake
from tiny import build_tiny_model

BLOCK = r"<!-- (file|add|module): (\S+) -->\n```\w+\n(.*?)```"


def page() -> str:
    return (DOCS / "extend.md").read_text(encoding="utf-8")


class Extended:
    """A user's own folder in which the page was followed, and what that printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mine"
        self.printed = json.loads((folder / "printed.json").read_text())

    @staticmethod
    def fill(folder: Path) -> None:
        (folder / "mine").mkdir()
        model = build_tiny_model("llama", folder / "models" / "some-model", context=4096)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MODEL", str(model))
            printed = [
                told for told in follow("extend.md", folder / "mine") if told
            ]  # a link says nothing
        (folder / "printed.json").write_text(json.dumps(printed))

    def copied(self, name: str) -> Path:
        """A folder with the same in it, beside this one: the package's files, which are inputs,
        have the same paths.
        """
        return Path(shutil.copytree(self.folder, self.folder.with_name(name), symlinks=True))

    def frame(self, path: str) -> pd.DataFrame:
        return pq.read_table(self.folder / "results/study" / path).to_pandas()


@pytest.fixture(scope="module")
def extended(once: Once) -> Extended:
    return Extended(once("extended", Extended.fill))


def test_the_model_stanza_is_a_table(extended: Extended) -> None:
    table = pd.read_csv(extended.folder / "results/study/tables/qa_mymodel.csv")
    assert set(table.model) == {"my-model"}
    assert set(table.dataset) == {"mine"}  # over one dataset there is no mean


def test_the_dataset_is_asked_and_its_examples_shown(extended: Extended) -> None:
    assert sorted(extended.frame("questions/mine.parquet")["id"]) == [
        "a1",
        "a2",
        "a3",
        "a4",
        "a5",
        "a6",
    ]
    prompt = extended.frame("prompts/base/mine.parquet")["prompt"][0]
    assert prompt.count("Question:") == 3
    assert prompt.endswith("Answer:")
    assert "My questions" in extended.printed[-1]


def test_the_method_is_a_row_of_the_table_in_both_forms_and_tried_without_a_study(
    extended: Extended,
) -> None:
    assert re.search(
        r"over samples.*\| Disagreement \|\n.*\n\| 1 +\| +0\.25 \|", extended.printed[0], re.DOTALL
    )
    assert "| Disagreement |" in extended.printed[-1]
    assert "| Disagreement + beamsearch |" in extended.printed[-1]
    scores = extended.frame("scores/words/my-model/mine/main.parquet")
    found = scores[scores.method == "Disagreement"]
    assert set(found.variant) == {"multinomial", "beamsearch"}
    assert found.value.between(0, 1).all()


def test_the_similarity_scored_the_pairs(extended: Extended) -> None:
    pairs = extended.frame("similarity/words/my-model/mine/main.parquet")
    for premise, hypothesis, entail in zip(
        pairs.premise, pairs.hypothesis, pairs.entail, strict=True
    ):
        a, b = set(premise.split()), set(hypothesis.split())
        assert entail == (len(a & b) / len(a | b) if a | b else 1.0)


def test_the_quality_metric_is_measured_and_its_column_named(extended: Extended) -> None:
    quality = extended.frame("quality/my_quality.starts_alike/my-model/mine/main.parquet")
    assert set(quality.value) <= {0.0, 1.0}
    assert set(extended.frame("evaluation/words/my-model/mine/main.parquet")["quality"]) == {
        "my_quality:starts_alike"
    }


def test_the_strategy_is_decoded_and_stands_behind_the_beam_form(extended: Extended) -> None:
    candidates = extended.frame("candidates/my-model/mine/main.parquet")
    wide = candidates[candidates.strategy == "wide M=4 W=8"]
    assert (wide.groupby("id").size() == 4).all()
    assert wide.groupby("id")["logprob"].apply(lambda column: column.is_monotonic_decreasing).all()
    assert "beam" not in {strategy.split()[0] for strategy in candidates.strategy}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's module of exhibits, named among the package's."""
    ((name, text),) = re.findall(
        r"<!-- module: (\w+)\.py -->\n```python\n(.*?)```", page(), re.DOTALL
    )
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module(name)
    monkeypatch.setattr(list_of_exhibits, "MODULES", (*list_of_exhibits.MODULES, made))
    return made


@pytest.mark.usefixtures("module")
def test_the_table_shows_what_its_caption_says(results: exhibits_study.Results) -> None:
    built = results.built("lead")
    assert set(built.frame["method"]) == {"Dissimilarity - Prob"}
    of_datasets = built.frame[built.frame["dataset"] != "mean"]
    assert of_datasets[["value", "low", "high", "p_holm"]].notna().all(axis=None)
    assert "| Lead |" in table_formats.markdown(built)


@pytest.mark.usefixtures("module")
def test_the_figure_draws_both_forms_of_every_dataset(results: exhibits_study.Results) -> None:
    built = results.built("prr_by_dataset")
    assert set(built.frame["variant"]) == {"multinomial", "beamsearch"}
    assert set(built.frame["dataset"]) == set(exhibits_study.DATASETS)
    drawn = built.shown.draw(built.title, built.footnote)
    assert [len(ax.containers) for ax in drawn.axes] == [
        4,
        4,
    ]  # bars and their intervals, of two forms


def test_a_fact_that_a_caption_has_not_is_named() -> None:
    with pytest.raises(
        BeamUQError,
        match=r"^caption 'Of \{smaples\}': \{smaples\}: no fact here; did you mean 'samples'",
    ):
        captions.text("Samples\nOf {smaples}", {"samples": 10})


def test_what_is_added_takes_the_lines_that_the_page_says() -> None:
    table = page().split("\n## ")[0]
    counts = [int(count) for count in re.findall(r"^\| .* \| (\d+) \|$", table, re.MULTILINE)]
    blocks = re.findall(BLOCK, page(), re.DOTALL)
    files = {path: text for kind, path, text in blocks if kind != "add"}
    stanzas = [text for kind, _, text in blocks if kind == "add"]
    written = [*stanzas[:2], files["plugins/my_method.py"], files["my_exhibits.py"]]
    lines = [len([line for line in text.splitlines() if line.strip()]) for text in written]
    assert counts == [*lines, sum(lines)]


def rules(folder: Path, *arguments: str) -> set[str]:
    """The rules of which jobs run."""
    done = snakemake(
        folder, "--cores", "1", *arguments, "--config", "study=study.yaml", seconds=120
    )
    logs = (
        "\n".join(path.read_text() for path in folder.glob("logs/**/*.log"))
        if done.returncode
        else ""
    )
    assert done.returncode == 0, done.stderr + logs
    return set(re.findall(r"^(\w+) +\d+$", done.stdout + done.stderr, re.MULTILINE))


def test_a_changed_method_reruns_the_scores_and_what_follows_only(extended: Extended) -> None:
    folder = extended.copied("method")
    method = folder / "plugins/my_method.py"
    method.write_text(method.read_text().replace("< 0.5", "< 0.4"))
    counted = rules(folder, "--dry-run")
    assert {"scores", "evaluation", "table"} <= counted
    assert not counted & {
        "questions",
        "prompts",
        "candidates",
        "judgements",
        "similarity",
        "quality",
    }


def test_a_similarity_of_ones_own_judges_for_ccp_and_sar_and_a_changed_one_judges_again(
    extended: Extended,
) -> None:
    folder = extended.copied("judge")
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["main"]["relevance"] = "words"
    study["scoring"]["main"]["methods"] = ["CCP", "SAR"]
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    scores = "results/study/scores/words/my-model/mine/main.parquet"
    assert rules(folder, scores) >= {"judgements", "scores"}
    assert set(pq.read_table(folder / scores)["method"].to_pylist()) == {"CCP", "SAR"}
    assert not rules(folder, scores, "--dry-run")
    similarity = folder / "plugins/my_similarity.py"
    similarity.write_text(similarity.read_text().replace("else 1.0", "else 0.5"))
    assert {"judgements", "similarity"} <= rules(folder, scores, "--dry-run")


@pytest.mark.parametrize(
    ("policy", "options", "told"),
    [
        (
            "beamuq.decoding:Sample",
            {"size": 4},
            "a Sample draws; a strategy of your own must be a search",
        ),
        ("beamuq.decoding.beam_search:Beam", {"with": 4}, "unexpected keyword argument 'with'"),
    ],
)
def test_a_policy_that_is_no_search_is_told_in_one_line(
    policy: str, options: dict[str, int], told: str
) -> None:
    recipe = Recipe.model_validate(
        {"custom": [{"strategy": "mine M=4", "policy": policy, "options": options}]}
    )
    with pytest.raises(BeamUQError, match=told) as caught:
        policies_of(recipe, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "quality",
            {"metric": "my_quality:start_alike", "title": "t"},
            r"quality\[0\]\.metric: .*my_quality\.py has no 'start_alike'; did you mean "
            r"'starts_alike'",
        ),
        (
            "recipes",
            {
                "main": {
                    "sample": {"size": 4},
                    "custom": [{"strategy": "wide M=4 W=8", "policy": "my_strategy:Wid"}],
                }
            },
            "custom.0..policy: .*did you mean 'Wide'",
        ),
    ],
)
def test_a_name_that_is_nowhere_is_told_before_anything_runs(
    key: str, value: object, told: str, extended: Extended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(extended.folder)
    study = yaml.safe_load((extended.folder / "study.yaml").read_text()) | {key: value}
    bad = extended.folder / f"bad{os.getpid()}.yaml"  # workers share the folder
    bad.write_text(yaml.safe_dump(study))
    with pytest.raises(BeamUQError, match=told):
        Plan.load({"study": bad.name})
