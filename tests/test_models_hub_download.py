"""Fetching from the hub at locked commits, against a hub made of dictionaries; the real client:
test_models_offline.
"""

from __future__ import annotations

import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import errors

from beamuq.errors import BeamUQError
from beamuq.models.model_source import pinned_commit, read_commit
from run_job import run_job

OLD, NEW = "a" * 40, "b" * 40
MODEL = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same weights again",
    "modeling_custom.py": b"raise SystemExit",
    "onnx/model.onnx": b"and again",
}
WANTED = {"config.json", "tokenizer.json", "model.safetensors"}


class Hub:
    """Repositories of two commits; ``head`` is the one that an unversioned question is answered
    with.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {
            OLD: dict(MODEL),
            NEW: dict(MODEL) | {"config.json": b'{"new": 1}'},
        }
        self.head, self.questions, self.downloads = OLD, 0, 0
        self.error: Exception | None = None
        self.breaks_after: str | None = None

    def repo_info(self, repo_id: str, *, repo_type: str) -> Any:
        assert repo_id
        assert repo_type in ("model", "dataset")
        self.questions += 1
        if self.error:
            raise self.error
        return SimpleNamespace(sha=self.head)

    def model_info(self, repo_id: str, revision: str) -> Any:
        del repo_id
        siblings = [SimpleNamespace(rfilename=name) for name in self.files[revision]]
        return SimpleNamespace(siblings=siblings, card_data={"license": "mit"})

    def snapshot_download(
        self, repo_id: str, *, revision: str, local_dir: Path, allow_patterns: list[str]
    ) -> str:
        del repo_id
        self.downloads += 1
        (local_dir / ".cache").mkdir(exist_ok=True)
        for name in allow_patterns:
            (local_dir / name).write_bytes(self.files[revision][name])
            if name == self.breaks_after:
                (local_dir / ".cache" / "model.safetensors.1.incomplete").write_bytes(b"weig")
                raise ConnectionError("connection reset")
        return str(local_dir)

    def verify_repo_checksums(self, repo_id: str, *, revision: str, local_dir: Path) -> Any:
        del repo_id, revision, local_dir
        return SimpleNamespace(mismatches=[])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    return made


def fetch(
    tmp_path: Path, *, offline: bool = False, source: str = "hub:org/name", folder: str = "name"
) -> Path:
    target = tmp_path / "models" / folder
    lock = tmp_path / "studies" / "paper.lock.json"
    run_job(
        "fetch_model",
        {"settings": {"source": source}, "model": target / "fetched.json"},
        lock=lock,
        offline=offline,
    )
    return target


def models(tmp_path: Path) -> list[str]:
    """What lies in the models' folder, without the empty files that processes lock."""
    return sorted(path.name for path in (tmp_path / "models").iterdir() if path.suffix != ".lock")


@pytest.mark.usefixtures("hub")
def test_the_first_fetch_locks_the_commit_and_writes_what_was_fetched(tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    assert json.loads((tmp_path / "studies/paper.lock.json").read_text()) == {
        "models": {"org/name": {"commit": OLD}}
    }
    manifest = json.loads((folder / "fetched.json").read_text())
    assert (manifest["source"], manifest["revision"], manifest["licence"]) == (
        "hub:org/name",
        OLD,
        "mit",
    )
    assert set(manifest["files"]) == WANTED
    assert {path.name for path in folder.iterdir()} == WANTED | {"fetched.json", ".cache"}
    assert models(tmp_path) == ["name"]


def test_afterwards_the_lock_rules(hub: Hub, tmp_path: Path) -> None:
    fetch(tmp_path)
    hub.head = NEW
    assert (fetch(tmp_path, folder="again") / "config.json").read_bytes() == b"{}"
    assert hub.questions == 1
    (tmp_path / "studies/paper.lock.json").write_text(
        json.dumps({"models": {"org/name": {"commit": NEW}}})
    )
    assert (
        fetch(tmp_path) / "config.json"
    ).read_bytes() == b'{"new": 1}'  # another locked commit: fetched anew
    assert hub.downloads == 3


def test_a_broken_download_is_kept_and_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_after = "config.json"
    with pytest.raises(
        BeamUQError, match=r"hub:org/name: connection reset; .*finished files are kept"
    ):
        fetch(tmp_path)
    assert models(tmp_path) == [partial := f".name.{OLD[:12]}.partial"]
    assert (tmp_path / "models" / partial / "config.json").is_file()
    hub.breaks_after = None
    assert {path.name for path in fetch(tmp_path).iterdir()} >= WANTED
    assert models(tmp_path) == ["name"]
    assert list((tmp_path / "models").rglob("*.incomplete")) == []


def test_one_checkpoint_file_of_a_repository(hub: Hub, tmp_path: Path) -> None:
    hub.files[OLD] = {
        "README.md": b"",
        "AlignScore-base.ckpt": b"small",
        "AlignScore-large.ckpt": b"large",
    }
    folder = fetch(tmp_path, source="hub:org/align/AlignScore-large.ckpt", folder="align")
    assert set(json.loads((folder / "fetched.json").read_text())["files"]) == {
        "AlignScore-large.ckpt"
    }
    with pytest.raises(
        BeamUQError, match=r"hub:org/align: has no AlignScore-huge\.ckpt at commit a{40}"
    ):
        fetch(tmp_path, source="hub:org/align/AlignScore-huge.ckpt", folder="huge")


def test_a_repository_without_tokenizer_is_refused_before_it_is_downloaded(
    hub: Hub, tmp_path: Path
) -> None:
    del hub.files[OLD]["tokenizer.json"]
    with pytest.raises(BeamUQError, match="has no tokenizer"):
        fetch(tmp_path)
    assert hub.downloads == 0


def _response(status: int) -> Any:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            errors.RepositoryNotFoundError("404\nNot Found", response=_response(404)),
            "404 Not Found; correct the source",
        ),
        (
            httpx2.ConnectError("Name or service not known"),
            r"hub:org/name: Name or service not known; .* network",
        ),
    ],
)
def test_the_hubs_refusals_are_one_clear_line(
    error: Exception, told: str, hub: Hub, tmp_path: Path
) -> None:
    hub.error = error
    with pytest.raises(BeamUQError, match=told) as refused:
        fetch(tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "studies/paper.lock.json").exists()
    assert not (tmp_path / "models").exists()


def test_no_commit_is_invented(hub: Hub, tmp_path: Path) -> None:
    hub.head = "main"
    with pytest.raises(
        BeamUQError, match=r'what the hub answered: models\.org/name\.commit: "main"'
    ):
        fetch(tmp_path)
    with pytest.raises(BeamUQError, match="its commit is not locked and offline is set"):
        fetch(tmp_path, offline=True)
    assert hub.questions == 1
    lock = tmp_path / "studies/paper.lock.json"
    assert not lock.exists()
    for wrong in ({"commit": "main"}, {}, "main"):
        lock.write_text(json.dumps({"models": {"org/name": wrong}}))
        with pytest.raises(BeamUQError, match=r"paper\.lock\.json: models\.org/name"):
            fetch(tmp_path)


def test_parallel_jobs_agree_on_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, digits = tmp_path / "paper.lock.json", itertools.cycle("123")

    def repo_info(*_: object, **__: object) -> Any:
        time.sleep(0.02)
        return SimpleNamespace(sha=next(digits) * 40)

    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: SimpleNamespace(repo_info=repo_info))
    names = [f"org/{number}" for number in range(5)]
    with ThreadPoolExecutor() as jobs:  # each opens the file that it locks, as processes do
        ask = partial(pinned_commit, lock, "models", offline=False)
        answers = list(jobs.map(lambda _: [ask(name) for name in names], range(3)))
    assert answers == [[read_commit(lock, "models", name) for name in names]] * 3
