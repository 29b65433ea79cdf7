"""Where every file of a study lies on one machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from beamuq_study.machine_config import Machine
from beamuq_study.parquet_tables import Artifact
from beamuq_study.study_config import DEMO_DATA, Dataset


@dataclass(frozen=True)
class Paths:
    """The files of the study called ``name``, whose own file is ``study_file``."""

    name: str
    study_file: Path
    machine: Machine

    @property
    def results(self) -> Path:
        return Path("results", self.name)

    @property
    def lock(self) -> Path:
        """The study's lock file, which names the commits of what it fetched."""
        return Path(os.path.relpath(self.study_file.with_suffix(".lock.json")))

    def table(self, artifact: Artifact) -> Path:
        return self.results / artifact.path

    def model_manifest(self, source: str) -> Path:
        """What a rule waits for before it loads a model: the manifest, or a folder's config."""
        if source.startswith("folder:"):
            return Path(source.removeprefix("folder:")) / "config.json"
        return Path(self.machine.models_root, model_folder_name(source), "fetched.json")

    def is_fetched(self, dataset: Dataset) -> bool:
        """Whether the fetch rule brings a dataset's splits."""
        return dataset.source.startswith("hub:") and self.machine.data_root is None

    def split(self, key: str, dataset: Dataset, split: str) -> Path:
        """A dataset's split: the demo's own, a local copy, or what the fetch rule brings."""
        if dataset.source == "demo":
            return Path(os.path.relpath(DEMO_DATA / dataset.adapter / f"{split}.jsonl"))
        if dataset.source.startswith("folder:"):
            return _existing(Path(dataset.source.removeprefix("folder:")), split, missing=".jsonl")
        if self.machine.data_root is not None:
            return _existing(
                Path(self.machine.data_root) / dataset.adapter, split, missing=".parquet"
            )
        return Path(self.machine.datasets_root, key, f"{split}.parquet")

    def splits(self, key: str, dataset: Dataset) -> list[Path]:
        """The file of a dataset's questions and, where any are shown, of its few-shot examples."""
        names = [dataset.split, dataset.few_shot_split] if dataset.few_shot else [dataset.split]
        return [self.split(key, dataset, name) for name in names]


def model_folder_name(source: str) -> str:
    """A source as one folder name: ``hub:org/name`` → ``org--name``."""
    return source.split(":", 1)[1].replace("/", "--")


def _existing(folder: Path, split: str, *, missing: str) -> Path:
    """The split's file in a folder, Parquet or JSON Lines; else with the ending ``missing``."""
    files = (folder / f"{split}{suffix}" for suffix in (".parquet", ".jsonl"))
    return next((file for file in files if file.is_file()), folder / f"{split}{missing}")
