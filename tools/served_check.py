"""`beamuq.decode` over real servers against the same call in process: ``make server``.

For vLLM (its CPU build) and llama.cpp, each in an environment of its own below ``build/server``:
serves the packaged SmolLM2 in float32 on loopback, decodes 100 questions both ways, compares
tokens, their order, log-probabilities, mass and samples, and runs the tests of mark ``server``.
Then vLLM is killed in the middle of a batch. Half of the questions are of TriviaQA and half of
WebQuestions: of ``data_root`` in ``config.yaml`` where it is set, else of the demo: fewer.
Prints a table and writes ``results/served_check.json``; ends with status 1 where vLLM does not
agree.

``--environment vllm=FOLDER`` takes an environment that is there already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import GenerationConfig

import beamuq
from beamuq.api.ask_model import EXAMPLES
from beamuq.config_errors import read_yaml
from beamuq.decoding import stop_tokens
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_causal
from beamuq.prompts import prompt_template
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions
from beamuq_study.machine_config import load_machine
from beamuq_study.study_config import DEMO_DATA
from model_servers import (
    MODEL,
    PACKAGES,
    ROOT,
    Server,
    environment,
    llama_cpp_server,
    vllm_server,
)
from served_agreement import Agreement, Row, agreement

RESULTS = ROOT / "results" / "served_check.json"
DATASETS = {"trivia_qa": "validation", "web_questions": "test"}
"""By adapter: the split whose questions are asked."""
BEAMS = 10
SAMPLES = 10
NEW_TOKENS = 20
BATCH = 16
GENERATED = 10
"""Questions that are also asked by transformers' ``generate``, one by one."""
LLAMA_CPP = {
    "llama.cpp": (),
    "llama.cpp, its defaults": ("--flash-attention", "--half-cache"),
}
"""By name in the table: how it is started."""


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


# -- decoding -------------------------------------------------------------------------------------


@dataclass
class Decoded:
    """The rows of some prompts, what was said meanwhile, and the seconds a question."""

    rows: list[Row]
    warned: list[str]
    seconds: float


def decoded(model: Any, prompts: Sequence[str], **options: Any) -> Decoded:
    """The rows of `beamuq.decode`; ``model``: of transformers with its tokenizer, or an address."""
    pair = (f"server:{model}", str(MODEL)) if isinstance(model, str) else model
    usual = {"beams": BEAMS, "samples": SAMPLES, "max_new_tokens": NEW_TOKENS, "batch": BATCH}
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = beamuq.decode(*pair, prompts, **(usual | options))
    seconds = (time.perf_counter() - started) / len(prompts)
    warned = list(dict.fromkeys(str(warning.message) for warning in caught))
    return Decoded(rows, warned, seconds)


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
class Death:
    """What a server's death in the middle of a batch does to a loop over batches."""

    batches: int
    """All, of which the second was killed and decoded again."""
    error: str
    """What the caller was told."""
    agreement: Agreement
    """All rows, those after its return too, beside those in process."""

    @property
    def holds(self) -> bool:
        is_one_line = bool(self.error) and "\n" not in self.error
        return is_one_line and self.agreement.holds


def killed(python: Path, prompts: Sequence[str], model: Any, seconds: float) -> Death:
    """Kill vLLM within the second of three batches, and go on when it is back.

    ``model``: the one in process, which decodes the same batches: draws depend on a prompt's place
    in its batch. ``seconds``: what a question takes over the server; a half of the batch's time is
    waited.
    """
    size = min(BATCH, len(prompts) // 3)
    batches = [prompts[first : first + size] for first in range(0, 3 * size, size)]
    local = [row for batch in batches for row in decoded(model, batch).rows]
    server = vllm_server(python)
    rows: list[Row] = []
    error = ""
    with server.running():
        rows += decoded(server.url, batches[0]).rows
        timer = threading.Timer(seconds * size / 2, server.kill)
        timer.start()
        try:
            decoded(server.url, batches[1])
        except BeamUQError as problem:
            error = str(problem)
        finally:
            timer.cancel()
    with server.running():
        for batch in batches[1:]:
            rows += decoded(server.url, batch).rows
    return Death(len(batches), error, agreement(local, rows))


# -- what is measured and shown --------------------------------------------------------------------


@dataclass
class Measured:
    """What was found of one server."""

    name: str
    start_seconds: float
    identity: Mapping[str, Any]
    warned: list[str]
    seconds_per_question: float
    agreement: Agreement
    tests_pass: bool
    """Whether the tests that need somebody's server (mark ``server``) pass on it."""


@dataclass
class Report:
    """All that was measured."""

    date: str
    machine: str
    load_average: float
    questions: int
    source: str
    seconds_in_process: float
    seconds_of_generate: float
    servers: list[Measured]
    death: Death | None = None

    @property
    def holds(self) -> bool:
        """Whether vLLM gives what decoding in process gives, and its death is told well."""
        vllm = [server for server in self.servers if server.name == "vLLM"]
        agrees = all(server.agreement.holds and server.tests_pass for server in vllm)
        return agrees and (self.death is None or self.death.holds)


def measured(server: Server, name: str, prompts: Sequence[str], local: Sequence[Row]) -> Measured:
    """A server's answers to the prompts, compared with those in process."""
    samples = len(local[0]["samples"])
    with server.running():
        served = decoded(server.url, prompts, samples=samples)
        tests_pass = marked_tests(server)
    identity = dict(served.rows[0]["server"])
    # lists of the probes, which are long
    identity.pop("probes", None)
    result = Measured(
        name=name,
        start_seconds=server.seconds,
        identity=identity,
        warned=served.warned,
        seconds_per_question=served.seconds,
        agreement=agreement(local, served.rows),
        tests_pass=tests_pass,
    )
    # the next server may take an hour
    print("  ".join(line_of(result)), flush=True)
    return result


def marked_tests(server: Server) -> bool:
    """Whether the tests of mark ``server`` pass; they ask an API of OpenAI's form."""
    variables = {"BEAMUQ_SERVER": f"{server.url.removesuffix('/v1')}/v1"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-m", "server"]
    return (
        subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False).returncode == 0
    )


HEADER = (
    *("server", "questions", "greedy", "beams in order", "as a set", "samples"),
    *("log p within", "by rank", "mass within", "s a question"),
)


def line_of(server: Measured) -> tuple[str, ...]:
    """A server's cells of the table."""
    same = server.agreement
    counts = (same.questions, same.greedy, same.beams_in_order, same.beams_as_set)
    differences = (same.logprob_difference, same.rank_difference, same.mass_difference)
    return (
        server.name,
        *map(str, counts),
        f"{same.samples} of {same.samples_drawn}",
        *(f"{difference:.1e}" for difference in differences),
        f"{server.seconds_per_question:.2f}",
    )


def table(report: Report) -> str:
    """What was measured, as lines of columns."""
    lines = [HEADER, *map(line_of, report.servers)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = []
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        rows.append("  ".join(cells).rstrip())
    rows.append(
        f"in process {report.seconds_in_process:.2f} s a question, generate one by one "
        f"{report.seconds_of_generate:.2f}; load {report.load_average:.1f}"
    )
    if report.death is not None:
        message = report.death.error or "nothing: the batch was done before"
        rows.append(f"killed within the second of {report.death.batches} batches; told: {message}")
        agrees = "are" if report.death.agreement.holds else "are NOT"
        rows.append(f"its answers before and after {agrees} those in process")
    failing = [server.name for server in report.servers if not server.tests_pass]
    if failing:
        rows.append(f"the tests of mark server fail on {', '.join(failing)}")
    return "\n".join(rows)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--llama-questions", type=int, default=5)
    parser.add_argument("--servers", nargs="+", choices=list(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--data-root", type=Path, help="instead of that of config.yaml")
    parser.add_argument("--no-kill", action="store_true", help="kill no server")
    parser.add_argument(
        "--environment", action="append", default=[], metavar="KIND=FOLDER", help="a ready one"
    )
    return parser.parse_args()


def pythons_of(options: argparse.Namespace) -> dict[str, Path]:
    """The Python of each kind of server that is asked for."""
    ready = dict(pair.split("=", 1) for pair in options.environment)
    pythons = {}
    for kind in options.servers:
        has_own = kind in ready
        pythons[kind] = Path(ready[kind], "bin", "python") if has_own else environment(kind)
    return pythons


def without_samples(rows: Sequence[Row]) -> list[Row]:
    """Rows without their samples: llama.cpp names no tokens, so that draws need whole lists."""
    return [dict(row, samples=[]) for row in rows]


def checked(options: argparse.Namespace, pythons: Mapping[str, Path]) -> Report:
    """Start the servers one after another, and compare each."""
    root = options.data_root or load_machine(read_yaml(ROOT / "config.yaml")).data_root
    prompts = question_prompts(options.questions, None if root is None else Path(root))
    torch.set_num_threads(1)
    model, tokenizer = load_causal(MODEL, dtype=torch.float32, device=torch.device("cpu"))
    in_process = (model, tokenizer)
    local = decoded(in_process, prompts)
    report = Report(
        date=date.today().isoformat(),
        machine=platform.processor() or platform.machine(),
        load_average=os.getloadavg()[1],
        questions=len(prompts),
        source="demo" if root is None else "data_root",
        seconds_in_process=local.seconds,
        seconds_of_generate=generated_seconds(model, tokenizer, prompts[:GENERATED]),
        servers=[],
    )
    if "vllm" in pythons:
        python = pythons["vllm"]
        over_vllm = measured(vllm_server(python), "vLLM", prompts, local.rows)
        report.servers.append(over_vllm)
        if not options.no_kill:
            report.death = killed(python, prompts, in_process, over_vllm.seconds_per_question)
    if "llama.cpp" in pythons:
        count = options.llama_questions
        rows = without_samples(local.rows[:count])
        report.servers += over_llama_cpp(pythons["llama.cpp"], prompts[:count], rows)
    return report


def over_llama_cpp(python: Path, prompts: Sequence[str], local: Sequence[Row]) -> list[Measured]:
    """What llama.cpp answers, started in each way that is compared."""
    return [
        measured(llama_cpp_server(python, *flags), name, prompts, local)
        for name, flags in LLAMA_CPP.items()
    ]


def main() -> None:
    options = read_options()
    report = checked(options, pythons_of(options))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    print(table(report))
    print(f"written to {RESULTS}")
    if not report.holds:
        sys.exit("vLLM does not give what decoding in process gives, or its death is not told well")


if __name__ == "__main__":
    main()
