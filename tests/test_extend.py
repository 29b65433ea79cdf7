"""docs/extend.md does what it says: each addition from outside the package is found in a table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from beamuq import questions
from beamuq.errors import BeamUQError
from beamuq.plan import Plan
from beamuq.questions.raw import read_questions
from beamuq.study import ROOT
from docs_blocks import blocks, follow
from tiny import build_tiny_model


class Extended:
    """A user's own folder in which the page was followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = build_tiny_model("llama", folder / "my-model") / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 4096}))
        shutil.copy(ROOT / "config.yaml", folder)
        self.printed = follow("extend.md", folder)

    def frame(self, path: str) -> pd.DataFrame:
        return pq.read_table(self.folder / "results/study" / path).to_pandas()


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return Extended(tmp_path_factory.mktemp("mine"))


def test_the_model_stanza_is_a_table(extended: Extended) -> None:
    table = pd.read_csv(extended.folder / "results/study/tables/qa_mymodel.csv")
    assert set(table.model) == {"my-model"}
    assert set(table.dataset) == {"mine", "mean"}


def test_the_dataset_is_asked_and_its_examples_shown(extended: Extended) -> None:
    assert sorted(extended.frame("questions/mine.parquet")["id"]) == ["a1", "a2", "a3", "a4", "a5", "a6"]
    prompt = extended.frame("prompts/base/mine.parquet")["prompt"][0]
    assert prompt.count("Question:") == 3
    assert prompt.endswith("Answer:")
    assert "My questions" in extended.printed[-1]


def test_the_method_is_a_row_of_the_table_in_both_forms_and_tried_without_a_study(extended: Extended) -> None:
    assert "| Disagreement | multinomial |  | 0.25 |" in extended.printed[0]
    assert "| Disagreement |" in extended.printed[-1]
    assert "| Disagreement + beamsearch |" in extended.printed[-1]
    scores = extended.frame("scores/words/my-model/mine/main.parquet")
    found = scores[scores.method == "Disagreement"]
    assert set(found.variant) == {"multinomial", "beamsearch"}
    assert found.value.between(0, 1).all()


def test_the_similarity_scored_the_pairs(extended: Extended) -> None:
    pairs = extended.frame("similarity/words/my-model/mine/main.parquet")
    for premise, hypothesis, entail in zip(pairs.premise, pairs.hypothesis, pairs.entail, strict=True):
        a, b = set(premise.split()), set(hypothesis.split())
        assert entail == (len(a & b) / len(a | b) if a | b else 1.0)


def test_the_quality_metric_is_measured_and_its_column_named(extended: Extended) -> None:
    quality = extended.frame("quality/my_quality.starts_alike/my-model/mine/main.parquet")
    assert set(quality.value) <= {0.0, 1.0}
    assert set(extended.frame("evaluation/words/my-model/mine/main.parquet")["quality"]) == {"my_quality:starts_alike"}


def test_the_strategy_is_decoded_and_stands_behind_the_beam_form(extended: Extended) -> None:
    candidates = extended.frame("candidates/my-model/mine/main.parquet")
    wide = candidates[candidates.strategy == "wide M=4 W=8"]
    assert (wide.groupby("id").size() == 4).all()
    assert wide.groupby("id")["logprob"].apply(lambda column: column.is_monotonic_decreasing).all()
    assert "beam" not in {strategy.split()[0] for strategy in candidates.strategy}


def test_a_changed_method_reruns_the_scores_and_what_follows_only(extended: Extended) -> None:
    method = extended.folder / "plugins/my_method.py"
    method.write_text(method.read_text().replace("< 0.5", "< 0.4"))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("snakemake")),
            *("--snakefile", str(ROOT / "Snakefile"), "--dry-run", "--cores", "1", "--config", "study=study.yaml"),
        ],
        cwd=extended.folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    counted = set(re.findall(r"^(\w+) +\d+$", done.stdout, re.MULTILINE))
    assert {"scores", "evaluation", "table"} <= counted
    assert not counted & {"questions", "prompts", "candidates", "statistics", "similarity", "quality"}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("quality", {"metric": "no_such:thing", "title": "t"}, "quality.metric: 'no_such:thing': no module 'no_such'"),
        ("main", {"recipe": "main", "scorer": "words", "beam": "beam M=10"}, "main.beam"),
    ],
)
def test_a_name_that_is_nowhere_is_told_before_anything_runs(
    key: str, value: object, told: str, extended: Extended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(extended.folder)
    study = yaml.safe_load((extended.folder / "study.yaml").read_text()) | {key: value}
    (extended.folder / "bad.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(BeamUQError, match=told):
        Plan.load({"study": "bad.yaml"})


def test_a_row_of_ones_own_questions_is_read_and_a_bad_one_told(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text(next(block.text for block in blocks("extend.md") if block.path == "questions/test.jsonl"))
    found = read_questions(questions.adapter("jsonl"), file)
    assert found[0]["references"] == ["Earth", "the Earth"]
    file.write_text('{"id": "a1", "question": "Who?", "answer": "Ann"}\n')
    with pytest.raises(BeamUQError, match=r"test\.jsonl: line 1: answers is missing"):
        read_questions(questions.adapter("jsonl"), file)
