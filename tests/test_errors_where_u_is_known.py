"""Estimators of U in one cell: errors, ratios, draws, decoded rows and conditions by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq_study.errors_where_u_is_known import (
    CORRECTED,
    FAIR,
    IN_FACT,
    METHOD,
    PRINTED,
    Estimator,
    EstimatorsOfCell,
    samples,
)

SAMPLE, EXACT = "sample T=1.0", "all_above p=0.002 draws=100 lattices=10"
SAMPLES, BEAMS = samples(SAMPLE, 10), Estimator("normalised", "beam M=10", 10, "beam M=10")
DRAWS = [f"sample T=1.0 M=10 draw={draw}" for draw in range(1, 11)]
OF_U = {("stratified", EXACT): [0.2, 0.8], ("standard error", EXACT): [0.0, 0.1]}
Rows = list[dict[str, Any]]
Scores = dict[tuple[str, str], list[float]]


def row(key: str, strategy: str, rank: int, tokens: list[int], p: float) -> dict[str, Any]:
    return synthetic.candidate(key, strategy, rank, f"{tokens}", tokens, float(np.log(p)))


def greedy(*keys: str) -> Rows:
    return [row(key, "greedy", 0, [1, 2], 0.5) for key in keys]


def questions(rows: Rows) -> pd.DataFrame:
    ids = list(dict.fromkeys(each["id"] for each in rows))
    return pd.DataFrame({"id": ids, "group": ids})


def cell(rows: Rows, scores: Scores) -> EstimatorsOfCell:
    """A cell with these candidates, and scores by weighting and setting, one a question."""
    asked = questions(rows)
    long = synthetic.score_rows(
        asked["id"], {(METHOD, *key): values for key, values in scores.items()}
    )
    quality = pd.DataFrame({"id": asked["id"], "answer_source": "greedy", "value": 0.5})
    of_questions = QuestionScores(pd.DataFrame(long), quality, asked, "scores")
    prr = Estimates.from_rows(
        [
            {"answer_source": "greedy", "method": METHOD, "variant": v, "setting": s}
            | {"metric": "PRR", "value": 0.5, "n": len(asked)}
            for v, s in scores
        ],
        [np.full(20, 0.5 + 0.1 * place) for place in range(len(scores))],
    )
    counts = np.ones((len(asked), 20), dtype=np.int64)
    return EstimatorsOfCell(
        of_questions, CandidateSets(pd.DataFrame(rows), asked), prr, counts, EXACT, SAMPLES, 10
    )


def drawn(first: float, second: float) -> Scores:
    """Ten draws of ten samples, half of them at each of two values of the first question; .8 of the
    second.
    """
    return {
        ("uniform", name): [first if place % 2 else second, 0.8] for place, name in enumerate(DRAWS)
    }


def test_squared_errors_bias_and_ratio_by_hand() -> None:
    made = cell(
        greedy("a", "b"), OF_U | drawn(0.1, 0.3) | {("normalised", "beam M=10"): [0.5, 0.9]}
    )
    # (.5 − .2)² = .09; (.9 − .8)² less the error of U itself, .1² = 0
    assert made.errors(BEAMS) == pytest.approx([0.09, 0.0])
    assert made.bias(BEAMS).row["value"] == pytest.approx(0.2)  # (.3 + .1)/2
    # draws of .1 and .3, five each: their variance is 10/9 · .01, a sample's ten times that
    assert made.errors_of_samples(20) == pytest.approx([1 / 180, 0.0])
    assert made.error_ratio(BEAMS).row["value"] == pytest.approx((0.09 / (1 / 90)) ** 0.5)
    assert made.error_ratio(SAMPLES).row["value"] == pytest.approx(1.0)


def test_where_samples_make_no_error_the_ratio_is_undefined() -> None:
    made = cell(
        greedy("a", "b"), OF_U | drawn(0.2, 0.2) | {("normalised", "beam M=10"): [0.5, 0.9]}
    )
    ratio = made.error_ratio(BEAMS).row
    assert np.isnan(ratio["value"])
    assert ratio["note"] == "undefined: samples make no error"


def test_prr_of_samples_is_the_mean_over_their_draws() -> None:
    made = cell(greedy("a", "b"), OF_U | drawn(0.1, 0.3))
    np.testing.assert_allclose(made.prr(SAMPLES).replicates, 1.15)  # rows 2 to 11: .5 + .1 · place


def test_an_evaluation_that_lacks_a_row_of_prr_or_has_it_twice_is_refused() -> None:
    made = cell(greedy("a", "b"), OF_U | drawn(0.1, 0.3))
    with pytest.raises(BeamUQError, match="no row for PRR of Dissimilarity normalised beam M=10"):
        made.prr(BEAMS)
    twice = joined([made.measured, made.measured.rows([0])])
    with pytest.raises(BeamUQError, match="two rows of PRR have one method, variant and setting"):
        replace(made, measured=twice)


def test_samples_of_another_size_are_all_draws_where_these_were_scored_and_else_the_first() -> None:
    five = [f"sample T=1.0 M=5 draw={draw}" for draw in range(1, 21)]
    alone = OF_U | drawn(0.1, 0.3) | {("uniform", "sample T=1.0 M=5"): [0.2, 0.8]}
    assert cell(greedy("a", "b"), alone).settings(samples(SAMPLE, 5)) == ["sample T=1.0 M=5"]
    made = cell(greedy("a", "b"), alone | {("uniform", name): [0.2, 0.8] for name in five})
    assert made.settings(samples(SAMPLE, 5)) == five


def test_rows_of_samples_are_the_prefixes_that_they_continue_each_once() -> None:
    tokens = [[5, 6, 2], [5, 6, 2], [5, 7, 8, 2], [9]]
    rows = [*greedy("a"), *(row("a", SAMPLE, rank, of, 0.1) for rank, of in enumerate(tokens))]
    sets = CandidateSets(pd.DataFrame(rows), questions(rows))
    # of the first three: 5; 5 6; 5 7; 5 7 8. Of the first two: 5; 5 6
    assert [of.tolist() for of in sets.effort_of_samples(SAMPLE, 3)] == [[4.0], [3.0]]
    assert [of.tolist() for of in sets.effort_of_samples(SAMPLE, 2)] == [[2.0], [2.0]]
    assert sets.effort_of_samples(SAMPLE, 4)[0].tolist() == [
        4.0
    ]  # an answer of one token continues none


def test_conditions_of_a_question_by_hand() -> None:
    """Ten of mass .85, of .95, and of .05: the latter's first has .02, under its fair share of
    .1.
    """
    rows = greedy("a", "b", "c")
    for key, masses in (("a", [0.085] * 10), ("b", [0.095] * 10), ("c", [0.02, *[0.03 / 9] * 9])):
        for strategy in ("beam M=10", "exact M=10"):
            rows += [row(key, strategy, rank, [10 + rank, 2], p) for rank, p in enumerate(masses)]
    scores: Scores = {("stratified", EXACT): [0.5] * 3, ("standard error", EXACT): [0.0] * 3}
    scores |= {
        ("uniform", name): [0.4 if place % 2 else 0.6] * 3 for place, name in enumerate(DRAWS)
    }
    scores[("normalised", "beam M=10")] = [
        0.5,
        0.55,
        0.9,
    ]  # squared errors 0, .0025, .16 against .0111 of samples
    met = cell(rows, scores).conditions("beam M=10", "exact M=10", 10)
    assert met[PRINTED].tolist() == [True, True, False]  # above .842
    assert met[CORRECTED].tolist() == [False, True, False]  # above .909
    # one of .085 misses .1, and nine of mass .765 miss .9; so a misses it, b of .095 each too, and
    # c
    assert met[FAIR].tolist() == [False, False, False]
    assert met[IN_FACT].tolist() == [True, True, False]


def test_one_probable_outcome_is_its_fair_share() -> None:
    rows = greedy("a")
    for strategy in ("beam M=10", "exact M=10"):
        rows += [
            row("a", strategy, rank, [10 + rank, 2], p) for rank, p in enumerate([0.1, *[0.01] * 9])
        ]
    scores: Scores = {("stratified", EXACT): [0.5], ("standard error", EXACT): [0.0]}
    scores |= {("uniform", name): [0.5] for name in DRAWS} | {("normalised", "beam M=10"): [0.5]}
    met = cell(rows, scores).conditions("beam M=10", "exact M=10", 10)
    holds = {name: bool(values[0]) for name, values in met.items()}
    assert holds == {
        PRINTED: False,
        CORRECTED: False,
        FAIR: True,
        IN_FACT: False,
    }  # both exact: no smaller error
