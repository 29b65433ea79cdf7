"""The figures of scores: PRR by number of candidates and by length, rejection, risk against
coverage, reliability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation import bootstrap, guaranteed_threshold
from beamuq.evaluation.candidate_sets import equal_bins, groups_of
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.prr_and_auc import rejection_bands
from beamuq.strategy_names import ablation
from beamuq_study import grid as cells
from beamuq_study.exhibits import captions, figure_style
from beamuq_study.exhibits.captions import GRAPH, MULTINOMIAL
from beamuq_study.exhibits.estimates_table import measured
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Figure
from beamuq_study.exhibits.figure_style import (
    BLACK,
    GREY,
    SAMPLES,
    VARIANTS,
    Looks,
    SeriesStyle,
    draw_by_bin,
)
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

MODELS, DATASET = ("gemma-3-4b-base", "llama-3.1-8b-base", "qwen-3-8b-base"), "triviaqa"
METHOD, BINS = "Dissimilarity", 5
MOST_QUESTIONS = 200  # a panel of the figure across cells
BAND_RESAMPLES = 500  # a band is drawn to the pixel, not to the third digit
LOOKS: Looks = {(method, variant): look for method in GRAPH for variant, look in VARIANTS.items()}
ENTROPY_LOOKS: Looks = {
    ("SemanticEntropy", MULTINOMIAL): SeriesStyle("Semantic Entropy, samples", SAMPLES, ":", "^")
} | {
    (METHOD, variant): replace(look, title=f"{METHOD}, {look.title}")
    for variant, look in VARIANTS.items()
}
FORMS = VARIANTS | {"": SeriesStyle("answer or samples only", BLACK, "-", "^")}
FORM = ["method", "variant"]
COLUMNS = ["model", "dataset", *FORM, "M", "value", "low", "high", "n"]
AXES = ("Number of candidates M", "PRR")
LITTLE = 0.1  # of so few answers shown the curves may leave the panel


def by_candidates(label: str, looks: Looks, by: Sequence[str], name: str) -> Exhibit:
    """PRR of some methods in one cell against M, in one panel or one a method: the ``looks`` name
    the series.
    """
    methods = list(dict.fromkeys(method for method, _ in looks))

    def build(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
        keys = [
            {"method": m, "variant": v, "setting": s}
            for m, v, s in _series(study, chosen[0], looks)
        ]
        data, facts = (
            _points(study, measured(study, inputs, chosen, keys)),
            {"methods": captions.listing(methods)},
        )
        return figure_style.figure(
            study, data, by, name, partial(draw_curves, looks=looks), facts, AXES, height=2.2
        )

    shown = partial(cells.with_budgets, methods=methods)
    return Exhibit(label, "figure", shown, EVALUATION, build, near=(MODELS[0], DATASET))


def cells_with_curves(study: Study) -> list[Cell]:
    """Up to three models on the paper's dataset, its own models first, and one model on another
    dataset.
    """
    drawn = cells.with_budgets(study, [METHOD])
    if not drawn:
        return []
    dataset, ranks = (
        cells.nearest(study, drawn, dataset=DATASET)[0].dataset,
        {name: n for n, name in enumerate(MODELS)},
    )
    there, others = (
        [cell for cell in drawn if (cell.dataset == dataset) == on_it] for on_it in (True, False)
    )
    there.sort(
        key=lambda cell: (
            ranks.get(cell.model, len(MODELS)),
            study.models[cell.model].style != "base",
        )
    )
    return there[: len(MODELS)] + cells.nearest(study, others, MODELS[0], "arc-challenge")


def across_cells(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR over the first questions of each cell, at most 200, whatever the cell's own number."""
    parts, by, name = [], ["model", "dataset"], "{dataset}\n{model}\nn = {n}"
    for cell in chosen:
        scored = inputs.scores(cell)
        first = np.arange(len(scored.ids)) < MOST_QUESTIONS
        keys = _series(study, cell, [(METHOD, variant) for variant in VARIANTS])
        values = scored.prr(first, f"first {MOST_QUESTIONS}", keys, **inputs.resampling)
        parts.append(values.assign(**cell.place))
    data, facts = _points(study, joined(parts)), {"most": MOST_QUESTIONS}
    return figure_style.figure(study, data, by, name, draw_curves, facts, AXES, sharey=False)


def draw_curves(data: pd.DataFrame, ax: figure_style.Axes, looks: Looks = LOOKS) -> None:
    """A value against the number of candidates: a line and a band a series, broken where a value is
    undefined.

    ``data`` has ``method``, ``variant``, ``M``, ``value`` (NaN: undefined), ``low`` and ``high``
    (NaN: no interval). ``looks``: how each pair of method and variant that may be drawn looks; by
    default the graph methods in both forms.
    """
    for part, look in figure_style.series(data, looks, "method", "variant"):
        figure_style.line(ax, part, look, "M")
    sizes = sorted(set(data["M"]))
    ax.set_xticks([m for m in sizes if m == sizes[0] or m % 5 == 0] if len(sizes) > 6 else sizes)
    ax.set_xlim(sizes[0] - 0.6, sizes[-1] + 0.6)


def _series(study: Study, cell: Cell, of: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [
        (*form, ablation("M", size))
        for form in of
        for size in sorted(study.scoring[cell.recipe].budgets)
    ]


def _points(study: Study, values: Estimates) -> pd.DataFrame:
    points = values.summary(study.evaluation.confidence)
    return points.assign(M=points["setting"].str.removeprefix("M=").astype(int))[COLUMNS]


def curves_of_rejection(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Mean quality of what is retained against the share rejected, ties by expected value;
    bootstrap bands.
    """
    (cell,), resamples = chosen, min(BAND_RESAMPLES, study.evaluation.resamples)
    scored = inputs.scores(cell)
    counts = bootstrap.resample_counts(
        scored.groups, resamples, study.seed, f"prr_curves {cell.model}"
    )
    parts = []
    for method, variant in LOOKS:
        curve = rejection_bands(
            scored.scores(method, variant), scored.quality, counts, study.evaluation.confidence
        )
        parts.append(curve.assign(method=method, variant=variant, n=len(scored.ids)))
    data, facts = (
        pd.concat(parts, ignore_index=True),
        {"drawn": resamples, "methods": captions.listing(GRAPH)},
    )
    data = data[[*FORM, "rejected", "quality", "low", "high", "oracle", "random", "n"]]
    draw = partial(draw_rejection_curves, max_rejection=study.evaluation.max_rejection[0])
    name, labels = "{method}\nn = {n}", ("Share rejected", "Mean quality retained")
    return figure_style.figure(study, data, ["method"], name, draw, facts, labels, height=2.2)


def draw_rejection_curves(
    data: pd.DataFrame, ax: figure_style.Axes, max_rejection: float | None = None
) -> None:
    """Mean quality of the retained answers against the share rejected, with the oracle's and a
    random order.

    ``data`` has ``variant``, ``rejected``, ``quality``, ``low`` and ``high`` (NaN: no band),
    ``oracle``, ``random``; ``max_rejection``: where PRR stops, a vertical line.
    """
    for part, look in figure_style.series(data, VARIANTS, "variant"):
        figure_style.line(ax, part, replace(look, marker=""), "rejected", "quality")
    both = data.drop_duplicates("rejected")
    ax.plot(both["rejected"], both["oracle"], color=BLACK, linewidth=0.9, label="oracle")
    ax.plot(
        both["rejected"],
        both["random"],
        color=GREY,
        linestyle=(0, (5, 2)),
        linewidth=0.9,
        label="random",
    )
    if max_rejection is not None:
        ax.axvline(max_rejection, color=BLACK, linestyle=":", linewidth=0.9, label="PRR ends here")
    ax.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])


def two_datasets(study: Study) -> list[Cell]:
    """One model on the paper's two datasets or others that stand for them; on one where it has no
    other.
    """
    supplied = cells.with_methods(study, [METHOD])
    first = cells.nearest(study, supplied, MODELS[0], DATASET)
    others = [cell for cell in supplied if cell.model == first[0].model and cell not in first]
    return [*first, *cells.nearest(study, others, dataset="coqa")]


def by_length(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Bins close once their share of the questions is in and never split a length; PRR within each
    bin.
    """
    parts, keys = [], [(METHOD, variant, "") for variant in VARIANTS]
    for cell in chosen:
        scored = inputs.scores(cell)
        for of in equal_bins(inputs.candidates(cell).lengths(), BINS):
            values = scored.prr(of.members, f"length {of.title}", keys, **inputs.resampling)
            parts.append(
                values.summary(study.evaluation.confidence).assign(
                    dataset=cell.dataset, length=of.title
                )
            )
    data = pd.concat(parts, ignore_index=True)[
        ["dataset", "length", "variant", "value", "low", "high", "n", "note"]
    ]
    facts = {
        "datasets": captions.listing([study.datasets[cell.dataset].title for cell in chosen]),
        "bins": BINS,
    }
    drawn: dict[str, Any] = {
        "labels": ("Length (tokens); below, n", "PRR"),
        "height": 2.2,
        "sharex": False,
    }
    return figure_style.figure(study, data, ["dataset"], "{dataset}", draw_by_bin, facts, **drawn)


def risk_coverage(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Curves over the distinct scores of the test half, groups counting alike; bootstrap bands over
    them.
    """
    (cell,), risks = chosen, study.decisions.risks
    scored, decided = inputs.scores(cell), inputs.frame(cell.file("decisions"))
    name = bootstrap.draws_name(cell.dataset, zip(scored.ids, scored.groups, strict=True))
    test = ~bootstrap.one_half(scored.groups, study.seed, name)
    groups, resamples = (
        groups_of(scored.groups, test),
        min(BAND_RESAMPLES, study.evaluation.resamples),
    )
    counts = bootstrap.resample_counts(groups, resamples, study.seed, f"risk_coverage {name}")
    wrong, parts = (scored.quality <= study.main_quality.threshold)[test], []
    for method, variant in decided[FORM].drop_duplicates().itertuples(index=False):
        scores = scored.scores(method, variant)[test]
        curve = guaranteed_threshold.risk_coverage(
            scores, wrong, groups, counts, study.evaluation.confidence
        )
        parts.append(curve.assign(method=method, variant=variant, part="curve", risk=np.nan))
    points = _guaranteed(decided)
    columns = [*FORM, "part", "score", "shown", "wrong", "low", "high", "risk"]
    data = pd.concat([*parts, points], ignore_index=True)[columns].assign(n=len(groups))
    guarantee = _thresholds(decided, points)
    reached = float(data.loc[data["shown"] >= LITTLE, ["high", "wrong"]].max().max())
    draw = partial(
        draw_risk_coverage, risks=risks, top=0.52 if max(reached, *risks) < 0.5 else 1.02
    )
    facts = {"risks": _percents(risks), "thresholds": guarantee, "drawn": resamples}
    drawn: dict[str, Any] = {
        "labels": ("Share shown", "Share of it wrong"),
        "height": 1.5,
        "across": 4,
    }
    drawn |= {"before": f"{guarantee} ", "legend_rows": 2}
    return figure_style.figure(study, data, ["method"], "{method}", draw, facts, **drawn)


def reliability(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share right of the answers of which a probability of being right is said, in every bin that
    holds one.
    """
    rows = inputs.frame(chosen[0].file("decisions"))
    named = rows.join(rows["metric"].str.extract(r"^(?P<what>p|right) in (?P<bin>.*)"))
    probabilities = named[named["what"] == "p"].rename(columns={"value": "probability"})[
        [*FORM, "bin", "probability"]
    ]
    data = (
        named[named["what"] == "right"]
        .rename(columns={"value": "right"})
        .merge(probabilities, on=[*FORM, "bin"])
    )
    data = data[[*FORM, "bin", "probability", "right", "low", "high", "n"]]
    facts = {"n": int(rows.loc[rows["metric"] == "brier", "n"].max())}
    drawn: dict[str, Any] = {"labels": ("Mean p(right)", "Share right"), "height": 1.5, "across": 4}
    drawn["questions"] = questions_in_bins
    return figure_style.figure(
        study, data, ["method"], "{method}", draw_reliability, facts, **drawn
    )


def questions_in_bins(part: pd.DataFrame) -> float:
    """The questions in all bins of a panel together, by the form that has most."""
    return float(part.groupby("variant")["n"].sum().max())


def draw_risk_coverage(
    data: pd.DataFrame, ax: figure_style.Axes, risks: Sequence[float] = (), top: float = 1.02
) -> None:
    """Share wrong of the most certain answers against the share shown, with guaranteed thresholds
    as large marks.

    ``data`` has ``variant`` ("" for a method of one form), ``part`` ("curve" or "guaranteed"),
    ``shown``, ``wrong``, ``low`` and ``high`` (NaN: no band). ``risks``: each α, a dotted line;
    ``top``: where the vertical axis ends. A method that scores all answers alike shows all or none:
    its curve is one point, drawn as a mark with a bar.
    """
    mark: dict[str, Any] = {"markersize": 6, "markeredgecolor": BLACK, "linestyle": ""}
    for risk in risks:
        ax.axhline(risk, color=GREY, linestyle=":", linewidth=0.6, label="allowed share (α)")
    ax.plot([], [], **mark, marker="o", color="white", label="guaranteed threshold")
    for form, look in figure_style.series(data, FORMS, "variant"):
        curve, points = (form[form["part"] == part] for part in ("curve", "guaranteed"))
        if len(curve) == 1:
            single: dict[str, Any] = {"markersize": 3.5, "clip_on": False, "zorder": 3}
            figure_style.points(ax, curve["shown"], curve, look, "wrong", **single)
        else:
            figure_style.line(ax, curve, replace(look, marker=""), "shown", "wrong")
        style = mark | {"marker": look.marker, "color": look.colour}
        ax.plot(points["shown"], points["wrong"], **style, zorder=3, clip_on=False, in_layout=False)
    _shares(ax, top)


def draw_reliability(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """``right``, with ``low`` and ``high``, against ``probability``, by ``variant``; marks grow
    with ``n``.
    """
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.6)
    for part, look in figure_style.series(data, FORMS, "variant"):
        figure_style.points(
            ax, part["probability"], part, look, "right", marker="", label="", capsize=0
        )
        mark: dict[str, Any] = {
            "marker": look.marker,
            "clip_on": False,
            "zorder": 3,
            "label": look.title,
        }
        ax.scatter(
            part["probability"],
            part["right"],
            4 + 40 * part["n"] / part["n"].sum(),
            look.colour,
            **mark,
        )
    _shares(ax)


def _shares(ax: figure_style.Axes, top: float = 1.02) -> None:
    ticks = {0.0: "0", 0.5: ".5", 1.0: "1"}
    up = ticks if top > 1 else {0.0: "0", 0.2: ".2", 0.4: ".4"}
    ax.set(xlim=(0, 1.02), ylim=(0, top), xticks=list(ticks), xticklabels=list(ticks.values()))
    ax.set_yticks(list(up), list(up.values()))


def _percents(risks: Sequence[float]) -> str:
    return captions.listing([f"{100 * risk:g}" for risk in risks]) + " %"


def _guaranteed(decided: pd.DataFrame) -> pd.DataFrame:
    """The thresholds that exist, with what each shows of the test half."""
    rows = (
        decided.dropna(subset=["risk"]).set_index([*FORM, "risk", "metric"])["value"].astype(float)
    )
    names = ["threshold", "shown", "wrong"]
    wide = rows.unstack(sort=False).reindex(columns=names).dropna(subset=names[:2])
    wide["wrong"] /= wide["shown"].where(wide["shown"] > 0)
    return (
        wide.reset_index()
        .rename(columns={"threshold": "score"})
        .assign(part="guaranteed", low=np.nan, high=np.nan)
    )


def _thresholds(decided: pd.DataFrame, points: pd.DataFrame) -> str:
    """How many thresholds there are, what the others would take, and where the test half came out
    above α.
    """
    least = decided[decided["metric"] == "least"]
    needed = least[least["n"] < least["value"]].groupby("risk")["value"].max()
    text = f"{len(points)} of {len(least)} thresholds have the guarantee"
    if len(needed):
        takes = captions.listing(
            [str(guaranteed_threshold.units_needed(int(value))) for value in needed]
        )
        units = decided.loc[decided["metric"] == "threshold", "n"].iloc[0]
        text += (
            f": {_percents(list(needed.index))} wrong take at least {takes} questions that "
            f"calibrate, here {units}"
        )
    if above := int((points["wrong"] > points["risk"]).sum()):
        text += (
            f". On the test half {above} of them have a larger share wrong than α, as may happen "
            "by chance"
        )
    return f"{text}."


def exhibits(_: Study) -> list[Exhibit]:
    drawn, every, second = (
        partial(Exhibit, kind="figure", reads=SCORES),
        (*CANDIDATES, *SCORES),
        (MODELS[1], DATASET),
    )
    curves, main = (
        partial(cells.with_methods, methods=GRAPH),
        partial(cells.with_methods, methods=()),
    )
    decided = partial(drawn, cells=main, near=second, beyond_paper=True)
    return [
        by_candidates("abl_nsamples", LOOKS, ["method"], "{method}\nn = {n}"),
        by_candidates("sement_different_nsamples", ENTROPY_LOOKS, [], "n = {n}"),
        drawn(
            "rebuttal_nsamples_across_data",
            cells=cells_with_curves,
            build=across_cells,
            models=MODELS,
        ),
        drawn("prr_curves", cells=curves, near=second, build=curves_of_rejection),
        drawn("abl_length", cells=two_datasets, reads=every, build=by_length, models=MODELS[:1]),
        decided("risk_coverage", reads=("decisions", *SCORES), build=risk_coverage),
        decided("reliability", reads=("decisions",), build=reliability),
    ]
