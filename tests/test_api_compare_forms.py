"""Beams against samples on anyone's questions, as a study compares them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import beamuq
import synthetic
from beamuq.api.score_candidates import Scores
from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import Estimates
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate

CITIES = ("Rome", "Bari", "Pisa", "Lecce")


def rows(count: int = 40) -> list[dict[str, Any]]:
    """Questions with samples and beams; the beams' probabilities sum to less than 1."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        texts = draw.sample(CITIES, 3)
        beams = [{"text": text, "logprob": -1.4 - draw.random()} for text in texts]
        answer = draw.choice(CITIES)
        samples = draw.choices(CITIES, k=6)
        made.append({"id": f"q{number}", "answer": answer, "samples": samples, "beams": beams})
    return made


ROWS = rows()


@pytest.fixture(scope="module")
def scores() -> Scores:
    return beamuq.score(ROWS, similarity="lexical", methods="Prob,Dissimilarity")


@pytest.fixture(scope="module")
def quality() -> pd.Series[float]:
    return beamuq.quality(ROWS, [["Rome", "Bari"]] * len(ROWS), "exact_match")


def of_study(
    scores: Scores, quality: pd.Series[float], groups: list[str]
) -> tuple[pd.DataFrame, Estimates]:
    """The table ``evaluation`` of a study of these scores, and beams minus samples in PRR."""
    ids = list(quality.index)
    values = {
        ("Dissimilarity", form, ""): scores.scores_of("Dissimilarity", form).to_numpy()
        for form in ("beamsearch", "multinomial")
    }
    judged = {"id": ids, "answer_source": ["greedy"] * len(ids), "value": quality.tolist()}
    evaluation, replicates = evaluate(
        pa.Table.from_pylist(synthetic.score_rows(ids, values)),
        pa.table(judged),
        pa.table({"id": ids, "group": groups}),
        EvaluationSettings(metrics=("PRR",), quality="exact_match"),
        dataset="",
    )
    frame = pd.DataFrame(evaluation).assign(model="m", dataset="d", recipe="r", scorer="s")
    drawn = np.array([row["values"] for row in replicates])
    estimates = Estimates.from_rows(frame.to_dict("records"), drawn)
    of_beams = estimates.where(variant="beamsearch")
    return frame, of_beams.minus(estimates.where(variant="multinomial"))


@pytest.mark.parametrize("group_size", [1, 4])
def test_the_difference_is_that_of_a_study(
    scores: Scores, quality: pd.Series[float], group_size: int
) -> None:
    groups = [
        name if group_size == 1 else f"story {number // group_size}"
        for number, name in enumerate(quality.index)
    ]
    comparison = beamuq.compare(scores, quality, "Dissimilarity", groups=groups)
    frame, difference = of_study(scores, quality, groups)
    (row,) = difference.summary().to_dict("records")
    measured = (comparison.value, comparison.low, comparison.high, comparison.std)
    assert measured == pytest.approx([row[name] for name in ("value", "low", "high", "std")], 1e-5)
    assert comparison.p == difference.p()[0]
    assert comparison.groups == len(set(groups))
    of_beams = frame.set_index("variant").loc["beamsearch"]
    assert comparison.beams.low == pytest.approx(of_beams["low"], 1e-5)
    assert comparison.samples.n == len(ROWS)


def test_a_comparison_shows_value_interval_p_and_n(
    scores: Scores, quality: pd.Series[float]
) -> None:
    text = repr(beamuq.compare(scores, quality, "Dissimilarity"))
    heading = "beams − samples in PRR of Dissimilarity by exact_match, similarity lexical: "
    assert text.startswith(heading)
    assert ", p = ." in text
    assert "n = 40\nbeams   " in text


def test_a_constant_quality_is_no_difference_and_says_why(scores: Scores) -> None:
    comparison = beamuq.compare(scores, [1] * len(ROWS))
    assert (comparison.value, comparison.low, comparison.p) == (None, None, None)
    assert comparison.note == "undefined: every answer has the same quality"


def test_one_seed_gives_one_interval(scores: Scores, quality: pd.Series[float]) -> None:
    again = [beamuq.compare(scores, quality, resamples=200, seed=seed) for seed in (0, 0, 1)]
    assert again[0] == again[1]
    assert again[0].low != again[2].low


def test_what_cannot_be_compared_is_named(scores: Scores, quality: pd.Series[float]) -> None:
    with pytest.raises(BeamUQError, match="Prob: is not scored over beams"):
        beamuq.compare(scores, quality, "Prob")
    with pytest.raises(BeamUQError, match="'Dissimilaritty': no such column or score"):
        beamuq.compare(scores, quality, "Dissimilaritty")
    with pytest.raises(BeamUQError, match="two orders"):
        beamuq.compare(scores, quality[::-1])
    with pytest.raises(BeamUQError, match="quality: id 'q3': missing"):
        beamuq.compare(scores, quality.mask(quality.index == "q3"))
    with pytest.raises(BeamUQError, match="40 questions, quality: 2"):
        beamuq.compare(scores, [0, 1])
    with pytest.raises(BeamUQError, match="column 'id' is missing"):
        beamuq.compare(scores.wide(), quality)


def test_a_question_without_a_score_is_named_with_the_fix(quality: pd.Series[float]) -> None:
    without_beams = [ROWS[0] | {"beams": []}, *ROWS[1:]]
    scores = beamuq.score(without_beams, similarity="lexical", methods="Dissimilarity")
    with pytest.raises(BeamUQError, match=r"id 'q0': no Dissimilarity over beams \(needs beams"):
        beamuq.compare(scores, quality)
    rest = beamuq.compare(scores[scores["id"] != "q0"], quality.drop("q0"))
    assert rest.n == len(ROWS) - 1


def test_scores_that_were_read_from_a_file_are_compared(
    scores: Scores, quality: pd.Series[float]
) -> None:
    read = pd.DataFrame(scores.to_dict("records"))
    assert beamuq.compare(read, quality) == beamuq.compare(scores, quality)
