"""The scores and the quality of a cell's greedy answers, by question, and PRR on subsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_blocks
from beamuq.evaluation.candidate_sets import groups_of
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks, why_undefined
from beamuq.methods.registry import stored_variant

ScoreKey = tuple[str, str, str]  # method, variant, setting


class QuestionScores:
    """``ids``, ``groups``, ``quality`` [N] and ``scores`` [N] of greedy answers, in one order.

    ``name`` is what messages call the scores, such as their file. Raises BeamUQError if the three
    frames do not belong together.
    """

    def __init__(
        self, scores: pd.DataFrame, quality: pd.DataFrame, questions: pd.DataFrame, name: str
    ) -> None:
        self.name = name
        values = quality[quality["answer_source"] == "greedy"].set_index("id")["value"]
        answered = questions[questions["id"].isin(set(values.index))]
        if len(answered) != len(values):
            raise BeamUQError(
                f"{name}: ids of its quality are not among the questions; make both of one study"
            )
        self.ids = list(answered["id"])
        self.groups = list(answered["group"])
        self.quality: Floats = np.asarray(values.loc[self.ids], dtype=np.float64)
        greedy = scores[scores["answer_source"] == "greedy"]
        self._values: Floats = greedy["value"].to_numpy(dtype=np.float64)
        # of each score its question's place among ids, -1 where it is not among them
        self._places = pd.Index(self.ids).get_indexer(pd.Index(greedy["id"]))
        self._rows = greedy.groupby(["method", "variant", "setting"]).indices

    def scores(self, method: str, variant: str, setting: str = "") -> Floats:
        """[N] uncertainty, higher = more uncertain."""
        key = (method, stored_variant(method, variant), setting)
        if key not in self._rows:
            raise BeamUQError(
                f"{self.name}: no scores for {' '.join(filter(None, key))}; run the scoring again"
            )
        rows = self._rows[key]
        places = self._places[rows]
        if not np.array_equal(np.sort(places), np.arange(len(self.ids))):
            raise BeamUQError(
                f"{self.name}: {method} is not of the questions that have quality; score again"
            )
        uncertainty = np.empty(len(self.ids))
        uncertainty[places] = self._values[rows]
        return uncertainty

    def has(self, method: str, variant: str, setting: str = "") -> bool:
        """Whether these were scored."""
        return (method, stored_variant(method, variant), setting) in self._rows

    def prr(
        self,
        members: Bools,
        subset: str,
        scores: Sequence[ScoreKey],
        *,
        max_rejection: float = 0.5,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Estimates:
        """PRR of each score over some of the questions [N], paired.

        ``name`` and ``subset`` choose the resamples.
        """
        quality = self.quality[members]
        n = len(quality)
        why = "undefined: no questions"
        if n:
            why = why_undefined("PRR", quality, max_rejection, 0.5)
        if why:
            rows = [_prr_row(key, n) | {"value": np.nan, "note": why} for key in scores]
            return Estimates.from_rows(rows, [np.full(resamples, np.nan)] * len(scores))
        uncertainties = [self.scores(*key)[members] for key in scores]
        groups = groups_of(self.groups, members)
        blocks = resample_blocks(groups, resamples, seed, f"{self.name} {subset}")
        measured = measure_blocks(
            uncertainties, [Judged(quality)], blocks, ["PRR"], [max_rejection]
        )
        prrs = [by_metric["PRR"] for (by_metric,) in measured]
        rows = [_prr_row(key, n) | {"value": prr[0]} for key, prr in zip(scores, prrs, strict=True)]
        return Estimates.from_rows(rows, [prr[1:] for prr in prrs])


def _prr_row(key: ScoreKey, n: int) -> dict[str, Any]:
    method, variant, setting = key
    return {"metric": "PRR", "method": method, "variant": variant, "setting": setting, "n": n}
