"""Beam minus multinomial, paired: the tests that the paper leaves out, in declared families.

The replicates of a cell share their resamples (of stories, where questions come in stories), so the
difference is paired and clustered. The headline family is the mean over datasets, corrected by
Holm; the cells are corrected by Benjamini and Hochberg. A declared test that was not run counts as
the least significant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation.estimates import MEAN, TIE, Estimates, joined
from beamuq.evaluation.holm_and_benjamini_hochberg import benjamini_hochberg, holm
from beamuq_study import grid
from beamuq_study.comparison.comparison_inputs import ComparisonInputs, ComparisonRules
from beamuq_study.exhibits import captions, figure_style
from beamuq_study.exhibits.exhibit import EVALUATION, Built, Exhibit
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.table_of_numbers import records
from beamuq_study.grid import Cell

LABEL = "paired"
ROW = 0.15  # inches a row
TITLE_ROW = ""  # in place of a dataset: the row that names a model
HEADLINE = "headline"
CELLS = "cells"
PLACE = ["model", "dataset", "method"]
NUMBERS = [OVER_BEAMS, OVER_SAMPLES, "difference", "low", "high", "std", "p"]
MEASURED = [*PLACE, *NUMBERS, "n", "resamples", "note"]
COLUMNS = ["family", *PLACE, *NUMBERS, "adjusted", "significant", "n", "resamples", "note"]
PlaceOfTest = tuple[str, str, str]  # by PLACE
LOOKS = figure_style.looks("forest")
LEAST_WIDTH = 0.02  # of the axis of differences in PRR: rounding is not drawn large


@dataclass(frozen=True)
class Families:
    """The tests that are declared: of every method on every dataset of every model, and on means.

    ``datasets``: by model, of all models of the families; ``tested``: those that the table shows.
    """

    methods: Sequence[str]
    datasets: dict[str, list[str]]
    tested: list[str]

    @property
    def sizes(self) -> dict[str, int]:
        """How many tests each family has, run or not."""
        cell_count = sum(len(datasets) for datasets in self.datasets.values())
        return {
            HEADLINE: len(self.methods) * len(self.datasets),
            CELLS: len(self.methods) * cell_count,
        }

    @property
    def tests(self) -> pd.DataFrame:
        """``PLACE`` of the tests shown: of a model and method the mean, then its datasets."""
        places = [
            (model, dataset, method)
            for model in self.tested
            for method in self.methods
            for dataset in (MEAN, *self.datasets[model])
        ]
        return pd.DataFrame(places, columns=PLACE)

    def datasets_of(self, model: str, dataset: str) -> list[str]:
        """Those that a test rests on."""
        return self.datasets[model] if dataset == MEAN else [dataset]

    def mean_is_over_fewer(self, model: str) -> bool:
        """Whether the mean of a model leaves out datasets that another model has."""
        all_datasets = {name for datasets in self.datasets.values() for name in datasets}
        return len(self.datasets[model]) < len(all_datasets)


def differences(results: ComparisonInputs) -> pd.DataFrame:
    """Every test of both families; ``note``: why one could not be made, what a mean leaves out.

    Tested are the paper's models where the study runs any, else its own. Of the paper's a family
    does not shrink: its datasets are the declared ones, whichever the study has.
    """
    families = _families(results)
    measured = _measured(results, families.tested)
    frame = families.tests.merge(measured, how="left", on=PLACE)
    run = frame.loc[frame["n"].notna(), PLACE]
    notes = _notes(families, frame, set(run.itertuples(index=False, name=None)))
    frame["note"] = [note.text for note in notes]
    not_run = np.array([note.is_not_run for note in notes], dtype=bool)  # of none, too
    undefined = not_run | frame["difference"].isna().to_numpy()
    frame.loc[undefined, NUMBERS] = np.nan
    frame.loc[undefined, ["n", "resamples"]] = 0
    frame["family"] = np.where(frame["dataset"] == MEAN, HEADLINE, CELLS)
    frame["adjusted"] = _adjusted(frame, families)
    significant = frame["adjusted"] < results.rules.families.level
    return frame.assign(significant=significant)[COLUMNS].astype({"n": int, "resamples": int})


def _families(results: ComparisonInputs) -> Families:
    study = results.study
    paper = results.rules.paper
    methods = results.rules.families.methods
    of_grid = grid.by_model(grid.recipe_cells(study, study.main.recipe, None))
    tested = [model for model in paper.models if model in of_grid]
    if tested:
        return Families(methods, {model: list(paper.datasets) for model in paper.models}, tested)
    own = {model: [cell.dataset for cell in of_model] for model, of_model in of_grid.items()}
    return Families(methods, own, list(own))


@dataclass(frozen=True)
class Note:
    """What is said of a test."""

    text: str
    is_not_run: bool


def _notes(families: Families, frame: pd.DataFrame, run: Collection[PlaceOfTest]) -> list[Note]:
    """Of each test on which datasets it was not run, else what its measurement says.

    A mean over fewer datasets than another model's names them. ``run``: the tests that were.
    """
    notes = []
    for model, dataset, method, measured_note in frame[[*PLACE, "note"]].to_numpy():
        datasets = families.datasets_of(model, dataset)
        not_run = [name for name in datasets if (model, name, method) not in run]
        parts = [f"not run: {', '.join(not_run)}" if not_run else measured_note]
        if dataset == MEAN and families.mean_is_over_fewer(model):
            parts.insert(0, f"of {', '.join(datasets)} alone")
        notes.append(Note("; ".join(filter(None, parts)), bool(not_run)))
    return notes


def _adjusted(frame: pd.DataFrame, families: Families) -> pd.Series[float]:
    """The p of each test, corrected within its family: a test that was not run counts."""
    adjusted = pd.Series(np.nan, frame.index)
    for family, correct in ((HEADLINE, holm), (CELLS, benjamini_hochberg)):
        p = frame.loc[frame["family"] == family, "p"]
        adjusted[p.index] = correct(p.to_numpy(np.float64), families.sizes[family])
    return adjusted


def _measured(results: ComparisonInputs, models: Sequence[str]) -> pd.DataFrame:
    """Uncorrected differences of each cell that was run, and of the mean over a model's cells."""
    run = [cell for cell in _run_cells(results) if cell.model in models]
    if not run:
        return pd.DataFrame(columns=MEASURED)
    beams = _of_form(results, run, OVER_BEAMS)
    samples = _of_form(results, run, OVER_SAMPLES)
    gains = beams.minus(samples, on=PLACE)
    places = gains.frame[PLACE]
    all_gains = _with_means(gains)
    summary = all_gains.summary(results.study.evaluation.confidence)
    forms = {
        OVER_BEAMS: _with_means(beams.at(places)).frame["value"],
        OVER_SAMPLES: _with_means(samples.at(places)).frame["value"],
    }
    values = summary.rename(columns={"value": "difference"}).assign(
        p=all_gains.p(), resamples=all_gains.replicates.shape[1], **forms
    )
    return values.assign(note=_notes_of_means(values, gains))[MEASURED]


def _of_form(results: ComparisonInputs, run: Sequence[Cell], variant: str) -> Estimates:
    """What the families compare of one variant of the methods."""
    families = results.rules.families
    return results.estimates(
        run,
        metric=families.metric,
        method=families.methods,
        setting="",
        answer_source="greedy",
        variant=variant,
    )


def _with_means(estimates: Estimates) -> Estimates:
    return joined([estimates, estimates.mean_over_datasets()])


def _notes_of_means(values: pd.DataFrame, gains: Estimates) -> pd.Series[str]:
    """The notes, and of means the datasets that they leave out."""
    too_empty = gains.frame[gains.too_empty].groupby(["model", "method"])["dataset"]
    left_out = too_empty.agg(", ".join).rename("left_out")
    is_mean = (values["dataset"] == MEAN) & values["difference"].notna()
    datasets = values.join(left_out, on=["model", "method"])["left_out"].where(is_mean)
    notes = "without " + datasets + ", where more than a fifth of the answers are empty"
    return notes.fillna(values["note"])


def tally(frame: pd.DataFrame, family: str) -> dict[str, Any]:
    """Wins, ties and losses of beams in a family, how many are significant, and the worst test."""
    tests = frame[frame["family"] == family]
    run = tests[tests["difference"].notna()]
    wins = run["difference"] > TIE
    losses = run["difference"] < -TIE
    counts = {
        "tests": len(tests),
        "run": len(run),
        "wins": int(wins.sum()),
        "ties": int((~wins & ~losses).sum()),
        "losses": int(losses.sum()),
        "significant_wins": int((run["significant"] & wins).sum()),
        "significant_losses": int((run["significant"] & losses).sum()),
    }
    if run.empty:
        return counts | {"worst": "", "worst_difference": None}
    worst = run.iloc[int(run["difference"].argmin())]
    name = f"{worst['method']} {worst['model']} {worst['dataset']}"
    return counts | {"worst": name, "worst_difference": float(worst["difference"])}


def resamples_sentence(frame: pd.DataFrame, rules: ComparisonRules) -> str:
    """How many resamples the p values rest on, and how small they can therefore be."""
    fewest = frame["resamples"][frame["resamples"] > 0].min()
    if np.isnan(fewest):
        return "No test was run."
    declared = rules.families.resamples
    advice = ""
    if fewest < declared:
        advice = f", {declared:,} were declared: set evaluation.resamples to that"
    return f"{fewest:,} resamples{advice}; the smallest p is {2 / (fewest + 1):.1e}."


def figure(results: ComparisonInputs, frame: pd.DataFrame) -> Built:
    """The forest plot of all tests: a panel a method."""
    study = results.study
    titles = {name: model.title for name, model in study.models.items()}
    titles |= {name: dataset.title for name, dataset in study.datasets.items()}
    methods = {method: captions.method_short(method) for method in dict.fromkeys(frame["method"])}
    row_count = len(frame[["model", "dataset"]].drop_duplicates()) + frame["model"].nunique()
    layout = figure_style.Layout(
        ("Difference", ""),
        titles=methods,
        height=0.75 + ROW * row_count,
        across=len(methods) or 1,
    )
    draw = partial(draw_forest, titles=titles)
    facts = _caption_facts(results, frame)
    shown = figure_style.figure(study, frame, ["method"], "{method}", draw, facts, layout)
    exhibit = Exhibit(LABEL, "figure", lambda _: _run_cells(results), EVALUATION, lambda *_: shown)
    return exhibit.built(study, results.inputs)


def _caption_facts(results: ComparisonInputs, frame: pd.DataFrame) -> dict[str, Any]:
    """What fills the caption."""
    counts_of_means = tally(frame, HEADLINE)
    counts_of_cells = tally(frame, CELLS)
    run = frame[(frame["family"] == CELLS) & (frame["n"] > 0)]
    worst = ""
    if not run.empty:
        difference = counts_of_cells["worst_difference"]
        worst = f"Worst cell: {counts_of_cells['worst']} ({difference:+.3f})."
    return {
        **{f"means_{name}": count for name, count in counts_of_means.items()},
        **{f"cells_{name}": count for name, count in counts_of_cells.items()},
        **captions.question_facts(results.study, run),
        "level": f"{100 * results.rules.families.level:g} %",
        "worst": worst,
        "resampled": resamples_sentence(frame, results.rules),
    }


def _run_cells(results: ComparisonInputs) -> list[Cell]:
    """The cells of the main recipe that were run, where it has any method of the families."""
    study = results.study
    recipe = study.main.recipe
    tested = set(results.rules.families.methods).intersection(study.scoring[recipe].methods)
    if not tested:
        return []
    main_cells = grid.recipe_cells(study, recipe)
    return [cell for cell in main_cells if not results.lacking([cell], *EVALUATION)]


def draw_forest(
    data: pd.DataFrame, ax: figure_style.Axes, titles: Mapping[str, str] | None = None
) -> None:
    """Differences with their intervals, a row a dataset within a model; the mean last, a diamond.

    ``data``: columns ``model``, ``dataset`` ("mean": the mean), ``difference`` (NaN: n/a), ``low``,
    ``high`` (NaN: none) and ``significant``, which fills the marker. ``titles``: what models and
    datasets are called. The axis is at least ``LEAST_WIDTH`` wide; differences within 1e-12 of 0
    are ties.
    """
    rows = _rows_of_forest(data)
    ax.axvline(0, color=figure_style.GREY, linewidth=0.8)
    for look in LOOKS.values():
        ax.plot([], [], look.marker, color=look.colour, markersize=look.size, label=look.title)
    for row in records(data):
        _draw_difference(row, -rows.index((row["model"], row["dataset"])), ax)
    ax.update_datalim([(-LEAST_WIDTH / 2, 0), (LEAST_WIDTH / 2, 0)])
    ax.autoscale_view()
    _name_rows(rows, {MEAN: "Mean"} | dict(titles or {}), ax)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=3)
    ax.set_ylim(-len(rows) + 0.2, 0.8)


def _rows_of_forest(data: pd.DataFrame) -> list[tuple[str, str]]:
    """Each model's title, the datasets that it has, in the order of all, and its mean."""
    order = [name for name in dict.fromkeys(data["dataset"]) if name != MEAN]
    rows = []
    for model, of_model in data.groupby("model", sort=False):
        own = set(of_model["dataset"])
        datasets = [dataset for dataset in order if dataset in own]
        rows += [(str(model), dataset) for dataset in (TITLE_ROW, *datasets, MEAN)]
    return rows


def _draw_difference(row: Mapping[str, Any], y: int, ax: figure_style.Axes) -> None:
    difference = row["difference"]
    if np.isnan(difference):
        ax.text(0, y, "n/a", ha="center", va="center", color=figure_style.GREY)
        return
    look = LOOKS[_kind(row["dataset"], difference)]
    ax.plot(
        [row["low"], row["high"]],
        [y, y],
        color=look.colour,
        linewidth=0.9,
        solid_capstyle="butt",
    )
    ax.plot(
        difference,
        y,
        look.marker,
        color=look.colour,
        markersize=look.size,
        mfc=look.colour if row["significant"] else "white",
        mew=0.8,
    )


def _name_rows(
    rows: Sequence[tuple[str, str]], titles: Mapping[str, str], ax: figure_style.Axes
) -> None:
    """Models in bold above their datasets."""
    names = [model if dataset == TITLE_ROW else dataset for model, dataset in rows]
    ax.set_yticks(
        [-place for place in range(len(rows))], [titles.get(name, name) for name in names]
    )
    for label, (_, dataset) in zip(ax.get_yticklabels(), rows, strict=False):
        label.set_fontweight("bold" if dataset == TITLE_ROW else "normal")
    ax.tick_params(axis="y", length=0)


def _kind(dataset: str, difference: float) -> str:
    """Which look a difference has."""
    if dataset == MEAN:
        return "mean"
    if abs(difference) <= TIE:
        return "tie"
    return "beams better" if difference > 0 else "samples better"
