"""One cell's greedy answers, question by question: for curves and subsets that no evaluation file holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap, prr_and_auc
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.read_evaluation import Measured
from beamuq.exhibits.redundancy_and_covered_mass import group_of
from beamuq.methods.registry import stored_variant
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

Floats = NDArray[np.float64]


class QuestionScores:
    """``ids``, ``groups``, ``quality`` [N] and ``scores`` [N], all in the order of the questions file.

    Raises BeamUQError if the files do not belong together.
    """

    def __init__(self, inputs: Inputs, scores: Artifact, quality: Artifact, questions: Artifact) -> None:
        self.path = scores.path
        rated = inputs.frame(quality)
        values = rated[rated["answer_source"] == "greedy"].set_index("id")["value"]
        asked = inputs.frame(questions)
        asked = asked[asked["id"].isin(set(values.index))]
        if len(asked) != len(values):
            raise BeamUQError(f"{quality.path}: its ids are not those of {questions.path}; make both of one study")
        self.ids = list(asked["id"])
        self.groups = list(asked["group"])
        self.quality: Floats = np.asarray(values.loc[self.ids], dtype=np.float64)
        frame = inputs.frame(scores)
        frame = frame[frame["answer_source"] == "greedy"]
        self._scores = {
            key: part.set_index("id")["value"] for key, part in frame.groupby(["method", "variant", "setting"])
        }

    def scores(self, method: str, variant: str, setting: str = "") -> Floats:
        """[N] uncertainty, higher = more uncertain."""
        key = (method, stored_variant(method, variant), setting)
        if key not in self._scores:
            raise BeamUQError(f"{self.path}: no scores for {' '.join(filter(None, key))}; run the scoring again")
        found: pd.Series[float] = self._scores[key]
        if set(found.index) != set(self.ids) or len(found) != len(self.ids):
            raise BeamUQError(
                f"{self.path}: scores of {method} are not of the questions that have quality; score again"
            )
        return np.asarray(found.loc[self.ids], dtype=np.float64)

    def prr(
        self, study: Study, members: NDArray[np.bool_], name: str, keys: Sequence[tuple[str, str, str]]
    ) -> list[Measured]:
        """PRR of each score over some of the questions, with paired bootstrap intervals.

        ``keys``: method, variant, setting. ``name`` of the subset and the cell's file seed the resamples.
        """
        quality, n = self.quality[members], int(members.sum())
        limit, threshold = study.evaluation.max_rejection[0], study.main_quality.threshold
        if why := prr_and_auc.why_undefined("PRR", quality, limit, threshold) if n else "undefined: no questions":
            return [Measured(None, None, None, None, n, why)] * len(keys)
        drawn = bootstrap.resample_counts(
            group_of(self.groups, members), study.evaluation.resamples, study.seed, f"{self.path} {name}"
        )
        evaluator = prr_and_auc.Evaluator(
            quality, np.column_stack([np.ones(n, dtype=np.int64), drawn]), max_rejection=limit, threshold=threshold
        )
        found = []
        for key in keys:
            values = evaluator.measure(self.scores(*key)[members], ["PRR"])["PRR"]
            found.append(Measured.resampled(float(values[0]), values[1:], n, study.evaluation.confidence))
        return found
