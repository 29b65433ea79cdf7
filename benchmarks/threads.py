"""Threads of torch: what ``beamuq.decode`` takes with one and with more, on the CPU.

    python -m benchmarks.threads    # SmolLM2 on one and two threads: minutes

The demo's TriviaQA questions behind five examples, ten samples and ten beams. One number of threads
comes after the other, and all of them again in each repeat. Say beside the result what else ran.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import beamuq
from benchmarks.common import MODEL, Cost, M, Results, measured, median, versions, write_json
from benchmarks.methods import few_shot_prompts


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_threads.json"))
    arguments = parser.parse_args(argv)
    prompts = few_shot_prompts(arguments.questions)
    decode = decode_of_packaged_model()
    decode(prompts[:1])  # the first call of a process makes what all share
    results: Results = {**versions(), "load before": os.getloadavg()[0]}
    costs = [costs_by_threads(decode, prompts, arguments.threads) for _ in range(arguments.repeats)]
    print("| threads | CPU s a question | seconds a question, each repeat |\n| ---: | ---: | --- |")
    results["threads"] = []
    for threads in arguments.threads:
        cell = cost_per_question(threads, [cost[threads] for cost in costs], len(prompts))
        seconds = ", ".join(f"{second:.2f}" for second in cell["seconds"])
        print(f"| {threads} | {cell['CPU s']:.2f} | {seconds} |", flush=True)
        results["threads"].append(cell)
    write_json(arguments.json, results)


def decode_of_packaged_model() -> Callable[..., Any]:
    """``beamuq.decode`` of SmolLM2, with ten samples and ten beams."""
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    return partial(beamuq.decode, model, tokenizer, samples=M, beams=M)


def costs_by_threads(
    decode: Callable[..., Any], prompts: Sequence[str], numbers: Sequence[int]
) -> dict[int, Cost]:
    """The cost of decoding all prompts with each number of threads, one after the other."""
    return {threads: measured(partial(decode, prompts, threads=threads))[1] for threads in numbers}


def cost_per_question(threads: int, costs: Sequence[Cost], questions: int) -> Results:
    """Median CPU seconds a question, and the wall seconds of each repeat."""
    return {
        "threads": threads,
        "CPU s": median(costs).cpu / questions,
        "seconds": [cost.wall / questions for cost in costs],
    }


if __name__ == "__main__":
    main()
