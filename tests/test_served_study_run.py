"""A study over a server, from questions to pages, beside the same one in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from beamuq.models.load_model import load_tokenizer
from beamuq_study.study_config import ROOT, STUDIES
from conftest import Once
from fake_model_server import FakeModelServer
from micro import Workplace
from run_snakemake import ENVIRONMENT, snakemake
from tiny import load_tiny_model

pytestmark = pytest.mark.slow

KEY = "key-that-stands-nowhere-2604"
DATASET = "arc-challenge"  # its options stand behind examples: a long prompt
CANDIDATES = f"results/micro/candidates/tiny/{DATASET}/main.parquet"
METHODS = ["Prob", "Perplexity", "CCP", "SAR", "PTrue", "SemanticEntropy", "Dissimilarity"]
TABLES = ["qa_tiny", "qa_mean_prr", "base_accs"]


def small_study(model: dict[str, Any]) -> dict[str, Any]:
    """The demo study cut to three questions of a dataset and a tiny model."""
    study: dict[str, Any] = yaml.safe_load((STUDIES / "demo.yaml").read_text())
    lexical = study["scorers"]["lexical"]
    return study | {
        "models": {"tiny": {"label": "tiny", "title": "Tiny", "style": "base"} | model},
        "datasets": {DATASET: study["datasets"][DATASET] | {"questions": 3, "max_new_tokens": 6}},
        "recipes": {"main": {"sample": {"size": 4}, "beam": {"widths": [4]}}},
        "scorers": {"lexical": lexical},
        "main": {
            "recipe": "main",
            "scorer": "lexical",
            "relevance": "lexical",
            "beam": "beam M=4",
            "num_candidates": 4,
        },
        "scoring": {"main": {"methods": METHODS}},
        "quality": study["quality"][:1],
        "answer_source": ["greedy"],
        "evaluation": {"resamples": 100},
        "grid": [
            {
                "recipe": "main",
                "models": ["tiny"],
                "datasets": [DATASET],
                "scorers": ["lexical"],
            }
        ],
        "exhibits": [*TABLES, "redundancy"],
    }


def fake(tiny_models: Path) -> FakeModelServer:
    model, _ = load_tiny_model(tiny_models / "llama")
    tokenizer = load_tokenizer(tiny_models / "llama")
    return FakeModelServer(model, tokenizer, max_logprobs=-1, api_key=KEY)


def name_server(folder: Path, address: str) -> None:
    """Write a server's address into the folder's config.yaml."""
    config = (
        (ROOT / "config.yaml").read_text().replace("servers: {}", f"servers: {{near: {address}}}")
    )
    (folder / "config.yaml").write_text(config)


@pytest.fixture(scope="session")
def own(once: Once, tiny_models: Path) -> Workplace:
    """The study with the model in memory, its tables made once; not to be changed."""
    source = {"source": f"folder:{tiny_models / 'llama'}"}
    study = small_study(source)
    return Workplace(once("own_of_served", lambda folder: Workplace(folder, study).run("tables")))


@pytest.fixture(scope="session")
def served(once: Once, tiny_models: Path) -> Workplace:
    """The study over the stand-in, which is gone when it ends; not to be changed."""
    source = {"source": "server:near", "tokenizer": f"folder:{tiny_models / 'llama'}"}

    def run(folder: Path) -> None:
        place = Workplace(folder, small_study(source))
        with fake(tiny_models) as server, pytest.MonkeyPatch.context() as patch:
            patch.setitem(ENVIRONMENT, "BEAMUQ_API_KEY", KEY)
            name_server(folder, server.url)
            (folder / "said.txt").write_text(place.run())
            (folder / "config.yaml.address").write_text(server.root)

    return Workplace(once("served", run))


@pytest.fixture
def place(served: Workplace, tmp_path: Path) -> Iterator[Workplace]:
    """A copy, to change."""
    yield served.copy(tmp_path / "place")
    shutil.rmtree(tmp_path / "place")


def test_every_candidate_is_that_of_the_model_in_memory(served: Workplace, own: Workplace) -> None:
    theirs, ours = (place.frame(CANDIDATES) for place in (served, own))
    assert theirs["text"].tolist() == ours["text"].tolist()
    assert [*map(list, theirs["token_ids"])] == [*map(list, ours["token_ids"])]
    assert np.abs(theirs["logprob"] - ours["logprob"]).max() < 1e-5


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_that_of_the_model_in_memory(
    name: str, served: Workplace, own: Workplace
) -> None:
    tables = [pd.read_csv(of.folder / f"results/micro/tables/{name}.csv") for of in (served, own)]
    pd.testing.assert_frame_equal(*tables, atol=1e-4)


def test_pages_and_figures_are_made(served: Workplace) -> None:
    for page in ("overview.html", "explorer.html", "ledger.html", "comparison.html"):
        assert (served.folder / "results/micro" / page).stat().st_size > 0
    assert (served.folder / "figures/micro/redundancy.pdf").stat().st_size > 0
    overview = (served.folder / "results/micro/overview.html").read_text()
    assert "over vllm 0.32.0, which serves" in overview


def test_neither_key_nor_address_stands_in_any_file(served: Workplace) -> None:
    address = (served.folder / "config.yaml.address").read_text().removeprefix("http://")
    files = [path for path in served.folder.rglob("*") if path.is_file()]
    searched = [path for path in files if not path.name.startswith("config.yaml")]
    assert any(".snakemake" in path.parts for path in searched)
    for trace in (KEY, address):
        assert [path for path in searched if trace.encode() in path.read_bytes()] == []


def test_a_new_address_reruns_nothing_and_no_server_is_needed_again(place: Workplace) -> None:
    name_server(place.folder, "http://nowhere.invalid:9/v1")
    assert "Nothing to be done" in place.run()
    shutil.copy(ROOT / "config.yaml", place.folder)
    on_command_line = ("servers={near: null}",)
    assert "Nothing to be done" in place.run(settings=on_command_line)


def test_a_lost_cell_is_told_to_need_its_server(place: Workplace) -> None:
    name_server(place.folder, "null")
    (place.folder / CANDIDATES).unlink()
    said = place.run(CANDIDATES, fails=True)
    assert "error: config.yaml: servers.near: has no address" in said


def test_a_study_without_its_server_stops_in_one_line(place: Workplace) -> None:
    shutil.copy(ROOT / "config.yaml", place.folder)
    done = snakemake(place.folder, "-n", "--config", "study=micro.yaml", "device=cpu")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: config.yaml: servers: has none, and models.tiny")
    assert "Traceback" not in done.stderr


def test_the_documentation_shows_the_script_as_it_is() -> None:
    script = (ROOT / "profiles/slurm/served.sh").read_text(encoding="utf-8")
    assert script in (ROOT / "docs/running.md").read_text(encoding="utf-8")
