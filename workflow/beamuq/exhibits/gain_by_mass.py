"""Where beams gain on samples: the difference in PRR by the mass that the beams cover."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.exhibits import candidate_count_curves, captions, exact_value, exhibit_cells, figure_style, number_format
from beamuq.exhibits.exact_value import METHOD, OF_U, CellEstimates, OfExactValue
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.read_evaluation import Measured, difference
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

BINS, LEAST, MEAN = 5, 12, "mean"
LOOKS = {
    "normalised": figure_style.SeriesStyle("beams, normalised", figure_style.VERMILLION, "", "s"),
    "unnormalised": figure_style.SeriesStyle("beams, unnormalised", figure_style.GREEN, "", "^"),
    OF_U: figure_style.SeriesStyle("U itself", figure_style.BLACK, "", "o"),
}
COLUMNS = ["model", "dataset", "bin", "lowest", "highest", "variant", "value", "low", "high", "n", "note"]


@dataclass(frozen=True)
class MassBin:
    """Questions of like covered mass, from ``lowest`` to ``highest``; ``members`` [N] truth values."""

    lowest: float
    highest: float
    members: NDArray[np.bool_]


@dataclass(frozen=True)
class GainByMass(OfExactValue, FigureExhibit):
    """ΔPRR of beams, and of U itself, against samples in bins of covered mass: a panel a cell, then their mean.

    Five bins, or fewer in every panel where a cell would have fewer than twelve questions in each.
    """

    def cells(self, study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
        """Those with the main beams."""
        return exact_value.cells_with_beams(study)

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """PRR within each bin, resampled within it; samples by the mean PRR of all disjoint draws."""
        recipe, cells = self.cells(study)
        variants = [name for name in LOOKS if name == OF_U or f"{name} beam" in study.scoring[recipe].estimators]
        read = {cell: CellEstimates(study, inputs, *cell, recipe) for cell in cells}
        masses = {cell: read[cell].found.mass(study.main.beam, study.main.num_candidates) for cell in cells}
        count = min(BINS, max(1, min(map(len, masses.values())) // LEAST))
        rows, panels = [], {}
        for model, of_model in exact_value.by_model(cells).items():
            gains = []
            for cell in of_model:
                bins = mass_bins(masses[cell], count)
                gains.append([_gains(study, read[cell], recipe, each, variants) for each in bins])
                panels[cell] = f"{study.datasets[cell[1]].title}, {study.models[model].title}"
                rows += _rows(cell, bins, gains[-1])
            kept = exact_value.averaged(read, model)
            gains = [of for cell, of in zip(of_model, gains, strict=True) if cell in kept]
            if len(gains) > 1 and all(len(of) == count for of in gains):
                means = [exact_value.means(study, kept, of_bin) for of_bin in zip(*gains, strict=True)]
                panels[model, MEAN] = f"Mean, {study.models[model].title}"
                rows += _rows((model, MEAN), [None] * count, means)
        data = pd.DataFrame(rows, columns=COLUMNS)
        data = data.astype(dict.fromkeys(("lowest", "highest", "value", "low", "high"), float))
        draws = len(next(iter(read.values())).settings(exact_value.main_samples(study)))
        M = study.main.num_candidates
        title = f"Gain in PRR on samples by the mass that {M} beams cover"
        by_mass = f"the probability mass that {M} beams cover"
        within = (
            f"within each of {count} bins of about equally many questions by {by_mass}"
            if count > 1
            else f"over all questions, too few to be split by {by_mass}"
        )
        few = [name.replace("\n", " ") for cell, name in panels.items() if 0 < _count(data, cell) < count]
        fewer = f", which leaves fewer than {count} in {captions.listing(few)}" if few else ""
        sentences = [
            f"PRR (higher is better) of {METHOD} minus that of {M} samples"
            + (f" (mean over {draws} disjoint draws)" if draws > 1 else "")
            + f", {within}: beams normalised and, where scored, unnormalised (what they do not cover counts as "
            "disagreement), and U itself. Above 0: better than samples.",
            "Under each bin its greatest mass (in the mean its number) and n."
            + (f" Equal masses share a bin{fewer}." if count > 1 else ""),
            f"Bars: {captions.confidence(study)} intervals of the paired difference, from "
            f"{study.evaluation.resamples} resamples of the questions of the bin; an open mark has none, as more "
            "than 1 % of resamples are undefined, 'n/a' where PRR is (fewer than four questions, or all of one "
            "quality).",
            "The mean is over datasets, bin by bin." if any(d == MEAN for _, d in panels) else "",
            exact_value.sentence_of_exact_value(study, recipe, list(read.values())),
            _tally(data),
            candidate_count_curves.undefined_sentence(data),
        ]
        return self.figure(study, title, sentences, data, lambda title, note: _draw(title, note, data, panels))


def mass_bins(mass: NDArray[np.float64], count: int) -> list[MassBin]:
    """About equally many questions a bin, from the least mass [N] on, never splitting equal masses.

    Bin j closes with the question that completes j·N/count and all that tie with it; a bin that this empties is left
    out.
    """
    ordered = np.sort(mass)
    ends = [ordered[-(-len(mass) * (j + 1) // count) - 1] for j in range(count)]
    bins, below = [], -np.inf
    for end in dict.fromkeys(ends):
        members = (mass > below) & (mass <= end)
        bins.append(MassBin(float(mass[members].min()), float(end), members))
        below = end
    return bins


def _gains(
    study: Study, cell: CellEstimates, recipe: str, chosen: MassBin, variants: Sequence[str]
) -> dict[str, Measured]:
    """Each variant's PRR within the bin minus that of samples."""
    of_u = exact_value.setting_of_exact_value(study, recipe)
    own = [(METHOD, variant, of_u if variant == OF_U else study.main.beam) for variant in variants]
    drawn = [(METHOD, "uniform", setting) for setting in cell.settings(exact_value.main_samples(study))]
    measured = cell.scored.prr(study, chosen.members, f"mass {chosen.lowest!r} to {chosen.highest!r}", own + drawn)
    samples = exact_value.mean_of_draws(measured[len(own) :], study.evaluation.confidence)
    return {
        variant: difference(of, samples, study.evaluation.confidence)
        for variant, of in zip(variants, measured, strict=False)
    }


def _rows(
    cell: tuple[str, str], bins: Sequence[MassBin | None], gains: Sequence[dict[str, Measured]]
) -> list[tuple[object, ...]]:
    return [
        (*cell, j + 1, each and each.lowest, each and each.highest, variant, of.value, of.low, of.high, of.n, of.note)
        for j, (each, by_variant) in enumerate(zip(bins, gains, strict=True))
        for variant, of in by_variant.items()
    ]


def _count(data: pd.DataFrame, cell: tuple[str, str]) -> int:
    return int(data[(data["model"] == cell[0]) & (data["dataset"] == cell[1])]["bin"].nunique())


def _tally(data: pd.DataFrame) -> str:
    """In how many bins of cells an interval of the paper's beams leaves out 0."""
    of = data[(data["variant"] == "normalised") & (data["dataset"] != MEAN)]
    above, below, without = (of["low"] > 0).sum(), (of["high"] < 0).sum(), of["low"].isna().sum()
    return (
        f"Of {len(of)} bins of single cells, normalised beams are above samples by their interval in {above} and below "
        f"in {below}; {without} have no interval."
    )


def _draw(title: str, note: str, data: pd.DataFrame, panels: dict[tuple[str, str], str]) -> matplotlib.figure.Figure:
    across = min(len(panels), 2)
    rows = -(-len(panels) // across)
    figure = figure_style.canvas(2.0 * rows, title, note, legend_rows=1)
    grid = figure.subplots(rows, across, sharey=True, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, ((model, dataset), name) in zip(grid.flat, panels.items(), strict=False):
        _draw_panel(axes, data[(data["model"] == model) & (data["dataset"] == dataset)])
        axes.set_title(name, parse_math=False)
    for axes in grid[:, 0]:
        axes.set_ylabel("PRR − that of samples")
    figure_style.legend(figure, grid[0, 0], len(LOOKS))
    return figure


def _draw_panel(axes: matplotlib.axes.Axes, data: pd.DataFrame) -> None:
    axes.axhline(0, color=figure_style.GREY, linewidth=0.6)
    present = [variant for variant in LOOKS if variant in set(data["variant"])]
    for place, variant in enumerate(present):
        part, look = data[data["variant"] == variant], LOOKS[variant]
        offset = 0.2 * (place - (len(present) - 1) / 2)
        errors = figure_style.error_lengths(*(part[name].to_numpy() for name in ("value", "low", "high")))
        axes.errorbar(
            part["bin"] + offset, part["value"], errors, color=look.colour, linestyle="", marker=look.marker,
            elinewidth=0.8, capsize=2, label=look.title,
        )  # fmt: skip
        bare = part[part["low"].isna()]
        open_mark: dict[str, Any] = {"color": look.colour, "markerfacecolor": "white", "zorder": 3}
        axes.plot(bare["bin"] + offset, bare["value"], look.marker, **open_mark)
    for number in sorted(set(data["bin"])):
        if data[data["bin"] == number]["value"].isna().all():
            axes.text(number, 0.03, "n/a", ha="center", va="bottom", rotation=90)
    first = data.drop_duplicates("bin")
    axes.set_xticks(first["bin"], [_under(row) for row in first.to_dict("records")])
    axes.set_xlim(0.5, len(first) + 0.5)
    numbered = first["highest"].isna().all()
    axes.set_xlabel("Number of the bin; below, n" if numbered else "Greatest covered mass of the bin; below, n")


def _under(row: Mapping[Hashable, Any]) -> str:
    """The greatest mass, ``≤ .31``, and n; of a mean, the bin's number."""
    highest = str(row["bin"]) if np.isnan(row["highest"]) else f"≤ {number_format.decimal(row['highest'], 2)}"
    return f"{highest}\n{row['n']}"
