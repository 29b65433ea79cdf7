"""What exact search and recipe ``reference`` cost beside beams and ``main``, in rows and CPU time.

    python -m benchmarks.searches                   # SmolLM2 on the CPU: half an hour
    python -m benchmarks.searches --quick           # eight questions, one repeat: minutes

``reference`` is the recipe of studies/demo.yaml, every estimator's candidates; ``exact value`` is U
alone: its set and its draws. Rows are prefixes beyond the prompt, per question. CPU times are
medians of the repeats, all recipes in turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

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
from beamuq.decoding.search_state import Effort
from beamuq_study.stages.recipe_to_policies import policies_of
from beamuq_study.study_config import STUDIES, load_study
from benchmarks.common import (
    MODEL,
    NEW_TOKENS,
    Cost,
    M,
    Results,
    measured,
    median,
    questions,
    write_json,
)

RECIPES: dict[str, list[Policy]] = {
    "main": [Greedy(), Sample(M), Beam(M)],
    "exact value": [Greedy(), AllAbove(0.002, draws=100, lattices=10)],
    "reference": policies_of(load_study(STUDIES / "demo.yaml").recipes["reference"], None),
}


def efforts_of(candidates: Sequence[Candidate], strategy: str) -> list[Effort]:
    """The efforts of a strategy, question by question."""
    return [
        candidate.effort
        for candidate in candidates
        if candidate.strategy == strategy and candidate.rank == 0 and candidate.effort is not None
    ]


def exact_against_beams(candidates: Sequence[Candidate]) -> Results:
    """Rows and passes of both, how many are proven, and how many of the exact ones beams miss."""
    beams = f"beam M={M}"
    exact = f"exact M={M}"
    missed = missed_by_question(candidates, beams, exact)
    efforts = {name: efforts_of(candidates, name) for name in (beams, exact)}
    rows = {name: [effort.rows for effort in of_name] for name, of_name in efforts.items()}
    return {
        "questions": len(missed),
        "rows, median": {name: float(np.median(numbers)) for name, numbers in rows.items()},
        "rows, sum": {name: sum(numbers) for name, numbers in rows.items()},
        "passes of the exact search, most": max(effort.passes for effort in efforts[exact]),
        "proven": sum(bool(effort.proven) for effort in efforts[exact]),
        "questions whose beams are not the exact ones": sum(number > 0 for number in missed),
        "missed a question": float(np.mean(missed)),
    }


def missed_by_question(candidates: Sequence[Candidate], beams: str, exact: str) -> list[int]:
    """How many of the exact ones beams miss, question by question."""
    answers: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for candidate in candidates:
        key = (candidate.prompt_id, candidate.strategy)
        answers.setdefault(key, set()).add(candidate.token_ids)
    prompts = dict.fromkeys(candidate.prompt_id for candidate in candidates)
    return [len(answers[prompt, exact] - answers[prompt, beams]) for prompt in prompts]


def costs_of_recipes(
    run: Callable[..., list[Candidate]], questions_asked: int, repeats: int
) -> Results:
    """Rows, CPU time and memory of each recipe; all recipes in turns."""
    costs: dict[str, list[Cost]] = {name: [] for name in RECIPES}
    rows = {}
    for _ in range(repeats):
        for name, policies in RECIPES.items():
            work = Work()
            costs[name].append(measured(partial(run, policies, work=work))[1])
            rows[name] = {
                "prompts": work.prompt_rows / questions_asked,
                "answers": work.decoded_rows / questions_asked,
            }
    medians = {name: median(of_repeats) for name, of_repeats in costs.items()}
    main = medians["main"].cpu
    return {
        "rows a question, mean": rows,
        "CPU s a question": {name: cost.cpu / questions_asked for name, cost in medians.items()},
        "CPU ÷ main's": {name: cost.cpu / main for name, cost in medians.items()},
        "most memory resident, MB": {name: cost.peak for name, cost in medians.items()},
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
    count = 8 if arguments.quick else arguments.questions
    repeats = 1 if arguments.quick else arguments.repeats
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
    run = partial(
        decode,
        model,
        prompts,
        stop_ids=stop_tokens(tokenizer, model),
        seed=0,
        max_new_tokens=NEW_TOKENS,
    )
    results = exact_against_beams(run([Beam(M), Exact(M)], work=Work()))
    results |= costs_of_recipes(run, len(prompts), repeats)
    print(json.dumps(results, indent=1))
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
