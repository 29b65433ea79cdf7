"""``fig:sement_different_nsamples``: PRR against M: sampled Semantic Entropy and both forms of Dissimilarity."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from beamuq.exhibits import curves, figure_style, wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL = "sement_different_nsamples"
LOOKS = {
    ("SemanticEntropy", wording.MULTINOMIAL): figure_style.SeriesStyle(
        "Semantic Entropy", figure_style.GREEN, ":", "^"
    ),
    **{
        ("Dissimilarity", variant): replace(look, title=f"Dissimilarity, {look.title}")
        for variant, look in curves.BOTH.items()
    },
}


def build(study: Study, inputs: Inputs) -> Figure:
    """Three series in one panel."""
    return curves.figure(
        LABEL,
        study,
        inputs,
        list(LOOKS),
        what="Semantic Entropy and Dissimilarity by number of candidates",
        shows="PRR (higher is better) against the number of candidates M for Semantic Entropy of the first M samples "
        "(entropy of the clusters' counts) and for Dissimilarity of samples and of beams.",
        draw=_draw,
    )


def _draw(title: str, note: str, data: pd.DataFrame, n: int) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.3, title, note)
    axes, beside = figure.subplots(1, 2, width_ratios=[3, 2])
    curves.draw(axes, data, LOOKS)
    axes.set_xlabel("Number of candidates M")
    axes.set_ylabel("PRR")
    beside.set_axis_off()
    beside.legend(*axes.get_legend_handles_labels(), loc="center left", title=f"n = {n}", alignment="left")
    return figure


EXHIBIT = Exhibit(LABEL, "figure", partial(curves.needs, series=list(LOOKS)), build, __name__)
