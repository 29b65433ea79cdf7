"""Scores of a cell's questions: in the questions' order, and of all of them or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from beamuq.errors import BeamUQError
from beamuq.evaluation.question_scores import QuestionScores

IDS = ["c", "a", "b"]


def made(*scores: tuple[str, str, float]) -> QuestionScores:
    """Of (method, id, value), of greedy answers; and others, of an answer that none asks for."""
    rows: list[dict[str, Any]] = [
        {"answer_source": source, "method": method, "variant": "", "setting": "", "id": key}
        | {"value": value if source == "greedy" else -1.0}
        for method, key, value in scores
        for source in ("greedy", "top_beam")
    ]
    judged = pd.DataFrame({"id": ["a", "b", "c"], "answer_source": "greedy", "value": [0, 1, 0.5]})
    questions = pd.DataFrame({"id": [*IDS, "not answered"], "group": "one"})
    return QuestionScores(pd.DataFrame(rows), judged, questions, "scores.parquet")


def test_scores_and_quality_are_in_the_order_of_the_questions() -> None:
    scores = made(("Prob", "a", 0.1), ("Prob", "b", 0.2), ("Prob", "c", 0.3))
    assert scores.ids == IDS
    np.testing.assert_array_equal(scores.scores("Prob", ""), [0.3, 0.1, 0.2])
    np.testing.assert_array_equal(scores.quality, [0.5, 0.0, 1.0])


@pytest.mark.parametrize(
    "ids", [["a", "b"], ["a", "b", "b"], ["a", "b", "d"], ["a", "b", "c", "c"]]
)
def test_scores_of_other_questions_or_of_one_twice_are_refused(ids: list[str]) -> None:
    scores = made(*(("MTE", key, 0.1) for key in ids))
    with pytest.raises(BeamUQError, match=r"scores\.parquet: MTE is not of the questions"):
        scores.scores("MTE", "")


def test_a_method_without_scores_is_named() -> None:
    scores = made(("Prob", "a", 0.1), ("Prob", "b", 0.2), ("Prob", "c", 0.3))
    assert scores.has("Prob", "")
    assert not scores.has("MTE", "")
    with pytest.raises(BeamUQError, match=r"scores\.parquet: no scores for MTE"):
        scores.scores("MTE", "")
