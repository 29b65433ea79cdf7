"""What the exact search and the recipe ``reference`` cost, beside beams and the recipe ``main``, in
rows and CPU time.

    python -m benchmarks.searches                   # SmolLM2 on the CPU: half an hour
    python -m benchmarks.searches --quick           # eight questions, one repeat: minutes

``reference`` is the recipe of studies/demo.yaml, every estimator's candidates; ``exact value`` is U
alone: its set and its draws. Rows are prefixes beyond the prompt, per question. CPU times are
medians of the repeats, all recipes in turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import (
    AllAbove,
    Beam,
    Candidate,
    Exact,
    Greedy,
    Policy,
    Prompt,
    Sample,
    Work,
    decode,
    stop_tokens,
)
from beamuq_study.stages.recipe_to_policies import policies_of
from beamuq_study.study_config import STUDIES, load_study
from benchmarks.common import MODEL, NEW_TOKENS, Cost, M, measured, median, questions, write_json

RECIPES: dict[str, list[Policy]] = {
    "main": [Greedy(), Sample(M), Beam(M)],
    "exact value": [Greedy(), AllAbove(0.002, draws=100, lattices=10)],
    "reference": policies_of(load_study(STUDIES / "demo.yaml").recipes["reference"], None),
}


def rows_of(found: Sequence[Candidate], strategy: str) -> list[int]:
    """Rows of a strategy, question by question."""
    return [
        c.effort.rows
        for c in found
        if c.strategy == strategy and c.rank == 0 and c.effort is not None
    ]


def exact_against_beams(found: Sequence[Candidate]) -> dict[str, Any]:
    """Rows and passes of both, how many are proven, and how many of the exact ones beams miss."""
    beams, exact = f"beam M={M}", f"exact M={M}"
    sets: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for candidate in found:
        sets.setdefault((candidate.prompt_id, candidate.strategy), set()).add(candidate.token_ids)
    missed = [
        len(sets[key, exact] - sets[key, beams])
        for key in dict.fromkeys(c.prompt_id for c in found)
    ]
    firsts = [
        c.effort for c in found if c.strategy == exact and c.rank == 0 and c.effort is not None
    ]
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument(
        "--prompts", type=Path, help="a JSON list of prompts, in place of made ones of 150 tokens"
    )
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
        prompts = [
            Prompt(f"q{number}", tuple(tokenizer(text)["input_ids"]))
            for number, text in enumerate(texts)
        ]
    options: dict[str, Any] = {
        "stop_ids": stop_tokens(tokenizer, model),
        "seed": 0,
        "max_new_tokens": NEW_TOKENS,
    }

    def run(policies: Sequence[Policy], work: Work) -> tuple[list[Candidate], Cost]:
        return measured(lambda: decode(model, prompts, policies, work=work, **options))

    told: dict[str, Any] = exact_against_beams(run([Beam(M), Exact(M)], Work())[0])
    costs: dict[str, list[Cost]] = {name: [] for name in RECIPES}
    rows = {}
    for _ in range(repeats):
        for name, policies in RECIPES.items():
            costs[name].append(run(policies, work := Work())[1])
            rows[name] = {
                "prompts": work.prompt_rows / len(prompts),
                "answers": work.decoded_rows / len(prompts),
            }
    medians = {name: median(each) for name, each in costs.items()}
    told |= {
        "rows a question, mean": rows,
        "CPU s a question": {name: cost.cpu / len(prompts) for name, cost in medians.items()},
        "CPU ÷ main's": {name: cost.cpu / medians["main"].cpu for name, cost in medians.items()},
        "most memory resident, MB": {name: cost.peak for name, cost in medians.items()},
    }
    print(json.dumps(told, indent=1))
    write_json(arguments.json, told)


if __name__ == "__main__":
    main()
