"""Threads of torch: what ``beamuq.decode`` takes with one and with more, on the CPU.

    python -m benchmarks.threads    # SmolLM2 on one and two threads: minutes

The demo's TriviaQA questions behind five examples, ten samples and ten beams. One number of threads
comes after the other, and all of them again in each repeat. Say beside the result what else ran.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import beamuq
from benchmarks.common import MODEL, M, Results, measured, median, versions, write_json
from benchmarks.methods import few_shot_prompts


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_threads.json"))
    arguments = parser.parse_args(argv)
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    prompts = few_shot_prompts(arguments.questions)
    decode = partial(beamuq.decode, model, tokenizer, samples=M, beams=M)
    decode(prompts[:1])  # the first call of a process makes what all share
    load_before = os.getloadavg()[0]
    costs = [
        {threads: measured(partial(decode, prompts, threads=threads))[1] for threads in asked}
        for asked in [arguments.threads] * arguments.repeats
    ]
    results: Results = {**versions(), "load before": load_before, "threads": []}
    print("| threads | CPU seconds a question | seconds a question, each repeat |")
    print("| ---: | ---: | --- |")
    for threads in arguments.threads:
        repeats = [cost[threads] for cost in costs]
        cpu = median(repeats).cpu / len(prompts)
        seconds = [cost.wall / len(prompts) for cost in repeats]
        told = ", ".join(f"{second:.2f}" for second in seconds)
        print(f"| {threads} | {cpu:.2f} | {told} |", flush=True)
        cell = {"threads": threads, "CPU s": cpu, "seconds": seconds}
        results["threads"].append(cell)
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
