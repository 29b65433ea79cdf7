"""Which questions meet what is said to make beams better than samples, and where beams in fact have less error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import beam_mass_theorem, strategy_names
from beamuq.evaluation import intervals
from beamuq.evaluation.estimates import TIE
from beamuq.exhibits import captions, exact_value, exhibit_cells, figure_style, number_format
from beamuq.exhibits.exact_value import CellEstimates, Estimator, OfExactValue
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.redundancy_and_covered_mass import LengthBin, equal_bins, group_of, with_all
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Truths = NDArray[np.bool_]
PRINTED, CORRECTED, FAIR, IN_FACT = "printed condition", "M/(M + 1)", "fair share", "in fact"
LOOKS = {
    PRINTED: figure_style.SeriesStyle("printed condition", figure_style.BLUE, "", "o"),
    CORRECTED: figure_style.SeriesStyle("M/(M + 1)", figure_style.ORANGE, "", "s"),
    FAIR: figure_style.SeriesStyle("fair share", figure_style.GREEN, "", "^"),
    IN_FACT: figure_style.SeriesStyle("in fact: beams err less", figure_style.BLACK, "", "D"),
}
LENGTH, MASS = "length", "covered mass"
BINS = 5
COLUMNS = ["model", "dataset", "by", "bin", "what", "share", "low", "high", "n"]


@dataclass(frozen=True)
class FairShareFigure(OfExactValue, FigureExhibit):
    """Shares of questions that meet each condition, and of those where beams have the smaller squared error."""

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """A row of panels a cell: by length of the greedy answer, and by what M beams cover; Wilson intervals."""
        recipe, cells = self.cells(study)
        M, most_probable = study.main.num_candidates, set_of_most_probable(study, recipe)
        rows: list[tuple[object, ...]] = []
        read, told, titles = [], [], {}
        for model, dataset in cells:
            cell = CellEstimates(study, inputs, model, dataset, recipe)
            met = conditions(cell, study.recipes[recipe].decoded(study.main.beam) or "", most_probable, M)
            name = f"{study.datasets[dataset].title}, {study.models[model].title}"
            titles[model, dataset] = f"{name}\nn = {cell.n}"
            read.append(cell)
            told.append(f"{name}: {', '.join(_percent(LOOKS[what].title, of) for what, of in met.items())}")
            mass = cell.found.mass(study.main.beam, M)
            for by, bins in (
                (LENGTH, equal_bins(cell.found.lengths(), BINS)),
                (MASS, equal_bins(np.round(mass, 2), BINS, lambda value: number_format.decimal(value, 2))),
            ):
                found = _shares(met, with_all(bins), cell, study.evaluation.confidence)
                rows += [(model, dataset, by, *row) for row in found]
        data = pd.DataFrame(rows, columns=COLUMNS)
        title = f"Where {M} beams estimate better than {M} samples, by condition and in fact"
        sentences = [
            f"Share of questions, M = {M}, that meet the printed condition (the beams' mass above 1 − 1/(2√M) = "
            f"{beam_mass_theorem.printed_threshold(M):.3f}, which suffices for nothing), M/(M + 1) = "
            f"{beam_mass_theorem.corrected_threshold(M):.3f} (which does for beams alone), and fair share (some B "
            f"of the most probable outcomes, 1 ≤ B < M, hold at least B/M: with M − B draws outside they are never "
            f"worse than M samples; from {most_probable}).",
            "In fact: the squared error of normalised beams is below that expected of M samples, both against U; a "
            "single question's verdict is uncertain where the two errors are alike.",
            exact_value.sentence_of_exact_value(study, recipe, read),
            "Left: by length of the greedy answer in generated tokens with the terminator; right: by the mass that "
            f"the beams cover; about equally many questions a bin, {BINS} bins where no value fills more than one.",
            f"Over all: {'; '.join(told)}.",
            f"Bars: {captions.confidence(study)} Wilson intervals.",
        ]
        return self.figure(
            study, title, sentences, data, lambda title, note: _draw(title, note, data, titles), quality=False
        )


def set_of_most_probable(study: Study, recipe: str) -> str:
    """The strategy that knows the most probable outcomes: proven where the recipe has it, else the main beams."""
    exact, strategies = strategy_names.exact(study.main.num_candidates), study.recipes[recipe].strategies()
    return exact if exact in strategies else study.recipes[recipe].decoded(study.main.beam) or study.main.beam


def conditions(cell: CellEstimates, beam: str, most_probable: str, M: int) -> dict[str, Truths]:
    """By name: [N] whether a question meets it."""
    mass = cell.found.mass(beam, M)
    left = left_by_size(cell, most_probable, M)
    of_beams = cell.squared_error(Estimator("normalised", beam, M, beam))
    return {
        PRINTED: mass > beam_mass_theorem.printed_threshold(M),
        CORRECTED: mass > beam_mass_theorem.corrected_threshold(M),
        FAIR: beam_mass_theorem.meets_fair_share(left, M),
        IN_FACT: of_beams < cell.error_of_samples(M) - TIE,
    }


def left_by_size(cell: CellEstimates, strategy: str, M: int) -> NDArray[np.float64]:
    """[N, M + 1] the mass outside a strategy's B most probable outcomes, B = 0 … M."""
    rows = exact_value.outcomes(cell.found, strategy)
    rows = rows.assign(place=rows.groupby("id").cumcount())
    wide = rows[rows["place"] < M].pivot(index="id", columns="place", values="logprob").reindex(columns=range(M))
    logprob = wide.loc[cell.found.ids].to_numpy(dtype=np.float64)
    return beam_mass_theorem.left_by_size(logprob, ~np.isnan(logprob))


def _shares(
    met: dict[str, Truths], bins: list[LengthBin], cell: CellEstimates, confidence: float
) -> Iterator[tuple[object, ...]]:
    """Bin, condition, share, its interval, n."""
    for of in bins:
        groups = group_of(cell.found.groups, of.members)
        for what, holds in met.items():
            chosen = holds[of.members]
            interval = intervals.proportion_interval(chosen, groups, confidence)
            yield of.title, what, float(chosen.mean()), *interval, len(chosen)


def _percent(title: str, holds: Truths) -> str:
    return f"{title} {number_format.percent(float(holds.mean()))}"


def _draw(title: str, note: str, data: pd.DataFrame, titles: dict[exhibit_cells.Cell, str]) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(1.75 * len(titles), title, note, legend_rows=1)
    panels = figure.subplots(len(titles), 2, sharey=True, squeeze=False)
    for row, ((model, dataset), name) in zip(panels, titles.items(), strict=True):
        part = data[(data["model"] == model) & (data["dataset"] == dataset)]
        for axes, by in zip(row, (LENGTH, MASS), strict=True):
            _panel(axes, part[part["by"] == by], by)
            axes.set_title(name, parse_math=False)
        row[0].set_ylabel("Questions (%)")
    for axes, by in zip(panels[-1], ("Length (tokens); below, n", "Mass of the beams, up to; below, n"), strict=True):
        axes.set_xlabel(by)
    figure_style.legend(figure, panels[0, 0], 4)
    return figure


def _panel(axes: matplotlib.axes.Axes, data: pd.DataFrame, by: str) -> None:
    bins = data[data["what"] == FAIR]
    places = figure_style.bar_places(len(bins))
    for offset, (what, look) in zip(np.linspace(-0.27, 0.27, len(LOOKS)), LOOKS.items(), strict=True):
        part = data[data["what"] == what]
        shares, low, high = (100 * part[name].to_numpy(dtype=np.float64) for name in ("share", "low", "high"))
        axes.errorbar(
            places + offset,
            shares,
            yerr=figure_style.error_lengths(shares, low, high),
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            elinewidth=0.8,
            capsize=1.5,
            label=look.title,
        )
    names = [name if name == "All" or by == LENGTH else f"≤{name.split('–')[-1]}" for name in bins["bin"]]
    axes.set_ylim(-4, 104)
    axes.set_yticks([0, 50, 100])
    axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    axes.set_xticks(places, [f"{name}\n{n}" for name, n in zip(names, bins["n"], strict=True)])
