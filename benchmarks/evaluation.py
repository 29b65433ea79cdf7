"""How long the paper's whole grid takes to evaluate: 36 cells of 2,000 questions, 25 scores, 2,000 resamples.

    python benchmarks/evaluation.py [cells] [processes]

The budget is five minutes on two cores. Scores are made up: some without ties, some with many, as the methods' are.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa

from beamuq.evaluation.prr_and_auc import METRICS
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate

N, SCORES, RESAMPLES, BUDGET = 2000, 25, 2000, 300


def cell(number: int, n: int = N, methods: int = SCORES) -> float:
    """Seconds to evaluate one cell of ``n`` questions."""
    rng = np.random.default_rng(number)
    ids = [f"q{k:04d}" for k in range(n)]
    groups = [f"story{k // 5}" for k in range(n)] if number % 6 == 0 else ids  # one dataset in six has stories
    quality = rng.random(n)
    scores = [rng.normal(size=n) - quality for _ in range(methods)]
    scores = [score.round(1) if position % 5 == 0 else score for position, score in enumerate(scores)]
    tables = {
        "questions": {"id": ids, "group": groups},
        "quality": {"id": ids, "answer_source": ["greedy"] * n, "value": quality},
        "scores": {
            "id": ids * methods,
            "answer_source": ["greedy"] * n * methods,
            "method": [f"method {position}" for position in range(methods) for _ in ids],
            "variant": [""] * n * methods,
            "setting": [""] * n * methods,
            "value": np.concatenate(scores),
        },
    }
    made = {
        kind: pa.table(columns, schema=pa.schema([SCHEMAS[kind].field(name) for name in columns]))
        for kind, columns in tables.items()
    }
    settings = EvaluationSettings(metrics=METRICS, quality="alignscore", resamples=RESAMPLES)
    started = time.perf_counter()
    evaluate(made["scores"], made["quality"], made["questions"], settings, f"cell {number}")
    return time.perf_counter() - started


def main() -> None:
    cells, processes = (int(word) for word in [*sys.argv[1:], "36", "2"][:2])
    started = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        seconds = list(pool.map(cell, range(cells)))
    total = time.perf_counter() - started
    print(
        f"{cells} cells × {SCORES} scores × {len(METRICS)} metrics × {RESAMPLES} resamples of {N} questions: "
        f"{total:.0f} s on {processes} processes, {np.mean(seconds):.1f} s a cell (budget {BUDGET} s)"
    )
    if total > BUDGET:
        raise SystemExit("over budget")


if __name__ == "__main__":
    main()
