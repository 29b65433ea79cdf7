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
ONE_FORM = SeriesStyle("one form", GREEN, "-", "^")
FORM = ["method", "variant"]
CURVE = [*FORM, "part", "score", "shown", "wrong", "low", "high", "risk"]
BIN = [*FORM, "bin", "probability", "right", "low", "high", "n"]
PANELS: dict[str, Any] = {"height": 1.5, "across": 4, "legend_columns": 5}


def shown(study: Study) -> list[Cell]:
    """The main cell of the paper's rejection curves, or the first that the study has."""
    return [cells.nearest(study, cells.recipe_cells(study, study.main.recipe), MODELS[1], DATASET)]


def risk_coverage(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Curves over the distinct scores of the test half, groups counting alike; bootstrap bands over them."""
    (cell,), risks, confidence = chosen, study.decisions.risks, study.evaluation.confidence
    scored, decided = inputs.scores(cell), inputs.frame(cell.file("decisions"))
    name = bootstrap.draws_name(cell.dataset, zip(scored.ids, scored.groups, strict=True))
    test = ~bootstrap.one_half(scored.groups, study.seed, name)
    groups = [group for group, tested in zip(scored.groups, test, strict=True) if tested]
    resamples = min(BAND_RESAMPLES, study.evaluation.resamples)
    counts = bootstrap.resample_counts(groups, resamples, study.seed, f"risk_coverage {name}")
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weights = (1.0 / sizes[unit])[:, None] * np.column_stack((np.ones(len(groups)), counts))
    wrong = (scored.quality <= study.main_quality.threshold)[test]
    curves = [
        _curve(scored.scores(method, variant)[test], wrong, weights, confidence).assign(method=method, variant=variant)
        for method, variant in decided[FORM].drop_duplicates().itertuples(index=False)
    ]
    points = _guaranteed(decided)
    data = pd.concat([*curves, points], ignore_index=True)[CURVE].assign(n=int(test.sum()))
    told = _thresholds(decided, points)
    reached = float(data.loc[data["shown"] >= LITTLE, ["high", "wrong"]].max().max())
    draw = partial(draw_risk_coverage, risks=risks, top=0.52 if max(reached, *risks) < 0.5 else 1.02)
    facts = {"risks": _percents(risks), "guarantee": f"{100 * study.decisions.confidence:g} %", "thresholds": told}
    facts |= cells.facts(study, chosen, MODELS[1:2], int(test.sum())) | {"drawn": resamples}
    labels = ("Share shown", "Share wrong of it")
    return figure_style.figure(data, ["method"], _titles(data), draw, facts, labels, f"{told} ", **PANELS)


def reliability(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share right of the answers of which a probability of being right is said, in every bin that holds one."""
    rows = inputs.frame(chosen[0].file("decisions"))
    rows = rows.assign(bin=rows["metric"].str.extract(r"^(?:p|right) in (.*)")[0])
    said, right = (
        rows[rows["metric"] == before + rows["bin"]].rename(columns={"value": name})
        for before, name in (("p in ", "probability"), ("right in ", "right"))
    )
    data = right.merge(said[[*FORM, "bin", "probability"]], on=[*FORM, "bin"])[BIN]
    facts = cells.facts(study, chosen, MODELS[1:2], int(rows.loc[rows["metric"] == "brier", "n"].max()))
    labels = ("Mean p(right)", "Share right")
    return figure_style.figure(data, ["method"], _titles(rows), draw_reliability, facts, labels, **PANELS)


def draw_risk_coverage(data: pd.DataFrame, ax: Axes, risks: Sequence[float] = (), top: float = 1.02) -> None:
    """Share wrong of the most certain answers against the share shown, with guaranteed thresholds as large marks.

    ``data`` has ``variant`` ("" for a method of one form), ``part`` ("curve" or "guaranteed"), ``shown``, ``wrong``,
    ``low`` and ``high`` (NaN: no band). ``risks``: each α, a dotted line; ``top``: where the vertical axis ends.
    """
    mark: dict[str, Any] = {"markersize": 6, "markeredgecolor": BLACK}
    for risk in risks:
        ax.axhline(risk, color=GREY, linestyle=":", linewidth=0.6, label="α")
    ax.plot([], [], "o", **mark, color="white", label="guaranteed")
    for variant, form in data.groupby("variant", sort=False):
        look = VARIANTS.get(str(variant), ONE_FORM)
        curve, points = (form[form["part"] == part] for part in ("curve", "guaranteed"))
        figure_style.band(ax, "shown", curve, look)
        figure_style.line(ax, "shown", curve, replace(look, marker=""), "wrong")
        (marks,) = ax.plot(points["shown"], points["wrong"], look.marker, color=look.colour, zorder=3, **mark)
        marks.set(clip_on=False, in_layout=False)
    _shares(ax, top)


def draw_reliability(data: pd.DataFrame, ax: Axes) -> None:
    """``right``, with ``low`` and ``high``, against ``probability``, by ``variant``; marks grow with ``n``."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.6)
    for variant, part in data.groupby("variant", sort=False):
        look = VARIANTS.get(str(variant), ONE_FORM)
        p, right, low, high = (part[of].to_numpy(dtype=np.float64) for of in ("probability", "right", "low", "high"))
        errors, sizes = figure_style.error_lengths(right, low, high), 4 + 40 * part["n"] / part["n"].sum()
        ax.errorbar(p, right, errors, color=look.colour, linestyle="", elinewidth=0.8)
        ax.scatter(p, right, sizes, look.colour, marker=look.marker, clip_on=False, zorder=3)
        ax.plot([], [], color=look.colour, linestyle="", marker=look.marker, label=look.title)
    _shares(ax)


def _shares(ax: Axes, top: float = 1.02) -> None:
    ticks = {0.0: "0", 0.5: ".5", 1.0: "1"} if top > 1 else {0.0: "0", 0.2: ".2", 0.4: ".4"}
    ax.set(xlim=(0, 1.02), ylim=(0, top))
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    ax.set_yticks(list(ticks), list(ticks.values()))


def _titles(data: pd.DataFrame) -> dict[str, str]:
    return {method: captions.method_title(method) for method in dict.fromkeys(data["method"])}


def _percents(risks: Sequence[float]) -> str:
    return captions.listing([f"{100 * risk:g}" for risk in risks]) + " %"


def _curve(
    scores: NDArray[np.float64], wrong: NDArray[np.bool_], weights: NDArray[np.float64], confidence: float
) -> pd.DataFrame:
    """At each distinct score: shares shown and wrong of these, by the first column of weights [N, 1 + R]."""
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) > 0, True))
    shown, failed = (np.cumsum(each[order], axis=0)[ends] for each in (weights, weights * wrong[:, None]))
    with np.errstate(invalid="ignore"):
        risk = failed / shown
    known = np.isnan(risk).mean(axis=1) <= bootstrap.MOST_UNDEFINED
    band = np.full((2, len(ends)), np.nan)
    band[:, known] = np.nanquantile(risk[known, 1:], [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    columns = {"score": scores[order][ends], "shown": shown[:, 0] / shown[-1, 0], "wrong": risk[:, 0]}
    return pd.DataFrame({"part": "curve"} | columns | {"low": band[0], "high": band[1], "risk": np.nan})


def _guaranteed(decided: pd.DataFrame) -> pd.DataFrame:
    """The thresholds that exist, with what each shows of the test half."""
    rows = decided.dropna(subset=["risk"])
    wide = rows.pivot(index=[*FORM, "risk"], columns="metric", values="value").astype(float)
    wide = wide.reindex(columns=["threshold", "shown", "wrong"]).reindex(rows.set_index([*FORM, "risk"]).index.unique())
    wide["wrong"] /= wide["shown"].where(wide["shown"] > 0)
    found = wide[wide[["threshold", "shown"]].notna().all(axis=1)].reset_index().rename(columns={"threshold": "score"})
    return found.assign(part="guaranteed", low=np.nan, high=np.nan)


def _thresholds(decided: pd.DataFrame, points: pd.DataFrame) -> str:
    """How many thresholds there are, what the others would take, and where the test half came out above α."""
    least, sought = (decided[decided["metric"] == metric] for metric in ("least", "threshold"))
    needed = least[least["n"] < least["value"]].groupby("risk")["value"].max()
    told = f"{len(points)} of {len(least)} thresholds have the guarantee"
    if len(needed):
        takes = captions.listing([str(units_needed(int(value))) for value in needed])
        units = sought["n"].iloc[0]
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
