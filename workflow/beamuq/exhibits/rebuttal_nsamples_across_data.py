"""``fig:rebuttal_nsamples_across_data``: PRR of Dissimilarity against M, three models on TriviaQA and one on ARC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.exhibits import curves, figure_style, study_grid, wording
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.strategies import ablation
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, METHOD = "rebuttal_nsamples_across_data", "Dissimilarity"
MODELS, DATASET, OTHER = ("gemma-3-4b-base", "llama-3.1-8b-base", "qwen-3-8b-base"), "triviaqa", "arc-challenge"
MOST = 200  # questions a panel


def needs(study: Study) -> list[Artifact]:
    """Scores, quality and questions of every panel."""
    found = []
    for model, dataset, recipe in _panels(study):
        found += study_grid.score_artifacts(study, model, dataset, recipe)
    return distinct(found)


def build(study: Study, inputs: Inputs) -> Figure:
    """PRR over the first questions of each cell, at most 200, whatever the cell's own number."""
    rows = []
    for model, dataset, recipe in _panels(study):
        found = QuestionScores(inputs, *study_grid.score_artifacts(study, model, dataset, recipe))
        keys = [(v, m) for v in curves.BOTH for m in sorted(study.scoring[recipe].budgets)]
        members = np.arange(len(found.ids)) < MOST
        values = found.prr(study, members, f"first {MOST}", [(METHOD, v, ablation("M", m)) for v, m in keys])
        rows += [curves.row(model, dataset, (METHOD, v), m, value) for (v, m), value in zip(keys, values, strict=True)]
    data = pd.DataFrame(rows, columns=curves.COLUMNS)
    panels = [
        (model, dataset, f"{study.datasets[dataset].title}\n{study.models[model].title}")
        for model, dataset, _ in _panels(study)
    ]
    title = wording.titled(study, f"PRR of {METHOD} by number of candidates across models and data")
    caption = wording.caption(
        study,
        [
            f"PRR (higher is better) of {METHOD} against the number of candidates M: the first M samples, and a beam "
            f"search of width M. The first {MOST} questions of each dataset, or all where there are fewer; n stands in "
            "each panel.",
            curves.band_sentence(study, data),
            curves.undefined_sentence(data),
            study_grid.shown_instead(study, MODELS, [model for model, _, _ in panels]),
        ],
        scorers=[study.main.scorer],
        quality=True,
    )
    note = wording.footnote(study, [study.main.scorer], quality=True)
    return Figure(LABEL, title, caption, data, lambda: _draw(title, note, data, panels))


def _panels(study: Study) -> list[tuple[str, str, str]]:
    """Model, dataset, recipe: the paper's models first, others fill up to three; then one model on ARC."""
    on_main, on_other = curves.recipes(study, [METHOD], DATASET), curves.recipes(study, [METHOD], OTHER)
    models = sorted(on_main, key=lambda model: MODELS.index(model) if model in MODELS else len(MODELS))[: len(MODELS)]
    last = study_grid.first_model(study, MODELS[0], lambda model: model in on_other)
    return [*((model, DATASET, on_main[model]) for model in models), (last, OTHER, on_other[last])]


def _draw(title: str, note: str, data: pd.DataFrame, panels: list[tuple[str, str, str]]) -> matplotlib.figure.Figure:
    across = 3 if len(panels) == 3 else 2
    rows = -(-len(panels) // across)
    figure = figure_style.canvas(1.9 * rows, title, note, legend_rows=1)
    grid_of_axes = figure.subplots(rows, across, sharex=True, squeeze=False)
    for axes in grid_of_axes.flat[len(panels) :]:
        axes.set_axis_off()
    looks = {(METHOD, variant): look for variant, look in curves.BOTH.items()}
    for axes, (model, dataset, name) in zip(grid_of_axes.flat, panels, strict=False):
        part = data[(data["model"] == model) & (data["dataset"] == dataset)]
        curves.draw(axes, part, looks)
        axes.set_title(f"{name}\nn = {part['n'].iloc[0]}", parse_math=False)
        axes.tick_params(labelbottom=True)
    for axes in grid_of_axes[:, 0]:
        axes.set_ylabel("PRR")
    for axes in grid_of_axes[-1]:
        axes.set_xlabel("Number of candidates M")
    figure_style.legend(figure, grid_of_axes[0, 0], 2)
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
