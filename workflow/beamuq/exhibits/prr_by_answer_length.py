"""``fig:abl_length``: PRR of Dissimilarity in five bins of answer length, samples against beams, two datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.redundancy_and_covered_mass import equal_bins
from beamuq.exhibits.worked_examples import read_answers
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

MODEL, DATASETS = "gemma-3-4b-base", ("triviaqa", "coqa")
METHOD, BINS = "Dissimilarity", 5


@dataclass(frozen=True)
class PrrByAnswerLength(FigureExhibit):
    """PRR of Dissimilarity in five bins of answer length, samples against beams, two datasets."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Candidates, questions, scores and quality of one model on both datasets."""
        model, _ = exhibit_cells.one_cell(study, MODEL, DATASETS[0], study.main.scorer)
        found = []
        for dataset in DATASETS:
            exhibit_cells.one_cell(study, model, dataset, study.main.scorer)
            found += exhibit_cells.answer_artifacts(study, model, dataset)
        return found

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Bins close once their share of the questions is in and never split a length; PRR within each bin."""
        model = self.artifacts(study)[0].model
        rows, few = [], []
        for dataset in DATASETS:
            candidates, found = read_answers(inputs, exhibit_cells.answer_artifacts(study, model, dataset))
            bins = equal_bins(candidates.lengths(), BINS)
            few += [f"{study.datasets[dataset].title} has {len(bins)}"] if len(bins) < BINS else []
            for chosen in bins:
                keys = [(METHOD, variant, "") for variant in figure_style.VARIANTS]
                measured = found.prr(study, chosen.members, f"length {chosen.title}", keys)
                rows += [
                    (dataset, chosen.title, variant, of.value, of.low, of.high, of.n, of.note)
                    for (_, variant, _), of in zip(keys, measured, strict=True)
                ]
        columns = ["dataset", "length", "variant", "value", "low", "high", "n", "note"]
        data = pd.DataFrame(rows, columns=columns).astype({"value": float, "low": float, "high": float})
        titles = {dataset: study.datasets[dataset].title for dataset in DATASETS}
        title = f"PRR of {METHOD} by length of the greedy answer, {study.models[model].title}"
        sentences = [
            f"PRR (higher is better) of {METHOD} over samples and over beams, by length of the greedy answer in "
            f"generated tokens with the terminator, on {captions.listing(list(titles.values()))}, "
            f"{study.models[model].title}.",
            f"About equally many questions a bin, {BINS} bins, no length split between two.",
            f"Fewer than {BINS} bins: {captions.listing(few)}, since single lengths fill more than one share."
            if few
            else "",
            f"Bars: {captions.confidence(study)} bootstrap intervals over the questions of the bin; 'n/a': PRR "
            "is undefined there (fewer than four questions, or all of one quality); no interval where more than "
            "1 % of resamples are.",
            exhibit_cells.shown_instead(study, [MODEL], [model]),
        ]
        return self.figure(study, title, sentences, data, lambda title, note: _draw(title, note, data, titles))


def _draw(title: str, note: str, data: pd.DataFrame, titles: dict[str, str]) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.2, title, note, legend_rows=1)
    panels = figure.subplots(1, len(titles), sharey=True)
    for axes, (dataset, name) in zip(panels, titles.items(), strict=True):
        part = data[data["dataset"] == dataset]
        for offset, (variant, look) in zip((-0.2, 0.2), figure_style.VARIANTS.items(), strict=True):
            bars = part[part["variant"] == variant]
            places = np.arange(len(bars), dtype=np.float64) + offset
            figure_style.bars(axes, places, bars, "value", look)
            for place in places[bars["value"].isna()]:
                axes.text(place, 0.01, "n/a", ha="center", va="bottom", rotation=90)
        axes.axhline(0, color=figure_style.BLACK, linewidth=0.6)
        axes.set_title(name, parse_math=False)
        axes.set_xlim(-0.6, len(bars) - 0.4)
        figure_style.length_axis(axes, np.arange(len(bars), dtype=np.float64), bars["length"], bars["n"], short=True)
    if data["value"].isna().all():
        panels[0].set_ylim(-0.05, 1)  # no bar gives the axis a scale, and "n/a" would be set far outside it
    panels[0].set_ylabel("PRR")
    figure_style.legend(figure, panels[0], 2)
    return figure
