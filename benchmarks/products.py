"""What share of the CPU's product rate prompts and answers reach, and where the rest goes.

    OMP_NUM_THREADS=1 python -m benchmarks.products    # SmolLM2 on one core: two minutes

The product rate is that of one large product of two float32 matrices. A pass over a token takes one
multiply-add for every weight of a layer; its next-token logits, one for every weight of the output.
The share is these products' time at the product rate over the CPU seconds that decoding took. What
decoding did with the rest is read off torch's profiler, in a run of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import Greedy, Policy, Sample, Work, decode, stop_tokens
from benchmarks.common import (
    MODEL,
    NEW_TOKENS,
    POLICIES,
    M,
    Results,
    measured,
    median,
    questions,
    versions,
    write_json,
)

SIZE = 1024  # rows and columns of the large product
SEARCHES: dict[str, Sequence[Policy]] = {
    "greedy, ten samples": (Greedy(), Sample(M)),
    "and ten beams": POLICIES,
}
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::matmul", "mkldnn")
ATTENTION = ("attention", "softmax")


def product_rate(seconds: float = 2.0) -> float:
    """Multiply-adds a second of large float32 products, the best of those that fit the time."""
    left = torch.randn(SIZE, SIZE)
    right = torch.randn(SIZE, SIZE)
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        torch.mm(left, right)
        best = min(best, time.process_time() - start)
    return SIZE**3 / best


def weights(model: Any) -> tuple[int, int]:
    """Weights of the layers' matrices, and of the output's."""
    layers = sum(weight.numel() for weight in model.model.layers.parameters() if weight.dim() == 2)
    return layers, model.lm_head.weight.numel()


def share(run: Callable[..., Any], model: Any, count: int, rate: float) -> Results:
    """CPU seconds a question of decoding ``count`` of them, and the products' share of them."""
    work = Work()
    costs = [measured(partial(run, work=work))[1], measured(run)[1], measured(run)[1]]
    cpu = median(costs).cpu
    layers, output = weights(model)
    rows = work.prompt_rows + work.decoded_rows
    read = count + work.decoded_rows  # of a prompt the last token's logits alone are read
    products = rows * layers + read * output
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    return {
        "prompt tokens": round(work.prompt_tokens / count),
        "rows": round(rows / count, 1),
        "CPU seconds": cpu / count,
        "share of product rate": products / rate / cpu,
        "of it prompts": work.prefill_seconds / (work.prefill_seconds + work.decode_seconds),
        **time_by_kind(profiler, cpu),
    }


def time_by_kind(profiler: Any, cpu: float) -> Results:
    """Shares of the CPU seconds: products, attention, other operations, everything outside."""
    spent = dict.fromkeys(("products", "attention", "other operations"), 0.0)
    for event in profiler.key_averages():
        seconds = event.self_cpu_time_total / 1e6
        name = event.key.lower()
        if any(part in name for part in ATTENTION):
            spent["attention"] += seconds
        elif any(part in name for part in PRODUCTS):
            spent["products"] += seconds
        else:
            spent["other operations"] += seconds
    shares = {kind: seconds / cpu for kind, seconds in spent.items()}
    return shares | {"outside of torch": max(0.0, 1 - sum(shares.values()))}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--lengths", type=int, nargs="+", default=[146, 492], help="prompt tokens")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_products.json"))
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(arguments.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    stops = stop_tokens(tokenizer, model)
    settings: Any = {"stop_ids": stops, "seed": 0, "max_new_tokens": NEW_TOKENS}
    rate = product_rate()
    print(f"product rate: {rate / 1e9:.1f} billion multiply-adds a second")
    cells = []
    for length in arguments.lengths:
        prompts = questions(tokenizer, length, arguments.questions)
        for name, searches in SEARCHES.items():
            run = partial(decode, model, prompts, list(searches), **settings)
            cells.append({"searches": name, **share(run, model, len(prompts), rate)})
            print(row(cells[-1]), flush=True)
    write_json(arguments.json, {**versions(), "product rate": rate, "cells": cells})


def row(cell: Results) -> str:
    """A cell's line of the printed table."""
    words = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in cell.values()]
    return "| " + " | ".join(words) + " |"


if __name__ == "__main__":
    main()
