"""What the exact search and the recipe ``truth`` cost beside beams and the recipe ``main``, in rows and CPU time.

    python -m benchmarks.searches                   # SmolLM2 on the CPU: a quarter of an hour
    python -m benchmarks.searches --quick           # eight questions, one repeat: minutes

Rows are prefixes beyond the prompt, per question. CPU times are medians of the repeats, both recipes in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import Above, Beam, Candidate, Exact, Greedy, Policy, Prompt, Sample, decode, stop_tokens
from benchmarks.decoding import MODEL, NEW_TOKENS, M, measured, questions

MAIN: list[Policy] = [Greedy(), Sample(M), Beam(M)]
TRUTH: list[Policy] = [Greedy(), Above(0.002, draws=100, lattices=10)]


def rows_of(found: Sequence[Candidate], strategy: str) -> list[int]:
    """Rows of a strategy, question by question."""
    return [c.effort.rows for c in found if c.strategy == strategy and c.rank == 0 and c.effort is not None]


def exact_against_beams(found: Sequence[Candidate]) -> dict[str, Any]:
    """Rows and passes of both, how many are proven, and how many of the exact ones beams miss."""
    beams, exact = f"beam M={M}", f"exact M={M}"
    sets: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for candidate in found:
        sets.setdefault((candidate.prompt_id, candidate.strategy), set()).add(candidate.token_ids)
    missed = [len(sets[key, exact] - sets[key, beams]) for key in dict.fromkeys(c.prompt_id for c in found)]
    firsts = [c.effort for c in found if c.strategy == exact and c.rank == 0 and c.effort is not None]
    told = {name: rows_of(found, name) for name in (beams, exact)}
    return {
        "questions": len(missed),
        "rows, median": {name: float(np.median(rows)) for name, rows in told.items()},
        "rows, sum": {name: sum(rows) for name, rows in told.items()},
        "passes of the exact search, most": max(effort.passes for effort in firsts),
        "proven": sum(bool(effort.proven) for effort in firsts),
        "questions whose beams are not the exact ones": sum(number > 0 for number in missed),
        "missed a question": float(np.mean(missed)),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print what was measured, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--prompts", type=Path, help="a JSON list of prompts, in place of made ones of 150 tokens")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_searches.json"))
    arguments = parser.parse_args(argv)
    count, repeats = (8, 1) if arguments.quick else (arguments.questions, arguments.repeats)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    if arguments.prompts is None:
        prompts = questions(tokenizer, 150, count)
    else:
        texts = json.loads(arguments.prompts.read_text())[:count]
        prompts = [Prompt(f"q{number}", tuple(tokenizer(text)["input_ids"])) for number, text in enumerate(texts)]
    options: dict[str, Any] = {"stop_ids": stop_tokens(tokenizer, model), "seed": 0, "max_new_tokens": NEW_TOKENS}

    def run(policies: Sequence[Policy]) -> tuple[list[Candidate], float]:
        found, cost = measured(lambda: decode(model, prompts, policies, **options))
        return found, cost.cpu

    told: dict[str, Any] = exact_against_beams(run([Beam(M), Exact(M)])[0])
    times: dict[str, list[float]] = {"main": [], "truth": []}
    for _ in range(repeats):
        times["main"].append(run(MAIN)[1])
        truth, seconds = run(TRUTH)
        times["truth"].append(seconds)
    medians = {name: statistics.median(each) for name, each in times.items()}
    told |= {
        "rows of truth, median": float(np.median(rows_of(truth, TRUTH[1].strategy))),
        "CPU s a question": {name: seconds / len(prompts) for name, seconds in medians.items()},
        "truth / main": medians["truth"] / medians["main"],
    }
    print(json.dumps(told, indent=1))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
