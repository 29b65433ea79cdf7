"""How every figure looks, and how it is written: same data, same bytes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from beamuq import io
from beamuq.config_errors import read_yaml
from beamuq.drawing.series_on_axes import (
    BEAMS,
    BLACK,
    COLOURS,
    GREY,
    SAMPLES,
    VARIANTS,
    Axes,
    Looks,
    SeriesStyle,
    error_lengths,
    line,
    points,
    series,
)
from beamuq.evaluation.estimates import MEAN
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.captions import Facts
from beamuq_study.exhibits.exhibit import Built, Figure
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

Draw: TypeAlias = "Callable[[pd.DataFrame, Axes], None]"
"""Draws rows of a frame on axes."""

WIDTH = 5.5  # inches, the paper's text block
FEW = 20  # questions; a panel of fewer carries the word below, which the footnote explains
ILLUSTRATION = "illustration"
TITLE_CHARACTERS = 76  # on a line of the figure's title
NOTE_CHARACTERS = 92  # on a line of its footnote
LINE_HEIGHT = 0.15  # inches, of a title or a footnote
LEGEND_ROW_HEIGHT = 0.2  # inches
BINS_WIDTH = 0.8  # of the marks in one bin together; bins are 1 apart
APART = 0.35  # by how much the bin "All" stands apart from the others
SLIVER = 0.05  # of all questions; a bin of fewer, which are few, sets no axis
UNDEFINED = "n/a"

__all__ = [
    "BEAMS",
    "BLACK",
    "FEW",
    "GREY",
    "SAMPLES",
    "UNDEFINED",
    "VARIANTS",
    "Axes",
    "Draw",
    "Layout",
    "Looks",
    "SeriesStyle",
    "draw_by_bin",
    "error_lengths",
    "figure",
    "laid_out",
    "line",
    "looks",
    "most_questions",
    "points",
    "save",
    "series",
    "settings",
]
"""With what the library draws, which the modules of figures take from here."""

_SERIES = read_yaml(Path(__file__).with_name("series.yaml"))


def looks(group: str) -> dict[str, SeriesStyle]:
    """How each series of a group of ``series.yaml`` looks."""
    return {
        name: SeriesStyle(**look | {"colour": COLOURS[look["colour"]]})
        for name, look in _SERIES[group].items()
    }


def settings() -> AbstractContextManager[None]:
    """This package's style on matplotlib's defaults: a user's own matplotlibrc changes nothing."""
    from matplotlib import style

    return style.context("beamuq_study.exhibits.figures", after_reset=True)


def thin_lines(study: Study, series_with_ends: Sequence[str] = ()) -> str:
    """What thin lines are, for the footnote of a figure that has them; of which series, if few."""
    named = f" of {captions.listing(list(series_with_ends))}" if series_with_ends else ""
    return f"Thin lines: {100 * study.evaluation.confidence:g} % intervals{named}."


# -- bins ------------------------------------------------------------------------------------------


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
    """Values in bins of questions with intervals, as bars or points; below each bin, its questions.

    ``data`` has ``bins`` (as printed; "All" stands apart), ``by`` (which series, of whose values
    ``looks`` says how they look), ``column`` (NaN: "n/a" stands there), ``low``, ``high`` (NaN: no
    interval, a point is open) and ``n``. ``percent``: shares, of which the axis has percents, from
    0 to a little above the highest; of bins of very few questions (:func:`is_little`) a value or an
    interval may end beyond it, and a value does so with an arrow.
    """
    places = _mark_bins(ax, data, bins)
    parts = list(series(data.astype({column: float, "low": float, "high": float}), looks, by))
    step = BINS_WIDTH / len(parts)
    for number, (part, look) in enumerate(parts):
        x = places[part[bins]] + step * (number - (len(parts) - 1) / 2)
        if bars:
            _draw_bars(ax, x, part, look, column, 0.95 * step)
        else:
            _draw_points(ax, x, part, look, column)
        _mark_undefined(ax, x[part[column].isna().to_numpy()])
    if percent:
        _set_percents(ax, _top_of_percents(data, column, bins), from_zero=bars)
        _mark_beyond(ax, places[data[bins]], data[column].astype(float))
    else:
        ax.axhline(0, color=BLACK, linewidth=0.6)
        if data[column].isna().all():
            # Nothing gives the axis a scale, and "n/a" would be set far outside it.
            ax.set_ylim(-0.05, 1)


def is_little(data: pd.DataFrame, bins: str) -> pd.Series[bool]:
    """By row whether its bin has so few of the questions that it sets no axis: few, and a sliver.

    None is, where there is no bin of all.
    """
    n = data["n"].astype(float)
    everything = n[data[bins] == "All"].max()
    return (n < FEW) & (n < SLIVER * everything)


def beyond_axis(data: pd.DataFrame, column: str, bins: str) -> str:
    """The sentence on the bins that end beyond an axis of percents; "" where none does."""
    ends = data[[column, "high"]].astype(float).max(axis=1)
    is_beyond = is_little(data, bins) & (ends > _top_of_percents(data, column, bins))
    named = data.loc[is_beyond, [bins, "n"]].drop_duplicates()
    if named.empty:
        return ""
    listed = captions.listing([f"{name} (n = {n})" for name, n in named.to_numpy()])
    return f"Beyond the axis: intervals at {listed}. "


def _top_of_percents(data: pd.DataFrame, column: str, bins: str) -> float:
    """Where an axis of percents ends, as a share: a little above all but bins of very few."""
    setting = data[~is_little(data, bins)]
    highest = np.nanmax([0.0, *setting[column], *setting["high"]])
    return float(min(1.04, max(0.05, 1.08 * highest)))


def _mark_beyond(ax: Axes, places: Iterable[float], values: Iterable[float]) -> None:
    """An arrow with its number at each value above the axis."""
    _, top = ax.get_ylim()
    for place, value in zip(places, values, strict=True):
        if value > top:
            ax.text(place, top, f"{100 * value:.0f}↑", ha="center", va="top", fontsize=7)


def _mark_bins(ax: Axes, data: pd.DataFrame, bins: str) -> pd.Series[float]:
    """Name each bin and its questions along the axis; where each bin stands."""
    sizes = data.drop_duplicates(bins).set_index(bins)["n"]
    places = pd.Series(np.arange(len(sizes)) + APART * (sizes.index == "All"), sizes.index)
    ax.set_xticks(places, [f"{name}\n{n}" for name, n in sizes.items()])
    ax.set_xlim(-0.6, places.iloc[-1] + 0.6)
    return places


def _draw_bars(
    ax: Axes, x: pd.Series[float], part: pd.DataFrame, look: SeriesStyle, column: str, width: float
) -> None:
    ax.bar(
        x,
        part[column],
        width,
        yerr=error_lengths(part, column),
        edgecolor=BLACK,
        linewidth=0.6,
        error_kw={"elinewidth": 0.8},
        color=look.colour,
        hatch=look.hatch,
        label=look.title,
    )


def _draw_points(
    ax: Axes, x: pd.Series[float], part: pd.DataFrame, look: SeriesStyle, column: str
) -> None:
    """Points with bars; those without an interval are open."""
    points(ax, x, part, look, column)
    without_interval = part[column].where(part["low"].isna())
    ax.plot(x, without_interval, look.marker, color=look.colour, mfc="white", zorder=3)


def _mark_undefined(ax: Axes, places: pd.Series[float]) -> None:
    for place in places:
        ax.text(place, 0.01, UNDEFINED, ha="center", va="bottom", rotation=90, fontsize=7)


def _set_percents(ax: Axes, top: float, *, from_zero: bool) -> None:
    """Percents along the vertical axis, up to ``top``, a share."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # whole percents
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=None))
    bottom = 0 if from_zero else -0.03 * top  # a point at 0 is seen whole
    ax.set_ylim(bottom, top)


# -- panels ----------------------------------------------------------------------------------------


def most_questions(part: pd.DataFrame) -> float:
    """The most questions that a row of a panel is of; without ``n`` each row is of one."""
    return float(part["n"].max()) if "n" in part else 1.0


@dataclass(frozen=True)
class Layout:
    """How the panels of a figure are arranged, and what stands around them."""

    labels: tuple[str, str] = ("", "")  # of the axes along and up, "": as panels set them
    height: float | Sequence[float] = 2.0  # inches of a row of panels, or of each row
    across: int = 3  # the most panels in a row
    legend_rows: int = 1  # 0: no legend
    sharex: bool = True
    sharey: bool = True
    before: str = ""  # stands before the footnote
    # What values of the frame are called in titles of panels, beside models, datasets and methods
    titles: Mapping[str, str] = field(default_factory=dict)
    # Draws on a panel what needs the final layout
    finish: Draw | None = None
    # How many questions the rows of a panel are of
    questions: Callable[[pd.DataFrame], float] = most_questions


def figure(
    study: Study,
    data: pd.DataFrame,
    by: Sequence[str],
    name: str,
    draw: Draw,
    facts: Facts,
    layout: Layout = Layout(),
) -> Figure:
    """A figure of ``data``: a panel, drawn by ``draw``, for each value of the columns ``by``.

    ``name``: of a panel, with ``{columns}`` of its first row by what they are called; "": as
    ``draw`` sets it. ``facts`` fill the caption, beside ``undefined``. A panel of fewer than
    ``FEW`` questions is called an illustration; one of none, where nothing was run, is not.
    """
    panels = _Panels(data, by, name, draw, _titles(study, layout), layout)
    missing = int(data["value"].isna().sum()) if "value" in data else 0
    undefined = f"{missing} of {len(data)} points are undefined and left out." if missing else ""
    return Figure(data, panels.figure, {"undefined": undefined, **facts}, panels.finish)


def _titles(study: Study, layout: Layout) -> dict[str, str]:
    """What models, datasets and the values that a layout names are called."""
    models = {name: model.title for name, model in study.models.items()}
    datasets = {name: dataset.title for name, dataset in study.datasets.items()}
    return models | {MEAN: "Mean"} | datasets | dict(layout.titles)


@dataclass(frozen=True)
class _Panels:
    """What :func:`figure` draws; ``titles``: what values of the frame are called."""

    data: pd.DataFrame
    by: Sequence[str]
    name: str
    draw: Draw
    titles: Mapping[str, str]
    layout: Layout

    def figure(self, title: str, note: str) -> matplotlib.figure.Figure:
        """The figure under a title, with a footnote."""
        layout = self.layout
        parts = self._parts()
        rows = -(-len(parts) // layout.across)
        columns = -(-len(parts) // rows)  # rows of like length
        heights = _heights(layout.height, rows)
        explained = layout.before + self._explained_illustration(parts) + note
        figure, legend_top = _canvas(sum(heights), title, explained, layout.legend_rows)
        grid = figure.subplots(
            nrows=len(heights),
            ncols=columns,
            height_ratios=heights,
            sharex=layout.sharex,
            sharey=layout.sharey,
            squeeze=False,
        )
        for ax in grid.flat[len(parts) :]:
            ax.set_axis_off()
        for ax, part in zip(grid.flat, parts, strict=False):
            self._draw_panel(part, ax)
        for ax in grid.flat[max(0, len(parts) - columns) : len(parts)]:
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(layout.labels[0] or ax.get_xlabel())
        for ax in grid[:, 0]:
            ax.set_ylabel(layout.labels[1] or ax.get_ylabel())
        if layout.legend_rows:
            _add_legend(figure, list(grid.flat), legend_top, layout.legend_rows)
        return figure

    def finish(self, figure: matplotlib.figure.Figure) -> None:
        """Draw what needs the final layout."""
        if self.layout.finish is None:
            return
        for ax, part in zip(figure.axes, self._parts(), strict=False):
            self.layout.finish(part, ax)

    def _parts(self) -> list[pd.DataFrame]:
        """The rows of each panel."""
        if not self.by or self.data.empty:
            return [self.data]
        return [part for _, part in self.data.groupby(list(self.by), sort=False)]

    def _draw_panel(self, part: pd.DataFrame, ax: Axes) -> None:
        self.draw(part, ax)
        if part.empty:
            return
        first_row = {str(column): value for column, value in part.iloc[0].items()}
        words = {column: self._title_of(value) for column, value in first_row.items()}
        lines = [self.name.format_map(words) or ax.get_title()]
        if self._is_illustration(part):
            lines.append(ILLUSTRATION)
        ax.set_title("\n".join(filter(None, lines)), parse_math=False)

    def _is_illustration(self, part: pd.DataFrame) -> bool:
        return not part.empty and 0 < self.layout.questions(part) < FEW

    def _explained_illustration(self, parts: Sequence[pd.DataFrame]) -> str:
        """The sentence on the word, where a panel carries it."""
        if not any(map(self._is_illustration, parts)):
            return ""
        return (
            f"{ILLUSTRATION.capitalize()}: fewer than {FEW} questions, too few to conclude from. "
        )

    def _title_of(self, value: Any) -> str:
        return self.titles.get(value, captions.method_title(value))


def _heights(height: float | Sequence[float], rows: int) -> list[float]:
    """Inches of each row of panels."""
    return [height] * rows if isinstance(height, int | float) else list(height)


def _add_legend(
    figure: matplotlib.figure.Figure, panels: Sequence[Axes], top: float, rows: int
) -> None:
    """A legend below ``top``, a share of the figure's height, with each label once."""
    handles = {}
    for ax in panels:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles[label] = handle
    legend = figure.legend(
        list(handles.values()),
        list(handles),
        loc="upper center",
        bbox_to_anchor=(0.5, top),
        ncols=max(1, -(-len(handles) // rows)),
        borderaxespad=0.0,
    )
    legend.set_in_layout(False)


def _canvas(
    height: float, title: str, note: str, legend_rows: int
) -> tuple[matplotlib.figure.Figure, float]:
    """An empty figure with a title and a footnote, ``height`` inches between them.

    Also where its legend begins, as a share of the figure's height.
    """
    import matplotlib.figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    title_lines = _title_lines(title)
    note_lines = [
        line
        for paragraph in note.splitlines()
        for line in textwrap.wrap(paragraph, NOTE_CHARACTERS)
    ]
    above = 0.07 + LINE_HEIGHT * len(title_lines)
    below = LINE_HEIGHT * len(note_lines) + (0.05 if note_lines else 0.0)
    total = height + above + LEGEND_ROW_HEIGHT * legend_rows + below
    layout = ConstrainedLayoutEngine(rect=(0.0, below / total, 1.0, height / total))
    figure = matplotlib.figure.Figure(figsize=(WIDTH, total), layout=layout)
    margin = 0.04 / total
    heading = "\n".join(title_lines)
    figure.text(0.5, 1 - margin, heading, ha="center", va="top", fontsize=9, parse_math=False)
    figure.text(0.01, margin, "\n".join(note_lines), va="bottom", parse_math=False)
    return figure, 1 - above / total


def _title_lines(title: str) -> list[str]:
    """A title in lines, broken behind commas alone where that is enough."""
    unbroken = re.sub(r"(?<!,) ", "\xa0", title)
    fits = max(map(len, unbroken.split(" "))) <= TITLE_CHARACTERS
    lines = textwrap.wrap(unbroken if fits else title, TITLE_CHARACTERS, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


# -- files -----------------------------------------------------------------------------------------

UNDATED = {
    "pdf": ("CreationDate", "Creator", "Producer"),
    "svg": ("Date", "Creator"),
    "png": ("Software",),
}
"""Of each format, the metadata that differ from day to day or machine to machine."""


def laid_out(built: Built) -> matplotlib.figure.Figure:
    """Draw, and fix the layout once, so that the three formats show the same figure."""
    from matplotlib.transforms import Bbox

    assert isinstance(built.shown, Figure)
    figure = built.shown.draw(built.title, built.footnote)
    for _ in range(3):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        # The solver's last digits differ between processes, and ids are made of them.
        ax.set_position(Bbox(ax.get_position().get_points().round(9)))
    built.shown.finish(figure)
    return figure


def save(built: Built, *, csv: Path, caption: Path, **drawings: Path) -> None:
    """Draw once and write all files, each atomically: no dates, no versions, fixed ids, own fonts.

    ``drawings``: a file for each format, "pdf", "svg" and "png".
    """
    with settings():
        figure = laid_out(built)
        for kind, path in drawings.items():
            undated = dict.fromkeys(UNDATED[kind])
            with io.atomic(path) as temporary:
                figure.savefig(
                    temporary, format=kind, metadata={**undated, "Title": _title_in(kind, built)}
                )
    io.write_text(csv, csv_text(built.frame))
    io.write_text(caption, built.caption + "\n")


def _title_in(kind: str, built: Built) -> str:
    """The title in a file's metadata, of which PNG takes Latin-1 alone."""
    if kind == "png":
        return built.title.encode("latin-1", "replace").decode("latin-1")
    return built.title
