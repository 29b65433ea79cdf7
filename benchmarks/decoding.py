"""The decoding engine against three ``generate`` calls on the same machine, in the same run, with
the same threads.

    python -m benchmarks.decoding            # SmolLM2 on the CPU: every cell, two to three hours
    python -m benchmarks.decoding --quick    # two questions a cell, one repeat: minutes
    python -m benchmarks.decoding --gpu      # where a card's time goes (`card`): five minutes
    python -m benchmarks.decoding --gpu --tiny    # the same on any device, a tiny model: seconds

A cell is a prompt length (about 150, 500, 1000 tokens) and an ending (newlines stop; or 20 full
tokens). The three calls are greedy, 10 samples at temperature 1 and 10 beams at length penalty 0,
each at its best of several batch sizes. Times are medians of the repeats. Greedy ids and ordered
beams must be identical; samples are rescored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import Candidate, Prompt, Work, decode, stop_tokens
from benchmarks import card
from benchmarks.common import (
    CALLS,
    MODEL,
    NEW_TOKENS,
    POLICIES,
    Cost,
    Generate,
    M,
    measured,
    median,
    questions,
    versions,
    write_json,
)


def check(
    model: Any, prompts: Sequence[Prompt], ours: Sequence[Candidate], theirs: dict[str, Any]
) -> dict[str, Any]:
    """Whether greedy ids and ordered beams are identical, and how far samples are from their
    teacher-forced log p.
    """
    by_strategy: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for candidate in ours:
        by_strategy.setdefault(candidate.strategy, {}).setdefault(candidate.prompt_id, []).append(
            candidate.token_ids
        )
    tokens = {prompt.id: prompt.token_ids for prompt in prompts}
    furthest = 0.0
    for candidate in {
        (c.prompt_id, c.token_ids): c for c in ours if c.strategy.startswith("sample")
    }.values():
        ids = torch.tensor([[*tokens[candidate.prompt_id], *candidate.token_ids]])
        with torch.inference_mode():
            logits = model(ids, logits_to_keep=len(candidate.token_ids) + 1).logits[0, :-1]
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        rescored = (
            logprobs.gather(1, torch.tensor(candidate.token_ids)[:, None]).double().sum().item()
        )
        furthest = max(furthest, abs(rescored - candidate.logprob))
    return {
        "greedy identical": by_strategy["greedy"] == theirs["greedy"],
        "beams identical in order": by_strategy[f"beam M={M}"] == theirs["beams"],
        "samples rescored within": furthest,
    }


def cell(
    model: Any,
    tokenizer: Any,
    length: int,
    stops: frozenset[int],
    count: int,
    repeats: int,
    batches: Sequence[int],
) -> dict[str, Any]:
    """One cell of the table."""
    prompts = questions(tokenizer, length, count)
    options: dict[str, Any] = {"stop_ids": stops, "seed": 0, "max_new_tokens": NEW_TOKENS}
    work = Work()
    ours, first = measured(lambda: decode(model, prompts, POLICIES, work=work, **options))
    engine = [first] + [
        measured(lambda: decode(model, prompts, POLICIES, **options))[1] for _ in range(repeats - 1)
    ]
    generate = Generate(model, stops)
    theirs, costs, best = {}, [], {}
    for name, call in CALLS.items():
        torch.manual_seed(0)
        tried = {}
        for batch in (size for size in batches if size <= count):
            theirs[name], tried[batch] = measured(
                lambda b=batch, c=call: generate.call(prompts, b, **c)
            )  # type: ignore[misc]
        best[name] = min(tried, key=lambda size: tried[size].cpu)
        again = [
            measured(lambda n=name, c=call: generate.call(prompts, best[n], **c))[1]
            for _ in range(repeats - 1)
        ]  # type: ignore[misc]
        costs.append(median([tried[best[name]], *again]))
    mine = median(engine)
    calls = Cost(sum(c.cpu for c in costs), sum(c.wall for c in costs), max(c.peak for c in costs))
    return {
        "prompt tokens": round(work.prompt_tokens / count),
        "ending": "newline stops" if stops else f"{NEW_TOKENS} tokens",
        "questions": count,
        "generate CPU s": calls.cpu / count,
        "engine CPU s": mine.cpu / count,
        "CPU ratio": calls.cpu / mine.cpu,
        "wall ratio": calls.wall / mine.wall,
        "prompt tokens run, generate": round((2 * M + 1) * work.prompt_tokens / count),
        "prompt tokens run, engine": round(work.prompt_rows / count),
        "rows merged": round(work.decoded_rows / count, 1),
        "rows unmerged": round(work.decoded_rows_unmerged / count, 1),
        "prefill share": work.prefill_seconds / (work.prefill_seconds + work.decode_seconds),
        "generate peak MB": calls.peak,
        "engine peak MB": mine.peak,
        "best batches": best,
        **check(model, prompts, ours, theirs),
    }


def against_generate(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All cells on the CPU, printed as they come."""
    torch.set_num_threads(arguments.threads)
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(arguments.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    newline = stop_tokens(tokenizer, model)
    count, repeats = (2, 1) if arguments.quick else (arguments.questions, arguments.repeats)
    shown: tuple[str, ...] = (
        "prompt tokens",
        "ending",
        "generate CPU s",
        "engine CPU s",
        "CPU ratio",
        "wall ratio",
    )
    shown += (
        "prompt tokens run, engine",
        "rows merged",
        "rows unmerged",
        "engine peak MB",
        "generate peak MB",
    )
    print("| " + " | ".join(shown) + " | identical |\n|" + " --- |" * (len(shown) + 1))
    cells = []
    for length in arguments.lengths:
        for stops in (newline, frozenset[int]()):
            cells.append(cell(model, tokenizer, length, stops, count, repeats, arguments.batches))
            values = [cells[-1][name] for name in shown]
            same = cells[-1]["greedy identical"] and cells[-1]["beams identical in order"]
            row = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
            print("| " + " | ".join([*row, "yes" if same else "NO"]) + " |", flush=True)
    return cells


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[150, 500, 1000], help="prompt tokens"
    )
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 2, 4, 8], help="tried for generate"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two questions a cell and one repeat")
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="attribute a card's time; random weights, no generate but one",
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="with --gpu: a tiny model, on the CPU where there is no card",
    )
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_decoding.json"))
    arguments = parser.parse_args(argv)
    if arguments.tiny and not arguments.gpu:
        parser.error("--tiny goes with --gpu")
    if arguments.gpu:
        if not (arguments.tiny or torch.cuda.is_available()):
            parser.error("--gpu needs a card; --gpu --tiny runs anywhere")
        write_json(arguments.json, card.attributed(card.TINY if arguments.tiny else card.Setting()))
    else:
        told = {**versions(), "threads": arguments.threads}
        write_json(arguments.json, {**told, "cells": against_generate(arguments)})


if __name__ == "__main__":
    main()
