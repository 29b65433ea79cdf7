"""How every figure looks, and how it is written: same data, same bytes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import parquet_tables
from beamuq.exhibits.exhibit import Built, Figure
from beamuq.exhibits.table_formats import csv_text

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Floats = NDArray[np.float64]
Draw: TypeAlias = "Callable[[pd.DataFrame, matplotlib.axes.Axes], None]"

WIDTH = 5.5  # inches, the paper's text block
# Okabe and Ito's palette; each also differs in line style, marker or hatch, so grey prints stay legible.
BLUE, VERMILLION, GREEN, BLACK, GREY = "#0072B2", "#D55E00", "#009E73", "#000000", "#7F7F7F"
ORANGE, PALE = "#E69F00", "#F3D9C9"
TITLE, TEXT = 9.0, 8.0
FIXED_WIDTH = "DejaVu Sans Mono"  # for questions and answers

ERROR_BARS: dict[str, Any] = {
    "error_kw": {"elinewidth": 0.8, "capsize": 2, "capthick": 0.8, "ecolor": BLACK},
    "edgecolor": BLACK,
    "linewidth": 0.6,
}


@dataclass(frozen=True)
class SeriesStyle:
    """How a variant is drawn, told apart without colour by line and marker."""

    title: str
    colour: str
    line: str = "-"
    marker: str = ""
    hatch: str = ""


VARIANTS = {
    "multinomial": SeriesStyle("multinomial", BLUE, "--", "o"),
    "beamsearch": SeriesStyle("beam search", VERMILLION, "-", "s", "////"),
}


def settings() -> AbstractContextManager[None]:
    """matplotlib's defaults with this package's style on top: a user's own matplotlibrc changes nothing."""
    from matplotlib import style

    return style.context("beamuq.exhibits.figures", after_reset=True)


def canvas(height: float, title: str, footnote: str = "", *, legend_rows: int = 0) -> matplotlib.figure.Figure:
    """An empty figure of the text's width: title, legend, panels, a wrapped footnote.

    ``height`` is that of the panels, in inches; room for the rest is added.
    """
    import matplotlib.figure

    whole = re.sub(r"(?<!,) ", "\xa0", title)  # broken behind commas alone, where that is enough
    fits = max(map(len, whole.split(" "))) <= 76
    titles = textwrap.wrap(whole if fits else title, 76, break_on_hyphens=False)
    lines = [line for paragraph in footnote.splitlines() for line in textwrap.wrap(paragraph, 92)]
    above = _below_title(len(titles)) + 0.2 * legend_rows
    below = 0.15 * len(lines) + 0.05 * bool(lines)
    total = height + above + below
    figure = matplotlib.figure.Figure(figsize=(WIDTH, total), layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.0, below / total, 1.0, height / total))  # type: ignore[call-arg]
    top, bottom = 1 - 0.04 / total, 0.04 / total
    figure.text(
        0.5, top, "\n".join(titles).replace("\xa0", " "), ha="center", va="top", fontsize=TITLE, parse_math=False
    )
    figure.text(0.01, bottom, "\n".join(lines), ha="left", va="bottom", linespacing=1.2, parse_math=False)
    return figure


def legend(figure: matplotlib.figure.Figure, axes: matplotlib.axes.Axes | Iterable[Any], columns: int) -> None:
    """The legend of some axes, each label once, where :func:`canvas` left ``legend_rows`` below the title."""
    handles: dict[str, Any] = {}
    for of in axes if isinstance(axes, Iterable) else [axes]:
        for handle, label in zip(*of.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    below = _below_title(1 + figure.texts[0].get_text().count("\n")) / figure.get_figheight()
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - below),
        ncols=columns,
        columnspacing=1.2,
        handlelength=2.2,
        borderaxespad=0.0,
        borderpad=0.1,
    ).set_in_layout(False)


def _below_title(lines: int) -> float:
    """Inches from the top to what follows a title of some lines."""
    return 0.07 + 0.15 * lines


def panels(
    title: str,
    note: str,
    data: pd.DataFrame,
    by: Sequence[str],
    names: Mapping[Any, str],
    draw: Draw,
    labels: tuple[str, str],
    *,
    height: float = 2.0,
    across: int = 3,
    legend_columns: int = 3,
    legend_rows: int = 1,
    sharex: bool = True,
    sharey: bool = True,
) -> matplotlib.figure.Figure:
    """A panel for each of ``names``, keyed by the values of the columns ``by``, each drawn of its rows of ``data``.

    ``labels``: of the axes along and up, "": as ``draw`` sets them; ``height``: inches of a row of panels; ``across``:
    the most in a row; ``legend_rows``: 0 for none.
    """
    across = min(across, len(names))
    down = -(-len(names) // across)
    figure = canvas(height * down, title, note, legend_rows=legend_rows)
    grid = figure.subplots(down, across, sharex=sharex, sharey=sharey, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for position, (axes, (key, name)) in enumerate(zip(grid.flat, names.items(), strict=False)):
        chosen = np.ones(len(data), dtype=bool)
        for column, value in zip(by, key if isinstance(key, tuple) else (key,), strict=True):
            chosen &= (data[column] == value).to_numpy()
        draw(data[chosen], axes)
        axes.set_title(name, parse_math=False)
        if position + across >= len(names):
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(labels[0] or axes.get_xlabel())
    for axes in grid[:, 0]:
        axes.set_ylabel(labels[1] or axes.get_ylabel())
    if legend_rows:
        legend(figure, grid.flat, legend_columns)
    return figure


def figure(
    data: pd.DataFrame,
    by: Sequence[str],
    names: Mapping[Any, str],
    draw: Draw,
    facts: Mapping[str, Any],
    labels: tuple[str, str] = ("", ""),
    before: str = "",
    **options: Any,
) -> Figure:
    """A figure of :func:`panels`, which takes the ``options``; ``facts`` fill its caption, ``before`` its footnote."""

    def drawn(title: str, note: str) -> matplotlib.figure.Figure:
        return panels(title, f"{before}{note}", data, by, names, draw, labels, **options)

    return Figure(data, drawn, facts)


def bar_places(count: int) -> Floats:
    """Positions of bars, the last (over all) set apart."""
    places = np.arange(count, dtype=np.float64)
    places[-1] += 0.35
    return places


def draw_bars_by_length(
    data: pd.DataFrame,
    ax: matplotlib.axes.Axes,
    column: str = "value",
    looks: Mapping[str, SeriesStyle] = VARIANTS,
    by: str = "variant",
    percent: bool = False,
) -> None:
    """Two series of bars by answer length, with their intervals and, below each length, its questions.

    ``data`` has ``length`` (as printed; "All" stands apart), ``by`` (which series, of whose values ``looks`` says how
    they look), ``column`` (heights; NaN: "n/a" stands there), ``low``, ``high`` (NaN: no interval) and ``n``.
    ``percent``: shares are drawn as percents, from 0 to a little above the highest.
    """
    sizes, scale, reached = data.drop_duplicates("length").set_index("length")["n"], 100 if percent else 1, 0.0
    places = bar_places(len(sizes)) if sizes.index[-1] == "All" else np.arange(len(sizes), dtype=np.float64)
    for offset, (key, look) in zip((-0.2, 0.2), looks.items(), strict=True):
        rows = data[data[by] == key].set_index("length").reindex(sizes.index)
        heights, low, high = (scale * rows[name].to_numpy(dtype=np.float64) for name in (column, "low", "high"))
        error = {"yerr": error_lengths(heights, low, high), **ERROR_BARS}
        ax.bar(places + offset, heights, 0.38, color=look.colour, hatch=look.hatch, label=look.title, **error)
        for place in (places + offset)[np.isnan(heights)]:
            ax.text(place, 0.01, "n/a", ha="center", va="bottom", rotation=90)
        reached = max(reached, *np.nan_to_num(np.fmax(heights, high)))
    ax.axhline(0, color=BLACK, linewidth=0.6)
    ax.set_xticks(places, [f"{length}\n{n}" for length, n in sizes.items()])
    ax.set_xlim(-0.6, places[-1] + 0.6)
    if percent:
        ax.set_ylim(0, min(104.0, max(5.0, 1.08 * reached)))
    elif data[column].isna().all():
        ax.set_ylim(-0.05, 1)  # no bar gives the axis a scale, and "n/a" would be set far outside it


def points(axes: matplotlib.axes.Axes, places: Any, data: pd.DataFrame, **style: Any) -> None:
    """Marks at the column ``value`` with bars from ``low`` to ``high``; what is NaN is not drawn."""
    values, low, high = (data[name].to_numpy(dtype=np.float64) for name in ("value", "low", "high"))
    errors = error_lengths(values, low, high)
    drawn: dict[str, Any] = {"linestyle": "", "elinewidth": 0.8, "capsize": 2} | style
    axes.errorbar(places, values, errors, **drawn)


def line(axes: matplotlib.axes.Axes, x: str, data: pd.DataFrame, look: SeriesStyle, y: str = "value") -> None:
    """A line through the column ``y`` against ``x``, broken at NaN."""
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
    axes.plot(data[x], data[y], label=look.title, **style)


def band(axes: matplotlib.axes.Axes, x: str, data: pd.DataFrame, look: SeriesStyle, alpha: float = 0.12) -> None:
    """What lies between the columns ``low`` and ``high``, against ``x``; NaN: no band there."""
    axes.fill_between(data[x], data["low"], data["high"], color=look.colour, alpha=alpha, linewidth=0)


def error_lengths(heights: Floats, low: Floats, high: Floats) -> Floats:
    """[2, K] distances from the height down to ``low`` and up to ``high``, never negative; NaN draws nothing."""
    return np.maximum(np.stack([heights - low, high - heights]), 0.0)


def laid_out(built: Built) -> matplotlib.figure.Figure:
    """Draw, and fix the layout once, so that the three formats show the same figure."""
    from matplotlib.transforms import Bbox

    assert isinstance(built.shown, Figure)
    figure = built.shown.draw(built.title, built.footnote)
    for _ in range(3):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:  # the solver's last digits differ from one process to the next, and ids are made of them
        original, active = axes.get_position(original=True), axes.get_position()
        axes.set_position(Bbox(original.get_points().round(9)), which="original")
        axes.set_position(Bbox(active.get_points().round(9)), which="active")
    return figure


def save(built: Built, *, pdf: Path, svg: Path, png: Path, csv: Path, caption: Path) -> None:
    """Draw once and write all five files, each atomically: no dates, no versions, fixed ids, embedded fonts."""
    with settings():
        figure = laid_out(built)
        metadata: dict[str, dict[str, str | None]] = {
            "pdf": {"CreationDate": None, "Creator": None, "Producer": None, "Title": built.title},
            "svg": {"Date": None, "Creator": None, "Title": built.title},
            "png": {"Software": None, "Title": built.title.encode("latin-1", "replace").decode("latin-1")},
        }
        for kind, path in (("pdf", pdf), ("svg", svg), ("png", png)):
            with parquet_tables.atomic(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata[kind])
    with parquet_tables.atomic(csv) as temporary:
        temporary.write_text(csv_text(built.frame), encoding="utf-8", newline="")
    with parquet_tables.atomic(caption) as temporary:
        temporary.write_text(built.caption + "\n", encoding="utf-8")
