"""Cells whose thresholds have something to show: of a known distribution, and in a synthetic
study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import exhibits_study
import synthetic
from beamuq_study.parquet_tables import SCHEMAS, Artifact
from beamuq_study.stages.decisions_of_scores import DecisionSettings, decisions
from beamuq_study.study_config import Study

FORMS = (("Prob", ""), ("Dissimilarity", "multinomial"), ("Dissimilarity", "beamsearch"))


def cell(
    n: int = 400, seed: int = 0, per_group: int = 1, errors: float = 0.5
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Scores, quality and questions: P(wrong | u) = 2 · errors · u of a uniform u, which the beam
    form sees alone.
    """
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    quality = (rng.random(n) >= 2 * errors * u).astype(float)
    ids = [f"q{k:05d}" for k in rng.permutation(n)]
    values = dict(zip(FORMS, (rng.random(n), u + 0.3 * rng.random(n), u), strict=True))
    scores = synthetic.score_rows(ids, {(*form, ""): of for form, of in values.items()})
    rated = [
        {"id": i, "answer_source": "greedy", "value": float(q)}
        for i, q in zip(ids, quality, strict=True)
    ]
    asked = [
        {"id": i, "question": "?", "group": f"g{k // per_group}" if per_group > 1 else i}
        | synthetic.EMPTY
        for k, i in enumerate(ids)
    ]
    rows = (("scores", scores), ("quality", rated), ("questions", asked))
    found = [pa.Table.from_pylist(of, schema=SCHEMAS[kind]) for kind, of in rows]
    return found[0], found[1], found[2]


def settings(**changed: Any) -> DecisionSettings:
    given: dict[str, Any] = {"quality": "f1", "risks": (0.2, 0.4), "resamples": 50}
    return DecisionSettings(**given | changed)


GRID = [
    {
        "recipe": "main",
        "models": [exhibits_study.BASE],
        "datasets": ["triviaqa", "coqa"],
        "scorers": ["cosine"],
    }
]
STUDY = exhibits_study.study(decisions={"risks": [0.15, 0.2]}, grid=GRID)


class Larger(exhibits_study.Results):
    """The study's results with decisions, scores, quality and questions of many answers in every
    main cell.
    """

    def __init__(self, folder: Path, of: Study, errors: float = 0.1) -> None:
        super().__init__(folder, of)
        self.errors = errors

    def _cell(self, need: Artifact) -> tuple[pa.Table, pa.Table, pa.Table]:
        seed = sum(map(ord, need.model + need.dataset))
        return cell(1200, seed, errors=self.errors, per_group=3 if need.dataset == "coqa" else 1)

    def _decisions(self, need: Artifact) -> list[dict[str, Any]]:
        return decisions(
            *self._cell(need),
            settings(quality="answer_f1", risks=(0.15, 0.2), seed=self.study.seed),
            need.dataset,
        )[0]

    def _quality(self, need: Artifact) -> list[dict[str, Any]]:
        return list(self._cell(need)[1].to_pylist())

    def _scores(self, need: Artifact) -> list[dict[str, Any]]:
        return list(self._cell(need)[0].to_pylist())

    def _questions(self, need: Artifact) -> list[dict[str, Any]]:
        of = Artifact("decisions", need.dataset, exhibits_study.BASE, "main", "cosine")
        return list(self._cell(of)[2].to_pylist())
