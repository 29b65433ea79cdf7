"""Why beams gain on samples: PRR(beams) − PRR(samples), split by the exact value into noise and another target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.exhibits import candidate_count_curves, captions, exact_value, exhibit_cells, figure_style, number_format
from beamuq.exhibits.exact_value import METHOD, CellEstimates, Estimator, OfExactValue
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.read_evaluation import Key, Measured, difference
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LARGEST = 15  # M
GAIN, NOISE, TARGET = "beams - samples", "noise", "target"
LOOKS = {
    GAIN: figure_style.SeriesStyle("beams − samples", figure_style.BLACK, "-", "o"),
    NOISE: figure_style.SeriesStyle("noise: U − samples", figure_style.BLUE, "--", "s"),
    TARGET: figure_style.SeriesStyle("target: beams − U", figure_style.VERMILLION, ":", "^"),
}
MEAN = "mean"
COLUMNS = ["model", "dataset", "part", "M", "draws", "value", "low", "high", "n", "note"]
Parts = dict[str, Measured]
Point = tuple[int, int]  # M, over how many disjoint draws of samples


@dataclass(frozen=True)
class WhyBeamsWin(OfExactValue, FigureExhibit):
    """The gain of beams in PRR, its part of noise and its part of target, by M: a panel a cell, then their mean."""

    def cells(self, study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
        """Those with beams of several widths."""
        recipe, cells = super().cells(study)
        if not study.recipes[recipe].beam:
            raise BeamUQError(f"needs beams of several widths; add recipes.{recipe}.beam.widths or drop the exhibit")
        return recipe, cells

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Each M once with the first M samples; the main M also with the mean PRR of all disjoint draws of M."""
        recipe, cells = self.cells(study)
        read = {cell: CellEstimates(study, inputs, *cell, recipe) for cell in cells}
        found = {cell: decompositions(study, of, recipe) for cell, of in read.items()}
        panels = {
            cell: f"{study.datasets[cell[1]].title}\n{study.models[cell[0]].title}\nn = {of.n}"
            for cell, of in read.items()
        }
        for model in exact_value.by_model(cells):
            of_model = exact_value.averaged(read, model)
            if len(of_model) > 1:
                of_each = [found[cell] for cell in of_model]
                found[model, MEAN] = {
                    point: exact_value.means(study, of_model, [of[point] for of in of_each]) for point in of_each[0]
                }
                n = sum(read[cell].n for cell in of_model)
                panels[model, MEAN] = f"Mean\n{study.models[model].title}\nn = {n}"
        rows = [
            (*cell, part, M, draws, of.value, of.low, of.high, of.n, of.note)
            for cell, points in found.items()
            for (M, draws), parts in points.items()
            for part, of in parts.items()
        ]
        data = pd.DataFrame(rows, columns=COLUMNS).astype({"value": float, "low": float, "high": float})
        title = "Why beams gain on samples: less noise or another target, by number of candidates"
        last = list(found)[-1]
        sentences = [
            f"PRR (higher is better) of {METHOD} by a beam search of width M minus that by M samples, and its two "
            "parts: noise, what U itself has over samples, and target, what beams have over U "
            "(beams − samples = [U − samples] + [beams − U]). Above 0 a part is in favour of beams.",
            exact_value.sentence_of_exact_value(study, recipe, list(read.values())),
            _draws_sentence(found[last]),
            f"Bands and bars: {captions.confidence(study)} paired bootstrap intervals over questions; a line has "
            "one draw of samples, whatever its luck. None where more than 1 % of resamples are undefined.",
            "The mean is over datasets, each resampled on its own." if len(found) > len(cells) else "",
            _told(study, last, found[last]),
            candidate_count_curves.undefined_sentence(data),
        ]
        return self.figure(study, title, sentences, data, lambda title, note: _draw(title, note, data, panels))


def decomposition(beams: Measured, samples: Measured, exact: Measured, confidence: float) -> Parts:
    """PRR of each, and the three paired differences: gain = noise + target."""
    return {
        "PRR of samples": samples,
        "PRR of beams": beams,
        "PRR of U": exact,
        GAIN: difference(beams, samples, confidence),
        NOISE: difference(exact, samples, confidence),
        TARGET: difference(beams, exact, confidence),
    }


def decompositions(study: Study, cell: CellEstimates, recipe: str) -> dict[Point, Parts]:
    """One cell's decomposition by M and number of draws."""
    found: dict[Point, Parts] = {}
    decoded, sample = study.recipes[recipe], study.main.sample
    largest = min(LARGEST, decoded.sample.size) if decoded.sample else 0
    for beam in strategy_names.of_kind(decoded.strategies(), "beam"):
        M = int(strategy_names.parse(beam)[1]["M"])
        if largest < M:
            continue
        beams = cell.measured[Key("PRR", METHOD, "normalised", beam)]
        of = Estimator("uniform", sample, M, strategy_names.samples_of(sample, M))
        first = cell.measured[Key("PRR", METHOD, of.weighting, of.setting)]
        found[M, 1] = decomposition(beams, first, cell.prr_of_U, study.evaluation.confidence)
        if len(settings := cell.settings(of)) > 1:
            found[M, len(settings)] = decomposition(beams, cell.prr(of), cell.prr_of_U, study.evaluation.confidence)
    return dict(sorted(found.items()))


def _draws_sentence(points: dict[Point, Parts]) -> str:
    several = [f"{draws} disjoint draws of M = {M}" for M, draws in points if draws > 1]
    if not several:
        return "Samples are the first M."
    return f"Samples are the first M; the open marks have the mean PRR of all {captions.listing(several)} instead."


def _told(study: Study, cell: tuple[str, str], points: dict[Point, Parts]) -> str:
    """In words: the last panel at the main M, over as many draws as there are."""
    at = max((point for point in points if point[0] == study.main.num_candidates), default=None)
    if at is None:
        return ""
    where = "in the mean" if cell[1] == MEAN else f"on {study.datasets[cell[1]].title}"
    said = [f"{name} {_number(of)}" for name, of in points[at].items()]
    return f"{study.models[cell[0]].title} {where} at M = {at[0]}: {'; '.join(said)}."


def _number(of: Measured) -> str:
    if of.value is None:
        return "undefined"
    return " ".join(filter(None, (number_format.decimal(of.value), number_format.interval(of.low, of.high))))


def _draw(title: str, note: str, data: pd.DataFrame, panels: dict[tuple[str, str], str]) -> matplotlib.figure.Figure:
    across = min(len(panels), 3) if len(panels) != 4 else 2
    rows = -(-len(panels) // across)
    figure = figure_style.canvas(2.0 * rows, title, note, legend_rows=1)
    grid = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, ((model, dataset), name) in zip(grid.flat, panels.items(), strict=False):
        _draw_panel(axes, data[(data["model"] == model) & (data["dataset"] == dataset)])
        axes.set_title(name, parse_math=False)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("Number of candidates M")
    for axes in grid[:, 0]:
        axes.set_ylabel("Difference in PRR")
    figure_style.legend(figure, grid[0, 0], 3)
    return figure


def _draw_panel(axes: matplotlib.axes.Axes, data: pd.DataFrame) -> None:
    axes.axhline(0, color=figure_style.GREY, linewidth=0.6)
    for offset, (part, look) in zip((-0.5, 0.0, 0.5), LOOKS.items(), strict=True):
        line = data[(data["part"] == part) & (data["draws"] == 1)]
        axes.fill_between(line["M"], line["low"], line["high"], color=look.colour, alpha=0.12, linewidth=0)
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker}
        axes.plot(line["M"], line["value"], linestyle=look.line, label=look.title, **style)
        mean = data[(data["part"] == part) & (data["draws"] > 1)]
        errors = figure_style.error_lengths(*(mean[name].to_numpy() for name in ("value", "low", "high")))
        axes.errorbar(
            mean["M"] + offset, mean["value"], errors, linestyle="", markerfacecolor="white", markersize=5.5,
            elinewidth=0.8, capsize=2, zorder=3, **style,
        )  # fmt: skip
    axes.set_xticks([M for M in sorted(set(data["M"])) if M == 1 or M % 5 == 0])
