"""The decoding engine against three ``generate`` calls, in the same run with the same threads.

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
from dataclasses import dataclass
from functools import partial
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
    Results,
    measured,
    median,
    questions,
    versions,
    write_json,
)

Answers = dict[str, list[tuple[int, ...]]]  # generated tokens by prompt id

SHOWN = (
    "prompt tokens",
    "ending",
    "generate CPU s",
    "engine CPU s",
    "CPU ratio",
    "wall ratio",
    "prompt tokens run, engine",
    "rows merged",
    "rows unmerged",
    "engine peak MB",
    "generate peak MB",
)


def check(
    model: Any, prompts: Sequence[Prompt], ours: Sequence[Candidate], theirs: dict[str, Answers]
) -> Results:
    """Whether greedy ids and ordered beams are identical, and how far log p of samples is off."""
    by_strategy: dict[str, Answers] = {}
    for candidate in ours:
        answers = by_strategy.setdefault(candidate.strategy, {})
        answers.setdefault(candidate.prompt_id, []).append(candidate.token_ids)
    prompt_ids = {prompt.id: prompt.token_ids for prompt in prompts}
    samples = {
        (candidate.prompt_id, candidate.token_ids): candidate
        for candidate in ours
        if candidate.strategy.startswith("sample")
    }
    furthest = 0.0
    for sample in samples.values():
        rescored = teacher_forced(model, prompt_ids[sample.prompt_id], sample.token_ids)
        furthest = max(furthest, abs(rescored - sample.logprob))
    return {
        "greedy identical": by_strategy["greedy"] == theirs["greedy"],
        "beams identical in order": by_strategy[f"beam M={M}"] == theirs["beams"],
        "samples rescored within": furthest,
    }


def teacher_forced(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """log p of an answer's tokens, by one pass over prompt and answer."""
    ids = torch.tensor([[*prompt, *answer]])
    with torch.inference_mode():
        logits = model(ids, logits_to_keep=len(answer) + 1).logits[0, :-1]
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    return float(logprobs.gather(1, torch.tensor(answer)[:, None]).double().sum())


@dataclass(frozen=True)
class Timed:
    """A call of ``generate`` at the batch size at which it is fastest."""

    answers: Answers
    batch: int
    cost: Cost


def fastest(
    generate: Generate, name: str, prompts: Sequence[Prompt], batches: Sequence[int], repeats: int
) -> Timed:
    """The call of this name, tried at each batch size and repeated at the best."""
    torch.manual_seed(0)
    answers: Answers = {}
    costs = {}
    for batch in batches:
        if batch <= len(prompts):
            call = partial(generate.call, prompts, batch, CALLS[name])
            answers, costs[batch] = measured(call)
    best = min(costs, key=lambda batch: costs[batch].cpu)
    call = partial(generate.call, prompts, best, CALLS[name])
    further = [measured(call)[1] for _ in range(repeats - 1)]
    return Timed(answers, best, median([costs[best], *further]))


def cell(
    model: Any,
    tokenizer: Any,
    length: int,
    stops: frozenset[int],
    count: int,
    repeats: int,
    batches: Sequence[int],
) -> Results:
    """One cell of the table."""
    prompts = questions(tokenizer, length, count)
    engine = partial(
        decode, model, prompts, POLICIES, stop_ids=stops, seed=0, max_new_tokens=NEW_TOKENS
    )
    work = Work()
    ours, first = measured(partial(engine, work=work))
    mine = median([first, *(measured(engine)[1] for _ in range(repeats - 1))])
    generate = Generate(model, stops)
    calls = {name: fastest(generate, name, prompts, batches, repeats) for name in CALLS}
    cpu = sum(call.cost.cpu for call in calls.values())
    wall = sum(call.cost.wall for call in calls.values())
    theirs = {name: call.answers for name, call in calls.items()}
    return {
        "prompt tokens": round(work.prompt_tokens / count),
        "ending": "newline stops" if stops else f"{NEW_TOKENS} tokens",
        "questions": count,
        "generate CPU s": cpu / count,
        "engine CPU s": mine.cpu / count,
        "CPU ratio": cpu / mine.cpu,
        "wall ratio": wall / mine.wall,
        "prompt tokens run, generate": round((2 * M + 1) * work.prompt_tokens / count),
        "prompt tokens run, engine": round(work.prompt_rows / count),
        "rows merged": round(work.decoded_rows / count, 1),
        "rows unmerged": round(work.decoded_rows_unmerged / count, 1),
        "prefill share": work.prefill_seconds / (work.prefill_seconds + work.decode_seconds),
        "generate peak MB": max(call.cost.peak for call in calls.values()),
        "engine peak MB": mine.peak,
        "best batches": {name: call.batch for name, call in calls.items()},
        **check(model, prompts, ours, theirs),
    }


def against_generate(arguments: argparse.Namespace) -> list[Results]:
    """All cells on the CPU, printed as they come."""
    torch.set_num_threads(arguments.threads)
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(arguments.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    newline = stop_tokens(tokenizer, model)
    count = 2 if arguments.quick else arguments.questions
    repeats = 1 if arguments.quick else arguments.repeats
    print("| " + " | ".join(SHOWN) + " | identical |\n|" + " --- |" * (len(SHOWN) + 1))
    cells = []
    for length in arguments.lengths:
        for stops in (newline, frozenset[int]()):
            cells.append(cell(model, tokenizer, length, stops, count, repeats, arguments.batches))
            print(row(cells[-1]), flush=True)
    return cells


def row(results: Results) -> str:
    """A cell's line of the printed table."""
    words = []
    for name in SHOWN:
        value = results[name]
        words.append(f"{value:.2f}" if isinstance(value, float) else str(value))
    is_same = results["greedy identical"] and results["beams identical in order"]
    return "| " + " | ".join([*words, "yes" if is_same else "NO"]) + " |"


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
        results: Results = {**versions(), "threads": arguments.threads}
        results["cells"] = against_generate(arguments)
        write_json(arguments.json, results)


if __name__ == "__main__":
    main()
