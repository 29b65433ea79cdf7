"""CPU seconds to evaluate cells of the paper's size: 2,000 questions, 26 scores of two answers,
three qualities.

    python -m benchmarks.evaluation [cells] [resamples] [questions]

Scores are made up: some without ties, some with a third of equal ones, some with many ties, as the
methods' are. The paper has 10,000 resamples; time grows with them, so fewer tell it too. Start it
with OMP_NUM_THREADS=1, as jobs are.
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

QUESTIONS, SCORES, RESAMPLES = 2000, 26, 1000
ANSWERS = ("greedy", "top_beam")
QUALITIES = {"alignscore": 4, "exact_match": 0, "answer_f1": 1}  # metric → decimals


def scores(random: np.random.Generator, quality: np.ndarray, place: int) -> np.ndarray:  # type: ignore[type-arg]
    """A score [N] that follows a quality [N]: of three, one without ties and one a third of which
    is 0.
    """
    values = random.normal(size=len(quality)) - quality
    if place % 3 == 1:
        return np.where(random.random(len(quality)) < 1 / 3, 0.0, values)
    return values.round(1) if place % 6 == 2 else values


def cell(
    number: int, n: int = QUESTIONS, methods: int = SCORES, resamples: int = RESAMPLES
) -> float:
    """CPU seconds to evaluate one cell of ``n`` questions, one answer in a hundred empty."""
    random = np.random.default_rng(number)
    ids = [f"q{k:04d}" for k in range(n)]
    groups = (
        [f"story{k // 5}" for k in range(n)] if number % 6 == 0 else ids
    )  # one dataset in six has stories
    quality = random.random(n)
    answers = np.repeat(ANSWERS, n)
    named = [f"method {place}" for place in range(methods)]
    table = {
        "id": ids * (len(ANSWERS) * methods),
        "answer_source": np.repeat(ANSWERS, n * methods),
        "method": np.tile(np.repeat(named, n), len(ANSWERS)),
        "variant": [""] * (len(ANSWERS) * methods * n),
        "setting": [""] * (len(ANSWERS) * methods * n),
        "value": np.concatenate(
            [scores(random, quality, place) for _ in ANSWERS for place in range(methods)]
        ),
    }
    rated = {
        metric: pa.table(
            {
                "id": ids * len(ANSWERS),
                "answer_source": answers,
                "value": np.tile(quality.round(of), 2),
            }
        )
        for metric, of in QUALITIES.items()
    }
    main, *further = rated
    settings = EvaluationSettings(
        metrics=METRICS,
        quality=main,
        max_rejection=(0.5, 1.0),
        resamples=resamples,
        further_qualities=dict.fromkeys(further, 0.5),
    )
    empty = {answer: set(ids[::100]) for answer in ANSWERS}
    questions = pa.table({"id": ids, "group": groups})
    started = time.process_time()
    evaluate_all(pa.table(table), rated, questions, settings, f"cell {number}", empty)
    return time.process_time() - started


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    cells, resamples, questions = [*given, *(3, RESAMPLES, QUESTIONS)[len(given) :]]
    seconds = [cell(number, questions, SCORES, resamples) for number in range(cells)]
    told = ", ".join(f"{of_cell:.2f}" for of_cell in seconds)
    print(
        f"{questions} questions, {SCORES} scores of {len(ANSWERS)} answers, {len(QUALITIES)} "
        "qualities, "
        f"{resamples} resamples: {told} CPU s a cell"
    )


if __name__ == "__main__":
    main()
