"""The forest plot of beam minus multinomial: a panel a method, a row a dataset within a model, means as diamonds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.comparison import beam_minus_multinomial
from beamuq.comparison.printed_numbers import MEAN
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.exhibits import captions, figure_style
from beamuq.exhibits.exhibit_types import BuiltFigure
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LABEL = "paired"
ROW = 0.13  # inches
ALL = "Mean"
_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}


def figure(study: Study, frame: pd.DataFrame, rules: ComparisonRules) -> BuiltFigure:
    """The figure of a table of differences; its data are the table."""
    title = captions.titled(study, "PRR of beam search minus PRR of multinomial sampling, paired")
    means, cells = (
        beam_minus_multinomial.tally(frame, beam_minus_multinomial.HEADLINE),
        beam_minus_multinomial.tally(frame, beam_minus_multinomial.CELLS),
    )
    caption = captions.caption(
        study,
        [
            "PRR of each method over beams minus its PRR over samples, on the same questions: right of zero, beams are "
            f"better. Bars: {captions.confidence(study)} intervals of the paired bootstrap over questions, over "
            "stories where questions share one; diamonds: mean over datasets.",
            f"n/a: not run, or undefined. Filled: significant at {100 * rules.families.level:g} % within its "
            "family, means after Holm, cells after Benjamini and Hochberg.",
            f"Means: {_tally(means)}. Cells: {_tally(cells)}.",
            _sizes(study, frame),
            f"Worst cell: {cells['worst']} ({cells['worst_difference']:+.3f})." if cells["run"] else "",
            beam_minus_multinomial.resamples_sentence(frame, rules),
        ],
        scorers=[study.main.scorer],
        quality=True,
    )
    note = captions.footnote(study, [study.main.scorer], quality=True)
    return BuiltFigure(LABEL, title, caption, frame, lambda: _draw(study, title, note, frame))


def _tally(found: dict[str, object]) -> str:
    return (
        f"{found['wins']} wins ({found['significant_wins']} significant), {found['ties']} ties, {found['losses']} "
        f"losses ({found['significant_losses']} significant) of {found['run']} run"
    )


def _sizes(study: Study, frame: pd.DataFrame) -> str:
    """The questions behind every cell that was run."""
    run = frame[(frame["family"] == beam_minus_multinomial.CELLS) & (frame["n"] > 0)]
    sizes = {str(name): [int(n) for n in part] for name, part in run.groupby("dataset", sort=False)["n"]}
    return captions.sizes(study, sizes) if sizes else ""


def _draw(study: Study, title: str, note: str, frame: pd.DataFrame) -> matplotlib.figure.Figure:
    methods, models, found = (list(dict.fromkeys(frame[column])) for column in ("method", "model", "dataset"))
    datasets = [*(dataset for dataset in found if dataset != MEAN), MEAN]
    rows = len(models) * (len(datasets) + 1)
    drawn = figure_style.canvas(0.45 + ROW * rows, title, note)
    panels = np.atleast_1d(drawn.subplots(1, len(methods), sharex=True, sharey=True))
    places = {
        (model, dataset): -(i * (len(datasets) + 1) + j + 1)
        for i, model in enumerate(models)
        for j, dataset in enumerate(datasets)
    }
    for axes, method in zip(panels, methods, strict=True):
        _panel(axes, frame[frame["method"] == method], places)
        axes.set_title(captions.method_short(method))
    first = panels[0]
    heads = [-i * (len(datasets) + 1) for i in range(len(models))]
    labels = [(place, ALL if d == MEAN else _title(study, d)) for (_, d), place in places.items()]
    labels += [(place, study.models[model].title) for place, model in zip(heads, models, strict=True)]
    first.set_yticks([place for place, _ in labels], [text for _, text in labels])
    for label, (place, _) in zip(first.get_yticklabels(), labels, strict=True):
        label.set_fontweight("bold" if place in heads else "normal")
    low, high = first.get_xlim()
    step = max(n * 10.0**k for k in range(-4, 2) for n in (1.0, 2.0, 3.0, 5.0) if n * 10.0**k <= max(-low, high, 1e-4))
    ticks = [tick for tick in (-step, 0.0, step) if low <= tick <= high]
    first.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    first.set_ylim(-rows - 0.2, 0.8)
    panels[len(panels) // 2].set_xlabel("Difference in PRR")
    return drawn


def _title(study: Study, dataset: str) -> str:
    """A declared dataset may be none of the study's."""
    return study.datasets[dataset].title if dataset in study.datasets else dataset


def _panel(axes: matplotlib.axes.Axes, part: pd.DataFrame, places: dict[tuple[str, str], int]) -> None:
    axes.axvline(0, color=figure_style.GREY, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for model, dataset in part.loc[part["difference"].isna(), ["model", "dataset"]].to_numpy():
        axes.text(0, places[model, dataset], "n/a", ha="center", va="center", color=figure_style.GREY, bbox=_WHITE)
    shown = part[part["difference"].notna()]
    numbers = shown[["difference", "low", "high"]].to_numpy(dtype=np.float64)
    for (difference, low, high), model, dataset, significant in zip(
        numbers, shown["model"], shown["dataset"], shown["significant"], strict=True
    ):
        y, mean = places[model, dataset], dataset == MEAN
        colour = figure_style.BLACK if mean else figure_style.VERMILLION if difference >= 0 else figure_style.BLUE
        axes.plot([low, high], [y, y], color=colour, linewidth=0.9, solid_capstyle="butt")
        axes.plot(
            difference,
            y,
            marker="D" if mean else "o" if difference >= 0 else "s",
            markersize=3.5 if mean else 2.8,
            color=colour,
            markerfacecolor=colour if significant else "white",
            markeredgewidth=0.8,
            linestyle="none",
        )
