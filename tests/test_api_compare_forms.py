"""Beams against samples on anyone's questions, as a study compares them."""

from __future__ import annotations

import math
import random
from pathlib import Path
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
from beamuq_study.exhibits.numbers_of_cells import gains_over_draws
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate

CITIES = ("Rome", "Bari", "Pisa", "Lecce")


def rows(count: int = 40, samples: int = 6) -> list[dict[str, Any]]:
    """Questions with samples and beams; the beams' probabilities sum to less than 1."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        texts = draw.sample(CITIES, 3)
        beams = [{"text": text, "logprob": -1.4 - draw.random()} for text in texts]
        answer = draw.choice(CITIES)
        drawn = draw.choices(CITIES, k=samples)
        made.append({"id": f"q{number}", "answer": answer, "samples": drawn, "beams": beams})
    return made


ROWS = rows()


@pytest.fixture(scope="module")
def scores() -> Scores:
    return beamuq.score(ROWS, similarity="lexical", methods="Prob,Dissimilarity")


@pytest.fixture(scope="module")
def quality() -> pd.Series[float]:
    return beamuq.quality(ROWS, [["Rome", "Bari"]] * len(ROWS), "exact_match")


def of_study(
    scores: Scores, quality: pd.Series[float], groups: list[str], draws: tuple[str, ...] = ("",)
) -> tuple[pd.DataFrame, Estimates]:
    """The table ``evaluation`` of a study of these scores, and beams minus samples in PRR."""
    ids = list(quality.index)
    forms = [("beamsearch", ""), *(("multinomial", draw) for draw in draws)]
    values = {
        ("Dissimilarity", form, setting): scores.scores_of("Dissimilarity", form, setting)
        for form, setting in forms
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
    return frame, gains_over_draws(estimates, draws)


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


def test_a_quality_cut_in_two_does_not_pass_for_the_metric(
    scores: Scores, quality: pd.Series[float]
) -> None:
    cut = quality.rename("answer_f1") > 0.5
    text = repr(beamuq.compare(scores, cut, "Dissimilarity"))
    assert "by answer_f1, cut into right and wrong, similarity lexical" in text
    measured = repr(beamuq.prr(scores.scores_of("Dissimilarity", "beamsearch"), cut))
    assert "by answer_f1, cut into right and wrong" in measured


def test_a_constant_quality_is_no_difference_and_says_why(scores: Scores) -> None:
    comparison = beamuq.compare(scores, [1] * len(ROWS))
    assert (comparison.value, comparison.low, comparison.p) == (None, None, None)
    assert comparison.note == "undefined: every answer has the same quality"
    assert comparison == beamuq.compare(scores, [1] * len(ROWS))
    assert beamuq.prr(scores["Dissimilarity"], [1] * len(ROWS)) == comparison.beams


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
    with pytest.raises(BeamUQError, match=r"what wide\(\) returns; give the frame"):
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


@pytest.mark.parametrize("draw_size", [None, 3])
def test_scores_that_pandas_read_back_from_csv_are_compared(
    quality: pd.Series[float], tmp_path: Path, draw_size: int | None
) -> None:
    methods = "LexicalSimilarity,Dissimilarity"
    scores = beamuq.score(ROWS, similarity="lexical", methods=methods, draw_size=draw_size)
    file = tmp_path / "scores.csv"
    scores.to_csv(file, index=False)
    read = pd.read_csv(file)
    assert read["setting"].isna().any()
    assert beamuq.compare(read, quality) == beamuq.compare(scores, quality)
    others = ("LexicalSimilarity", "Dissimilarity + multinomial")
    of_read = beamuq.compare(read, quality, others[0], against=others[1])
    assert of_read == beamuq.compare(scores, quality, others[0], against=others[1])


def test_a_missing_score_read_back_from_csv_is_named_with_its_reason(
    quality: pd.Series[float], tmp_path: Path
) -> None:
    without_beams = [ROWS[0] | {"beams": []}, *ROWS[1:]]
    file = tmp_path / "scores.csv"
    beamuq.score(without_beams, similarity="lexical").to_csv(file, index=False)
    with pytest.raises(BeamUQError, match=r"no Dissimilarity over beams \(needs beams"):
        beamuq.compare(pd.read_csv(file), quality)


DRAWS = ("M=4 draw=1", "M=4 draw=2", "M=4 draw=3")


@pytest.fixture(scope="module")
def scores_of_draws() -> Scores:
    return beamuq.score(
        rows(samples=12), similarity="lexical", methods="Prob,Dissimilarity", draw_size=4
    )


def test_of_several_draws_the_mean_is_compared_as_in_a_study(
    scores_of_draws: Scores, quality: pd.Series[float]
) -> None:
    groups = [f"story {number // 4}" for number in range(len(quality))]
    comparison = beamuq.compare(scores_of_draws, quality, groups=groups)
    _, difference = of_study(scores_of_draws, quality, groups, DRAWS)
    (row,) = difference.summary().to_dict("records")
    measured = (comparison.value, comparison.low, comparison.high, comparison.std)
    assert measured == pytest.approx([row[name] for name in ("value", "low", "high", "std")], 1e-5)
    assert comparison.p == difference.p()[0]


def test_each_draw_is_scored_as_if_its_samples_were_all(
    scores_of_draws: Scores, quality: pd.Series[float]
) -> None:
    comparison = beamuq.compare(scores_of_draws, quality)
    for number, setting in enumerate(DRAWS):
        one_draw = [
            row | {"samples": row["samples"][4 * number : 4 * number + 4]}
            for row in rows(samples=12)
        ]
        alone = beamuq.score(one_draw, similarity="lexical", methods="Dissimilarity")
        expected = alone.scores_of("Dissimilarity", "multinomial")
        drawn = scores_of_draws.scores_of("Dissimilarity", "multinomial", setting)
        assert drawn.tolist() == expected.tolist()
        assert comparison.draws[number] == beamuq.prr(expected, quality).value
    assert comparison.samples.value == pytest.approx(np.mean(comparison.draws))


def test_draws_add_scores_and_change_none(scores_of_draws: Scores) -> None:
    plain = beamuq.score(rows(samples=12), similarity="lexical", methods="Prob,Dissimilarity")
    without_draws = scores_of_draws[scores_of_draws["setting"] == ""]
    pd.testing.assert_frame_equal(
        pd.DataFrame(without_draws).reset_index(drop=True), pd.DataFrame(plain)
    )
    of_draws = scores_of_draws[scores_of_draws["setting"] != ""]
    assert set(of_draws["method"]) == {"Dissimilarity"}
    assert set(of_draws["variant"]) == {"multinomial"}


def test_a_comparison_says_how_many_draws_were_averaged(
    scores: Scores, scores_of_draws: Scores, quality: pd.Series[float]
) -> None:
    several = beamuq.compare(scores_of_draws, quality)
    assert ", mean of 3 draws of 4 (" in repr(several)
    assert "one draw" not in repr(several)
    drawn = [label.get_text() for label in several.plot().get_yticklabels()]
    assert drawn == ["4 samples,\nmean of 3 draws", "3 beams", "beams − samples"]
    one = beamuq.compare(scores, quality)
    assert len(one.draws) == 1


def test_one_draw_is_told_of_with_what_to_do(quality: pd.Series[float]) -> None:
    scores = beamuq.score(rows(samples=4), similarity="lexical", methods="Dissimilarity")
    text = repr(beamuq.compare(scores, quality))
    assert ", one draw of 4\n" in text
    assert "decode(…, samples=20) and score(rows, draw_size=4) give the mean of 5 draws" in text


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (
            ("SemanticEntropy", "samples", "printed"),
            "the setting printed is not scored on several draws\n",
        ),
        (
            ("Dissimilarity", "samples", "M=2 draw=2"),
            "without the setting M=2 draw=2 it is the mean of all draws\n",
        ),
    ],
)
def test_a_setting_that_draws_do_not_have_gets_no_advice_to_make_draws(
    method: tuple[str, str, str], told: str, quality: pd.Series[float]
) -> None:
    methods = "Dissimilarity,SemanticEntropy"
    with_logprob = [
        row | {"samples": [{"text": text, "logprob": -1.0} for text in row["samples"]]}
        for row in rows(samples=4)
    ]
    scores = beamuq.score(with_logprob, similarity="lexical", methods=methods, draw_size=2)
    text = repr(beamuq.compare(scores, quality, method, against="Dissimilarity"))
    assert f"one draw of samples: another one changes this; {told}" in text
    assert "draw_size=" not in text


def test_a_setting_without_beams_is_named(all_scores: Scores, quality: pd.Series[float]) -> None:
    told = "Dissimilarity M=3 draw=2: is not scored over beams; leave the setting out"
    with pytest.raises(BeamUQError, match=told):
        beamuq.compare(all_scores, quality, setting="M=3 draw=2")


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (12, "12 samples beside 3 beams: score(rows, draw_size=3) compares as many"),
        (7, "7 samples beside 3 beams: give as many, or a multiple of 3, of which score("),
    ],
)
def test_several_times_as_many_samples_as_beams_are_told_of(
    samples: int, told: str, quality: pd.Series[float]
) -> None:
    drawn = rows(samples=samples)
    drawn[5]["beams"] = drawn[5]["beams"][:1]  # the most beams count
    scores = beamuq.score(drawn, similarity="lexical", methods="Dissimilarity")
    assert told in repr(beamuq.compare(scores, quality))


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((12, 10), "id 'b': samples: 10: must be two draws of 4 or more"),
        ((4, 4), "id 'a': samples: 4: must be two draws of 4 or more"),
        ((12, 8), "id 'b': samples: 8: 'a' has 12"),
    ],
)
def test_samples_that_do_not_make_whole_draws_are_refused(
    counts: tuple[int, int], told: str
) -> None:
    drawn = [
        {"id": name, "answer": "Rome", "samples": ["Rome", "Bari"] * (count // 2)}
        for name, count in zip("ab", counts, strict=True)
    ]
    with pytest.raises(BeamUQError, match=told):
        beamuq.score(drawn, similarity="lexical", draw_size=4)
    with pytest.raises(BeamUQError, match="draw_size: 0"):
        beamuq.score(drawn, similarity="lexical", draw_size=0)


@pytest.mark.parametrize("grouped", [False, True])
def test_prr_gives_each_form_the_interval_that_the_comparison_gives_it(
    scores: Scores, quality: pd.Series[float], grouped: bool
) -> None:
    groups = [f"story {number // 4}" for number in range(len(quality))] if grouped else None
    comparison = beamuq.compare(scores, quality, groups=groups)
    over_beams = scores.scores_of("Dissimilarity", "beamsearch")
    over_samples = scores.scores_of("Dissimilarity", "multinomial")
    assert beamuq.prr(over_beams, quality, groups=groups) == comparison.beams
    assert beamuq.prr(over_samples.to_numpy(), quality, groups=groups) == comparison.samples


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"max_rejection": 1.5}, "^max_rejection: 1.5: must lie between 0 and 1; 0.015 is 1.5 %"),
        ({"max_rejection": 50}, "^max_rejection: 50: must lie between 0 and 1; 0.5 is 50 %"),
        ({"max_rejection": 0}, "^max_rejection: 0: "),
        ({"max_rejection": "0.5"}, '^max_rejection: "0.5": '),
        ({"resamples": -1}, "^resamples: -1: "),
        ({"resamples": 1}, "^resamples: 1: "),
        ({"confidence": -1}, "^confidence: -1: "),
        ({"confidence": 95}, "^confidence: 95: must lie between 0 and 1; 0.95 is 95 %"),
        ({"seed": 1.5}, "^seed: 1.5: "),
    ],
)
def test_a_setting_outside_its_range_is_refused(
    scores: Scores, quality: pd.Series[float], setting: dict[str, Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.prr(scores["Dissimilarity"], quality, **setting)
    with pytest.raises(BeamUQError, match=told):
        beamuq.compare(scores, quality, **setting)


@pytest.mark.parametrize("max_rejection", [1, 1.0])
def test_all_answers_may_be_rejected(
    scores: Scores, quality: pd.Series[float], max_rejection: float
) -> None:
    assert beamuq.prr(scores["Dissimilarity"], quality, max_rejection=max_rejection).value


def test_arrays_are_resampled_as_rows_without_ids_are() -> None:
    without_ids = [{key: row[key] for key in ("answer", "samples", "beams")} for row in ROWS]
    scores = beamuq.score(without_ids, similarity="lexical", methods="Dissimilarity")
    judged = [number % 3 == 0 for number in range(len(ROWS))]
    comparison = beamuq.compare(scores, judged)
    over_beams = scores.scores_of("Dissimilarity", "beamsearch").to_numpy()
    assert beamuq.prr(over_beams, judged) == comparison.beams


def test_what_choose_picked_is_not_ranked_by_scores_of_the_answers() -> None:
    rows = [
        {"answer": "Rome", "samples": ["Bari", "Bari"]},
        {"answer": "Bari", "samples": ["Rome", "Pisa"]},
        {"answer": "Pisa", "samples": ["Pisa", "Pisa"]},
        {"answer": "Oslo", "samples": ["Oslo", "Rome"]},
    ]
    scores = beamuq.score(rows, similarity="lexical")
    best = beamuq.choose(rows, similarity="lexical")
    chosen = beamuq.quality(best, ["Rome", "Rome", "Pisa", "Oslo"])
    with pytest.raises(BeamUQError, match="quality: of the texts that choose picked"):
        beamuq.compare(scores, chosen)
    with pytest.raises(BeamUQError, match="quality: of the texts that choose picked"):
        beamuq.prr(scores["Dissimilarity"], chosen)
    with pytest.raises(BeamUQError, match="quality: of the texts that choose picked"):
        beamuq.prr(scores.wide()["Dissimilarity + multinomial"], chosen)
    with pytest.raises(BeamUQError, match="quality: of the texts that choose picked"):
        beamuq.plot.rejection_curves(scores, chosen)
    assert beamuq.prr(best.set_index("id")["value"], chosen).n == 4


def test_several_methods_at_once_are_refused_with_the_way() -> None:
    rows = [{"answer": "Rome", "samples": ["Rome", "Bari"]}]
    scores = beamuq.score(rows, similarity="lexical")
    methods: Any = ["Dissimilarity", "CocoaPPL"]
    with pytest.raises(BeamUQError, match=r"method: give one; .*beamuq\.plot\.gains"):
        beamuq.compare(scores, [1], methods)


@pytest.fixture(scope="module")
def all_scores() -> Scores:
    answers = [
        {"text": row["answer"], "logprob": -0.1 * k, "tokens": 2} for k, row in enumerate(ROWS)
    ]
    rows_with_logprob = [
        row | {"answer": answer} for row, answer in zip(ROWS, answers, strict=True)
    ]
    return beamuq.score(
        rows_with_logprob,
        similarity="lexical",
        methods="Prob,Dissimilarity,CocoaPPL,LexicalSimilarity",
        draw_size=3,
    )


@pytest.mark.parametrize("form", ["samples", "multinomial"])
def test_two_forms_of_a_method_against_each_other_are_beams_minus_samples(
    scores: Scores, quality: pd.Series[float], form: str
) -> None:
    groups = [f"story {number // 4}" for number in range(len(quality))]
    of_forms = beamuq.compare(scores, quality, groups=groups)
    of_scores = beamuq.compare(scores, quality, against=("Dissimilarity", form), groups=groups)
    ends = (of_forms.value, of_forms.low, of_forms.high, of_forms.p, of_forms.groups)
    assert (
        of_scores.value,
        of_scores.low,
        of_scores.high,
        of_scores.p,
        of_scores.groups,
    ) == ends
    assert of_scores.first.prr == of_forms.beams
    assert of_scores.second.draws == of_forms.draws


def test_two_methods_are_compared_on_the_resamples_of_prr(
    all_scores: Scores, quality: pd.Series[float]
) -> None:
    comparison = beamuq.compare(all_scores, quality, "CocoaPPL", against="Prob")
    assert comparison.first.prr == beamuq.prr(all_scores["CocoaPPL"], quality)
    assert comparison.second.prr == beamuq.prr(all_scores["Prob"], quality)
    assert comparison.value == pytest.approx(
        comparison.first.prr.value - comparison.second.prr.value
    )
    reverse = beamuq.compare(all_scores, quality, "Prob", against="CocoaPPL")
    assert (reverse.value, reverse.low) == pytest.approx((-comparison.value, -comparison.high))


def test_a_comparison_of_methods_names_both_with_forms_judge_similarity_and_n(
    all_scores: Scores, quality: pd.Series[float]
) -> None:
    comparison = beamuq.compare(
        all_scores, quality, ("CocoaPPL", "samples"), against="LexicalSimilarity"
    )
    heading, first, second, *_ = repr(comparison).splitlines()
    assert heading.startswith(
        "CocoaPPL over 3 samples − LexicalSimilarity over 3 samples in PRR by exact_match, "
        "similarity lexical: "
    )
    assert heading.endswith(", n = 40")
    assert "mean of 2 draws of 3" in first
    assert "mean of 2 draws of 3" in second
    against_prob = beamuq.compare(all_scores, quality, "Dissimilarity", against="Prob").plot()
    labels = [label.get_text() for label in against_prob.get_yticklabels()]
    assert labels == ["Dissimilarity\nover 3 beams", "Prob\nof the answer alone", "difference"]
    title = "Dissimilarity − Prob\nby exact_match, similarity lexical, n = 40"
    assert against_prob.get_title() == title


@pytest.mark.parametrize(
    ("against", "told"),
    [
        ("Prob", "against: Prob of the answer alone, which method is too"),
        (["CocoaPPL", "Prob"], r"against: \['CocoaPPL', 'Prob'\]; give one score"),
        (("CocoaPPL", "Prob"), "against: form 'Prob': unknown"),
        ("CocoaPLL", "did you mean 'CocoaPPL'"),
        ("Dissimilarity + multinomal", r"did you mean 'Dissimilarity \+ multinomial'"),
        (pd.Series([0.1]), "against: a Series; give one score"),
    ],
)
def test_what_is_no_other_score_is_refused(
    all_scores: Scores, quality: pd.Series[float], against: Any, told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.compare(all_scores, quality, "Prob", against=against)


def test_a_score_in_one_form_alone_asks_for_another_one_beside_it(
    all_scores: Scores, quality: pd.Series[float]
) -> None:
    one_form: Any = ("Dissimilarity", "samples")
    for method in (one_form, "Dissimilarity + multinomial"):
        with pytest.raises(BeamUQError, match=r"a score in one form; .*against="):
            beamuq.compare(all_scores, quality, method)


def test_a_question_without_one_of_both_scores_is_named(quality: pd.Series[float]) -> None:
    without_beams = [ROWS[0] | {"beams": []}, *ROWS[1:]]
    scores = beamuq.score(without_beams, similarity="lexical")
    with pytest.raises(BeamUQError, match="id 'q0': no Dissimilarity over beams"):
        beamuq.compare(scores, quality, "LexicalSimilarity", against="Dissimilarity")


def test_prr_shows_method_form_judge_and_similarity_of_a_series_that_knows_them(
    all_scores: Scores, quality: pd.Series[float]
) -> None:
    over_samples = all_scores.scores_of("Dissimilarity", "samples")
    known = "PRR of Dissimilarity over 6 samples by exact_match, similarity lexical: "
    assert repr(beamuq.prr(over_samples, quality)).startswith(f"Estimate({known}")
    assert "PRR of Prob of the answer alone by exact_match:" in repr(
        beamuq.prr(all_scores["Prob"], quality)
    )
    assert "PRR" not in repr(beamuq.prr(-over_samples, quality))
    assert "PRR" not in repr(beamuq.prr(over_samples.to_numpy(), quality))


def test_a_series_of_scores_shows_how_many_candidates_it_is_over(all_scores: Scores) -> None:
    assert repr(all_scores["Dissimilarity"]).endswith(
        "over 3 beams (beamsearch); similarity: lexical"
    )
    one_draw = all_scores.scores_of("Dissimilarity", "samples", "M=3 draw=2")
    assert "over 3 samples (multinomial); setting: M=3 draw=2" in repr(one_draw)


@pytest.mark.parametrize("name", [None, math.nan, 0, "None"])
def test_a_series_whose_name_says_nothing_is_named_in_no_result(
    name: object, scores: Scores, quality: pd.Series[float]
) -> None:
    nameless = pd.Series(scores["Dissimilarity"].to_numpy(), name=name)
    judged = pd.Series(quality.to_numpy(), name=name)
    assert repr(beamuq.prr(nameless, judged)).startswith("Estimate(.")
    known_scores = repr(beamuq.prr(scores["Dissimilarity"], judged))
    assert "PRR of Dissimilarity over" in known_scores
    assert " by " not in known_scores
    axes = beamuq.plot.rejection_curves(nameless, judged)
    assert axes.get_legend().get_texts()[0].get_text() == "scores"
    assert beamuq.compare(scores, judged).quality == "quality"


def test_scores_that_lost_their_name_are_refused_as_a_quality_by_their_method(
    scores: Scores, quality: pd.Series[float]
) -> None:
    with pytest.raises(BeamUQError, match="quality: scores of Dissimilarity, "):
        beamuq.prr(quality, scores["Dissimilarity"].rename(None))


def test_scores_in_the_place_of_a_quality_are_refused(
    scores: Scores, quality: pd.Series[float]
) -> None:
    with pytest.raises(BeamUQError, match=r"quality: scores of Dissimilarity, .*give scores first"):
        beamuq.prr(quality, scores["Dissimilarity"])
    with pytest.raises(BeamUQError, match="quality: scores of Dissimilarity"):
        beamuq.compare(scores, scores["Dissimilarity"])
    with pytest.raises(BeamUQError, match="against: scores of Dissimilarity"):
        beamuq.compare_quality(quality, scores["Dissimilarity"])
    with pytest.raises(BeamUQError, match=r"a row of a question; .*beamuq\.score\(rows\)\["):
        beamuq.prr(ROWS, quality)  # type: ignore[arg-type]
