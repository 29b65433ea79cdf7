"""``fig:abl_nsamples``: PRR against the number of candidates, three methods, samples against beams."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from beamuq.exhibits import curves, figure_style, wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL = "abl_nsamples"
SERIES = [(method, variant) for method in wording.GRAPH for variant in curves.BOTH]


def build(study: Study, inputs: Inputs) -> Figure:
    """A panel a method."""
    return curves.figure(
        LABEL,
        study,
        inputs,
        SERIES,
        what="PRR by number of candidates",
        shows=f"PRR (higher is better) against the number of candidates M for {wording.listing(wording.GRAPH)}: "
        "the first M samples, and a beam search of width M with probability weights.",
        draw=_draw,
        sentences=["At M = 1 the only beam is the greedy answer itself."],
    )


def _draw(title: str, note: str, data: pd.DataFrame, n: int) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.1, title, note, legend_rows=1)
    panels = figure.subplots(1, len(wording.GRAPH), sharex=True, sharey=True)
    for axes, method in zip(panels, wording.GRAPH, strict=True):
        looks = {(method, variant): look for variant, look in curves.BOTH.items()}
        curves.draw(axes, data[data["method"] == method], looks)
        axes.set_title(f"{method}\nn = {n}")
    panels[0].set_ylabel("PRR")
    panels[1].set_xlabel("Number of candidates M")
    figure_style.legend(figure, panels[0], 2)
    return figure


EXHIBIT = Exhibit(LABEL, "figure", partial(curves.needs, series=SERIES), build, __name__)
