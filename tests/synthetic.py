"""A cell made up from a seed: candidates, similarities, judgements and quality as tables, of any
size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from beamuq.log_space_sums import Array
from beamuq.methods import Evidence
from beamuq.strategy_names import parse
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.stages.method_inputs_from_tables import CellTables

WORDS = ("paris", "rome", "the euro", "pound", "six", "sixth symphony", "tim", "a lion", "", "1984")
LABELS = ("entail", "neutral", "contradict")


def cell(
    N: int = 6,
    strategies: tuple[str, ...] = ("greedy", "sample T=1.0", "beam M=10"),
    M: int = 10,
    classes: bool = True,
    seed: int = 0,
    per_group: int = 1,
    top_beam: str = "beam M=10",
) -> dict[str, pa.Table]:
    """Tables by kind. Beams are distinct token sequences, some with the same text, and number up to
    M.
    """
    rng = np.random.default_rng(seed)
    questions, candidates, similarity, judgements, quality = [], [], [], [], []
    for n in range(N):
        key = f"q{n:04d}"
        questions.append({"id": key, "question": f"{n}?", "group": f"g{n // per_group}"} | EMPTY)
        texts = list(rng.choice(WORDS, size=5, replace=False))
        for strategy in strategies:
            kind = strategy.split()[0]
            width = (
                1 if kind == "greedy" else int(parse(strategy)[1]["M"]) if "M=" in strategy else M
            )
            logprobs = np.sort(rng.uniform(-9, -1.2, width))[::-1]
            for rank in range(width):
                candidate = _candidate(rng, str(rng.choice(texts)), float(logprobs[rank]))
                searched = kind in ("greedy", "beam", "diverse") or (
                    kind == "hybrid" and rank < int(strategy.split("B=")[1])
                )
                candidate["policy_logprob"] = (
                    None if searched else candidate["logprob"] + float(rng.normal())
                )
                if rank or (kind != "greedy" and kind != "beam"):
                    candidate |= {
                        "entropies": None,
                        "top_ids": None,
                        "top_texts": None,
                        "top_logprobs": None,
                    }
                candidates.append({"id": key, "strategy": strategy, "rank": rank} | candidate)
                judgements.append(
                    _statistic(rng, key, "greedy", candidate)
                    | {"candidate_strategy": strategy, "candidate_rank": rank}
                )
        for answer_source, strategy in (("greedy", "greedy"), ("top_beam", top_beam)):
            answer = [
                c
                for c in candidates
                if c["id"] == key and c["strategy"] == strategy and c["rank"] == 0
            ]
            quality.append(
                {"id": key, "answer_source": answer_source, "value": float(rng.random())}
            )
            judgements += [
                _statistic(rng, key, answer_source, a)
                | {"candidate_strategy": "", "candidate_rank": 0}
                for a in answer
            ]
        for premise in texts:
            for hypothesis in texts:
                p = dict(
                    zip(
                        ("entail", "neutral", "contradict"),
                        rng.dirichlet([1.0, 0.5, 0.5]).tolist(),
                        strict=True,
                    )
                )
                p |= {} if classes else {"neutral": None, "contradict": None}
                similarity.append({"id": key, "premise": premise, "hypothesis": hypothesis} | p)
    rows: dict[str, list[dict[str, Any]]] = {
        "questions": questions,
        "candidates": candidates,
        "quality": quality,
    }
    rows |= {"similarity": similarity, "judgements": judgements}
    return {kind: pa.Table.from_pylist(of, schema=SCHEMAS[kind]) for kind, of in rows.items()}


def score_rows(
    ids: Iterable[str], values: Mapping[tuple[str, str, str], Iterable[Any]]
) -> list[dict[str, Any]]:
    """Scores of the greedy answers to questions, by method, variant and setting."""
    names, ids = ("id", "answer_source", "method", "variant", "setting", "value"), list(ids)
    return [
        dict(zip(names, (key, "greedy", *of, float(value)), strict=True))
        for of, column in values.items()
        for key, value in zip(ids, column, strict=True)
    ]


def candidates(*rows: tuple[str, str, int, str]) -> pa.Table:
    """A candidates table out of (id, strategy, rank, text), each of one token."""
    return pa.Table.from_pylist(
        [candidate(*row, [1], -1.0) for row in rows], schema=SCHEMAS["candidates"]
    )


def candidate(
    key: str, strategy: str, rank: int, text: str, tokens: list[int], logprob: float
) -> dict[str, Any]:
    """A row of a candidates table whose tokens are equally probable."""
    names = ("id", "strategy", "rank", "text", "token_ids", "logprob")
    told = dict(zip(names, (key, strategy, rank, text, tokens, logprob), strict=True)) | {
        "terminated": True
    }
    length = len(tokens)
    of_tokens = {"token_texts": ["x"] * length, "token_logprobs": [logprob / length] * length}
    return dict.fromkeys(SCHEMAS["candidates"].names) | told | of_tokens


EMPTY: dict[str, list[Any]] = {"context": [], "history": [], "options": [], "references": []}


def _candidate(rng: np.random.Generator, text: str, logprob: float) -> dict[str, Any]:
    L = int(rng.integers(1, 6))
    share = rng.dirichlet(np.ones(L))
    tops = rng.permuted(np.tile(np.arange(100, 110), (L, 1)), axis=1)
    return {
        "text": text,
        "token_ids": [int(step[0]) for step in tops],
        "token_texts": ["t"] * L,
        "token_logprobs": [float(logprob * s) for s in share],
        "logprob": logprob,
        "terminated": True,
        "entropies": [float(x) for x in rng.uniform(0, 3, L)],
        "top_ids": [[int(x) for x in step] for step in tops],
        "top_texts": [["t"] * 10] * L,
        "top_logprobs": [[float(x) for x in rng.uniform(-9, -2, 10)] for _ in range(L)],
    }


def _statistic(
    rng: np.random.Generator, key: str, answer_source: str, candidate: dict[str, Any]
) -> dict[str, Any]:
    L = len(candidate["token_ids"])
    return {
        "id": key,
        "answer_source": answer_source,
        "p_true_logprob": float(-rng.random()),
        "ccp_labels": [[str(x) for x in rng.choice(LABELS, 10)] for _ in range(L)],
        "token_relevances": [*(float(x) for x in rng.random(L - 1)), 0.0],
    }


def evidence(strategy: str, N: int) -> Evidence:
    """What methods read of a strategy of :func:`cell`, about the greedy answer."""
    tables = cell(N)
    kinds = ("questions", "candidates", "similarity", "judgements", "similarity")
    made = CellTables(*(tables[kind] for kind in kinds))
    return made.evidence(strategy, "greedy")


def random_distributions(
    count: int = 100_000, outcomes: int = 8, seed: int = 0
) -> tuple[Array, Array]:
    """Probabilities in falling order, flat and steep, and dissimilarities: [count, outcomes]
    each.
    """
    rng = np.random.default_rng(seed)
    p = rng.gamma(rng.choice([0.1, 0.5, 2.0], (count, 1)), size=(count, outcomes)) + 1e-12
    p = -np.sort(-p / p.sum(axis=1, keepdims=True))
    d = np.where(rng.random((count, 1)) < 0.5, rng.random(p.shape), rng.integers(0, 2, p.shape))
    return p, d
