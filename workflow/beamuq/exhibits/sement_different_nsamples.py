"""``fig:sement_different_nsamples``: PRR against M: sampled Semantic Entropy and both forms of Dissimilarity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from beamuq.exhibits import curves, grid, naming, style
from beamuq.exhibits.core import Exhibit, Figure, Inputs
from beamuq.exhibits.measured import Key, Measurements
from beamuq.needs import Need
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, MODEL, DATASET = "sement_different_nsamples", "gemma-3-4b-base", "triviaqa"
LOOKS = {
    ("SemanticEntropy", naming.MULTINOMIAL): style.Look("Semantic Entropy", style.GREEN, ":", "^"),
    **{
        ("Dissimilarity", variant): replace(look, title=f"Dissimilarity, {look.title}")
        for variant, look in curves.BOTH.items()
    },
}


def needs(study: Study) -> list[Need]:
    """The evaluation of the recipe that scores every M, one model on TriviaQA."""
    found = curves.recipes(study, ("SemanticEntropy", "Dissimilarity"), DATASET)
    model = grid.first_model(study, MODEL, lambda m: m in found)
    return [Need("evaluation", model=model, dataset=DATASET, recipe=found[model], scorer=study.main.scorer)]


def build(study: Study, inputs: Inputs) -> Figure:
    """Samples: the first M. Beams: a search of width M."""
    (need,) = needs(study)
    measurements = Measurements(study, inputs, need)
    data = pd.DataFrame(
        [
            curves.row(need.model, DATASET, series, m, measurements[Key("PRR", *series, f"M={m}")])
            for series in LOOKS
            for m in sorted(study.scoring[need.recipe].budgets)
        ],
        columns=curves.COLUMNS,
    )
    model, dataset, n = study.models[need.model].title, study.datasets[DATASET].title, int(data["n"].iloc[0])
    title = naming.titled(study, f"Semantic Entropy and Dissimilarity by number of candidates, {dataset}, {model}")
    caption = naming.caption(
        study,
        [
            "PRR (higher is better) against the number of candidates M for Semantic Entropy of the first M samples "
            f"(entropy of the clusters' counts) and for Dissimilarity of samples and of beams. {dataset}, {model}, "
            f"n = {n} questions.",
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
    figure = style.canvas(2.3, title, note)
    axes, beside = figure.subplots(1, 2, width_ratios=[3, 2])
    curves.draw(axes, data, LOOKS)
    axes.set_xlabel("Number of candidates M")
    axes.set_ylabel("PRR")
    beside.set_axis_off()
    beside.legend(*axes.get_legend_handles_labels(), loc="center left", title=f"n = {n}", alignment="left")
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
