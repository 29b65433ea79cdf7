"""A model whose shipped settings sample, in a recipe that decodes as the release does: decoded,
judged, scored.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conftest import Once
from micro import Workplace, micro_study

QUALITY = """
import numpy as np

def even(answers, references, normalize, learned):
    return np.array([1.0 - len(answer) % 2 for answer in answers])
"""
METRIC, RECIPES = "even_length:even", ("main", "released")


def study_with_drawn_answers(models: Path, folder: Path) -> dict[str, Any]:
    """20 questions in a main recipe and in one as the release decodes; answers of an even length
    are right.
    """
    shutil.copytree(models / "llama", folder / "llama")
    shipped = folder / "llama/generation_config.json"
    settings = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
    shipped.write_text(json.dumps(json.loads(shipped.read_text()) | settings))
    (folder / "plugins").mkdir()
    (folder / "plugins/even_length.py").write_text(QUALITY)
    study = micro_study(models)
    model = study["models"]["tiny"] | {"source": f"folder:{folder / 'llama'}"}
    recipe = study["recipes"]["main"]
    of_generate = {"widths": [5], "length_penalty": 1.0, "early_stopping": False}
    lexical = {"kind": "lexical", "title": "ROUGE-L", "equivalence_threshold": 0.5}
    grid = [study["grid"][0] | {"recipe": name, "scorers": ["lexical"]} for name in RECIPES]
    return study | {
        "models": {"tiny": model},
        "recipes": {"main": recipe, "released": recipe | {"beam": of_generate, "shipped": True}},
        "scorers": {"lexical": lexical},
        "main": study["main"] | {"scorer": "lexical"},
        "scoring": dict.fromkeys(RECIPES, study["scoring"]["main"]),
        "quality": [{"metric": METRIC, "title": "even length"}],
        "answer_source": ["greedy", "top_beam", "shipped"],
        "batch_questions": 20,
        "grid": grid,
        "exhibits": [],
    }


@pytest.fixture(scope="session")
def results(once: Once, tiny_models: Path) -> Path:
    """Its results, made by its rules."""

    def run(folder: Path) -> None:
        Workplace(folder, study_with_drawn_answers(tiny_models, folder)).run("evaluations")

    return once("drawn_answer", run) / "results/micro"


def cell(results: Path, kind: str, recipe: str) -> pd.DataFrame:
    return pd.read_parquet(results / f"{kind}/tiny/triviaqa/{recipe}.parquet")


def test_the_drawn_answer_is_drawn_from_the_shipped_distribution(results: Path) -> None:
    found = cell(results, "candidates", "released").query("rank == 0").set_index(["strategy", "id"])
    drawn, greedy = found.loc["shipped"], found.loc["greedy"]
    assert len(drawn) == 20
    assert (drawn["text"] != greedy["text"]).any()
    assert (
        drawn["policy_logprob"].sum() > drawn["logprob"].sum()
    )  # cooler, and of the likeliest tokens alone
    assert "shipped" not in set(cell(results, "candidates", "main")["strategy"])


def test_the_drawn_answer_is_judged(results: Path) -> None:
    judged = cell(results, "quality/even_length.even", "released").set_index(
        ["answer_source", "id"]
    )["value"]
    texts = (
        cell(results, "candidates", "released")
        .query("strategy == 'shipped'")
        .set_index("id")["text"]
    )
    assert judged["shipped"].to_dict() == {key: 1.0 - len(text) % 2 for key, text in texts.items()}


def test_scores_are_those_of_the_drawn_answer(results: Path) -> None:
    scores = cell(results, "evaluation/lexical", "released")
    asked = (scores[["metric", "setting", "subset"]] == ["PRR", "", "all"]).all(axis=1)
    prr = scores[asked].set_index(["method", "answer_source"])
    assert (
        prr.loc[("Prob", "shipped"), "value"].item() != prr.loc[("Prob", "greedy"), "value"].item()
    )
