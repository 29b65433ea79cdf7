"""``fig:redundancy``: the share of samples that repeat another one, by the greedy answer's length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.evaluation import intervals
from beamuq.exhibits import figure_style, number_format, study_grid, wording
from beamuq.exhibits.candidate_measures import Candidates, group_of, length_bins
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, MODEL, DATASET = "redundancy", "gemma-3-4b-base", "triviaqa"


def needs(study: Study) -> list[Artifact]:
    """Candidates of one model on TriviaQA, and its questions for the order and groups."""
    return study_grid.candidate_artifacts(study, *study_grid.one_cell(study, MODEL, DATASET))


def build(study: Study, inputs: Inputs) -> Figure:
    """(M − distinct cleaned texts) / M, averaged over the questions of a length; bootstrap intervals."""
    files = needs(study)
    found = Candidates(inputs, *files)
    values, size = found.redundancy(study.main.sample, study.main.num_candidates), study.main.num_candidates
    rows = []
    for chosen in [*length_bins(found.lengths()), None]:
        members = np.ones(len(values), dtype=bool) if chosen is None else chosen.members
        interval = intervals.mean_interval(
            values[members],
            group_of(found.groups, members),
            study.evaluation.confidence,
        )
        low, high = interval or (np.nan, np.nan)
        title = "All" if chosen is None else chosen.title
        rows.append((title, float(values[members].mean()), low, high, int(members.sum())))
    data = pd.DataFrame(rows, columns=["length", "redundancy", "low", "high", "n"])
    model, dataset = study.models[files[0].model].title, study.datasets[DATASET].title
    title = wording.titled(study, f"Redundant samples, {dataset}, {model}")
    caption = wording.caption(
        study,
        [
            f"Redundant samples by length of the greedy answer: (M − distinct texts) / M with M = {size} multinomial "
            f"samples, averaged over the questions of that length. {dataset}, {model}, n = {len(values)} questions.",
            "Length counts generated tokens with the terminator; texts are cleaned before they are compared.",
            f"Bars: {figure_style.confidence(study)} {number_format.MEAN_INTERVALS}.",
            study_grid.shown_instead(study, [MODEL], [files[0].model]),
        ],
    )
    return Figure(LABEL, title, caption, data, lambda: _draw(title, data))


def _draw(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.3, title)
    axes = figure.subplots()
    places = figure_style.bar_places(len(data))
    heights = 100 * data["redundancy"].to_numpy()
    errors = figure_style.error_lengths(heights, 100 * data["low"].to_numpy(), 100 * data["high"].to_numpy())
    colours = [figure_style.BLUE] * (len(data) - 1) + [figure_style.GREY]
    axes.bar(places, heights, 0.7, color=colours, yerr=errors, **figure_style.ERROR_BARS)
    axes.set_ylim(0, figure_style.percent_top(heights + np.nan_to_num(errors[1])))
    axes.set_ylabel("Redundant samples (%)")
    figure_style.length_axis(axes, places, data["length"], data["n"])
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
