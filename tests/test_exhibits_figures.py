"""The figures: drawn of anyone's numbers, honest and legible of a synthetic study, the same bytes
each time.
"""

from __future__ import annotations

import itertools
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import exhibits_study
from beamuq.drawing import series_on_axes
from beamuq.errors import BeamUQError
from beamuq.methods import METHODS, Method
from beamuq_study.comparison import beams_minus_samples
from beamuq_study.errors_where_u_is_known import GAIN
from beamuq_study.exhibits import figure_style, list_of_exhibits
from beamuq_study.exhibits import figures_of_scores as of_scores
from beamuq_study.exhibits.exhibit import Built
from beamuq_study.exhibits.figure_of_beams_map import (
    draw_map,
    finish_map,
    sides_of_points,
    values_at_points,
)
from beamuq_study.exhibits.figure_style import draw_by_bin
from beamuq_study.exhibits.figures_of_candidates import (
    draw_candidates,
    draw_rank_probabilities,
    draw_worked_example,
)
from beamuq_study.exhibits.figures_of_true_dissimilarity import (
    BY_ROWS,
    GAINS,
    draw_by_rows,
    draw_conditions,
    draw_gains,
    draw_reasons,
    drawn_gains,
)
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from exhibits_study import BASE, Results
from run_job import run_job

STUDY = exhibits_study.study()
MINE = exhibits_study.labels("figure")
SAMPLE, BEAM = "sample T=1.0", "beam M=10"
FORMS = {"multinomial": SAMPLE, "beamsearch": BEAM}


@pytest.fixture(scope="module")
def built(results: Results) -> dict[str, Built]:
    return {name: results.built(name) for name in MINE}


def on_axes(draw: Callable[..., None], data: pd.DataFrame, **options: Any) -> Any:
    with figure_style.settings():
        figure = matplotlib.figure.Figure()
        ax = figure.subplots()
        draw(data, ax, **options)
        figure.draw_without_rendering()
    return ax


def frame(**columns: Any) -> pd.DataFrame:
    """A frame, with interval and size where none is given."""
    return pd.DataFrame({"low": np.nan, "high": np.nan, "n": 5} | columns)


FORM = list(FORMS)
OWN: dict[Any, tuple[str, pd.DataFrame]] = {
    draw_by_bin: ("value", frame(length=["2", "2"], variant=FORM, value=[0.4, -0.1])),
    draw_rank_probabilities: (
        "mean",
        frame(rank=[1, 2], mean=0.3, q05=0.1, q25=0.2, median=0.3, q75=0.4, q95=0.5),
    ),
    of_scores.draw_curves: (
        "value",
        frame(method="Dissimilarity", variant="multinomial", M=[1, 2, 3], value=[0.1, 0.2, 0.3]),
    ),
    of_scores.draw_rejection_curves: (
        "quality",
        frame(variant=FORM, rejected=0.1, quality=0.5, oracle=0.9, random=0.4),
    ),
    draw_map: (
        "value",
        frame(
            what="beams - samples",
            mass=[0.2, 0.2, 0.9, 0.9],
            kappa=[0.5, 1, 0.5, 1],
            value=[-0.1, -0.05, 0.1, 0.2],
        ).assign(mass_low=np.nan, mass_high=np.nan, kappa_low=np.nan, kappa_high=np.nan),
    ),
    of_scores.draw_risk_coverage: (
        "wrong",
        frame(variant=["", "mine"], part="curve", shown=[0.5, 1.0], wrong=[0.1, 0.2]),
    ),
    of_scores.draw_reliability: (
        "right",
        frame(variant=["", "mine"], probability=[0.4, 0.6], right=[0.5, 0.7]),
    ),
    draw_reasons: (
        "value",
        frame(part="noise", M=[1, 2, 2], draws=[1, 1, 9], value=[0.1, 0.2, 0.3]),
    ),
    draw_gains: (
        "value",
        frame(bin=[1, 2], highest=[0.996, 1.0], variant="normalised", value=[0.1, 0.2]),
    ),
    draw_conditions: (
        "share",
        frame(by="covered mass", bin=[".2–.5", "All"], what="fair share", share=[0.1, 0.2]),
    ),
    draw_by_rows: (
        "value",
        frame(
            estimator=["samples", "true dissimilarity"], M=[5, np.nan], rows=[9, np.nan], value=0.1
        ),
    ),
    draw_candidates: (
        "share",
        frame(set="samples", rank=[1, 2], text=["$x$", ""], share=[0.7, 0.3], count=[7, 3]),
    ),
    draw_worked_example: (
        "value",
        frame(part=["question", "sample", "beam"], text=["?", "$", ""], value=[0, 0, 0.5]),
    ),
}


def own_cell(mass: float, kappa: float, dataset: str, half: float = 0.01) -> pd.DataFrame:
    """The row of a cell of the study on the map, with intervals."""
    ends = {"mass_low": mass - half, "mass_high": mass + half}
    ends |= {"kappa_low": kappa - 0.1, "kappa_high": kappa + 0.1}
    place = {"model": BASE, "dataset": dataset, "mass": mass, "kappa": kappa}
    return pd.DataFrame([{"what": "cell of the study", "value": np.nan, **place, **ends}])


def test_each_point_of_the_map_is_named_and_covers_no_number() -> None:
    _, grid = OWN[draw_map]
    grid = grid.assign(value=[-0.1, 0.1, -0.2, 0.2])
    places = [(0.2, 0.5), (0.2, 1.0), (0.9, 0.5), (0.9, 0.52), (0.21, 0.51)]
    cells = [own_cell(*place, f"d{number}") for number, place in enumerate(places)]
    data = pd.concat([grid, *cells], ignore_index=True)
    names = {(BASE, f"d{number}"): f"data {number}" for number in range(len(places))}
    ax = on_axes(draw_map, data)
    numbers = [text.get_text() for text in ax.texts]
    finish_map(data, ax, names)
    assert [text.get_text() for text in ax.texts] == [*numbers, *names.values()]
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    points = ax.transData.transform(places)
    assert not [box for box in boxes for point in points if box.contains(*point)]


def test_points_are_counted_by_the_side_that_the_maps_interval_at_them_is_on() -> None:
    _, grid = OWN[draw_map]
    values = np.array([-0.1, -0.1, 0.1, 0.1])
    grid = grid.assign(value=values, low=values - 0.02, high=values + 0.02)
    places = [(0.3, 0.7), (0.8, 0.7), (0.195, 0.7), (0.1, 0.7), (0.8, 0.2)]
    cells = [own_cell(*place, f"d{number}") for number, place in enumerate(places)]
    data = pd.concat([grid, *cells], ignore_index=True).assign(quality="q", panel="mean")
    values = values_at_points(data)
    np.testing.assert_allclose(values, [-0.1 + 0.2 / 7, 0.1 - 0.2 / 7, -0.1, np.nan, np.nan])
    expected = "q: beams ahead at 1, samples at 2, undecided at 0, 2 off the map"
    assert expected in sides_of_points(data)
    is_map = data["what"] == GAIN
    wider = data.assign(low=data["low"].mask(is_map, data["value"] - 0.08))
    assert "beams ahead at 0, samples at 2, undecided at 1, 2 off" in sides_of_points(wider)
    assert sides_of_points(data.assign(quality="no map")) == ""


def test_a_bin_of_very_few_questions_sets_no_axis_and_says_so() -> None:
    data = frame(
        length=["1", "2", "All"],
        variant="multinomial",
        value=[0.9, 0.05, 0.06],
        low=0.0,
        high=[1.0, 0.08, 0.07],
        n=[3, 900, 903],
    )
    ax = on_axes(draw_by_bin, data, percent=True)
    assert ax.get_ylim()[1] == pytest.approx(1.08 * 0.08)
    assert [text.get_text() for text in ax.texts] == ["90↑"]
    assert "1 (n = 3)" in figure_style.beyond_axis(data, "value", "length")
    small = data.assign(n=[3, 11, 14])
    assert on_axes(draw_by_bin, small, percent=True).get_ylim()[1] == pytest.approx(1.04)
    assert figure_style.beyond_axis(small, "value", "length") == ""


def test_the_axis_of_shares_of_candidates_ends_at_one() -> None:
    _, data = OWN[draw_candidates]
    assert on_axes(draw_candidates, data).get_xlim() == (0, 1)


def test_three_panels_of_gains_leave_no_place_empty() -> None:
    _, data = OWN[draw_gains]
    parts = [data.assign(model=BASE, dataset=name) for name in ("triviaqa", "coqa", "mean")]
    figure = drawn_gains(STUDY, pd.concat(parts)).draw("title", "")
    assert [ax.axison for ax in figure.axes] == [True] * 3


def test_a_cell_of_the_study_is_on_the_map_wherever_its_kappa_lies() -> None:
    _, data = OWN[draw_map]
    own = data.iloc[:1].assign(what="cell of the study", kappa=0.0, value=np.nan)
    bottom, top = on_axes(draw_map, pd.concat([data, own], ignore_index=True)).get_ylim()
    assert bottom < 0 < 1 < top


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", OWN, ids=lambda draw: draw.__name__)
def test_numbers_of_ones_own_are_drawn_and_so_are_undefined_ones(draw: Callable[..., None]) -> None:
    column, data = OWN[draw]
    on_axes(draw, data)
    on_axes(draw, data.assign(**{column: np.nan}))


def test_a_curve_is_broken_where_its_value_is_undefined_and_has_the_ends_that_there_are() -> None:
    data = frame(
        method="Dissimilarity", variant="beamsearch", M=[1, 2, 3, 4], value=[0.1, np.nan, 0.3, 0.4]
    )
    ax = on_axes(
        of_scores.draw_curves,
        data.assign(low=[0.0, np.nan, np.nan, 0.2], high=[0.2, np.nan, np.nan, 0.5]),
    )
    low, high, line = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), [0.1, np.nan, 0.3, 0.4])
    assert line.get_label() == "beams"
    np.testing.assert_array_equal(low.get_ydata(), [0.0, np.nan, np.nan, 0.2])
    np.testing.assert_array_equal(high.get_ydata(), [0.2, np.nan, np.nan, 0.5])
    assert low.get_linewidth() < line.get_linewidth() / 2


def test_bars_have_their_heights_and_intervals_and_say_where_there_is_none() -> None:
    data = frame(length=["1", "1", "All", "All"], variant=FORM * 2, value=[0.4, np.nan, 0.2, 0.3])
    intervals = {"low": [0.3, np.nan, np.nan, np.nan], "high": [0.9, np.nan, np.nan, np.nan]}
    ax = on_axes(draw_by_bin, data.assign(**intervals), percent=True)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(
        [0.4, 0.2, np.nan, 0.3], nan_ok=True
    )
    assert [text.get_text() for text in ax.texts] == ["n/a"]
    assert ax.get_ylim()[1] == pytest.approx(1.08 * 0.9)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1\n5", "All\n5"]


def test_a_guaranteed_threshold_is_a_mark_at_its_share_and_each_risk_a_line() -> None:
    parts = ["curve", "curve", "guaranteed"]
    data = frame(variant="beamsearch", part=parts, shown=[0.5, 1, 0.5], wrong=[0.1, 0.3, 0.1])
    ax = on_axes(of_scores.draw_risk_coverage, data, risks=(0.1, 0.2))
    assert [line.get_ydata()[0] for line in ax.lines[:2]] == [0.1, 0.2]
    assert ax.lines[-1].get_xydata().tolist() == [[0.5, 0.1]]


def test_a_worked_example_says_what_is_empty_and_cuts_what_is_long() -> None:
    data = frame(
        part=["question", "sample", "beam", "Mine"],
        text=["W中" * 200, "", "y", ""],
        value=[0, 0, 0.25, 1.5],
    )
    texts = [text.get_text() for text in on_axes(draw_worked_example, data).texts]
    assert sum("W\ufffd" in text for text in texts) == 4
    assert max(map(len, texts)) <= 79
    assert any("(empty)" in text and text.endswith("0.250") for text in texts)
    assert any(text.endswith("1.500") for text in texts)


def shown_texts(figure: matplotlib.figure.Figure) -> list[Text]:
    """Texts that are seen: tick labels outside the view, and those that sharing hides, are Text
    objects too.
    """
    hidden: list[Any] = []
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(limits)
            hidden += [] if axes.axison else axis.findobj()
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                hidden += [] if low <= tick.get_loc() <= high else [tick.label1, tick.label2]
    found = [
        text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text().strip()
    ]
    return [text for text in found if text.get_visible() and text not in hidden]


@pytest.mark.filterwarnings("error")  # a layout that collapses is a warning, and cannot be saved
@pytest.mark.parametrize("name", MINE)
def test_no_two_texts_overlap_none_leaves_the_page_and_a_demo_says_so(
    name: str, built: dict[str, Built]
) -> None:
    with figure_style.settings():
        figure = figure_style.laid_out(built[name])
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown_texts(figure)]
    assert len(boxes) > 5
    pairs = itertools.combinations([(text, box.padded(-1.5)) for text, box in boxes], 2)
    assert [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)] == []
    page = figure.bbox.padded(1)
    out = [
        text
        for text, box in boxes
        if not np.allclose(Bbox.union([page, box]).get_points(), page.get_points())
    ]
    assert out == []
    assert built[name].title.startswith("[demo] ")
    assert "This is a demo" in built[name].caption
    assert not set("{}") & set(built[name].caption)


@pytest.mark.parametrize("name", MINE)
def test_a_figure_calls_candidates_samples_and_beams(name: str, built: dict[str, Built]) -> None:
    of = built[name]
    texts = (" ").join(
        text.get_text() for text in shown_texts(of.shown.draw(of.title, of.footnote))
    )  # type: ignore[union-attr]
    assert not [
        word
        for word in ("multinomial", "beamsearch", "beam search", "U itself", "worse")
        if word in texts
    ]


def test_a_kind_of_candidate_has_one_colour_in_every_figure() -> None:
    looks = [
        *figure_style.VARIANTS.values(),
        *series_on_axes.FORMS.values(),
        *of_scores.ENTROPY_LOOKS.values(),
    ]
    looks += [*BY_ROWS.values(), *GAINS.values()]
    for kind, colour in (("samples", figure_style.SAMPLES), ("beams", figure_style.BEAMS)):
        assert {look.colour for look in looks if kind in look.title.split(", ")} == {colour}
    assert (
        len({look.colour for look in BY_ROWS.values()}) == len(BY_ROWS) - 1
    )  # both weightings of beams


@pytest.mark.parametrize(("n", "title"), [(19, "data\nillustration"), (20, "data")])
def test_a_panel_of_fewer_than_twenty_questions_is_called_an_illustration(
    n: int, title: str
) -> None:
    data = frame(length=["2", "2"], variant=FORM, value=[0.4, 0.1], n=n, panel="data")
    shown = figure_style.figure(
        STUDY, data, ["panel"], "{panel}", draw_by_bin, {}, figure_style.Layout(("x", "y"))
    ).draw("title", "")
    assert shown.axes[0].get_title() == title
    note = shown.texts[-1].get_text()
    assert ("fewer than 20 questions" in note) == ("illustration" in title)


def test_a_panel_of_which_nothing_was_run_is_no_illustration() -> None:
    data = frame(length=["2", "2"], variant=FORM, value=[np.nan, np.nan], n=0, panel="data")
    shown = figure_style.figure(
        STUDY, data, ["panel"], "{panel}", draw_by_bin, {}, figure_style.Layout(("x", "y"))
    ).draw("title", "")
    assert shown.axes[0].get_title() == "data"


def test_a_panel_of_bins_is_of_all_their_questions(built: dict[str, Built]) -> None:
    """Its bins are of fewer than twenty questions each."""
    data = built["reliability"].frame
    panels = [of_scores.questions_in_bins(part) for _, part in data.groupby("method")]
    assert panels == [exhibits_study.SIZE["main"]] * len(panels)
    assert data["n"].max() < figure_style.FEW <= panels[0]
    drawn = built["reliability"].shown.draw("title", "")  # type: ignore[union-attr]
    assert not [ax.get_title() for ax in drawn.axes if "illustration" in ax.get_title()]


@pytest.mark.parametrize(
    ("difference", "title"), [(0.0, "tie"), (1e-16, "tie"), (-3e-13, "tie"), (0.01, "beams better")]
)
def test_an_exact_tie_of_beams_and_samples_is_drawn_as_one_on_an_axis_of_some_width(
    difference: float, title: str
) -> None:
    data = pd.DataFrame(
        {"model": ["m"], "dataset": ["d"], "difference": [difference], "significant": [False]}
    )
    data = data.assign(low=difference - 1e-16, high=difference + 1e-16)
    ax = on_axes(beams_minus_samples.draw_forest, data)
    mark = ax.lines[-1]
    look = next(look for look in beams_minus_samples.LOOKS.values() if look.title == title)
    assert (mark.get_marker(), mark.get_color()) == (look.marker, look.colour)
    low, high = ax.get_xlim()
    assert low <= -beams_minus_samples.LEAST_WIDTH / 2
    assert high >= beams_minus_samples.LEAST_WIDTH / 2


def test_a_forest_has_a_row_for_no_dataset_that_a_model_lacks() -> None:
    places = [("a", "mean"), ("a", "one"), ("a", "two"), ("b", "mean"), ("b", "two")]
    data = pd.DataFrame(places, columns=["model", "dataset"])
    data = data.assign(difference=0.1, low=0.0, high=0.2, significant=False)
    ax = on_axes(beams_minus_samples.draw_forest, data)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["a", "one", "two", "Mean", "b", "two", "Mean"]


@pytest.mark.parametrize(
    ("guaranteed", "drawn"), [(["b"], ["b"]), ([], ["Dissimilarity"]), (["b", "c"], ["b", "c"])]
)
def test_of_risk_the_methods_are_drawn_that_have_a_threshold_else_those_to_start_with(
    guaranteed: list[str], drawn: list[str]
) -> None:
    methods = ["a", "b", "c", "Dissimilarity"]
    data = frame(method=[*methods, *guaranteed])
    data["part"] = ["curve"] * len(methods) + ["guaranteed"] * len(guaranteed)
    assert of_scores._methods_drawn(data) == drawn
    unknown = data[~data["method"].isin(["Dissimilarity", *guaranteed])]
    assert of_scores._methods_drawn(unknown) == list(unknown["method"])


def test_the_one_point_of_a_method_that_scores_all_alike_is_drawn() -> None:
    data = frame(
        variant="beamsearch", part=["curve"], shown=[1.0], wrong=[0.3], low=[0.2], high=[0.4]
    )
    ax = on_axes(of_scores.draw_risk_coverage, data)
    shown = [line for line in ax.lines if line.get_xydata().tolist() == [[1.0, 0.3]]]
    assert [line.get_marker() for line in shown] == [figure_style.VARIANTS["beamsearch"].marker]


def test_questions_are_chosen_by_the_stated_rule(built: dict[str, Built], results: Results) -> None:
    quality = exhibits_study.quality_values(BASE, "triviaqa", 24)
    first = [int(np.flatnonzero(quality <= 0.5)[0]), int(np.flatnonzero(quality > 0.5)[0])]
    assert list(built["triviaqa-gemma4b"].frame["id"].unique()) == [
        f"triviaqa-{n:03d}" for n in first
    ]
    data, rows = built["sampling_vs_beamsearch"].frame, rows_of(results, "candidates")
    distinct = rows[rows["strategy"] == SAMPLE].groupby("id")["text"].nunique()
    repeated = sorted(distinct[distinct < 10], reverse=True)
    assert distinct[data["id"].iloc[0]] == repeated[(len(repeated) - 1) // 2]
    assert data[data["set"] == "samples"]["count"].sum() == 10


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["abl_length", "prr_curves", "triviaqa-gemma4b", "rebuttal_nsamples_across_data"]
)
def test_answers_that_are_all_wrong_are_drawn_without_a_value(name: str, tmp_path: Path) -> None:
    results = Results(tmp_path, STUDY)
    for need in list_of_exhibits.exhibit(name, STUDY).artifacts(STUDY):
        if need.kind == "quality":
            exhibits_study.rewrite(results, need, lambda row: row | {"value": 0.0})
    made = results.built(name)
    with figure_style.settings():
        figure = figure_style.laid_out(made)
    if name == "abl_length":
        assert made.frame["value"].isna().all()
        assert made.frame["note"].str.contains("same quality").all()
        assert "n/a" in {text.get_text() for text in shown_texts(figure)}


def test_scores_of_other_questions_are_refused(tmp_path: Path) -> None:
    results = Results(tmp_path, STUDY)
    needs = list_of_exhibits.exhibit("prr_curves", STUDY).artifacts(STUDY)
    exhibits_study.rewrite(
        results, needs[0], lambda row: row | {"id": row["id"].replace("023", "900")}
    )
    with pytest.raises(BeamUQError, match="not of the questions that have quality"):
        results.built("prr_curves")


def rows_of(results: Results, kind: str, recipe: str = "main", **more: str) -> pd.DataFrame:
    need = Artifact(kind, model=BASE, dataset="triviaqa", recipe=recipe, **more)
    rows = results.inputs([need]).frame(need)
    return rows[rows["answer_source"] == "greedy"] if "answer_source" in rows else rows


def test_shares_and_masses_are_means_over_the_questions_of_a_length(
    built: dict[str, Built], results: Results
) -> None:
    cell = Cell(BASE, "triviaqa", "main")
    found = results.inputs([cell.file(kind) for kind in ("candidates", "questions")]).candidates(
        cell
    )
    lengths = found.lengths()
    for name, column in (("redundancy", "redundancy"), ("abl_prob_mass", "mean")):
        for row in built[name].frame.dropna(subset=["length"]).to_dict("records"):
            length = -math.inf if row["length"] == "All" else int(row["length"].strip("+"))
            members = lengths == length if row["length"].isdigit() else lengths >= length
            values = (found.redundancy if name == "redundancy" else found.mass)(
                FORMS[row["variant"]], 10
            )
            assert (row[column], row["n"]) == (pytest.approx(values[members].mean()), members.sum())
            assert row["n"] >= 5 or math.isnan(row["low"])
    beams = found.mass(BEAM, 10)
    shares = built["beam_mass_threshold"].frame.set_index(["length", "threshold"])["share"]["All"]
    assert shares.to_dict() == {
        "printed": (beams > 1 - 1 / (2 * 10**0.5)).mean(),
        "corrected": (beams > 10 / 11).mean(),
    }


def test_rejection_curves_keep_the_most_certain_answers(
    built: dict[str, Built], results: Results
) -> None:
    data, scores = built["prr_curves"].frame, rows_of(results, "scores", scorer="cosine")
    quality = rows_of(results, "quality", metric="answer_f1").set_index("id")["value"]
    for (method, variant), curve in data.groupby(["method", "variant"]):
        of = scores[
            (scores["method"] == method)
            & (scores["variant"] == variant)
            & (scores["setting"] == "")
        ]
        kept = quality[of.sort_values("value")["id"]].expanding().mean().to_numpy()[::-1]
        np.testing.assert_allclose(curve["quality"], kept, atol=1e-12)
        assert (
            (curve["low"] <= curve["quality"] + 1e-12) & (curve["quality"] <= curve["high"] + 1e-12)
        ).mean() > 0.9


@pytest.mark.parametrize("name", ["abl_nsamples", "sement_different_nsamples"])
def test_points_of_a_curve_are_the_measurements_of_their_series(
    name: str, built: dict[str, Built], results: Results
) -> None:
    rows = rows_of(results, "evaluation", "beam_widths", scorer="cosine")
    rows = rows[(rows["metric"] == "PRR") & (rows["subset"] == "all")]
    keys = ["method", "variant", "setting"]
    data = built[name].frame.assign(setting=[f"M={M}" for M in built[name].frame["M"]])
    both = data.merge(rows, on=keys, suffixes=("", "_stored"))
    assert len(both) == len(data) == 15 * (6 if name == "abl_nsamples" else 3)
    for column in ("value", "low", "high", "n"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], atol=2e-6)


def test_a_panel_across_data_has_the_first_questions_alone(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_scores, "MOST_QUESTIONS", 10)
    data = results.built("rebuttal_nsamples_across_data").frame
    assert set(data["n"]) == {10}
    panels = [(BASE, "triviaqa"), (exhibits_study.CHAT, "triviaqa"), (BASE, "arc-challenge")]
    assert [*data.groupby(["model", "dataset"], sort=False).groups] == panels


def test_a_study_of_other_data_draws_every_figure_and_names_its_own(tmp_path: Path) -> None:
    content, of = (
        exhibits_study.CONTENT,
        exhibits_study.CONTENT["datasets"]["triviaqa"] | {"adapter": "jsonl"},
    )
    grid = {"models": [BASE], "datasets": ["herrings"], "scorers": ["cosine"]}
    study = exhibits_study.study(
        datasets={"herrings": of | {"title": "The herrings"}},
        quality=content["quality"][:1],
        grid=[grid | {"recipe": recipe} for recipe in ("main", "beam_widths", "reference")],
    )
    results = Results(tmp_path, study)
    for name in MINE:
        built = results.built(name)
        with figure_style.settings():
            figure = built.shown.draw(built.title, built.footnote)
        assert any("The herrings" in text.get_text() for text in shown_texts(figure)), name


def test_every_exhibit_with_a_plug_in_s_method_is_built_by_a_process_that_has_not_loaded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: Any = types.ModuleType("theirs")
    theirs.Mine = Method("Mine", lambda e: e.answer.logprob, "answer", ("answer.logprob",))
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    scoring = STUDY.model_dump()["scoring"]
    scoring["main"]["methods"] = [*scoring["main"]["methods"], "theirs:Mine"]
    three = ("triviaqa", "coqa", "arc-challenge")  # of each kind: every exhibit has its cells
    grid = [
        entry | {"datasets": [name for name in entry["datasets"] if name in three]}
        for entry in exhibits_study.CONTENT["grid"]
    ]
    study = exhibits_study.study(scoring=scoring, grid=grid)
    results = Results(tmp_path, study)
    frames = {}
    for name in list_of_exhibits.labels(study):
        if name in exhibits_study.OF_DRAWS:
            continue
        needs = list_of_exhibits.exhibit(name, study).artifacts(study)
        if not any(
            of.recipe == "main" and of.kind in ("scores", "evaluation", "decisions") for of in needs
        ):
            continue  # it shows no method of this recipe
        frames[name] = results.built(name).frame
        METHODS.pop("Mine", None)  # a table may load it
    of_methods = {name for name, frame in frames.items() if "Mine" in set(frame.get("method", ()))}
    assert of_methods >= {"qa_mean_prr", "risk_coverage", "reliability"}


def test_the_step_writes_every_file_and_the_same_results_give_the_same_bytes(
    built: dict[str, Built], results: Results, tmp_path: Path
) -> None:
    study = results.folder / "study.json"
    study.write_text(STUDY.model_dump_json(), encoding="utf-8")
    here, there = (
        {kind: tmp_path / f"{i}.{kind}" for kind in ("pdf", "svg", "png", "csv", "caption")}
        for i in "ab"
    )
    run_job("figure", {"name": "triviaqa-gemma4b", "study": study} | there)
    figure_style.save(built["triviaqa-gemma4b"], **here)
    for kind, file in here.items():
        assert file.read_bytes() == there[kind].read_bytes(), kind
    assert len(pd.read_csv(here["csv"])) == len(built["triviaqa-gemma4b"].frame)
