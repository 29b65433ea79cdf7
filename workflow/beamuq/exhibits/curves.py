"""PRR against the number of candidates M: what the three figures of it share, and the two that show one cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import figure_style, study_grid, wording
from beamuq.exhibits.evaluation_values import Key, Measured, Measurements
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Figure
from beamuq.strategies import ablation
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MODEL, DATASET = "gemma-3-4b-base", "triviaqa"
COLUMNS = ["model", "dataset", "method", "variant", "M", "value", "low", "high", "n"]
Series = tuple[str, str]  # method, variant


def recipes(study: Study, methods: Sequence[str], dataset: str) -> dict[str, str]:
    """Model → the recipe that scores ``methods`` at several M on ``dataset``; base models first, in the study's order.

    Raises
    ------
    BeamUQError
        If there is none.
    """
    found = {
        model: recipe for model in study.models if (recipe := study_grid.budget_recipe(study, model, dataset, methods))
    }
    if not found:
        raise BeamUQError(
            f"needs {dataset} in a recipe that decodes {study.main.sample!r} and {study.main.beam!r} and whose scoring "
            f"has budgets with methods {', '.join(methods)} under scorer {study.main.scorer!r}; add one or drop the "
            "exhibit"
        )
    return dict(sorted(found.items(), key=lambda item: study.models[item[0]].style != "base"))


def row(model: str, dataset: str, series: Series, size: int, found: Measured) -> tuple[object, ...]:
    """One drawn point, in the order of ``COLUMNS``."""
    return (model, dataset, *series, size, found.value, found.low, found.high, found.n)


def needs(study: Study, series: Sequence[Series]) -> list[Artifact]:
    """The evaluation of the recipe that scores the series at every M, one model on TriviaQA."""
    found = recipes(study, list(dict.fromkeys(method for method, _ in series)), DATASET)
    model = study_grid.first_model(study, MODEL, lambda m: m in found)
    return [Artifact("evaluation", model=model, dataset=DATASET, recipe=found[model], scorer=study.main.scorer)]


def figure(
    label: str,
    study: Study,
    inputs: Inputs,
    series: Sequence[Series],
    *,
    what: str,
    shows: str,
    draw: Callable[[str, str, pd.DataFrame, int], matplotlib.figure.Figure],
    sentences: Sequence[str] = (),
) -> Figure:
    """Samples: the first M. Beams: a search of width M. ``draw`` takes title, footnote, data and n."""
    (need,) = needs(study, series)
    measurements = Measurements(study, inputs, need)
    data = pd.DataFrame(
        [
            row(need.model, DATASET, (method, variant), m, measurements[Key("PRR", method, variant, ablation("M", m))])
            for method, variant in series
            for m in sorted(study.scoring[need.recipe].budgets)
        ],
        columns=COLUMNS,
    )
    of, n = f"{study.datasets[DATASET].title}, {study.models[need.model].title}", int(data["n"].iloc[0])
    title = wording.titled(study, f"{what}, {of}")
    caption = wording.caption(
        study,
        [
            f"{shows} {of}, n = {n} questions.",
            *sentences,
            band_sentence(study, data),
            undefined_sentence(data),
            study_grid.shown_instead(study, [MODEL], [need.model]),
        ],
        scorers=[study.main.scorer],
        quality=True,
    )
    note = wording.footnote(study, [study.main.scorer], quality=True)
    return Figure(label, title, caption, data, lambda: draw(title, note, data, n))


def draw(axes: matplotlib.axes.Axes, data: pd.DataFrame, looks: Mapping[Series, figure_style.SeriesStyle]) -> None:
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


def undefined_sentence(data: pd.DataFrame) -> str:
    """Says so where points are missing."""
    missing = int(np.sum(data["value"].isna()))
    return f"{missing} of {len(data)} points are undefined and left out." if missing else ""


def band_sentence(study: Study, data: pd.DataFrame) -> str:
    """What the bands are, and where points have none (D13)."""
    places = []
    for (model, dataset), part in data.groupby(["model", "dataset"], sort=False):
        without = sorted(set(part[part["value"].notna() & part["low"].isna()]["M"]))
        at = "every M" if without == sorted(set(part["M"])) else f"M = {wording.listing([str(M) for M in without])}"
        places += [f"{study.datasets[str(dataset)].title}, {study.models[str(model)].title}, {at}"] if without else []
    missing = f" None where more than 1 % of resamples are undefined: {'; '.join(places)}." if places else ""
    return f"Bands: {figure_style.confidence(study)} bootstrap intervals over questions.{missing}"


BOTH = {variant: figure_style.VARIANTS[variant] for variant in (wording.MULTINOMIAL, wording.BEAMSEARCH)}
