"""``fig:beam_mass_threshold``: how often the beams' mass passes the theorem's thresholds, by answer length (D20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq import theorem
from beamuq.artifacts import Artifact
from beamuq.evaluation import intervals
from beamuq.exhibits import figure_style, number_format, study_grid, wording
from beamuq.exhibits.candidate_measures import Candidates, group_of, length_bins
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, MODEL, DATASET = "beam_mass_threshold", "gemma-3-4b-base", "triviaqa"


def needs(study: Study) -> list[Artifact]:
    """Candidates of one model on TriviaQA, and its questions for the order and groups."""
    return study_grid.candidate_artifacts(study, *study_grid.one_cell(study, MODEL, DATASET))


def build(study: Study, inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold, strictly; Wilson intervals."""
    files, size = needs(study), study.main.num_candidates
    found = Candidates(inputs, *files)
    mass = found.mass(study.main.beam, size)
    thresholds = {"printed": theorem.printed_threshold(size), "corrected": theorem.corrected_threshold(size)}
    rows = []
    for chosen in [*length_bins(found.lengths()), None]:
        members = np.ones(len(mass), dtype=bool) if chosen is None else chosen.members
        for name, threshold in thresholds.items():
            passed = mass[members] > threshold
            low, high = intervals.proportion_interval(
                passed, group_of(found.groups, members), study.evaluation.confidence
            )
            title = "All" if chosen is None else chosen.title
            rows.append((title, name, threshold, float(passed.mean()), low, high, int(members.sum())))
    data = pd.DataFrame(rows, columns=["length", "threshold", "mass_above", "share", "low", "high", "n"])
    model, dataset = study.models[files[0].model].title, study.datasets[DATASET].title
    title = wording.titled(study, f"Questions that meet the sufficient condition, {dataset}, {model}")
    overall = data[data["length"] == "All"].set_index("threshold")["share"]
    caption = wording.caption(
        study,
        [
            f"Share of questions whose {size} beams cover a probability mass m_B above a threshold, by length of the "
            f"greedy answer (generated tokens with the terminator) and over all. {dataset}, {model}, "
            f"n = {len(mass)} questions.",
            f"The printed threshold is 1 − 1/(2√M) = {thresholds['printed']:.3f}; its proof uses an upper bound on the "
            f"variance where it needs a lower one, and the sharp sufficient condition is M/(M + 1) = "
            f"{thresholds['corrected']:.3f}.",
            f"Over all: {number_format.percent(overall['printed'], 1)} pass the printed threshold, "
            f"{number_format.percent(overall['corrected'], 1)} the corrected one.",
            f"Bars: {figure_style.confidence(study)} Wilson intervals.",
            study_grid.shown_instead(study, [MODEL], [files[0].model]),
        ],
    )
    return Figure(LABEL, title, caption, data, lambda: _draw(title, data))


def _draw(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.3, title, legend_rows=1)
    axes = figure.subplots()
    names = list(dict.fromkeys(data["threshold"]))
    looks = [(figure_style.BLUE, ""), (figure_style.ORANGE, "////")]
    places = figure_style.bar_places(len(data) // len(names))
    top = []
    for offset, name, (colour, hatch) in zip((-0.2, 0.2), names, looks, strict=True):
        part = data[data["threshold"] == name]
        heights = 100 * part["share"].to_numpy()
        errors = figure_style.error_lengths(heights, 100 * part["low"].to_numpy(), 100 * part["high"].to_numpy())
        formula = {"printed": r"$m_B > 1 - 1/(2\sqrt{M})$", "corrected": r"$m_B > M/(M + 1)$"}[name]
        label = f"{name}: {formula} = {part['mass_above'].iloc[0]:.3f}"
        axes.bar(
            places + offset,
            heights,
            0.38,
            color=colour,
            hatch=hatch,
            label=label,
            yerr=errors,
            **figure_style.ERROR_BARS,
        )
        top.append(heights + errors[1])
    axes.set_ylim(0, figure_style.percent_top(np.concatenate(top)))
    axes.set_ylabel("Questions above (%)")
    figure_style.length_axis(axes, places, part["length"], part["n"])
    figure_style.legend(figure, axes, 2)
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
