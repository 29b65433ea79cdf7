"""Fetching from the hub at locked commits, against a hub made of dictionaries."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import errors

from beamuq.errors import BeamUQError
from beamuq.models.hub_download import pinned_commit
from beamuq.models.revision_lock import locked_commit, verify_files
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
    """Repositories of two commits; ``head`` is the one that an unversioned question is answered with."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {OLD: dict(MODEL), NEW: dict(MODEL) | {"config.json": b'{"new": 1}'}}
        self.head, self.questions, self.downloads = OLD, 0, 0
        self.gated: object = False
        self.card: Any = SimpleNamespace(license="mit")
        self.error: Exception | None = None
        self.announced: dict[str, str] = {}
        self.breaks_after: str | None = None

    def model_info(self, repo_id: str, revision: str | None = None, files_metadata: bool = False) -> Any:
        assert files_metadata
        del repo_id
        self.questions += revision is None
        if self.error:
            raise self.error
        commit = revision or self.head
        siblings = []
        for name, data in self.files[commit].items():
            digest = self.announced.get(name, hashlib.sha256(data).hexdigest())
            large = name.endswith(".safetensors")
            lfs = SimpleNamespace(sha256=digest) if large else None
            siblings.append(SimpleNamespace(rfilename=name, size=len(data), lfs=lfs))
        return SimpleNamespace(sha=commit, siblings=siblings, gated=self.gated, card_data=self.card)

    def dataset_info(self, repo_id: str, revision: str | None = None) -> Any:
        return self.model_info(repo_id, revision, files_metadata=True)

    def snapshot_download(self, repo_id: str, *, revision: str, local_dir: Path, allow_patterns: list[str]) -> str:
        del repo_id
        self.downloads += 1
        (local_dir / ".cache").mkdir(exist_ok=True)
        for name in allow_patterns:
            (local_dir / name).write_bytes(self.files[revision][name])
            if name == self.breaks_after:
                raise ConnectionError("connection reset")
        return str(local_dir)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    return made


def fetch(tmp_path: Path, *, offline: bool = False, source: str = "hub:org/name", folder: str = "name") -> Path:
    target = tmp_path / "models" / folder
    lock = tmp_path / "studies" / "paper.lock.json"
    run_job("fetch_model", {"source": source, "model": target / "fetched.json"}, lock=lock, offline=offline)
    return target


def locked(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "studies" / "paper.lock.json").read_text())


@pytest.mark.usefixtures("hub")
def test_the_first_fetch_writes_commit_and_hashes_into_the_lock(tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    entry = locked(tmp_path)["models"]["org/name"]
    assert entry["commit"] == OLD
    assert entry["files"]["model.safetensors"] == {"sha256": hashlib.sha256(b"weights").hexdigest(), "size": 7}
    manifest = json.loads((folder / "fetched.json").read_text())
    assert (manifest["source"], manifest["revision"], manifest["licence"]) == ("hub:org/name", OLD, "mit")
    assert set(manifest["files"]) == set(entry["files"]) == WANTED
    assert {path.name for path in folder.iterdir()} == WANTED | {"fetched.json", ".fetched.json"}
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["name"]
    assert [path.name for path in (tmp_path / "studies").iterdir()] == ["paper.lock.json"]


def test_afterwards_the_lock_rules(hub: Hub, tmp_path: Path) -> None:
    fetch(tmp_path)
    hub.head = NEW
    folder = fetch(tmp_path, folder="again")
    assert (folder / "config.json").read_bytes() == b"{}"
    assert hub.questions == 1
    (tmp_path / "studies" / "paper.lock.json").write_text(json.dumps({"models": {"org/name": {"commit": NEW}}}))
    assert (fetch(tmp_path) / "config.json").read_bytes() == b'{"new": 1}'  # another locked commit: fetched anew
    downloads = hub.downloads
    (tmp_path / "models/name/fetched.json").unlink()
    assert (fetch(tmp_path, offline=True) / "fetched.json").is_file()  # a whole folder: not downloaded again
    assert hub.downloads == downloads


def test_a_file_that_differs_from_the_lock_is_refused_and_nothing_is_left(hub: Hub, tmp_path: Path) -> None:
    fetch(tmp_path)
    hub.files[OLD]["config.json"] = b"{ }"
    with pytest.raises(BeamUQError, match=r"models\.org/name: config\.json has sha256 .* locked is .*; refused"):
        fetch(tmp_path, folder="again")
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["name"]


def test_a_file_that_is_not_what_the_hub_announced_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.announced["model.safetensors"] = "0" * 64
    with pytest.raises(BeamUQError, match=r"model\.safetensors has sha256 .*, the hub names 0{64}; refused"):
        fetch(tmp_path)
    assert list((tmp_path / "models").iterdir()) == []
    assert "files" not in locked(tmp_path)["models"]["org/name"]


def test_a_broken_download_is_kept_and_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_after = "config.json"
    with pytest.raises(BeamUQError, match=r"the hub did not answer \(connection reset\).*what is there is kept"):
        fetch(tmp_path)
    assert not (tmp_path / "models" / "name").exists()
    assert (tmp_path / "models" / ".name.partial" / "config.json").is_file()
    hub.breaks_after = None
    assert {path.name for path in fetch(tmp_path).iterdir()} >= WANTED
    assert not (tmp_path / "models" / ".name.partial").exists()


def test_one_checkpoint_file_of_a_repository(hub: Hub, tmp_path: Path) -> None:
    hub.files[OLD] = {"README.md": b"", "AlignScore-base.ckpt": b"small", "AlignScore-large.ckpt": b"large"}
    folder = fetch(tmp_path, source="hub:org/align/AlignScore-large.ckpt", folder="align")
    assert set(json.loads((folder / "fetched.json").read_text())["files"]) == {"AlignScore-large.ckpt"}
    with pytest.raises(BeamUQError, match=r"hub:org/align: has no AlignScore-huge\.ckpt at commit a{40}"):
        fetch(tmp_path, source="hub:org/align/AlignScore-huge.ckpt", folder="huge")


def test_a_repository_without_tokenizer_is_refused_by_name(hub: Hub, tmp_path: Path) -> None:
    del hub.files[OLD]["tokenizer.json"]
    with pytest.raises(BeamUQError, match="no tokenizer"):
        fetch(tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def _response(status: int) -> Any:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            errors.GatedRepoError("403", response=_response(403)),
            r"gated: accept its licence at https://huggingface\.co/org/name, then log in .* HF_TOKEN",
        ),
        (
            errors.RepositoryNotFoundError("404", response=_response(404)),
            "knows no such repository, or it needs a token",
        ),
        (errors.LocalTokenNotFoundError("no token"), "asks for a token"),
        (errors.RevisionNotFoundError("404", response=_response(404)), "the locked commit is gone"),
        (httpx2.ConnectError("Name or service not known"), r"did not answer \(Name or service not known\)"),
    ],
)
def test_the_hubs_refusals_are_one_clear_line(error: Exception, told: str, hub: Hub, tmp_path: Path) -> None:
    hub.error = error
    with pytest.raises(BeamUQError, match=told) as refused:
        fetch(tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "studies" / "paper.lock.json").exists()
    assert not (tmp_path / "models").exists()


def test_no_commit_is_invented(hub: Hub, tmp_path: Path) -> None:
    hub.head, hub.files["main"] = "main", dict(MODEL)
    with pytest.raises(BeamUQError, match="answered 'main', not a commit"):
        fetch(tmp_path)
    hub.questions = 0
    with pytest.raises(BeamUQError, match="its commit is not locked and offline is set"):
        fetch(tmp_path, offline=True)
    assert hub.questions == 0
    assert not (tmp_path / "studies" / "paper.lock.json").exists()


def test_datasets_are_locked_beside_models(hub: Hub, tmp_path: Path) -> None:
    fetch(tmp_path)
    lock = tmp_path / "studies" / "paper.lock.json"
    hub.head = NEW
    assert pinned_commit(lock, "datasets", "org/name", offline=False) == NEW
    assert pinned_commit(lock, "models", "org/name", offline=True) == OLD
    verify_files(lock, "datasets", "org/name", {"test.parquet": {"sha256": "1", "size": 3}})
    with pytest.raises(BeamUQError, match=r"datasets\.org/name: test\.parquet has sha256 2, locked is 1; refused"):
        verify_files(lock, "datasets", "org/name", {"test.parquet": {"sha256": "2", "size": 3}})
    assert locked(tmp_path)["datasets"]["org/name"]["files"] == {"test.parquet": {"sha256": "1", "size": 3}}


def _resolve_slowly(lock: Path, commit: str, answers: Any) -> None:
    def resolver(_: str) -> str:
        time.sleep(0.05)
        return commit

    for number in range(5):
        answers.put((number, locked_commit(lock, "models", f"org/{number}", resolver)))


def test_parallel_jobs_agree_on_one_commit(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    lock = tmp_path / "paper.lock.json"
    jobs = [context.Process(target=_resolve_slowly, args=(lock, digit * 40, answers)) for digit in "123"]
    for job in jobs:
        job.start()
    heard: dict[int, set[str]] = {}
    for _ in range(15):
        number, commit = answers.get(timeout=30)
        heard.setdefault(number, set()).add(commit)
    for job in jobs:
        job.join()
    written = json.loads(lock.read_text())["models"]
    assert heard == {number: {written[f"org/{number}"]["commit"]} for number in range(5)}
