"""The figures of PRR against the number of candidates M: one cell's methods, and one method across cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.exhibits.read_evaluation import Key, Measured, Measurements
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MODELS, DATASET, OTHER = ("gemma-3-4b-base", "llama-3.1-8b-base", "qwen-3-8b-base"), "triviaqa", "arc-challenge"
ACROSS_DATA_METHOD = "Dissimilarity"
MOST_QUESTIONS = 200  # a panel of the figure across cells
COLUMNS = ["model", "dataset", "method", "variant", "M", "value", "low", "high", "n"]
BOTH = {variant: figure_style.VARIANTS[variant] for variant in (captions.MULTINOMIAL, captions.BEAMSEARCH)}
Series = tuple[str, str]  # method, variant
Draw = Callable[[str, str, pd.DataFrame, int], "matplotlib.figure.Figure"]

GRAPH_SERIES = tuple((method, variant) for method in captions.GRAPH for variant in BOTH)
ENTROPY_STYLES = {
    ("SemanticEntropy", captions.MULTINOMIAL): figure_style.SeriesStyle(
        "Semantic Entropy", figure_style.GREEN, ":", "^"
    ),
    **{
        ("Dissimilarity", variant): replace(look, title=f"Dissimilarity, {look.title}")
        for variant, look in BOTH.items()
    },
}


@dataclass(frozen=True)
class CandidateCountCurves(FigureExhibit):
    """PRR of some methods in one cell, a curve a series: the first M samples, and a beam search of width M.

    Attributes
    ----------
    series
        Method and variant of each curve.
    what, shows, sentences
        The title's beginning; the caption's; what the caption says behind it.
    draw
        Makes the figure of title, footnote, data and n.
    """

    series: tuple[Series, ...]
    what: str
    shows: str
    draw: Draw
    sentences: tuple[str, ...] = ()

    def artifacts(self, study: Study) -> list[Artifact]:
        """The evaluation of the recipe that scores the series at every M, one model on TriviaQA."""
        found = recipes(study, list(dict.fromkeys(method for method, _ in self.series)), DATASET)
        model = exhibit_cells.first_model(study, MODELS[0], lambda m: m in found)
        return [Artifact("evaluation", model=model, dataset=DATASET, recipe=found[model], scorer=study.main.scorer)]

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Values and intervals as evaluated."""
        (file,) = self.artifacts(study)
        measurements = Measurements(study, inputs, file)
        data = pd.DataFrame(
            [
                row(
                    file.model,
                    DATASET,
                    (method, variant),
                    m,
                    measurements[Key("PRR", method, variant, ablation("M", m))],
                )
                for method, variant in self.series
                for m in sorted(study.scoring[file.recipe].budgets)
            ],
            columns=COLUMNS,
        )
        of, n = f"{study.datasets[DATASET].title}, {study.models[file.model].title}", int(data["n"].iloc[0])
        title = f"{self.what}, {of}"
        sentences = [
            f"{self.shows} {of}, n = {n} questions.",
            *self.sentences,
            band_sentence(study, data),
            undefined_sentence(data),
            exhibit_cells.shown_instead(study, MODELS[:1], [file.model]),
        ]
        return self.figure(study, title, sentences, data, lambda title, note: self.draw(title, note, data, n))


@dataclass(frozen=True)
class CurvesAcrossCells(FigureExhibit):
    """PRR of Dissimilarity against M, up to three models on TriviaQA and one on ARC: the first questions of each."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Scores, quality and questions of every panel."""
        found = []
        for model, dataset, recipe in _panels(study):
            found += exhibit_cells.score_artifacts(study, model, dataset, recipe)
        return distinct(found)

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """PRR over the first questions of each cell, at most 200, whatever the cell's own number."""
        rows = []
        for model, dataset, recipe in _panels(study):
            found = QuestionScores(inputs, *exhibit_cells.score_artifacts(study, model, dataset, recipe))
            keys = [(ACROSS_DATA_METHOD, v, m) for v in BOTH for m in sorted(study.scoring[recipe].budgets)]
            members = np.arange(len(found.ids)) < MOST_QUESTIONS
            settings = [(method, variant, ablation("M", m)) for method, variant, m in keys]
            values = found.prr(study, members, f"first {MOST_QUESTIONS}", settings)
            rows += [row(model, dataset, (a, v), m, of) for (a, v, m), of in zip(keys, values, strict=True)]
        data = pd.DataFrame(rows, columns=COLUMNS)
        panels = [
            (model, dataset, f"{study.datasets[dataset].title}\n{study.models[model].title}")
            for model, dataset, _ in _panels(study)
        ]
        title = f"PRR of {ACROSS_DATA_METHOD} by number of candidates across models and data"
        sentences = [
            f"PRR (higher is better) of {ACROSS_DATA_METHOD} against the number of candidates M: the first M "
            f"samples, and a beam search of width M. The first {MOST_QUESTIONS} questions of each dataset, or all "
            "where there are fewer; n stands in each panel.",
            band_sentence(study, data),
            undefined_sentence(data),
            exhibit_cells.shown_instead(study, MODELS, [model for model, _, _ in panels]),
        ]
        return self.figure(study, title, sentences, data, lambda title, note: draw_panels(title, note, data, panels))


def recipes(study: Study, methods: Sequence[str], dataset: str) -> dict[str, str]:
    """Model → the recipe that scores ``methods`` at several M on ``dataset``; base models first, in the study's order.

    Raises BeamUQError if there is none.
    """
    found = {
        model: recipe
        for model in study.models
        if (recipe := exhibit_cells.budget_recipe(study, model, dataset, methods))
    }
    if not found:
        raise exhibit_cells.without_budgets(study, methods, dataset)
    return dict(sorted(found.items(), key=lambda item: study.models[item[0]].style != "base"))


def row(model: str, dataset: str, series: Series, size: int, found: Measured) -> tuple[object, ...]:
    """One drawn point, in the order of ``COLUMNS``."""
    return (model, dataset, *series, size, found.value, found.low, found.high, found.n)


def _panels(study: Study) -> list[tuple[str, str, str]]:
    """Model, dataset, recipe: the paper's models first, others fill up to three; then one model on ARC."""
    on_main, on_other = recipes(study, [ACROSS_DATA_METHOD], DATASET), recipes(study, [ACROSS_DATA_METHOD], OTHER)
    models = sorted(on_main, key=lambda model: MODELS.index(model) if model in MODELS else len(MODELS))[: len(MODELS)]
    last = exhibit_cells.first_model(study, MODELS[0], lambda model: model in on_other)
    return [*((model, DATASET, on_main[model]) for model in models), (last, OTHER, on_other[last])]


def undefined_sentence(data: pd.DataFrame) -> str:
    """Says so where points are missing."""
    missing = int(np.sum(data["value"].isna()))
    return f"{missing} of {len(data)} points are undefined and left out." if missing else ""


def band_sentence(study: Study, data: pd.DataFrame) -> str:
    """What the bands are, and where points have none (D13, intervals)."""
    places = []
    for (model, dataset), part in data.groupby(["model", "dataset"], sort=False):
        without = sorted(set(part[part["value"].notna() & part["low"].isna()]["M"]))
        at = "every M" if without == sorted(set(part["M"])) else f"M = {captions.listing([str(M) for M in without])}"
        places += [f"{study.datasets[str(dataset)].title}, {study.models[str(model)].title}, {at}"] if without else []
    missing = f" None where more than 1 % of resamples are undefined: {'; '.join(places)}." if places else ""
    return f"Bands: {captions.confidence(study)} bootstrap intervals over questions.{missing}"


def draw_curves(
    axes: matplotlib.axes.Axes, data: pd.DataFrame, looks: Mapping[Series, figure_style.SeriesStyle]
) -> None:
    """One panel: a line and a band a series; where a value is undefined the line is broken."""
    for (method, variant), look in looks.items():
        part = data[(data["method"] == method) & (data["variant"] == variant)].astype({"value": float})
        low, high = part["low"].astype(float), part["high"].astype(float)
        axes.fill_between(part["M"], low, high, color=look.colour, alpha=0.15, linewidth=0)
        axes.plot(
            part["M"], part["value"], color=look.colour, linestyle=look.line, marker=look.marker, label=look.title
        )
    sizes = sorted(set(data["M"]))
    shown = [m for m in sizes if m == sizes[0] or m % 5 == 0] if len(sizes) > 6 else sizes
    axes.set_xticks(shown)
    axes.set_xlim(sizes[0] - 0.6, sizes[-1] + 0.6)


def draw_graph_methods(title: str, note: str, data: pd.DataFrame, n: int) -> matplotlib.figure.Figure:
    """A panel a method."""
    figure = figure_style.canvas(2.1, title, note, legend_rows=1)
    panels = figure.subplots(1, len(captions.GRAPH), sharex=True, sharey=True)
    for axes, method in zip(panels, captions.GRAPH, strict=True):
        looks = {(method, variant): look for variant, look in BOTH.items()}
        draw_curves(axes, data[data["method"] == method], looks)
        axes.set_title(f"{method}\nn = {n}")
    panels[0].set_ylabel("PRR")
    panels[1].set_xlabel("Number of candidates M")
    figure_style.legend(figure, panels[0], 2)
    return figure


def draw_entropy(title: str, note: str, data: pd.DataFrame, n: int) -> matplotlib.figure.Figure:
    """Three series in one panel, the legend beside it."""
    figure = figure_style.canvas(2.3, title, note)
    axes, beside = figure.subplots(1, 2, width_ratios=[3, 2])
    draw_curves(axes, data, ENTROPY_STYLES)
    axes.set_xlabel("Number of candidates M")
    axes.set_ylabel("PRR")
    beside.set_axis_off()
    beside.legend(*axes.get_legend_handles_labels(), loc="center left", title=f"n = {n}", alignment="left")
    return figure


def draw_panels(
    title: str, note: str, data: pd.DataFrame, panels: list[tuple[str, str, str]]
) -> matplotlib.figure.Figure:
    """A panel a cell: model, dataset and title of each."""
    across = 3 if len(panels) == 3 else 2
    rows = -(-len(panels) // across)
    figure = figure_style.canvas(1.9 * rows, title, note, legend_rows=1)
    grid_of_axes = figure.subplots(rows, across, sharex=True, squeeze=False)
    for axes in grid_of_axes.flat[len(panels) :]:
        axes.set_axis_off()
    looks = {(ACROSS_DATA_METHOD, variant): look for variant, look in BOTH.items()}
    for axes, (model, dataset, name) in zip(grid_of_axes.flat, panels, strict=False):
        part = data[(data["model"] == model) & (data["dataset"] == dataset)]
        draw_curves(axes, part, looks)
        axes.set_title(f"{name}\nn = {part['n'].iloc[0]}", parse_math=False)
        axes.tick_params(labelbottom=True)
    for axes in grid_of_axes[:, 0]:
        axes.set_ylabel("PRR")
    for axes in grid_of_axes[-1]:
        axes.set_xlabel("Number of candidates M")
    figure_style.legend(figure, grid_of_axes[0, 0], 2)
    return figure
