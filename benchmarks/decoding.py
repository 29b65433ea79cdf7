"""The decoding engine against three ``generate`` calls on the same machine, in the same run, with the same threads.

    python -m benchmarks.decoding                   # SmolLM2 on the CPU: every cell, two to three hours
    python -m benchmarks.decoding --quick           # two questions a cell, one repeat: minutes
    python -m benchmarks.decoding --gpu             # the engine alone, 8B and 4B shapes of random weights in bf16

A cell is a prompt length (about 150, 500, 1000 tokens) and an ending (newlines stop; or 20 full tokens). The three
calls are greedy, 10 samples at temperature 1 and 10 beams at length penalty 0, each at its best of several batch sizes.
Times are medians of the repeats. Greedy ids and ordered beams must be identical; samples are rescored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import Beam, Candidate, Greedy, Policy, Prompt, Sample, Work, decode, stop_tokens

MODEL = Path(__file__).resolve().parents[1] / "resources" / "models" / "smollm2-135m-instruct"
NEW_TOKENS = 20
M = 10
POLICIES: list[Policy] = [Greedy(), Sample(M), Beam(M)]
COUNTRIES = """France,Paris,Europe Italy,Rome,Europe Spain,Madrid,Europe Portugal,Lisbon,Europe Germany,Berlin,Europe
Austria,Vienna,Europe Poland,Warsaw,Europe Greece,Athens,Europe Norway,Oslo,Europe Sweden,Stockholm,Europe
Finland,Helsinki,Europe Denmark,Copenhagen,Europe Ireland,Dublin,Europe Hungary,Budapest,Europe Egypt,Cairo,Africa
Kenya,Nairobi,Africa Ghana,Accra,Africa Senegal,Dakar,Africa Tunisia,Tunis,Africa Morocco,Rabat,Africa
Ethiopia,Addis_Ababa,Africa Japan,Tokyo,Asia China,Beijing,Asia India,New_Delhi,Asia Thailand,Bangkok,Asia
Vietnam,Hanoi,Asia Iran,Tehran,Asia Iraq,Baghdad,Asia Nepal,Kathmandu,Asia Mongolia,Ulaanbaatar,Asia
Peru,Lima,South_America Chile,Santiago,South_America Ecuador,Quito,South_America Colombia,Bogota,South_America
Canada,Ottawa,North_America Cuba,Havana,North_America Mexico,Mexico_City,North_America Kuwait,Kuwait_City,Asia"""


@dataclass
class Cost:
    """What one way of decoding took: CPU and wall seconds, and the most memory resident meanwhile, in MB."""

    cpu: float
    wall: float
    peak: float


def questions(tokenizer: Any, length: int, count: int) -> list[Prompt]:
    """Few-shot prompts of about ``length`` tokens; shots differ in order, so that questions share no prefix."""
    facts = []
    for line in COUNTRIES.split():
        country, capital, continent = (word.replace("_", " ") for word in line.split(","))
        facts.append((f"What is the capital of {country}?", capital))
        facts.append((f"On which continent is {country}?", continent))
        facts.append((f"Of which country is {capital} the capital?", country))
    prompts = []
    for number in range(count):
        shuffled = random.Random(number).sample(facts, len(facts))
        asked, text = shuffled.pop()[0], ""
        for question, answer in shuffled:
            shot = f"Question: {question}\nAnswer: {answer}\n\n"
            if len(tokenizer(shot + text)["input_ids"]) > length - 12:
                break
            text = shot + text
        prompts.append(Prompt(f"q{number}", tuple(tokenizer(f"{text}Question: {asked}\nAnswer:")["input_ids"])))
    return prompts


@contextmanager
def resident_peak() -> Iterator[Callable[[], float]]:
    """The most memory resident in the block, in MB, looked at fifty times a second."""
    page, highest, over = os.sysconf("SC_PAGE_SIZE"), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not over.wait(0.02):
            highest = max(highest, int(Path("/proc/self/statm").read_text().split()[1]) * page)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: highest / 1e6
    finally:
        over.set()
        watcher.join()


def measured(run: Callable[[], Any]) -> tuple[Any, Cost]:
    """The result of ``run`` and its cost."""
    with resident_peak() as peak:
        cpu, wall = time.process_time(), time.perf_counter()
        result = run()
        cost = Cost(time.process_time() - cpu, time.perf_counter() - wall, 0.0)
    cost.peak = peak()
    return result, cost


def median(costs: Sequence[Cost]) -> Cost:
    """Medians of CPU and wall time, and the highest peak."""
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        max(cost.peak for cost in costs),
    )


def left_padded(rows: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    """The rows, with zeros in front: (rows, width)."""
    return torch.tensor([[0] * (width - len(row)) + [*row] for row in rows])


make_config: Any = transformers.GenerationConfig


class Generate:
    """Three calls of transformers' ``generate``, left-padded, with the engine's stop tokens and no other setting."""

    def __init__(self, model: Any, stops: frozenset[int]) -> None:
        self._model: Any = model
        self._stops = stops
        self._common: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "pad_token_id": 0}
        self._common["eos_token_id"] = sorted(stops) or None
        model.generation_config = make_config(**self._common)

    def call(self, prompts: Sequence[Prompt], batch: int, **options: Any) -> dict[str, list[tuple[int, ...]]]:
        """Generated tokens by prompt id, each cut after its first stop."""
        config = make_config(**self._common, **options)
        found: dict[str, list[tuple[int, ...]]] = {}
        for first in range(0, len(prompts), batch):
            chunk = prompts[first : first + batch]
            longest = max(len(prompt.token_ids) for prompt in chunk)
            ids = left_padded([prompt.token_ids for prompt in chunk], longest)
            mask = left_padded([[1] * len(prompt.token_ids) for prompt in chunk], longest)
            with torch.inference_mode():
                rows = self._model.generate(ids, attention_mask=mask, generation_config=config)[:, longest:].tolist()
            each = len(rows) // len(chunk)
            for index, prompt in enumerate(chunk):
                found[prompt.id] = [self._cut(row) for row in rows[index * each : (index + 1) * each]]
        return found

    def _cut(self, row: list[int]) -> tuple[int, ...]:
        ends = (i + 1 for i, token in enumerate(row) if token in self._stops)
        return tuple(row[: next(ends, NEW_TOKENS)])


CALLS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "samples": {"do_sample": True, "num_return_sequences": M, "top_k": 0, "top_p": 1.0, "temperature": 1.0},
    "beams": {
        "do_sample": False,
        "num_beams": M,
        "num_return_sequences": M,
        "length_penalty": 0.0,
        "early_stopping": "never",
    },
}


def check(model: Any, prompts: Sequence[Prompt], ours: Sequence[Candidate], theirs: dict[str, Any]) -> dict[str, Any]:
    """Whether greedy ids and ordered beams are identical, and how far samples are from their teacher-forced log p."""
    by_strategy: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for candidate in ours:
        by_strategy.setdefault(candidate.strategy, {}).setdefault(candidate.prompt_id, []).append(candidate.token_ids)
    tokens = {prompt.id: prompt.token_ids for prompt in prompts}
    furthest = 0.0
    for candidate in {(c.prompt_id, c.token_ids): c for c in ours if c.strategy.startswith("sample")}.values():
        ids = torch.tensor([[*tokens[candidate.prompt_id], *candidate.token_ids]])
        with torch.inference_mode():
            logits = model(ids, logits_to_keep=len(candidate.token_ids) + 1).logits[0, :-1]
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        rescored = logprobs.gather(1, torch.tensor(candidate.token_ids)[:, None]).double().sum().item()
        furthest = max(furthest, abs(rescored - candidate.logprob))
    return {
        "greedy identical": by_strategy["greedy"] == theirs["greedy"],
        "beams identical in order": by_strategy[f"beam M={M}"] == theirs["beams"],
        "samples rescored within": furthest,
    }


def cell(
    model: Any, tokenizer: Any, length: int, stops: frozenset[int], count: int, repeats: int, batches: Sequence[int]
) -> dict[str, Any]:
    """One cell of the table."""
    prompts = questions(tokenizer, length, count)
    options: dict[str, Any] = {"stop_ids": stops, "seed": 0, "max_new_tokens": NEW_TOKENS}
    work = Work()
    ours, first = measured(lambda: decode(model, prompts, POLICIES, work=work, **options))
    engine = [first] + [measured(lambda: decode(model, prompts, POLICIES, **options))[1] for _ in range(repeats - 1)]
    generate = Generate(model, stops)
    theirs, costs, best = {}, [], {}
    for name, call in CALLS.items():
        torch.manual_seed(0)
        tried = {}
        for batch in (size for size in batches if size <= count):
            theirs[name], tried[batch] = measured(lambda b=batch, c=call: generate.call(prompts, b, **c))  # type: ignore[misc]
        best[name] = min(tried, key=lambda size: tried[size].cpu)
        again = [measured(lambda n=name, c=call: generate.call(prompts, best[n], **c))[1] for _ in range(repeats - 1)]  # type: ignore[misc]
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
    shown: tuple[str, ...] = ("prompt tokens", "ending", "generate CPU s", "engine CPU s", "CPU ratio", "wall ratio")
    shown += ("prompt tokens run, engine", "rows merged", "rows unmerged", "engine peak MB", "generate peak MB")
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


def random_model(shape: str) -> Any:
    """A decoder of random weights on the GPU, in bf16, with the shape of Llama 3.1 8B or of Gemma 3 4B."""
    config: Any
    loader: Any = AutoModelForCausalLM
    if shape == "llama-8b":
        config = transformers.LlamaConfig(
            vocab_size=128256,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=8192,
        )
    else:
        config = transformers.Gemma3TextConfig(
            vocab_size=262208,
            hidden_size=2560,
            intermediate_size=10240,
            num_hidden_layers=34,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=256,
            sliding_window=1024,
            max_position_embeddings=8192,
        )
    with torch.device("cuda"):
        return loader.from_config(config, dtype=torch.bfloat16).eval()


def matrix_rate(size: int = 8192, repeats: int = 20) -> float:
    """Floating-point operations a second of bf16 matrix products on this card."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return repeats * 2 * size**3 / (time.perf_counter() - started)


def random_prompts(draw: random.Random, count: int, length: int, shared: int) -> list[Prompt]:
    """Prompts of about ``length`` random tokens, of which they share the first ``shared``."""
    own = length - shared
    start = [draw.randrange(1000, 100000) for _ in range(shared)]
    lengths = [draw.randint(own - own // 4, own + own // 4) for _ in range(count)]
    ends = [[draw.randrange(1000, 100000) for _ in range(tokens)] for tokens in lengths]
    return [Prompt(f"q{number}", (*start, *end)) for number, end in enumerate(ends)]


def on_gpu(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The engine alone, on random weights of real shapes: questions a second and share of the card's product rate.

    No batch repeats the prompts of another, nor their lengths: what a new shape costs is in every number.
    """
    rate = matrix_rate()
    cells = []
    for shape in ("llama-8b", "gemma-4b"):
        model = random_model(shape)
        matrices = sum(p.numel() for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n)
        head = model.get_output_embeddings().weight.numel()
        body = matrices - (head if any("lm_head" in name for name, _ in model.named_parameters()) else 0)
        options: dict[str, Any] = {"stop_ids": frozenset[int](), "seed": 0, "max_new_tokens": NEW_TOKENS}
        draw = random.Random(0)
        decode(model, random_prompts(draw, 2, 16, 0), POLICIES, **options)
        # The second way is like few-shot prompts: all but 40 tokens are the same.
        for length, shared in [(tokens, part) for tokens in arguments.lengths for part in (0, max(0, tokens - 40))]:
            torch.cuda.reset_peak_memory_stats()
            works = []
            for _ in range(1 + arguments.repeats):
                works.append(Work())
                decode(
                    model, random_prompts(draw, arguments.batch, length, shared), POLICIES, work=works[-1], **options
                )
            rates = [w.prompts / (w.prefill_seconds + w.decode_seconds) for w in works]
            work = works[1:][rates[1:].index(max(rates[1:]))]
            prefill = 2 * body * work.prompt_rows / work.prefill_seconds
            decoding = 2 * (body + head) * work.decoded_rows / work.decode_seconds
            cells.append(
                {
                    "shape": shape,
                    "prompt tokens": length,
                    "of them shared": shared,
                    "questions a batch": arguments.batch,
                    "questions a second": max(rates[1:]),
                    "questions a second, first batch": rates[0],
                    "prefill seconds": work.prefill_seconds,
                    "decode seconds": work.decode_seconds,
                    "prefill share of product rate": prefill / rate,
                    "decode share of product rate": decoding / rate,
                    "rows decoded": work.decoded_rows,
                    "peak GB": torch.cuda.max_memory_allocated() / 1e9,
                    "product rate TFLOP/s": rate / 1e12,
                }
            )
            print(json.dumps(cells[-1]), flush=True)
        del model
        torch.cuda.empty_cache()
    return cells


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--lengths", type=int, nargs="+", default=[150, 500, 1000], help="prompt tokens")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8], help="tried for generate")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two questions a cell and one repeat")
    parser.add_argument("--gpu", action="store_true", help="the engine alone, random weights of real shapes")
    parser.add_argument("--batch", type=int, default=64, help="questions a batch on the GPU")
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_decoding.json"))
    arguments = parser.parse_args(argv)
    cells = on_gpu(arguments) if arguments.gpu else against_generate(arguments)
    machine = torch.cuda.get_device_name() if arguments.gpu else platform.processor() or platform.machine()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    told = {"date": date.today().isoformat(), "machine": machine, "threads": arguments.threads, **versions}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({**told, "cells": cells}, indent=1) + "\n")
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()
