"""CPU seconds to evaluate cells of the paper's size.

    python -m benchmarks.evaluation [cells] [resamples] [questions]

A cell has 2,000 questions, 26 scores of two answers and three qualities. Scores are made up: some
without ties, some with a third of equal ones, some with many ties, as the methods' are. The paper
has 10,000 resamples; time grows with them, so fewer tell it too. Start it with OMP_NUM_THREADS=1,
as jobs are.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa

from beamuq.evaluation.prr_and_auc import METRICS
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate_all

CELLS = 3
QUESTIONS = 2000
SCORES = 26
RESAMPLES = 1000
ANSWERS = ("greedy", "top_beam")
QUALITIES = {"alignscore": 4, "exact_match": 0, "answer_f1": 1}  # metric → decimals


def scores(random: np.random.Generator, quality: np.ndarray, place: int) -> np.ndarray:  # type: ignore[type-arg]
    """A score [N] that follows a quality [N]: without ties, with a third of zeros, or rounded."""
    values = random.normal(size=len(quality)) - quality
    if place % 3 == 1:
        return np.where(random.random(len(quality)) < 1 / 3, 0.0, values)
    return values.round(1) if place % 6 == 2 else values


def cell(
    number: int, n: int = QUESTIONS, methods: int = SCORES, resamples: int = RESAMPLES
) -> float:
    """CPU seconds to evaluate one cell of ``n`` questions, one answer in a hundred empty."""
    random = np.random.default_rng(number)
    ids = [f"q{question:04d}" for question in range(n)]
    # one dataset in six has stories
    groups = [f"story{question // 5}" for question in range(n)] if number % 6 == 0 else ids
    quality = random.random(n)
    main, *further = QUALITIES
    settings = EvaluationSettings(
        metrics=METRICS,
        quality=main,
        max_rejection=(0.5, 1.0),
        resamples=resamples,
        further_qualities=dict.fromkeys(further, 0.5),
    )
    table = made_up_scores(random, ids, quality, methods)
    rated = made_up_qualities(ids, quality)
    empty = {answer: set(ids[::100]) for answer in ANSWERS}
    questions = pa.table({"id": ids, "group": groups})
    started = time.process_time()
    evaluate_all(table, rated, questions, settings, f"cell {number}", empty)
    return time.process_time() - started


def made_up_scores(
    random: np.random.Generator,
    ids: list[str],
    quality: np.ndarray,  # type: ignore[type-arg]
    methods: int,
) -> pa.Table:
    """Scores of each answer by so many methods."""
    n = len(ids)
    names = [f"method {place}" for place in range(methods)]
    values = [scores(random, quality, place) for _ in ANSWERS for place in range(methods)]
    columns = {
        "id": ids * (len(ANSWERS) * methods),
        "answer_source": np.repeat(ANSWERS, n * methods),
        "method": np.tile(np.repeat(names, n), len(ANSWERS)),
        "variant": [""] * (len(ANSWERS) * methods * n),
        "setting": [""] * (len(ANSWERS) * methods * n),
        "value": np.concatenate(values),
    }
    return pa.table(columns)


def made_up_qualities(ids: list[str], quality: np.ndarray) -> dict[str, pa.Table]:  # type: ignore[type-arg]
    """Of each metric the quality of the answers, with the metric's decimals."""
    tables = {}
    for metric, decimals in QUALITIES.items():
        columns = {
            "id": ids * len(ANSWERS),
            "answer_source": np.repeat(ANSWERS, len(ids)),
            "value": np.tile(quality.round(decimals), len(ANSWERS)),
        }
        tables[metric] = pa.table(columns)
    return tables


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]]
    defaults = [CELLS, RESAMPLES, QUESTIONS]
    cells, resamples, questions = [*sizes, *defaults[len(sizes) :]]
    seconds = [cell(number, questions, SCORES, resamples) for number in range(cells)]
    print(
        f"{questions} questions, {SCORES} scores of {len(ANSWERS)} answers, {len(QUALITIES)} "
        f"qualities, {resamples} resamples: "
        f"{', '.join(f'{of_cell:.2f}' for of_cell in seconds)} CPU s a cell"
    )


if __name__ == "__main__":
    main()
