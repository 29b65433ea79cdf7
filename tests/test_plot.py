"""Figures of one's own scores: what they draw, and what they refuse."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import beamuq
from beamuq.api.compare_forms import PairedComparison
from beamuq.drawing import curves
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import Estimate
from beamuq.installation import install_command
from beamuq_study.exhibits import figures_of_scores

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.random(120)
CORRECT = RANDOM.random(120) > SCORES
BEAMS = [{"text": "Rome", "logprob": -0.7}, {"text": "Bari", "logprob": -0.9}]
ROWS = [
    {"id": str(number), "answer": "Rome", "samples": ["Rome", text], "beams": BEAMS}
    for number, text in enumerate(("Rome", "Pisa", "Rome", "Bari", "Rome", "Bari"))
]


@pytest.fixture(autouse=True)
def _without_a_screen() -> Iterator[None]:
    mpl.use("agg")
    yield
    pyplot.close("all")


def line(ax: Any, label: str) -> tuple[list[float], list[float]]:
    (found,) = [drawn for drawn in ax.get_lines() if drawn.get_label() == label]
    return list(found.get_xdata()), list(found.get_ydata())


def comparison(value: float | None) -> PairedComparison:
    ends = (None, None) if value is None else (value - 0.1, value + 0.1)
    estimate = Estimate(0.4, 0.3, 0.5, 0.05, n=9)
    return PairedComparison(
        method="Dissimilarity",
        setting="",
        quality="answer_f1",
        value=value,
        low=ends[0],
        high=ends[1],
        std=0.05,
        p=0.2,
        n=9,
        groups=9,
        beams=estimate,
        samples=estimate,
        similarity="minilm",
        sizes=(10, 12),
    )


def test_a_study_draws_with_the_functions_of_the_library() -> None:
    for name in ("draw_rejection_curves", "draw_risk_coverage", "draw_reliability"):
        assert getattr(figures_of_scores, name) is getattr(curves, name)


def test_rejection_curves_start_at_the_mean_quality_and_lie_below_the_oracle() -> None:
    _, ax = pyplot.subplots()
    assert beamuq.plot.rejection_curves(SCORES, CORRECT, resamples=20, ax=ax) is ax
    rejected, retained = line(ax, "scores")
    assert (rejected[0], retained[0]) == (0, pytest.approx(CORRECT.mean()))
    assert (np.array(line(ax, "oracle")[1]) >= np.array(retained) - 1e-12).all()
    assert ax.get_title() == "n = 120"


def test_a_frame_of_scores_is_drawn_in_both_forms() -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity")
    ax = beamuq.plot.rejection_curves(scores, [1, 0, 1, 0, 1, 0], resamples=20, confidence=0.9)
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["2 samples", "2 beams", "oracle", "random", "PRR ends here", "90 % interval"]
    assert ax.get_title() == "Dissimilarity\nsimilarity lexical, n = 6"


def test_of_several_draws_of_samples_the_mean_curve_is_drawn() -> None:
    rows = [row | {"samples": [*row["samples"], "Pisa", "Rome"]} for row in ROWS]
    scores = beamuq.score(rows, similarity="lexical", methods="Dissimilarity", draw_size=2)
    quality = [1, 0, 1, 0, 0, 0]
    ax = beamuq.plot.rejection_curves(scores, quality, resamples=20)
    assert ax.get_legend_handles_labels()[1][:2] == ["2 samples, mean of 2 draws", "2 beams"]
    draws = [
        beamuq.plot.rejection_curves(
            scores, quality, method=("Dissimilarity", "samples", f"M=2 draw={number}"), resamples=20
        )
        for number in (1, 2)
    ]
    curves = [line(drawn, "2 samples")[1] for drawn in draws]
    assert curves[0] != curves[1]
    mean_curve = line(ax, "2 samples, mean of 2 draws")[1]
    assert mean_curve == pytest.approx(np.mean(curves, axis=0))
    over_all = beamuq.plot.risk_coverage(scores, quality, resamples=20)
    assert over_all.get_legend_handles_labels()[1][0] == "4 samples"


@pytest.mark.parametrize(
    "method",
    [("Dissimilarity", "samples"), ("Dissimilarity", "multinomial"), "Dissimilarity + multinomial"],
)
def test_one_form_of_a_method_is_drawn_alone(method: Any) -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity")
    for draw in (beamuq.plot.rejection_curves, beamuq.plot.risk_coverage):
        ax = draw(scores, [1, 0, 1, 0, 1, 0], method=method, resamples=20)
        labels = ax.get_legend_handles_labels()[1]
        assert "2 samples" in labels
        assert "2 beams" not in labels
        assert ax.get_title().startswith("Dissimilarity\n")


def test_several_columns_are_drawn_by_name() -> None:
    named = {"first": SCORES, "second": SCORES[::-1]}
    ax = beamuq.plot.risk_coverage(named, CORRECT, resamples=20)
    assert (
        line(ax, "first")[1][-1] == line(ax, "second")[1][-1] == pytest.approx(1 - CORRECT.mean())
    )


def test_the_legend_names_the_allowed_shares() -> None:
    ax = beamuq.plot.risk_coverage(SCORES, CORRECT, risks=[0.2, 0.05], resamples=20)
    assert "allowed share (α): .05, .2" in ax.get_legend_handles_labels()[1]


def test_a_threshold_is_marked_where_the_curve_has_it() -> None:
    ax = beamuq.plot.risk_coverage(SCORES, CORRECT, threshold=0.5, risks=[0.1], resamples=20)
    (mark,) = [drawn for drawn in ax.get_lines() if len(drawn.get_xdata()) == 1]
    shown = SCORES <= 0.5
    assert mark.get_xdata()[0] == pytest.approx(shown.mean())
    assert mark.get_ydata()[0] == pytest.approx((~CORRECT[shown]).mean())


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_risk_coverage_leaves_out_answers_without_a_label_as_fit_does(missing: object) -> None:
    labels = [missing if k % 10 == 3 else bool(right) for k, right in enumerate(CORRECT)]
    groups = [str(k // 2) for k in range(120)]
    labelled = [k for k in range(120) if k % 10 != 3]
    with pytest.warns(UserWarning, match="correct: 12 of 120 without a label left out"):
        ax = beamuq.plot.risk_coverage(SCORES, labels, groups=groups, resamples=20)
    expected = beamuq.plot.risk_coverage(
        SCORES[labelled], CORRECT[labelled], groups=[groups[k] for k in labelled], resamples=20
    )
    assert line(ax, "scores") == line(expected, "scores")
    assert ax.get_title() == expected.get_title() == "n = 108 in 60 groups"


def test_where_every_label_is_missing_risk_coverage_refuses() -> None:
    with pytest.raises(BeamUQError, match="correct: missing for every answer"):
        beamuq.plot.risk_coverage(SCORES, [None] * 120, resamples=20)


def test_reliability_draws_the_share_right_of_each_bin() -> None:
    ax = beamuq.plot.reliability([0.95, 0.95, 0.05, 0.05], [1, 1, 0, 1])
    (points,) = ax.collections[-1:]
    assert np.array(points.get_offsets()).tolist() == [[0.05, 0.5], [0.95, 1]]


def test_gains_has_a_row_a_comparison() -> None:
    ax = beamuq.plot.gains({"a": comparison(0.2), "b": comparison(None)})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a (n = 9)", "b (n = 9)"]


def test_a_comparison_draws_both_forms_and_the_difference() -> None:
    ax = comparison(0.2).plot()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["12 samples", "10 beams", "beams − samples"]
    assert ax.get_title() == "Dissimilarity\nby answer_f1, similarity minilm, n = 9"


def test_no_legend_lies_over_the_axes() -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity")
    calibration = beamuq.Calibration(risk=0.3).fit(SCORES / 3, CORRECT | (SCORES < 0.5))
    drawn = [
        beamuq.plot.rejection_curves(scores, [1, 0, 1, 0, 1, 0], resamples=20),
        beamuq.plot.risk_coverage(SCORES, CORRECT, resamples=20, risks=[0.1]),
        beamuq.plot.reliability({"a": SCORES, "b": SCORES[::-1]}, CORRECT),
        *calibration.plot(SCORES),
        beamuq.plot.risk_coverage(SCORES, CORRECT, resamples=20, ax=pyplot.figure().gca()),
    ]
    for ax in drawn:
        ax.figure.canvas.draw()
        legend = ax.get_legend().get_window_extent()
        label = ax.xaxis.label.get_window_extent()
        assert legend.y1 <= label.y0
        assert legend.y0 >= 0


def test_gains_of_what_is_no_comparison_names_the_call() -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity")
    given: Any
    for given in (scores, comparison(0.2), [comparison(0.2)], {"a": scores}, {}):
        with pytest.raises(
            BeamUQError, match=r"\{method: beamuq\.compare\(scores, quality, method"
        ):
            beamuq.plot.gains(given)


def test_gains_say_judge_and_similarity_above_the_rows() -> None:
    title = beamuq.plot.gains({"a": comparison(0.2), "b": comparison(None)}).get_title()
    assert title == "beams − samples\nby answer_f1, similarity minilm"


def test_a_series_of_scores_is_named_with_its_form() -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity")
    quality = beamuq.quality(ROWS, ["Rome"] * 3 + ["Pisa"] * 3, "exact_match")
    ax = beamuq.plot.rejection_curves(scores["Dissimilarity"], quality, resamples=20)
    assert "Dissimilarity over 2 beams" in ax.get_legend_handles_labels()[1]
    assert ax.get_title().endswith("by exact_match, similarity lexical, n = 6")


def test_a_frame_or_several_methods_where_one_is_due_are_refused_with_the_call() -> None:
    scores = beamuq.score(ROWS, similarity="lexical", methods="Dissimilarity,LexicalSimilarity")
    quality = beamuq.quality(ROWS, ["Rome"] * 6, "exact_match")
    methods: Any = ["Dissimilarity", "LexicalSimilarity"]
    for draw in (beamuq.plot.rejection_curves, beamuq.plot.risk_coverage):
        with pytest.raises(BeamUQError, match=r"\{name: scores\[name\] for name in"):
            draw(scores, quality, method=methods)
        with pytest.raises(BeamUQError, match=r"dict\(wide\[\["):
            draw(scores.wide(), quality)
    with pytest.raises(BeamUQError, match="probability: a frame; give one column"):
        beamuq.plot.reliability(scores, quality)
    with pytest.raises(BeamUQError, match="quality: a frame; give one column of it: what beamuq"):
        beamuq.plot.rejection_curves(scores, quality.to_frame())
    with pytest.raises(BeamUQError, match=r"wide\(\)\.items\(\)"):
        beamuq.prr(scores, quality)
    with pytest.raises(BeamUQError, match=r"a method's name; give its scores, scores\['Diss"):
        beamuq.prr(methods, [1, 0])
    with pytest.raises(BeamUQError, match=r"methods, not columns; .*scores\.wide\(\)"):
        scores[methods]


def test_a_calibration_draws_risk_reliability_and_scores() -> None:
    calibration = beamuq.Calibration(risk=0.3).fit(SCORES / 3, CORRECT | (SCORES < 0.5))
    risk, reliability, scores = calibration.plot(SCORES / 2)
    assert risk.get_title() == f"shown up to {calibration.threshold:.3g}\nn = 120"
    assert reliability.get_ylabel() == "Share right"
    labels = scores.get_legend_handles_labels()[1]
    assert labels == ["calibrated on, n = 120", "new, n = 120", "threshold"]
    assert calibration.fitted is not None
    assert len(calibration.fitted.plot()) == 3


@pytest.mark.parametrize(("method", "named"), [("Prob", False), ("Dissimilarity", True)])
def test_a_calibration_names_the_similarity_of_a_method_that_compares_texts(
    method: str, named: bool
) -> None:
    answer = {"text": "Rome", "logprob": -0.4}
    rows = [row | {"answer": answer} for row in ROWS]
    scores = beamuq.score(rows, similarity="lexical", methods=method)
    calibration = beamuq.Calibration(risk=0.3).fit(scores[method], [1, 0, 1, 0, 1, 0])
    title = " ".join(calibration.plot()[2].get_title().split())
    assert ("similarity lexical" in title) == named


def test_a_calibration_of_groups_draws_no_interval() -> None:
    groups = [str(number // 2) for number in range(120)]
    calibration = beamuq.Calibration(risk=0.3).fit(SCORES, CORRECT, groups=groups)
    risk = calibration.plot()[0]
    thin = [drawn for drawn in risk.get_lines() if drawn.get_linewidth() == 0.5]
    assert len(thin) == 2
    assert np.isnan([drawn.get_ydata() for drawn in thin]).all()


def test_what_cannot_be_drawn_is_named() -> None:
    with pytest.raises(BeamUQError, match="scores: 120, groups: 2, quality: 2"):
        beamuq.plot.rejection_curves(SCORES, [0, 1])
    with pytest.raises(BeamUQError, match="row 2: a value is missing"):
        beamuq.plot.rejection_curves([0.1, None, 0.2], [0, 1, 1])
    with pytest.raises(BeamUQError, match="correct: neither 0 nor 1"):
        beamuq.plot.risk_coverage(SCORES, SCORES)
    with pytest.raises(BeamUQError, match=r"outside \[0, 1\]"):
        beamuq.plot.reliability([1.5, 0.2], [1, 0])
    named = pd.Series([0.1, 0.2], index=["a", "b"])
    with pytest.raises(BeamUQError, match="two orders"):
        beamuq.plot.rejection_curves(named, named[::-1])
    with pytest.raises(BeamUQError, match="axes: 1; give 3"):
        beamuq.Calibration().fit(SCORES, CORRECT).plot(axes=[pyplot.gca()])


@pytest.mark.parametrize(
    ("draw", "setting", "told"),
    [
        (beamuq.plot.rejection_curves, {"max_rejection": 50}, "^max_rejection: 50: .* is 50 %"),
        (beamuq.plot.rejection_curves, {"resamples": 0}, "^resamples: 0: "),
        (beamuq.plot.rejection_curves, {"confidence": 95}, "^confidence: 95: .* is 95 %"),
        (beamuq.plot.risk_coverage, {"resamples": -1}, "^resamples: -1: "),
        (beamuq.plot.risk_coverage, {"confidence": -1}, "^confidence: -1: "),
        (beamuq.plot.risk_coverage, {"seed": "a"}, '^seed: "a": '),
        (beamuq.plot.risk_coverage, {"risks": 0.1}, "^risks: 0.1: no list of shares"),
        (beamuq.plot.risk_coverage, {"threshold": "a"}, "^threshold: 'a': no score"),
        (beamuq.plot.risk_coverage, {"threshold": float("nan")}, "^threshold: nan: no score"),
        (beamuq.plot.risk_coverage, {"risks": [0.1, 10]}, "^risk: 10: .* is 10 %"),
        (beamuq.plot.reliability, {"confidence": 95}, "^confidence: 95: .* is 95 %"),
    ],
)
def test_a_setting_outside_its_range_is_refused(
    draw: Callable[..., Any], setting: dict[str, Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        draw(SCORES, CORRECT, **setting)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def find_all_but_matplotlib(name: str, package: str | None = None) -> Any:
        return None if name == "matplotlib" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_all_but_matplotlib)
    for draw in (
        lambda: beamuq.plot.rejection_curves(SCORES, CORRECT, resamples=2),
        comparison(0.2).plot,
        beamuq.Calibration().fit(SCORES, CORRECT).plot,
    ):
        with pytest.raises(BeamUQError, match=re.escape(install_command("plot"))):
            draw()
