"""``fig:abl_nsamples``: PRR against the number of candidates, three methods, samples against beams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from beamuq.exhibits import curves, grid, naming, style
from beamuq.exhibits.core import Exhibit, Figure, Inputs
from beamuq.exhibits.measured import Key, Measurements
from beamuq.needs import Need
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, MODEL, DATASET = "abl_nsamples", "gemma-3-4b-base", "triviaqa"


def needs(study: Study) -> list[Need]:
    """The evaluation of the recipe that scores every M, one model on TriviaQA."""
    found = curves.recipes(study, naming.GRAPH, DATASET)
    model = grid.first_model(study, MODEL, lambda m: m in found)
    return [Need("evaluation", model=model, dataset=DATASET, recipe=found[model], scorer=study.main.scorer)]


def build(study: Study, inputs: Inputs) -> Figure:
    """Samples: the first M. Beams: a search of width M."""
    (need,) = needs(study)
    measurements = Measurements(study, inputs, need)
    data = pd.DataFrame(
        [
            curves.row(need.model, DATASET, (method, variant), m, measurements[Key("PRR", method, variant, f"M={m}")])
            for method in naming.GRAPH
            for variant in curves.BOTH
            for m in sorted(study.scoring[need.recipe].budgets)
        ],
        columns=curves.COLUMNS,
    )
    model, dataset, n = study.models[need.model].title, study.datasets[DATASET].title, int(data["n"].iloc[0])
    title = naming.titled(study, f"PRR by number of candidates, {dataset}, {model}")
    caption = naming.caption(
        study,
        [
            f"PRR (higher is better) against the number of candidates M for {naming.listing(naming.GRAPH)}: the first "
            f"M samples, and a beam search of width M with probability weights. {dataset}, {model}, n = {n} questions.",
            "At M = 1 the only beam is the greedy answer itself.",
            curves.band_sentence(study),
            curves.undefined_sentence(data),
            grid.shown_instead(study, [MODEL], [need.model]),
        ],
        scorers=[study.main.scorer],
        quality=True,
    )
    note = naming.footnote(study, [study.main.scorer], quality=True)
    return Figure(LABEL, title, caption, data, lambda: _draw(title, note, data, n))


def _draw(title: str, note: str, data: pd.DataFrame, n: int) -> matplotlib.figure.Figure:
    figure = style.canvas(2.1, title, note, legend_rows=1)
    panels = figure.subplots(1, len(naming.GRAPH), sharex=True, sharey=True)
    for axes, method in zip(panels, naming.GRAPH, strict=True):
        looks = {(method, variant): look for variant, look in curves.BOTH.items()}
        curves.draw(axes, data[data["method"] == method], looks)
        axes.set_title(f"{method}\nn = {n}")
    panels[0].set_ylabel("PRR")
    panels[1].set_xlabel("Number of candidates M")
    style.legend(figure, panels[0], 2)
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
