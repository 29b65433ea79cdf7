"""A class that the tree takes and one that its cache decodes, from a study to its pages, P(True) and `ask`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beamuq import parquet_tables
from beamuq.api.ask_model import ask
from conftest import Once
from micro import Workplace, micro_study
from model_classes import random_model
from tiny import tiny_tokenizer
from tiny_scorers import build_nli

pytestmark = pytest.mark.slow
KINDS = {"tiny": "mamba", "other": "gpt_oss"}


def _build(kind: str, folder: Path) -> Path:
    tokenizer = tiny_tokenizer()
    model: Any = random_model(kind, vocab_size=len(tokenizer), max_position_embeddings=4096, pad_token_id=0)
    model.generation_config.eos_token_id = [1, 3]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def models(once: Once) -> Path:
    def fill(folder: Path) -> None:
        build_nli(folder / "nli")
        for name, kind in KINDS.items():
            _build(kind, folder / name)

    return once("any_models", fill)


@pytest.fixture(scope="session")
def workplace(once: Once, models: Path) -> Workplace:
    """A study of both, run once; not to be changed."""
    study = micro_study(models)
    study["models"] = {
        name: {"label": name, "title": name, "source": f"folder:{models / name}", "style": "base"} for name in KINDS
    }
    study["datasets"]["triviaqa"]["questions"] = 4
    study["scoring"]["main"]["methods"] += ["PTrue"]
    study["grid"][0]["models"] = list(KINDS)
    study["batch_questions"] = 2
    return Workplace(once("any_model", lambda folder: Workplace(folder, study).run()))


@pytest.mark.parametrize(("name", "path"), [("tiny", "cached"), ("other", "tree")])
def test_candidates_say_by_which_path_they_were_decoded(workplace: Workplace, name: str, path: str) -> None:
    file = workplace.folder / f"results/micro/candidates/{name}/triviaqa/main.parquet"
    told = parquet_tables.read_footer(file).provenance["self_check"]
    assert told["path"] == path
    assert told["difference"] <= 1e-5
    assert told["told"] in workplace.logs()
    page = (workplace.folder / "results/micro/overview.html").read_text()
    assert {"cached": "over its own cache", "tree": "by attention over a tree"}[path] in page


@pytest.mark.parametrize("name", KINDS)
def test_p_true_is_a_score_of_both(workplace: Workplace, name: str) -> None:
    scores = workplace.frame(f"results/micro/scores/nli/{name}/triviaqa/main.parquet")
    found = scores[scores["method"] == "PTrue"]["value"]
    assert len(found) == 4
    assert found.between(0, 100).all()


@pytest.mark.parametrize("name", KINDS)
def test_both_can_be_asked(models: Path, name: str) -> None:
    asked = ask("Who wrote Hamlet?", str(models / name), width=3, max_new_tokens=4, similarity="lexical", device="cpu")
    assert len(asked.beams) == 3
    assert 0 < asked.covered_mass <= 1
