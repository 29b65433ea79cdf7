"""How series look, and lines and marks with intervals on axes."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.installation import install_command

if TYPE_CHECKING:
    import matplotlib.axes

Axes: TypeAlias = "matplotlib.axes.Axes"

# One colour per kind of candidate in every figure (Okabe and Ito's), black for the true
# dissimilarity; what is not a kind of candidate has one of the last four. Series also differ in
# line, marker or hatch, so that grey copies stay legible.
COLOURS = {
    "samples": "#0072B2",
    "beams": "#D55E00",
    "most probable": "#CC79A7",
    "systematic": "#E69F00",
    "stratified": "#009E73",
    "black": "#000000",
    "grey": "#7F7F7F",
    "olive": "#8A8A1F",
    "wine": "#882255",
}
SAMPLES = COLOURS["samples"]
BEAMS = COLOURS["beams"]
BLACK = COLOURS["black"]
GREY = COLOURS["grey"]
END_WIDTH = 0.5  # points, of the lines through the ends of intervals
# of a legend below the axes: the width of a handle and of a letter, and how many letters' heights
# the ticks and the label of the axis take
HANDLE_INCHES = 0.6
LETTER_INCHES = 0.07
BELOW_LABEL = 4.5
# of a title: the width of a letter, and the fewest in a line
TITLE_LETTER_INCHES = 0.08
LEAST_LETTERS = 20


@dataclass(frozen=True)
class SeriesStyle:
    """How a series is drawn, told apart without colour by line and marker."""

    title: str
    colour: str
    line: str = "-"
    marker: str = ""
    hatch: str = ""
    size: float | None = None  # of the marker, in points


Looks: TypeAlias = Mapping[Any, SeriesStyle]
"""How each series looks, by its value, or its values, in a frame."""
VARIANTS = {
    "multinomial": SeriesStyle("samples", SAMPLES, "--", "o"),
    "beamsearch": SeriesStyle("beams", BEAMS, "-", "s", "////"),
}
FORMS = VARIANTS | {"": SeriesStyle("answer or samples only", BLACK, "-", "^")}


def axes_or_new(ax: Axes | None, height: float = 4.8) -> Axes:
    """The axes, or those of a new figure, so many inches high.

    A figure without a layout gets matplotlib's constrained one, which makes room for what stands
    outside of its axes. Raises BeamUQError in one line if matplotlib is missing.
    """
    check_matplotlib()
    if ax is not None:
        _make_room_outside(ax)
        return ax
    from matplotlib import pyplot

    _, new_axes = pyplot.subplots(figsize=(6.4, height), layout="constrained")
    return new_axes


def _make_room_outside(ax: Axes) -> None:
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")


def check_matplotlib() -> None:
    """Raise BeamUQError where matplotlib is missing, as in a wheel's core."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BeamUQError(
            f"drawing needs matplotlib, which is not installed; {install_command('plot')}"
        )


def series(
    data: pd.DataFrame, looks: Looks, *by: str
) -> Iterator[tuple[pd.DataFrame, SeriesStyle]]:
    """The rows of each look that has any, and the look, named by values of the columns ``by``."""
    parts = dict(iter(data.groupby(by[0] if len(by) == 1 else list(by), sort=False)))
    return ((parts[key], look) for key, look in looks.items() if key in parts)


def line(
    ax: Axes, data: pd.DataFrame, look: SeriesStyle, x: str, y: str = "value", *, ends: bool = True
) -> None:
    """A line through column ``y`` against ``x``, and thin ones through ``low`` and ``high``.

    All are broken at NaN. ``ends=False``: without the thin ones. Lines, not a band: where bands of
    several series overlap their colours mix, and no end is seen.
    """
    if ends:
        for end in ("low", "high"):
            ax.plot(data[x], data[end], color=look.colour, linestyle=look.line, linewidth=END_WIDTH)
    ax.plot(
        data[x],
        data[y],
        label=look.title,
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
    )


def legend_with_interval(ax: Axes, confidence: float) -> None:
    """The legend, with an entry for the thin lines of :func:`line`."""
    name = f"{100 * confidence:g} % interval"
    ax.plot([], [], color=GREY, linewidth=END_WIDTH, label=name)
    legend_below(ax)


def legend_below(ax: Axes) -> None:
    """The legend below the axes and their label, never over a curve, in as many columns as fit."""
    labels = ax.get_legend_handles_labels()[1]
    longest = max(map(len, labels), default=0)
    inches = ax.get_window_extent().width / ax.figure.dpi
    columns = int(inches / (HANDLE_INCHES + LETTER_INCHES * longest))
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        borderaxespad=BELOW_LABEL,
        ncols=min(max(columns, 1), 4),
        fontsize="small",
        frameon=False,
    )


def title_with_facts(ax: Axes, title: str, facts: Iterable[str], names: Iterable[str] = ()) -> None:
    """A title, and below it what a reader must know, in as many lines as the axes are narrow.

    ``names``: what stands beside the axes, which takes of their width.
    """
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    inches = ax.get_window_extent().width / ax.figure.dpi - LETTER_INCHES * longest
    letters = max(LEAST_LETTERS, int(inches / TITLE_LETTER_INCHES))
    lines = [line for text in (title, ", ".join(facts)) for line in textwrap.wrap(text, letters)]
    ax.set_title("\n".join(lines), fontsize="medium")


def points(
    ax: Axes, places: Any, data: pd.DataFrame, look: SeriesStyle, y: str = "value", **style: Any
) -> None:
    """Marks at the column ``y`` with bars from ``low`` to ``high``; what is NaN is not drawn.

    ``style``: further arguments of matplotlib's ``errorbar``; ``marker`` and ``label`` go before
    those of the look.
    """
    style.setdefault("marker", look.marker)
    style.setdefault("label", look.title)
    ax.errorbar(
        places,
        data[y],
        error_lengths(data, y),
        linestyle="",
        color=look.colour,
        elinewidth=0.8,
        **style,
    )


def error_lengths(
    data: pd.DataFrame, y: str = "value", low: str = "low", high: str = "high"
) -> NDArray[np.float64]:
    """[2, K] distances from column ``y`` down to ``low`` and up to ``high``; NaN draws nothing."""
    values, lower, upper = data[[y, low, high]].to_numpy(np.float64).T
    return np.array(np.maximum([values - lower, upper - values], 0.0))
