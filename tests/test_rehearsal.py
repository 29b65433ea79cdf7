"""The paper's study, rehearsed: fetched from a stand-in hub, decoded by tiny models of its classes,
drawn and compared.

``studies/paper.yaml`` runs unedited but for the numbers of questions and of resamples, and for
cells whose kind another cell has. Its numbers mean nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from beamuq_study.study_config import STUDIES
from conftest import Once
from run_snakemake import snakemake
from stand_in_hub import ACCEPTED, NOT_ACCEPTED, Hub, running_hub
from stand_in_repositories import DATASETS, MODELS, build_repositories

pytestmark = pytest.mark.rehearsal

STUDY = "rehearsal"
QUESTIONS = 8
FEWER_QUESTIONS = {"reference": 4}  # each has a hundred samples and eight further searches
RESAMPLES = 200
PRINTED_NUMBERS = 1958
EVERY_DATASET = [
    "triviaqa",
    "webquestions",
    "coqa",
    "hotpotqa",
    "commonsenseqa",
    "arc-challenge",
]
DATASETS_OF = {  # by recipe and model; of the main one all with a base model and with an instructed
    "main": {
        "llama-3.1-8b-base": ["triviaqa"],
        "llama-3.1-8b-instruct": ["hotpotqa"],
        "gemma-3-4b-base": EVERY_DATASET,  # the means of the paper are over all
        "gemma-3-4b-instruct": ["webquestions", "commonsenseqa"],
        "qwen-3-8b-base": ["triviaqa"],
        "qwen-3-8b-instruct": ["coqa", "arc-challenge"],
    },
    "strategies": {"gemma-3-4b-base": ["triviaqa"]},
    "beam_widths": {"gemma-3-4b-base": ["triviaqa", "arc-challenge"]},
    "repeated_draws": {"gemma-3-4b-base": ["triviaqa"]},
    "released": {"llama-3.1-8b-instruct": ["triviaqa"]},
    "merged_endings": {"gemma-3-4b-base": ["triviaqa"]},
    "reference": {"gemma-3-4b-base": EVERY_DATASET},  # an exhibit shows each
}
GATED = ("meta-llama/Llama-3.1-8B", "google/gemma-3-4b-pt")
MACHINE = ("device=cpu", "dtype=float32", "memory_gb=1")
CORES = str(os.cpu_count() or 1)
Run = subprocess.CompletedProcess[str]


class Rehearsal:
    """A folder in which the study was run, and what each step said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results" / STUDY
        self.models = folder / "resources/models"

    def step(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return content

    @property
    def study(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load((self.folder / f"{STUDY}.yaml").read_text())
        return content

    def run(self, *arguments: str, offline: bool = False, **environment: str) -> Run:
        options = (*arguments, "--cores", CORES)
        config = ("--config", f"study={STUDY}.yaml", f"offline={str(offline).lower()}", *MACHINE)
        return snakemake(self.folder, *options, *config, seconds=5400, **environment)

    def fetch(self, name: str, hub: Hub, token: str = "") -> Run:
        """Fetch all models and datasets; what was downloaded is kept with the step."""
        hub.downloads.clear()
        environment = {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(self.folder / "hub_cache"),
            "HF_HUB_OFFLINE": "0",
        }
        environment |= {"HF_TOKEN": token} if token else {}
        done = self.run("fetched", "--keep-going", **environment)
        self.keep(name, done, downloads=list(hub.downloads))
        return done

    def keep(self, name: str, done: Run, **facts: object) -> None:
        """Keep the status and the words of a step under its ``name``."""
        content = {"status": done.returncode, "said": done.stdout + done.stderr} | facts
        (self.folder / f"{name}.json").write_text(json.dumps(content))


def paper_study() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((STUDIES / "paper.yaml").read_text())
    return content


def smaller(study: dict[str, Any]) -> dict[str, Any]:
    """The study with fewer questions, resamples and cells, and nothing else changed."""
    for dataset in study["datasets"].values():
        dataset["questions"] = QUESTIONS
    study["grid"] = [
        smaller_entry(entry, model)
        for entry in study["grid"]
        for model in entry["models"]
        if set(entry["datasets"]) & set(DATASETS_OF[entry["recipe"]].get(model, ()))
    ]
    study["evaluation"]["resamples"] = RESAMPLES
    return study


def smaller_entry(entry: dict[str, Any], model: str) -> dict[str, Any]:
    """The cells of one model in an entry of the grid: fewer, of fewer questions."""
    kept = DATASETS_OF[entry["recipe"]][model]
    datasets = [name for name in entry["datasets"] if name in kept]
    fewer = FEWER_QUESTIONS.get(entry["recipe"], QUESTIONS)
    questions = {"questions": fewer} if fewer < QUESTIONS or "questions" in entry else {}
    return entry | {"models": [model], "datasets": datasets} | questions


def kinds(study: dict[str, Any]) -> set[tuple[str, ...]]:
    """What a cell may be: its model, its recipe, its scorer, the prompts of its dataset."""
    kinds_of_cells = set[tuple[str, ...]]()
    for entry in study["grid"]:
        for model, dataset in product(entry["models"], entry["datasets"]):
            style = study["models"][model]["style"]
            kinds_of_cells |= {("model", model), ("prompts", style, dataset)}
        kinds_of_cells |= {("recipe", entry["recipe"], scorer) for scorer in entry["scorers"]}
    return kinds_of_cells


def rehearse(folder: Path) -> None:
    """Each step on what the one before has left."""
    build_repositories(folder / "hub")
    paper = paper_study()
    (folder / f"{STUDY}.yaml").write_text(yaml.safe_dump(smaller(paper), sort_keys=False))
    (folder / "config.yaml").write_text(yaml.safe_dump({"study": f"{STUDY}.yaml"}))
    rehearsal = Rehearsal(folder)
    with running_hub(folder / "hub") as hub:
        rehearsal.fetch("no_token", hub)
        rehearsal.fetch("not_accepted", hub, NOT_ACCEPTED)
        hub.cut = "model-00002-of"
        rehearsal.fetch("cut", hub, ACCEPTED)
        hub.cut = ""
        rehearsal.fetch("again", hub, ACCEPTED)
    rehearsal.keep("study", rehearsal.run("--quiet", "rules", offline=True))
    rehearsal.keep("nothing", rehearsal.run("--quiet", "rules", offline=True))


@pytest.fixture(scope="module")
def rehearsal(once: Once) -> Rehearsal:
    return Rehearsal(once("rehearsal", rehearse))


@pytest.mark.parametrize("step", ["no_token", "not_accepted"])
def test_a_gated_model_is_refused_with_the_way_in_and_the_others_come(
    step: str, rehearsal: Rehearsal
) -> None:
    told = rehearsal.step(step)
    assert told["status"] != 0
    for name in GATED:
        assert f"source hub:{name}: access is gated" in told["said"]
    open_models = {
        name.replace("/", "--")
        for name in MODELS
        if not name.startswith(("meta-llama/", "google/"))
    }
    assert {path.parent.name for path in rehearsal.models.glob("*/fetched.json")} >= open_models


def test_no_file_of_a_gated_model_came_without_acceptance(rehearsal: Rehearsal) -> None:
    downloads = [
        *rehearsal.step("no_token")["downloads"],
        *rehearsal.step("not_accepted")["downloads"],
    ]
    assert [name for name in downloads if name.startswith(("meta-llama/", "google/"))] == []


def test_after_a_cut_connection_only_the_unfinished_file_is_fetched_again(
    rehearsal: Rehearsal,
) -> None:
    cut = rehearsal.step("cut")
    again = rehearsal.step("again")
    assert cut["status"] != 0
    assert "finished files are kept" in cut["said"]
    assert again["status"] == 0, again["said"]
    assert {name.rpartition("/")[2] for name in again["downloads"]} == {
        "model-00002-of-00002.safetensors"
    }
    assert list(rehearsal.models.rglob("*.incomplete")) == []


def test_nothing_is_downloaded_that_is_not_read(rehearsal: Rehearsal) -> None:
    steps = ("no_token", "not_accepted", "cut", "again")
    downloads = {name for step in steps for name in rehearsal.step(step)["downloads"]}
    unread = (
        "consolidated.00.pth",
        "AlignScore-base.ckpt",
        "FacebookAI/roberta-large/model.safetensors",
    )
    assert [name for name in sorted(downloads) if name.endswith(unread)] == []


def test_datasets_leave_nothing_outside_their_folder(rehearsal: Rehearsal) -> None:
    assert list((rehearsal.folder / "hub_cache").rglob("*.parquet")) == []
    kept = [path for path in (rehearsal.folder / "resources/datasets").rglob("*") if path.is_file()]
    assert {path.suffix for path in kept} == {".parquet"}


def test_the_lock_names_one_commit_of_every_repository(rehearsal: Rehearsal) -> None:
    lock = json.loads((rehearsal.folder / f"{STUDY}.lock.json").read_text())
    scorers = {
        "microsoft/deberta-large-mnli",
        "cross-encoder/stsb-roberta-large",
        "yzha/AlignScore",
    }
    assert lock["models"].keys() == MODELS.keys() | scorers | {"FacebookAI/roberta-large"}
    assert lock["datasets"].keys() == DATASETS.keys()
    commits = [entry["commit"] for entries in lock.values() for entry in entries.values()]
    assert len(set(commits)) == len(commits)


def test_every_exhibit_is_made(rehearsal: Rehearsal) -> None:
    told = rehearsal.step("study")
    assert told["status"] == 0, told["said"][-3000:]
    tables = {path.stem for path in (rehearsal.results / "tables").glob("*.csv")}
    figures = {path.stem for path in (rehearsal.folder / "figures" / STUDY).glob("*.pdf")}
    assert set(rehearsal.study["exhibits"]) - tables - figures == set()


def test_every_kind_of_cell_is_run() -> None:
    paper = paper_study()
    rehearsed = smaller(paper_study())
    assert kinds(rehearsed) == kinds(paper)
    assert rehearsed["exhibits"] == paper["exhibits"]


def test_every_table_model_and_dataset_of_the_paper_has_a_number(rehearsal: Rehearsal) -> None:
    """A number that was not run has its status too; of each kind one was run."""
    rows = pd.read_csv(rehearsal.results / "comparison.csv")
    run = rows[rows["status"] != "not run"]
    for column in ("table", "model", "dataset", "metric", "method", "variant"):
        assert set(run[column].dropna()) == set(rows[column].dropna()), column


def test_every_printed_number_has_a_status(rehearsal: Rehearsal) -> None:
    rows = pd.read_csv(rehearsal.results / "comparison.csv")
    printed = rows[rows["formulation"].isna()]  # others: the same numbers by another formulation
    assert len(printed) == PRINTED_NUMBERS
    assert rows["status"].notna().all()


def test_a_second_run_without_a_network_does_nothing(rehearsal: Rehearsal) -> None:
    told = rehearsal.step("nothing")
    assert told["status"] == 0, told["said"][-3000:]
    assert "Nothing to be done" in told["said"]
