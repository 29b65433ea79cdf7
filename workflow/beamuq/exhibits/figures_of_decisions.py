"""Risk against coverage, and probabilities against what is right: a panel a method of one cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.evaluation import bootstrap
from beamuq.evaluation.candidate_sets import groups_of
from beamuq.evaluation.guaranteed_threshold import units_needed
from beamuq.exhibits import captions, cells, figure_style
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import SCORES, Exhibit, Figure
from beamuq.exhibits.figure_style import BLACK, GREEN, GREY, VARIANTS, SeriesStyle
from beamuq.exhibits.figures_of_prr import BAND_RESAMPLES, DATASET, MODELS
from beamuq.exhibits.inputs import Inputs
from beamuq.study_config import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LITTLE = 0.1  # of so few answers shown the curves may leave the panel
FORMS = VARIANTS | {"": SeriesStyle("one form", GREEN, "-", "^")}
FORM = ["method", "variant"]
PANELS: dict[str, Any] = {"height": 1.5, "across": 4}


def shown(study: Study) -> list[Cell]:
    """The main cell of the paper's rejection curves, or the first that the study has."""
    return [cells.nearest(study, cells.recipe_cells(study, study.main.recipe), MODELS[1], DATASET)]


def risk_coverage(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Curves over the distinct scores of the test half, groups counting alike; bootstrap bands over them."""
    (cell,), risks = chosen, study.decisions.risks
    scored, decided = inputs.scores(cell), inputs.frame(cell.file("decisions"))
    name = bootstrap.draws_name(cell.dataset, zip(scored.ids, scored.groups, strict=True))
    test = ~bootstrap.one_half(scored.groups, study.seed, name)
    groups, resamples = groups_of(scored.groups, test), min(BAND_RESAMPLES, study.evaluation.resamples)
    counts = bootstrap.resample_counts(groups, resamples, study.seed, f"risk_coverage {name}")
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weights = np.column_stack((np.ones(len(groups)), counts)) / sizes[unit, None]
    wrong, parts = (scored.quality <= study.main_quality.threshold)[test], []
    for method, variant in decided[FORM].drop_duplicates().itertuples(index=False):
        curve = _curve(scored.scores(method, variant)[test], wrong, weights, study.evaluation.confidence)
        parts.append(curve.assign(method=method, variant=variant, part="curve", risk=np.nan))
    points = _guaranteed(decided)
    columns = [*FORM, "part", "score", "shown", "wrong", "low", "high", "risk"]
    data = pd.concat([*parts, points], ignore_index=True)[columns].assign(n=len(groups))
    told = _thresholds(decided, points)
    reached = float(data.loc[data["shown"] >= LITTLE, ["high", "wrong"]].max().max())
    draw = partial(draw_risk_coverage, risks=risks, top=0.52 if max(reached, *risks) < 0.5 else 1.02)
    facts = {"risks": _percents(risks), "guarantee": f"{100 * study.decisions.confidence:g} %", "thresholds": told}
    facts |= cells.facts(study, chosen, MODELS[1:2], len(groups)) | {"drawn": resamples}
    labels = ("Share shown", "Share wrong of it")
    return figure_style.figure(study, data, ["method"], "{method}", draw, facts, labels, before=f"{told} ", **PANELS)


def reliability(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share right of the answers of which a probability of being right is said, in every bin that holds one."""
    rows = inputs.frame(chosen[0].file("decisions"))
    named = rows.join(rows["metric"].str.extract(r"^(?P<what>p|right) in (?P<bin>.*)"))
    said = named[named["what"] == "p"].rename(columns={"value": "probability"})[[*FORM, "bin", "probability"]]
    data = named[named["what"] == "right"].rename(columns={"value": "right"}).merge(said, on=[*FORM, "bin"])
    data = data[[*FORM, "bin", "probability", "right", "low", "high", "n"]]
    facts = cells.facts(study, chosen, MODELS[1:2], int(rows.loc[rows["metric"] == "brier", "n"].max()))
    labels = ("Mean p(right)", "Share right")
    return figure_style.figure(study, data, ["method"], "{method}", draw_reliability, facts, labels, **PANELS)


def draw_risk_coverage(data: pd.DataFrame, ax: Axes, risks: Sequence[float] = (), top: float = 1.02) -> None:
    """Share wrong of the most certain answers against the share shown, with guaranteed thresholds as large marks.

    ``data`` has ``variant`` ("" for a method of one form), ``part`` ("curve" or "guaranteed"), ``shown``, ``wrong``,
    ``low`` and ``high`` (NaN: no band). ``risks``: each α, a dotted line; ``top``: where the vertical axis ends.
    """
    mark: dict[str, Any] = {"markersize": 6, "markeredgecolor": BLACK, "linestyle": ""}
    for risk in risks:
        ax.axhline(risk, color=GREY, linestyle=":", linewidth=0.6, label="α")
    ax.plot([], [], **mark, marker="o", color="white", label="guaranteed")
    for form, look in figure_style.series(data, FORMS, "variant"):
        curve, points = (form[form["part"] == part] for part in ("curve", "guaranteed"))
        figure_style.line(ax, curve, replace(look, marker=""), "shown", "wrong")
        style = mark | {"marker": look.marker, "color": look.colour}
        ax.plot(points["shown"], points["wrong"], **style, zorder=3, clip_on=False, in_layout=False)
    _shares(ax, top)


def draw_reliability(data: pd.DataFrame, ax: Axes) -> None:
    """``right``, with ``low`` and ``high``, against ``probability``, by ``variant``; marks grow with ``n``."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.6)
    for part, look in figure_style.series(data, FORMS, "variant"):
        figure_style.points(ax, part["probability"], part, look, "right", marker="", label="", capsize=0)
        mark: dict[str, Any] = {"marker": look.marker, "clip_on": False, "zorder": 3, "label": look.title}
        ax.scatter(part["probability"], part["right"], 4 + 40 * part["n"] / part["n"].sum(), look.colour, **mark)
    _shares(ax)


def _shares(ax: Axes, top: float = 1.02) -> None:
    ticks = {0.0: "0", 0.5: ".5", 1.0: "1"}
    up = ticks if top > 1 else {0.0: "0", 0.2: ".2", 0.4: ".4"}
    ax.set(xlim=(0, 1.02), ylim=(0, top), xticks=list(ticks), xticklabels=list(ticks.values()))
    ax.set_yticks(list(up), list(up.values()))


def _percents(risks: Sequence[float]) -> str:
    return captions.listing([f"{100 * risk:g}" for risk in risks]) + " %"


def _curve(
    scores: NDArray[np.float64], wrong: NDArray[np.bool_], weights: NDArray[Any], confidence: float
) -> pd.DataFrame:
    """At each distinct score: shares shown and wrong of these, by the first column of weights [N, 1 + R]."""
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) > 0, True))
    shown, failed = (np.cumsum(each[order], axis=0)[ends] for each in (weights, weights * wrong[:, None]))
    with np.errstate(invalid="ignore"):
        risk = failed / shown
    known, band = np.isnan(risk).mean(axis=1) <= bootstrap.MOST_UNDEFINED, np.full((2, len(ends)), np.nan)
    band[:, known] = np.nanquantile(risk[known, 1:], [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    columns = {"score": scores[order][ends], "shown": shown[:, 0] / shown[-1, 0], "wrong": risk[:, 0]}
    return pd.DataFrame(columns | {"low": band[0], "high": band[1]})


def _guaranteed(decided: pd.DataFrame) -> pd.DataFrame:
    """The thresholds that exist, with what each shows of the test half."""
    rows = decided.dropna(subset=["risk"]).set_index([*FORM, "risk", "metric"])["value"].astype(float)
    wide = (
        rows.unstack(sort=False).reindex(columns=["threshold", "shown", "wrong"]).dropna(subset=["threshold", "shown"])
    )
    wide["wrong"] /= wide["shown"].where(wide["shown"] > 0)
    return wide.reset_index().rename(columns={"threshold": "score"}).assign(part="guaranteed", low=np.nan, high=np.nan)


def _thresholds(decided: pd.DataFrame, points: pd.DataFrame) -> str:
    """How many thresholds there are, what the others would take, and where the test half came out above α."""
    least = decided[decided["metric"] == "least"]
    needed = least[least["n"] < least["value"]].groupby("risk")["value"].max()
    told = f"{len(points)} of {len(least)} thresholds have the guarantee"
    if len(needed):
        takes = captions.listing([str(units_needed(int(value))) for value in needed])
        units = decided.loc[decided["metric"] == "threshold", "n"].iloc[0]
        told += f": {_percents(list(needed.index))} wrong take at least {takes} questions that calibrate, here {units}"
    if above := int((points["wrong"] > points["risk"]).sum()):
        told += f". On the test half {above} of them have a larger share wrong than α, as may happen by chance"
    return f"{told}."


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of decisions."""
    return [
        Exhibit("risk_coverage", "figure", shown, ("decisions", *SCORES), risk_coverage, beyond_paper=True),
        Exhibit("reliability", "figure", shown, ("decisions",), reliability, beyond_paper=True),
    ]
