"""PRR against what is decoded for it: prefixes that the model is asked about, not candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, exact_value, exhibit_cells, figure_style
from beamuq.exhibits.exact_value import CellEstimates, OfExactValue
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.read_evaluation import Measured
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

U = "U itself"
LOOKS = {
    "samples": figure_style.SeriesStyle("samples", figure_style.BLUE, "--", "o"),
    "beams, normalised": figure_style.SeriesStyle("beams, normalised", figure_style.VERMILLION, "-", "s"),
    "beams, unnormalised": figure_style.SeriesStyle("beams, unnormalised", figure_style.GREEN, "-.", "^"),
    "exact top M, normalised": figure_style.SeriesStyle("exact, normalised", figure_style.GREY, ":", "D"),
    "systematic": figure_style.SeriesStyle("systematic", figure_style.ORANGE, ":", "v"),
    "never worse": figure_style.SeriesStyle("never worse", figure_style.BLACK, ":", "*"),
}
BANDS = ("samples", "beams, unnormalised")
COLUMNS = ["model", "dataset", "estimator", "M", "rows", "value", "low", "high", "n", "note"]


@dataclass(frozen=True)
class MatchedRowsFigure(OfExactValue, FigureExhibit):
    """PRR of estimators of U by decoded rows a question, a panel a cell."""

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """A point an estimator and M."""
        recipe, cells = self.cells(study)
        rows: list[tuple[object, ...]] = []
        titles, uncertain = {}, []
        for model, dataset in cells:
            cell = CellEstimates(study, inputs, model, dataset, recipe)
            titles[model, dataset] = f"{study.datasets[dataset].title}, {study.models[model].title}\nn = {cell.n}"
            uncertain.append(f"{cell.uncertain} of {cell.n}")
            of_u, _ = exact_value.effort(cell.found, exact_value.setting_of_exact_value(study, recipe))
            place = (model, dataset)
            rows.append((*place, U, None, None if of_u is None else float(of_u.mean()), *_numbers(cell.prr_of_U)))
            for of in exact_value.estimators(study, recipe, range(1, 10**6)):
                if of.title in LOOKS:
                    rows.append((*place, of.title, of.M, cell.taken(of)["rows"], *_numbers(cell.prr(of))))
        data = pd.DataFrame(rows, columns=COLUMNS)
        datasets = list(dict.fromkeys(dataset for _, dataset in cells))
        title = f"PRR of {exact_value.METHOD} by decoded rows a question"
        points = data[data["estimator"] != U]
        missing = int((points["value"].isna() | points["rows"].isna()).sum())
        at = points.dropna(subset=["rows"]).groupby("estimator", sort=False)["M"].agg(["min", "max"])
        sizes = ", ".join(f"{name} {low:g} to {high:g}" for name, low, high in at.itertuples())
        sentences = [
            f"PRR (higher is better) of {exact_value.METHOD} by the mean number of decoded rows a question: "
            "prefixes beyond the prompt whose next token the model is asked for, each strategy as if it ran "
            "alone (samples share the prefixes that they have in common). Number of candidates M from left to "
            f"right: {sizes}.",
            f"Dotted line across: PRR of U itself (standard error above {exact_value.LARGE_ERROR:g} at "
            f"{captions.listing(uncertain)} questions); its rows are in the data.",
            f"Bands, drawn for samples and unnormalised beams, of all in the data: {captions.confidence(study)} "
            f"percentile intervals over {captions.resampled(study, datasets)}. A drawn estimate is one "
            f"draw, samples at M = {study.main.num_candidates} the mean over disjoint draws where several are "
            "scored.",
            f"{missing} of {len(points)} points are undefined, or of files without rows, and left out."
            if missing
            else "",
        ]
        return self.figure(study, title, sentences, data, lambda title, note: _draw(title, note, data, titles))


def _numbers(of: Measured) -> tuple[object, ...]:
    return of.value, of.low, of.high, of.n, of.note


def _draw(title: str, note: str, data: pd.DataFrame, titles: dict[exhibit_cells.Cell, str]) -> matplotlib.figure.Figure:
    down = -(-len(titles) // 2)
    figure = figure_style.canvas(2.3 * down, title, note, legend_rows=3)
    panels = figure.subplots(down, min(2, len(titles)), squeeze=False)
    for axes in panels.flat[len(titles) :]:
        axes.set_axis_off()
    for axes, ((model, dataset), name) in zip(panels.flat, titles.items(), strict=False):
        _panel(axes, data[(data["model"] == model) & (data["dataset"] == dataset)])
        axes.set_title(name, parse_math=False)
        axes.set_xlabel("Decoded rows a question")
    for axes in panels[:, 0]:
        axes.set_ylabel("PRR")
    figure_style.legend(figure, panels[0, 0], 3)
    return figure


def _panel(axes: matplotlib.axes.Axes, data: pd.DataFrame) -> None:
    for estimator, look in LOOKS.items():
        part = data[data["estimator"] == estimator].sort_values("M")
        rows, values, low, high = (part[name].to_numpy(dtype=np.float64) for name in ("rows", "value", "low", "high"))
        if estimator in BANDS:
            axes.fill_between(rows, low, high, color=look.colour, alpha=0.12, linewidth=0)
        axes.plot(rows, values, color=look.colour, linestyle=look.line, marker=look.marker, label=look.title)
    (of_u,) = data[data["estimator"] == U]["value"].astype(float)
    if not np.isnan(of_u):
        axes.axhline(of_u, color=figure_style.BLACK, linewidth=0.8, linestyle=":", label=U)
    top = 1.05 * float(np.nanmax([1.0, *data[data["estimator"] != U]["rows"].astype(float)]))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= top])
    axes.set_xlim(0, top)
