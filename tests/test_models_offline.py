"""The real client against a hub on this machine: gates, and a token that must never be seen."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from beamuq.errors import BeamUQError
from beamuq.models.offline import FETCHING, SWITCHES, environment, is_offline
from beamuq.secret_masking import masked
from beamuq_study.machine_config import load_machine
from beamuq_study.study_config import ROOT, load_study

TOKEN, PASSWORD = "hf_PlantedTokenThatNobodyMaySee", "planted-password-of-an-address"
COMMIT = "c" * 40
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": os.urandom(25_000)}


def blob(data: bytes) -> str:
    """The name that git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One model repository; ``gate`` is the status with which its files are refused."""

    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.server, urlsplit(self.path).path
        hub.asked.append((path, self.headers.get("Authorization", "")))
        if hub.gate and (hub.gate == 401 or not path.startswith("/api/")):
            refused = {
                "X-Error-Code": "GatedRepo",
                "X-Error-Message": f"Access to org/name is restricted for {TOKEN}.",
            }
            return self.answer(hub.gate, f"no access with {TOKEN}".encode(), refused)
        if "/tree/" in path:
            listed = [
                {"type": "file", "path": n, "size": len(d), "oid": blob(d)}
                for n, d in FILES.items()
            ]
            return self.answer(200, json.dumps(listed).encode(), {})
        if path.startswith("/api/"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in FILES.items()]
            facts = {
                "id": "org/name",
                "sha": COMMIT,
                "siblings": siblings,
                "gated": "manual",
                "tags": [],
            }
            return self.answer(
                200, json.dumps(facts | {"cardData": {"license": "mit"}}).encode(), {}
            )
        name = path.rpartition("/")[2]
        told = {"ETag": f'"{hashlib.sha256(FILES[name]).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self.answer(200, FILES[name][::-1] if name == hub.damaged else FILES[name], told)

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Hub(ThreadingHTTPServer):
    """A hub on this machine."""

    gate = 0
    damaged = ""  # a file that arrives with other bytes

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def fetch(
    hub: Hub, folder: Path, *, step: str = "fetch_model", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The step as its rule starts it, with everything switched on that makes it talk."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site/sitecustomize.py").write_text(
        "import logging\nlogging.basicConfig(level=logging.DEBUG)\n"
    )
    talkative = {
        "HF_DEBUG": "1",
        "HF_HUB_VERBOSITY": "debug",
        "PYTHONPATH": f"{folder / 'site'}:{ROOT}/src:{ROOT}/workflow",
    }
    home = {
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_XET": "1",
        FETCHING: "0",
        SWITCHES[0]: "1",
    }
    address = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
    settings = {"source": "hub:org/name"}
    written = ["--model", str(folder / "models/name/fetched.json")]
    if step == "fetch_dataset":
        settings |= {"config": None, "adapter": "web_questions", "split": "test"}
        written = ["--split", str(folder / "d/test.parquet")]
    words = ["--settings", repr(settings), "--lock", str(folder / "own.lock.json"), *written]
    return subprocess.run(
        [sys.executable, str(ROOT / "workflow" / "scripts" / f"{step}.py"), *words],
        cwd=folder,
        env=os.environ | talkative | home | address | {"HF_TOKEN": TOKEN} | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )


def left_by(folder: Path) -> bytes:
    """Everything that a fetch has written."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("status", "step"), [(401, "fetch_model"), (403, "fetch_dataset")])
def test_a_gate_is_one_line_that_says_where_to_accept_and_no_token_is_seen(
    status: int, step: str, hub: Hub, tmp_path: Path
) -> None:
    hub.gate = status
    done = fetch(hub, tmp_path, step=step)
    assert done.returncode == 2, done.stdout
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    page = "org/name" if step == "fetch_model" else "datasets/org/name"
    assert (
        f"accept its licence at https://huggingface.co/{page}, then log in with `hf auth login`"
        in told
    )
    assert "HF_TOKEN" in told
    assert any(TOKEN in authorization for _, authorization in hub.asked)
    assert "httpcore" in done.stdout or "httpx" in done.stdout, "nothing was debugged"
    assert TOKEN not in done.stdout
    assert TOKEN.encode() not in left_by(tmp_path)


@pytest.mark.parametrize(
    ("kept", "in_a_file"), [(TOKEN, False), ("an-odd-token-without-the-usual-beginning", True)]
)
def test_a_fetch_with_a_token_leaves_none_of_it(
    kept: str, in_a_file: bool, hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text(kept + "\n")
    done = fetch(
        hub,
        tmp_path,
        **({"HF_TOKEN": "", "HF_TOKEN_PATH": str(tmp_path / "own")} if in_a_file else {}),
    )
    (tmp_path / "own").unlink()
    assert done.returncode == 0, done.stdout
    assert any(kept in authorization for _, authorization in hub.asked)
    assert kept not in done.stdout
    assert kept.encode() not in left_by(tmp_path)
    assert f"hub:org/name at {COMMIT}: 3 files, licence mit" in done.stdout
    manifest = json.loads((tmp_path / "models/name/fetched.json").read_text())
    assert {name: entry["sha256"] for name, entry in manifest["files"].items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()
    }


def test_a_file_that_arrives_with_other_bytes_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.damaged = "model.safetensors"
    done = fetch(hub, tmp_path)
    assert done.returncode == 2, done.stdout
    assert (
        f"error: source hub:org/name: model.safetensors is not the file of commit {COMMIT}; removed"
        in done.stdout
    )
    assert [path for path in (tmp_path / "models").iterdir() if path.is_dir()] == []


def test_a_crash_that_nobody_foresaw_shows_no_token(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom beamuq.secret_masking import mask_output\nmask_output()\n"
        f"raise RuntimeError('GET https://me:{PASSWORD}@hub/x?token=abcdefgh with Bearer "
        f"{TOKEN}')\n"
    )
    (tmp_path / "crash.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, tmp_path / "crash.py"],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    told = done.stderr.splitlines()[-1]
    assert told == "RuntimeError: GET https://***@hub/x?token=*** with Bearer ***"


def test_text_without_secrets_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    plain = [
        "hub:org/name at https://huggingface.co/org/name",
        "",
        "a@b.c",
        "token=3",
        "HF_HUB_OFFLINE",
    ]
    for text in (*plain, "folder:llama@v2", "hub:llama@v2", "'packaged:llama@v2': no such model"):
        assert masked(text) == text
    assert masked("hub:me:password@host/x") == "hub:***@host/x"


@pytest.mark.parametrize("key", ["token", "hf_token", "HF_TOKEN", "api_key", "password"])
def test_a_secret_in_a_file_is_refused_and_not_repeated(key: str, tmp_path: Path) -> None:
    study = tmp_path / "own.yaml"
    study.write_text((ROOT / "studies/demo.yaml").read_text() + f"{key}: {PASSWORD}\n")
    for load in (lambda: load_machine({key: PASSWORD}), lambda: load_study(study)):
        with pytest.raises(
            BeamUQError, match=rf"{key}: a secret never stands in a file .* HF_TOKEN"
        ) as refused:
            load()
        assert PASSWORD not in str(refused.value)


def test_a_token_as_another_keys_value_is_not_repeated() -> None:
    with pytest.raises(BeamUQError, match=r'dtype: "\*\*\*": Input should be') as refused:
        load_machine({"dtype": TOKEN})
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "offline"),
    [
        ({}, False),
        ({"HF_HUB_OFFLINE": "1"}, True),
        ({"TRANSFORMERS_OFFLINE": "yes"}, True),
        ({FETCHING: "0", "HF_HUB_OFFLINE": "1"}, False),
        ({FETCHING: "1"}, True),
    ],
)
def test_the_workflows_word_on_fetching_counts_before_the_jobs_own_switch(
    environment: dict[str, str], offline: bool
) -> None:
    assert is_offline(environment) == offline


def test_a_job_that_asks_the_hub_fails_at_once(hub: Hub) -> None:
    question = "import huggingface_hub as h; h.HfApi().model_info('org/name')"

    def ask(**further: str) -> subprocess.CompletedProcess[str]:
        of_job = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"} | further
        return subprocess.run(
            [sys.executable, "-c", question],
            env=of_job,
            text=True,
            capture_output=True,
            check=False,
        )

    assert ask().returncode == 0
    assert "/api/models/org/name" in {path for path, _ in hub.asked}
    hub.asked.clear()
    done = ask(**environment(offline=False))
    assert done.returncode != 0
    assert "OfflineModeIsEnabled" in done.stderr
    assert hub.asked == []
