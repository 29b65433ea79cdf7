"""Fetching a split from the hub: a made-up hub in the place of the real one, which no test may
ask.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import pyarrow.parquet as pq
import pytest

from beamuq.errors import BeamUQError
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions, source_of
from run_job import run_job
from test_data_adapters import WEB, changed

REPOSITORY = "stanfordnlp/web_questions"
ROWS = [changed(WEB, "question", f"who is {n}?") for n in range(6)]


class Hub:
    """Commits and rows; counts what is asked of it."""

    def __init__(self) -> None:
        self.commit, self.rows = "a" * 40, ROWS
        self.resolved: list[str] = []
        self.loaded: list[tuple[Any, ...]] = []
        self.fails: Exception | None = None

    def repo_info(self, repo_id: str, *, repo_type: str) -> Any:
        assert (repo_type, repo_id) == ("dataset", REPOSITORY)
        self.resolved.append(repo_id)
        return SimpleNamespace(sha=self.commit)

    def builder(self, repo_id: str, config: str | None, *, revision: str) -> Any:
        """What ``datasets`` gives before anything is downloaded; it then holds the files of the
        splits.
        """
        if self.fails:
            raise self.fails
        settings = SimpleNamespace(
            data_files={"train": ["train.parquet"], "test": ["test.parquet"]}
        )

        def download(verification_mode: str) -> None:
            assert verification_mode == "no_checks"
            (split,) = settings.data_files
            self.loaded.append((repo_id, config, split, revision))

        return SimpleNamespace(
            config=settings,
            download_and_prepare=download,
            as_dataset=lambda split: datasets.Dataset.from_list(
                self.rows if split in settings.data_files else []
            ),
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    monkeypatch.setattr(datasets, "load_dataset_builder", made.builder)
    return made


def fetch(folder: Path, *, offline: bool = False, split: str = "test", **settings: Any) -> Path:
    path = folder / "web" / f"{split}.parquet"
    job = {
        "source": f"hub:{REPOSITORY}",
        "config": None,
        "adapter": "web_questions",
        "split": split,
    }
    lock = folder / "paper.lock.json"
    run_job(
        "fetch_dataset", {"settings": job | settings, "split": path}, lock=lock, offline=offline
    )
    return path


def lock_of(folder: Path) -> Any:
    return json.loads((folder / "paper.lock.json").read_text())["datasets"][REPOSITORY]


def files_in(folder: Path) -> list[str]:
    """Without the empty files that processes lock."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".json.lock")
    )


def test_the_first_fetch_locks_the_commit_and_afterwards_the_lock_rules(
    tmp_path: Path, fake: Hub
) -> None:
    path = fetch(tmp_path)
    assert lock_of(tmp_path)["commit"] == "a" * 40
    assert fake.loaded == [(REPOSITORY, None, "test", "a" * 40)]
    assert pq.read_table(path).to_pylist() == ROWS
    assert len(read_questions(ADAPTERS["web_questions"], path)) == 6
    fake.commit = "b" * 40
    fetch(tmp_path, split="train")
    assert fake.resolved == [REPOSITORY]
    assert fake.loaded[-1] == (REPOSITORY, None, "train", "a" * 40)


def test_a_split_that_is_there_is_not_fetched_again_and_a_damaged_one_is(
    tmp_path: Path, fake: Hub
) -> None:
    fetch(tmp_path).write_bytes(b"PAR1")
    path = fetch(tmp_path)
    assert len(fake.loaded) == 2
    fetch(tmp_path, offline=True)
    assert len(fake.loaded) == 2
    assert pq.read_table(path).to_pylist() == ROWS


def test_questions_say_which_commit_they_come_from(tmp_path: Path, fake: Hub) -> None:  # noqa: ARG001
    path = fetch(tmp_path)
    source = {"source": f"hub:{REPOSITORY}", "config": None, "split": "test", "revision": "a" * 40}
    assert source_of(path) == source
    settings = {
        "dataset": "web",
        "adapter": "web_questions",
        "seed": 1,
        "questions": 3,
        "few_shot": 0,
    }
    out = [str(tmp_path / "q.parquet"), str(tmp_path / "s.parquet")]
    job = {"split": path, "settings": settings, "questions": out[0], "shots": out[1]}
    run_job("questions", job)
    footer = json.loads(pq.read_schema(out[0]).metadata[b"beamuq"])
    assert footer["provenance"]["files"]["split"]["fetched"] == source


def test_offline_needs_a_locked_commit_and_a_copy(tmp_path: Path, fake: Hub) -> None:
    fetch(tmp_path)
    with pytest.raises(BeamUQError, match=f"hub:{REPOSITORY}, train: not in .*offline is set"):
        fetch(tmp_path, offline=True, split="train")
    with pytest.raises(BeamUQError, match="not locked and offline is set"):
        fetch(tmp_path / "elsewhere", offline=True)
    assert len(fake.loaded) == len(fake.resolved) == 1
    assert files_in(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ConnectionError("no route to host"), "no route to host"),
        (
            ValueError('Unknown split "test". Should be one of [a]'),
            "Unknown split .*; correct the source",
        ),
    ],
)
def test_hub_failure_is_one_line_and_leaves_no_file(
    tmp_path: Path, fake: Hub, failure: Exception, told: str
) -> None:
    fake.fails = failure
    with pytest.raises(BeamUQError, match=f"^source hub:{REPOSITORY}.*{told}") as error:
        fetch(tmp_path)
    assert "\n" not in str(error.value)
    assert files_in(tmp_path) == ["paper.lock.json"]


def test_a_split_that_the_dataset_does_not_have_names_those_that_it_has(
    tmp_path: Path, fake: Hub
) -> None:
    with pytest.raises(BeamUQError, match="no split 'dev' but train, test"):
        fetch(tmp_path, split="dev")
    assert fake.loaded == []


def test_test_split_without_answers_is_refused_before_it_is_written(
    tmp_path: Path, fake: Hub
) -> None:
    fake.rows = [*ROWS, changed(WEB, "answers", [""])]
    with pytest.raises(
        BeamUQError, match=f"hub:{REPOSITORY}, test: row 6: an answer is empty: choose a split"
    ):
        fetch(tmp_path)
    assert files_in(tmp_path) == ["paper.lock.json"]
