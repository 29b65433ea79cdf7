"""Scores and quality of one cell's greedy answers per question, for PRR on subsets and for curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_counts
from beamuq.evaluation.candidate_sets import groups_of
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.prr_and_auc import Evaluator, why_undefined
from beamuq.methods.registry import stored_variant

Score = tuple[str, str, str]  # method, variant, setting


class QuestionScores:
    """``ids``, ``groups``, ``quality`` [N] and ``scores`` [N] of greedy answers, all in the questions' order.

    ``name`` is what messages call the scores, such as their file. Raises BeamUQError if the three frames do not belong
    together.
    """

    def __init__(self, scores: pd.DataFrame, quality: pd.DataFrame, questions: pd.DataFrame, name: str) -> None:
        self.name = name
        values = quality[quality["answer_source"] == "greedy"].set_index("id")["value"]
        answered = questions[questions["id"].isin(set(values.index))]
        if len(answered) != len(values):
            raise BeamUQError(f"{name}: ids of its quality are not among the questions; make both of one study")
        self.ids, self.groups = list(answered["id"]), list(answered["group"])
        self.quality: Floats = np.asarray(values.loc[self.ids], dtype=np.float64)
        greedy = scores[scores["answer_source"] == "greedy"]
        keys = ["method", "variant", "setting"]
        self._scores = {key: part.set_index("id")["value"] for key, part in greedy.groupby(keys)}

    def scores(self, method: str, variant: str, setting: str = "") -> Floats:
        """[N] uncertainty, higher = more uncertain."""
        key = (method, stored_variant(method, variant), setting)
        if key not in self._scores:
            raise BeamUQError(f"{self.name}: no scores for {' '.join(filter(None, key))}; run the scoring again")
        rows: pd.Series[float] = self._scores[key]
        if set(rows.index) != set(self.ids) or len(rows) != len(self.ids):
            raise BeamUQError(f"{self.name}: {method} is not of the questions that have quality; score again")
        return np.asarray(rows.loc[self.ids], dtype=np.float64)

    def prr(
        self,
        members: Bools,
        subset: str,
        scores: Sequence[Score],
        *,
        max_rejection: float = 0.5,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Estimates:
        """PRR of each score over some of the questions [N], paired. ``name`` and ``subset`` choose the resamples."""
        quality, n = self.quality[members], int(members.sum())
        keys = [{"metric": "PRR", "method": m, "variant": v, "setting": s, "n": n} for m, v, s in scores]
        if why := why_undefined("PRR", quality, max_rejection, 0.5) if n else "undefined: no questions":
            undefined = np.full(resamples, np.nan)
            return Estimates.from_rows([key | {"value": np.nan, "note": why} for key in keys], [undefined] * len(keys))
        groups, name = groups_of(self.groups, members), f"{self.name} {subset}"
        drawn = resample_counts(groups, resamples, seed, name)
        counts = np.column_stack([np.ones(n, dtype=np.int64), drawn])
        evaluator = Evaluator(quality, counts, max_rejection=max_rejection)
        prrs = [evaluator.measure(self.scores(*score)[members], ["PRR"])["PRR"] for score in scores]
        rows = [key | {"value": values[0]} for key, values in zip(keys, prrs, strict=True)]
        return Estimates.from_rows(rows, [values[1:] for values in prrs])
