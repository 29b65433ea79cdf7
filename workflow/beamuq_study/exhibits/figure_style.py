"""How every figure looks, and how it is written: same data, same bytes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import io
from beamuq.config_errors import read_yaml
from beamuq.evaluation.estimates import MEAN
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import Built, Figure
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes as Axes

Draw: TypeAlias = "Callable[[pd.DataFrame, Axes], None]"

WIDTH = 5.5  # inches, the paper's text block
FEW = 20  # questions; a panel of fewer carries the word "illustration"
_SERIES = read_yaml(Path(__file__).with_name("series.yaml"))
SAMPLES, BEAMS, BLACK, GREY = (
    _SERIES["colours"][name] for name in ("samples", "beams", "black", "grey")
)


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


def looks(group: str) -> dict[str, SeriesStyle]:
    """How each series of a group of ``series.yaml`` looks."""
    colours = _SERIES["colours"]
    return {
        name: SeriesStyle(**look | {"colour": colours[look["colour"]]})
        for name, look in _SERIES[group].items()
    }


VARIANTS = looks("variants")


def settings() -> AbstractContextManager[None]:
    """This package's style on top of matplotlib's defaults: a user's own matplotlibrc changes
    nothing.
    """
    from matplotlib import style

    return style.context("beamuq_study.exhibits.figures", after_reset=True)


def series(
    data: pd.DataFrame, looks: Looks, *by: str
) -> Iterator[tuple[pd.DataFrame, SeriesStyle]]:
    """The rows of each look, which is named by the values of the columns ``by``; those without rows
    are left out.
    """
    parts = dict(iter(data.groupby(by[0] if len(by) == 1 else list(by), sort=False)))
    return ((parts[key], look) for key, look in looks.items() if key in parts)


def line(
    ax: Axes, data: pd.DataFrame, look: SeriesStyle, x: str, y: str = "value", *, band: bool = True
) -> None:
    """A line through the column ``y`` against ``x`` with a ``band`` from ``low`` to ``high``, both
    broken at NaN.
    """
    if band:
        ax.fill_between(
            data[x], data["low"], data["high"], color=look.colour, alpha=0.15, linewidth=0
        )
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
    ax.plot(data[x], data[y], label=look.title, **style)


def points(
    ax: Axes, places: Any, data: pd.DataFrame, look: SeriesStyle, y: str = "value", **style: Any
) -> None:
    """Marks at the column ``y`` with bars from ``low`` to ``high``; what is NaN is not drawn."""
    drawn: dict[str, Any] = {
        "color": look.colour,
        "marker": look.marker,
        "label": look.title,
        "elinewidth": 0.8,
    }
    ax.errorbar(places, data[y], error_lengths(data, y), linestyle="", **drawn | style)


def error_lengths(
    data: pd.DataFrame, y: str = "value", low: str = "low", high: str = "high"
) -> NDArray[np.float64]:
    """[2, K] distances from column ``y`` down to ``low`` and up to ``high``, never negative; NaN
    draws nothing.
    """
    values, lower, upper = data[[y, low, high]].to_numpy(np.float64).T
    return np.array(np.maximum([values - lower, upper - values], 0.0))


def draw_by_bin(
    data: pd.DataFrame,
    ax: Axes,
    column: str = "value",
    looks: Looks = VARIANTS,
    by: str = "variant",
    bins: str = "length",
    *,
    bars: bool = True,
    percent: bool = False,
) -> None:
    """Values in bins of questions with their intervals, as bars or points; below each bin, its
    questions.

    ``data`` has ``bins`` (as printed; "All" stands apart), ``by`` (which series, of whose values
    ``looks`` says how they look), ``column`` (NaN: "n/a" stands there), ``low``, ``high`` (NaN: no
    interval, a point is open) and ``n``. ``percent``: shares, of which the axis has percents, from
    0 to a little above the highest.
    """
    sizes = data.drop_duplicates(bins).set_index(bins)["n"]
    places = pd.Series(np.arange(len(sizes)) + 0.35 * (sizes.index == "All"), sizes.index)
    ax.set_xticks(places, [f"{name}\n{n}" for name, n in sizes.items()])
    ax.set_xlim(-0.6, places.iloc[-1] + 0.6)
    shown = list(series(data.astype(dict.fromkeys((column, "low", "high"), float)), looks, by))
    step = 0.8 / len(shown)
    for place, (part, look) in enumerate(shown):
        x = places[part[bins]] + step * (place - (len(shown) - 1) / 2)
        if bars:
            style: dict[str, Any] = {
                "edgecolor": BLACK,
                "linewidth": 0.6,
                "error_kw": {"elinewidth": 0.8},
            }
            style |= {"color": look.colour, "hatch": look.hatch, "label": look.title}
            ax.bar(x, part[column], 0.95 * step, yerr=error_lengths(part, column), **style)
        else:
            points(ax, x, part, look, column)
            ax.plot(
                x,
                part[column].where(part["low"].isna()),
                look.marker,
                color=look.colour,
                mfc="white",
                zorder=3,
            )
        for lacking in x[part[column].isna().to_numpy()]:
            ax.text(lacking, 0.01, "n/a", ha="center", va="bottom", rotation=90, fontsize=7)
    if percent:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # whole percents
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=None))
        top = min(1.04, max(0.05, 1.08 * np.nanmax([0.0, *data[column], *data["high"]])))
        ax.set_ylim(0 if bars else -0.03 * top, top)  # a point at 0 is seen whole
    else:
        ax.axhline(0, color=BLACK, linewidth=0.6)
        if data[column].isna().all():
            ax.set_ylim(
                -0.05, 1
            )  # nothing gives the axis a scale, and "n/a" would be set far outside it


def most_questions(part: pd.DataFrame) -> float:
    """The most questions that a row of a panel is of; without ``n`` each row is of one."""
    return float(part["n"].max()) if "n" in part else 1.0


def figure(
    study: Study,
    data: pd.DataFrame,
    by: Sequence[str],
    name: str,
    draw: Draw,
    facts: Mapping[str, Any],
    labels: tuple[str, str] = ("", ""),
    *,
    titles: Mapping[str, str] | None = None,
    before: str = "",
    height: float | Sequence[float] = 2.0,
    across: int = 3,
    legend_rows: int = 1,
    sharex: bool = True,
    sharey: bool = True,
    questions: Callable[[pd.DataFrame], float] = most_questions,
) -> Figure:
    """A figure of ``data``: a panel, drawn by ``draw``, for the rows of each value of the columns
    ``by``.

    ``name``: of a panel, with ``{columns}`` of its first row by what they are called. ``labels``:
    of the axes along and up, "": as ``draw`` sets them. ``before``: the footnote. ``height``:
    inches of a row of panels, or of each; ``across``: the most panels in a row; ``legend_rows``: 0
    for none. A panel of fewer than ``FEW`` ``questions``, as a function says of its rows, is called
    an illustration; one of none, where nothing was run, is not.
    """
    names = {model: of.title for model, of in study.models.items()} | {MEAN: "Mean"}
    names |= {dataset: of.title for dataset, of in study.datasets.items()} | dict(titles or {})
    missing = int(data["value"].isna().sum()) if "value" in data else 0
    caption = {
        "undefined": f"{missing} of {len(data)} points are undefined and left out."
        if missing
        else ""
    }

    def drawn(title: str, note: str) -> matplotlib.figure.Figure:
        parts = (
            [part for _, part in data.groupby(list(by), sort=False)] if by and len(data) else [data]
        )
        rows = -(-len(parts) // across)
        columns = -(-len(parts) // rows)  # rows of like length
        heights = [height] * rows if isinstance(height, int | float) else list(height)
        figure, above = _canvas(sum(heights), title, before + note, legend_rows)
        shape: dict[str, Any] = {"nrows": len(heights), "ncols": columns, "height_ratios": heights}
        grid = figure.subplots(**shape, sharex=sharex, sharey=sharey, squeeze=False)
        for ax in grid.flat[len(parts) :]:
            ax.set_axis_off()
        for position, (ax, part) in enumerate(zip(grid.flat, parts, strict=False)):
            draw(part, ax)
            if len(part):
                row = {str(column): value for column, value in part.iloc[0].items()}
                called = {
                    column: names.get(value, captions.method_title(value))
                    for column, value in row.items()
                }
                illustrates = 0 < questions(part) < FEW
                lines = (
                    name.format_map(called) or ax.get_title(),
                    "illustration" if illustrates else "",
                )
                ax.set_title("\n".join(filter(None, lines)), parse_math=False)
            if position + columns >= len(parts):
                ax.tick_params(labelbottom=True)
                ax.set_xlabel(labels[0] or ax.get_xlabel())
        for ax in grid[:, 0]:
            ax.set_ylabel(labels[1] or ax.get_ylabel())
        if legend_rows:
            handles = [
                pair
                for ax in grid.flat
                for pair in zip(*ax.get_legend_handles_labels(), strict=True)
            ]
            shown = {label: handle for handle, label in handles}  # each label once
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, above)}
            place |= {"ncols": max(1, -(-len(shown) // legend_rows)), "borderaxespad": 0.0}
            figure.legend(list(shown.values()), list(shown), **place).set_in_layout(False)
        return figure

    return Figure(data, drawn, caption | dict(facts))


def _canvas(
    height: float, title: str, note: str, legend_rows: int
) -> tuple[matplotlib.figure.Figure, float]:
    """An empty figure with a title and a wrapped footnote, ``height`` inches between them; where
    its legend begins.
    """
    import matplotlib.figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    whole = re.sub(r"(?<!,) ", "\xa0", title)  # broken behind commas alone, where that is enough
    fits = max(map(len, whole.split(" "))) <= 76
    heading = textwrap.wrap(whole if fits else title, 76, break_on_hyphens=False)
    lines = [line for paragraph in note.splitlines() for line in textwrap.wrap(paragraph, 92)]
    above, below = 0.07 + 0.15 * len(heading), 0.15 * len(lines) + 0.05 * bool(lines)
    total = height + above + 0.2 * legend_rows + below
    layout = ConstrainedLayoutEngine(rect=(0.0, below / total, 1.0, height / total))
    figure = matplotlib.figure.Figure(figsize=(WIDTH, total), layout=layout)
    top, bottom, head = 1 - 0.04 / total, 0.04 / total, "\n".join(heading).replace("\xa0", " ")
    figure.text(0.5, top, head, ha="center", va="top", fontsize=9, parse_math=False)
    figure.text(0.01, bottom, "\n".join(lines), va="bottom", parse_math=False)
    return figure, 1 - above / total


def laid_out(built: Built) -> matplotlib.figure.Figure:
    """Draw, and fix the layout once, so that the three formats show the same figure."""
    from matplotlib.transforms import Bbox

    assert isinstance(built.shown, Figure)
    figure = built.shown.draw(built.title, built.footnote)
    for _ in range(3):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in (
        figure.axes
    ):  # the solver's last digits differ from one process to the next, and ids are made of them
        ax.set_position(Bbox(ax.get_position().get_points().round(9)))
    return figure


def save(built: Built, *, csv: Path, caption: Path, **drawings: Path) -> None:
    """Draw once and write all five files, each atomically: no dates, no versions, fixed ids,
    embedded fonts.
    """
    title = {
        "pdf": built.title,
        "svg": built.title,
        "png": built.title.encode("latin-1", "replace").decode("latin-1"),
    }
    undated = {
        "pdf": ("CreationDate", "Creator", "Producer"),
        "svg": ("Date", "Creator"),
        "png": ("Software",),
    }
    with settings():
        figure = laid_out(built)
        for kind, path in drawings.items():
            metadata: dict[str, Any] = dict.fromkeys(undated[kind]) | {"Title": title[kind]}
            with io.atomic(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata)
    io.write_text(csv, csv_text(built.frame))
    io.write_text(caption, built.caption + "\n")
