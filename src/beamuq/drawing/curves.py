"""Rejection, risk against coverage, reliability and differences, drawn from frames on axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from beamuq.array_types import Floats
from beamuq.drawing.series_on_axes import (
    BLACK,
    FORMS,
    GREY,
    VARIANTS,
    Axes,
    Looks,
    SeriesStyle,
    line,
    points,
    series,
)

FULL_TOP = 1.02  # where an axis of shares ends


def draw_rejection_curves(
    data: pd.DataFrame, ax: Axes, max_rejection: float | None = None, looks: Looks = VARIANTS
) -> None:
    """Mean quality of the retained answers against the share rejected, beside two other orders.

    ``data`` has ``variant``, ``rejected``, ``quality``, ``low`` and ``high`` (NaN: no
    interval), ``oracle``, ``random``; ``max_rejection``: where PRR stops, a vertical line.
    """
    for part, look in series(data, looks, "variant"):
        line(ax, part, replace(look, marker=""), "rejected", "quality")
    orders = data.drop_duplicates("rejected")
    rejected = orders["rejected"]
    ax.plot(rejected, orders["oracle"], color=BLACK, linewidth=0.9, label="oracle")
    dashes = (0, (5, 2))
    ax.plot(rejected, orders["random"], color=GREY, linestyle=dashes, linewidth=0.9, label="random")
    if max_rejection is not None:
        ax.axvline(max_rejection, color=BLACK, linestyle=":", linewidth=0.9, label="PRR ends here")
    ax.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])


def draw_risk_coverage(
    data: pd.DataFrame,
    ax: Axes,
    risks: Sequence[float] = (),
    top: float = FULL_TOP,
    looks: Looks = FORMS,
) -> None:
    """Share wrong of the most certain answers against the share shown, and guaranteed thresholds.

    ``data`` has ``variant`` ("" for a method of one form), ``part`` ("curve" or "guaranteed"),
    ``shown``, ``wrong``, ``low`` and ``high`` (NaN: no interval). ``risks``: each α, a dotted line;
    ``top``: where the vertical axis ends. Thresholds are large marks. A method that scores all
    answers alike shows all or none: its curve is one point, drawn as a mark with a bar.
    """
    numbers = ", ".join(f"{risk:g}".removeprefix("0") for risk in sorted(risks))
    for risk in risks:
        name = f"allowed share (α): {numbers}"
        ax.axhline(risk, color=GREY, linestyle=":", linewidth=0.6, label=name)
    if (data["part"] == "guaranteed").any():
        ax.plot(
            [],
            [],
            markersize=6,
            markeredgecolor=BLACK,
            linestyle="",
            marker="o",
            color="white",
            label="guaranteed threshold",
        )
    for form, look in series(data, looks, "variant"):
        _draw_risk_curve(ax, form[form["part"] == "curve"], look)
        guaranteed = form[form["part"] == "guaranteed"]
        ax.plot(
            guaranteed["shown"],
            guaranteed["wrong"],
            markersize=6,
            markeredgecolor=BLACK,
            linestyle="",
            marker=look.marker,
            color=look.colour,
            zorder=3,
            clip_on=False,
            in_layout=False,
        )
    _mark_shares(ax, top)


def _draw_risk_curve(ax: Axes, curve: pd.DataFrame, look: SeriesStyle) -> None:
    if len(curve) == 1:
        points(ax, curve["shown"], curve, look, "wrong", markersize=3.5, clip_on=False, zorder=3)
    else:
        line(ax, curve, replace(look, marker=""), "shown", "wrong")


def draw_reliability(data: pd.DataFrame, ax: Axes, looks: Looks = FORMS) -> None:
    """Share right against stated probability of being right.

    ``data`` has ``variant``, ``probability``, ``right``, ``low``, ``high`` and ``n``, with which
    marks grow.
    """
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.6)
    for part, look in series(data, looks, "variant"):
        probability = part["probability"]
        points(ax, probability, part, look, "right", marker="", label="", capsize=0)
        ax.scatter(
            probability,
            part["right"],
            4 + 40 * part["n"] / part["n"].sum(),
            look.colour,
            marker=look.marker,
            clip_on=False,
            zorder=3,
            label=look.title,
        )
    _mark_shares(ax, FULL_TOP)


def _mark_shares(ax: Axes, top: float) -> None:
    """Shares along both axes, the vertical one up to ``top``."""
    ticks = {0.0: "0", 0.5: ".5", 1.0: "1"}
    upward = ticks if top > 1 else {0.0: "0", 0.2: ".2", 0.4: ".4"}
    ax.set(xlim=(0, 1.02), ylim=(0, top), xticks=list(ticks), xticklabels=list(ticks.values()))
    ax.set_yticks(list(upward), list(upward.values()))


def draw_values(data: pd.DataFrame, ax: Axes, looks: Looks = FORMS) -> None:
    """Values with their intervals, a row each from the top, beside a line at 0.

    ``data`` has ``name``, ``variant`` (which look it has), ``value``, ``low`` and ``high`` (NaN:
    none).
    """
    ax.axvline(0, color=GREY, linewidth=0.8)
    places = [-row for row in range(len(data))]
    columns = data[["variant", "value", "low", "high"]].itertuples(index=False)
    for place, (variant, value, low, high) in zip(places, columns, strict=True):
        look = looks[variant]
        ax.plot([low, high], [place, place], color=look.colour, solid_capstyle="butt")
        ax.plot([value], [place], look.marker, color=look.colour, linestyle="")
    ax.set_yticks(places, list(data["name"]))
    ax.set_ylim(-len(data) + 0.4, 0.6)


def draw_distribution(scores: Floats, ax: Axes, look: SeriesStyle) -> None:
    """The share of scores [N] up to each value, as steps."""
    ax.ecdf(
        scores,
        color=look.colour,
        linestyle=look.line,
        label=f"{look.title}, n = {len(scores)}",
    )
    ax.set_ylim(0, FULL_TOP)
