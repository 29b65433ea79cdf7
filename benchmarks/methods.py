"""What a score costs: the candidates that methods need, decoded and scored.

    OMP_NUM_THREADS=1 python -m benchmarks.methods    # SmolLM2 and MiniLM on one core: minutes

The demo's TriviaQA questions behind five examples, newlines stop. Each set of candidates is decoded
alone, the answer with it, and scored by the methods that it allows. CPU seconds are medians of the
repeats, of the whole process; rows are forward passes of one token behind the prompt.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import beamuq
from beamuq.decoding import Work
from benchmarks.common import MODEL, M, Results, measured, median, versions, write_json

QUESTIONS = Path(__file__).resolve().parents[1] / "workflow/demo/trivia_qa"
EXAMPLES = 5


class Candidates(NamedTuple):
    """Candidates beside the answer, and one method or more that they allow."""

    title: str
    samples: int
    beams: int
    methods: tuple[str, ...]


SETS = (
    Candidates("the answer", 0, 0, ("Perplexity",)),
    Candidates("ten samples", M, 0, ("Dissimilarity", "CocoaPPL", "Eccentricity")),
    Candidates("ten beams", 0, M, ("PRO", "Dissimilarity", "Eccentricity")),
)


def few_shot_prompts(count: int) -> list[str]:
    """The first questions of the demo behind the first examples."""
    examples = [
        f"Question: {row['question']}\nAnswer: {row['answer']['value']}\n\n"
        for row in read_rows("train")[:EXAMPLES]
    ]
    shots = "".join(examples)
    asked = read_rows("validation")[:count]
    return [f"{shots}Question: {row['question']}\nAnswer:" for row in asked]


def read_rows(split: str) -> list[dict[str, Any]]:
    """The demo's rows of a split."""
    (file,) = QUESTIONS.glob(f"**/{split}*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def cost_per_question(
    model: Any, tokenizer: Any, candidates: Candidates, prompts: Sequence[str], repeats: int
) -> Results:
    """What decoding this set takes per question, and scoring it by each method."""
    decode = partial(
        beamuq.decode,
        model,
        tokenizer,
        prompts,
        samples=candidates.samples,
        beams=candidates.beams,
    )
    work = Work()
    rows, first = measured(partial(decode, work=work))
    further = [measured(decode)[1] for _ in range(repeats - 1)]
    scoring = {}
    for method in candidates.methods:
        score = partial(beamuq.score, rows, methods=method, similarity="minilm")
        costs = [measured(score)[1] for _ in range(repeats)]
        scoring[method] = median(costs).cpu / len(prompts)
    return {
        "candidates": candidates.title,
        "questions": len(prompts),
        "rows": work.decoded_rows / len(prompts),
        "decoding, CPU s": median([first, *further]).cpu / len(prompts),
        "scoring, CPU s": scoring,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark; print a table, and write everything measured as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("build/benchmark_methods.json"))
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    warm = {"answer": "a", "samples": ["b"]}
    beamuq.score([warm], methods="Dissimilarity", similarity="minilm")  # loads it
    prompts = few_shot_prompts(arguments.questions)
    results: Results = {**versions(), "sets": []}
    print("| candidates | rows | decoding, CPU s | scoring, CPU s |\n| --- | ---: | ---: | --- |")
    for candidates in SETS:
        cost = cost_per_question(model, tokenizer, candidates, prompts, arguments.repeats)
        scoring = [f"{method} {value:.3f}" for method, value in cost["scoring, CPU s"].items()]
        print(
            f"| {cost['candidates']} | {cost['rows']:.1f} | {cost['decoding, CPU s']:.2f} "
            f"| {', '.join(scoring)} |",
            flush=True,
        )
        results["sets"].append(cost)
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
