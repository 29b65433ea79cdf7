"""Beam minus multinomial, paired: the tests that the paper leaves out, in the families declared
before any run.

The replicates of a cell share their resamples (of stories, where questions come in stories), so the
difference is paired and clustered. The headline family is the mean over datasets, corrected by
Holm; the cells are corrected by Benjamini and Hochberg. A declared test that was not run counts as
the least significant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation.estimates import MEAN, TIE, joined
from beamuq.evaluation.holm_and_benjamini_hochberg import benjamini_hochberg, holm
from beamuq_study import grid
from beamuq_study.comparison.comparison_inputs import ComparisonInputs, ComparisonRules
from beamuq_study.exhibits import captions, figure_style
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.estimates_table import records
from beamuq_study.exhibits.exhibit import EVALUATION, Built, Exhibit
from beamuq_study.grid import Cell

LABEL, ROW = "paired", 0.15  # inches a row
HEADLINE, CELLS = "headline", "cells"
PLACE = ["model", "dataset", "method"]
NUMBERS = [BEAMSEARCH, MULTINOMIAL, "difference", "low", "high", "std", "p"]
MEASURED = [*PLACE, *NUMBERS, "n", "resamples", "note"]
COLUMNS = ["family", *PLACE, *NUMBERS, "adjusted", "significant", "n", "resamples", "note"]
LOOKS = figure_style.looks("forest")
LEAST_WIDTH = 0.02  # of the axis of differences in PRR: rounding is not drawn large


def differences(results: ComparisonInputs) -> pd.DataFrame:
    """Every test of both families; ``note`` says why one could not be made, and what a mean leaves
    out.

    Tested are the paper's models where the study runs any, else its own. Of the paper's a family
    does not shrink: its datasets are the declared ones, whichever the study has.
    """
    study, rules, families = results.study, results.rules, results.rules.families
    run = grid.by_model(grid.recipe_cells(study, study.main.recipe, None))
    declared = {model: list(rules.paper.datasets) for model in rules.paper.models}
    if not (tested := [model for model in declared if model in run]):
        declared = {model: [cell.dataset for cell in of_model] for model, of_model in run.items()}
        tested = list(run)
    names = [
        (m, d, method)
        for m in tested
        for method in families["methods"]
        for d in (MEAN, *declared[m])
    ]
    frame = pd.DataFrame(names, columns=PLACE).merge(
        _measured(results, tested), how="left", on=PLACE
    )
    there = set(frame.loc[frame["n"].notna(), PLACE].itertuples(index=False, name=None))
    most = len({dataset for datasets in declared.values() for dataset in datasets})
    for row, (model, dataset, method) in enumerate(names):
        datasets = declared[model] if dataset == MEAN else [dataset]
        lacking = [of for of in datasets if (model, of, method) not in there]
        alone = (
            f"of {', '.join(datasets)} alone" if dataset == MEAN and len(datasets) < most else ""
        )
        note = f"not run: {', '.join(lacking)}" if lacking else frame["note"][row]
        frame.loc[row, "note"] = "; ".join(filter(None, (alone, note)))
        if lacking or np.isnan(frame["difference"][row]):
            frame.loc[row, [*NUMBERS, "n", "resamples"]] = [*[np.nan] * len(NUMBERS), 0, 0]
    frame["family"] = np.where(frame["dataset"] == MEAN, HEADLINE, CELLS)
    sizes = {HEADLINE: len(declared), CELLS: sum(map(len, declared.values()))}
    for family, correct in ((HEADLINE, holm), (CELLS, benjamini_hochberg)):
        p = frame.loc[frame["family"] == family, "p"]
        frame.loc[p.index, "adjusted"] = correct(
            p.to_numpy(np.float64), sizes[family] * len(families["methods"])
        )
    return frame.assign(significant=frame["adjusted"] < families["level"])[COLUMNS].astype(
        {"n": int, "resamples": int}
    )


def _measured(results: ComparisonInputs, models: Sequence[str]) -> pd.DataFrame:
    """Uncorrected differences of each cell that was run, and of the mean over a model's cells."""
    study, families = results.study, results.rules.families
    if not (run := [cell for cell in _run(results) if cell.model in models]):
        return pd.DataFrame(columns=MEASURED)
    of = {
        "metric": families["metric"],
        "method": families["methods"],
        "setting": "",
        "answer_source": "greedy",
    }
    beams = results.estimates(run, **of, variant=BEAMSEARCH)
    samples = results.estimates(run, **of, variant=MULTINOMIAL)
    each = beams.minus(samples, on=PLACE)
    triple = each, beams.at(each.frame[PLACE]), samples.at(each.frame[PLACE])
    gain, beam, sample = (joined([part, part.mean_over_datasets()]) for part in triple)
    forms = {BEAMSEARCH: beam.frame["value"], MULTINOMIAL: sample.frame["value"]}
    values = gain.summary(study.evaluation.confidence).rename(columns={"value": "difference"})
    values = values.assign(p=gain.p(), resamples=gain.replicates.shape[1], **forms)
    full = (
        each.frame[each.too_empty]
        .groupby(["model", "method"])["dataset"]
        .agg(", ".join)
        .rename("full")
    )
    of_means = (values["dataset"] == MEAN) & values["difference"].notna()
    without = "without " + values.join(full, on=["model", "method"])["full"].where(of_means)
    without += ", where more than a fifth of the answers are empty"
    return values.assign(note=without.fillna(values["note"]))[MEASURED]


def tally(frame: pd.DataFrame, family: str) -> dict[str, Any]:
    """Wins, ties and losses of beams in a family, how many of them significant, and the worst
    test.
    """
    every = frame[frame["family"] == family]
    part = every[every["difference"].notna()]
    wins, losses, clear = part["difference"] > TIE, part["difference"] < -TIE, part["significant"]
    marked = {"wins": wins, "ties": ~wins & ~losses, "losses": losses}
    marked |= {"significant_wins": clear & wins, "significant_losses": clear & losses}
    counts: dict[str, Any] = {"tests": len(every), "run": len(part)}
    counts |= {name: int(of.sum()) for name, of in marked.items()}
    if part.empty:
        return counts | {"worst": "", "worst_difference": None}
    worst = part.iloc[int(part["difference"].argmin())]
    named = f"{worst['method']} {worst['model']} {worst['dataset']}"
    return counts | {"worst": named, "worst_difference": float(worst["difference"])}


def resamples_sentence(frame: pd.DataFrame, rules: ComparisonRules) -> str:
    """How many resamples the p values rest on, and how small they can therefore be."""
    fewest, declared = frame["resamples"][frame["resamples"] > 0].min(), rules.families["resamples"]
    if np.isnan(fewest):
        return "No test was run."
    few = (
        f", {declared:,} were declared: set evaluation.resamples to that"
        if fewest < declared
        else ""
    )
    return f"{fewest:,} resamples{few}; the smallest p is {2 / (fewest + 1):.1e}."


def figure(results: ComparisonInputs, frame: pd.DataFrame) -> Built:
    study, families = results.study, {"means": HEADLINE, "cells": CELLS}
    facts = {
        f"{name}_{count}": n
        for name, family in families.items()
        for count, n in tally(frame, family).items()
    }
    run = frame[(frame["family"] == CELLS) & (frame["n"] > 0)]
    worst = (
        ""
        if run.empty
        else f"Worst cell: {facts['cells_worst']} ({facts['cells_worst_difference']:+.3f})."
    )
    facts |= captions.question_facts(study, run) | {
        "level": f"{100 * results.rules.families['level']:g} %"
    }
    facts |= {"worst": worst, "resampled": resamples_sentence(frame, results.rules)}
    methods = {method: captions.method_short(method) for method in dict.fromkeys(frame["method"])}
    titles = {name: of.title for name, of in (study.models | study.datasets).items()}
    height = 0.75 + ROW * (
        len(frame[["model", "dataset"]].drop_duplicates()) + frame["model"].nunique()
    )
    draw, axes = partial(draw_forest, titles=titles), ("Difference", "")
    panels: dict[str, Any] = {"titles": methods, "height": height, "across": len(methods) or 1}
    shown = figure_style.figure(study, frame, ["method"], "{method}", draw, facts, axes, **panels)
    return Exhibit(LABEL, "figure", lambda _: _run(results), EVALUATION, lambda *_: shown).built(
        study, results.inputs
    )


def _run(results: ComparisonInputs) -> list[Cell]:
    study, recipe = results.study, results.study.main.recipe
    tested = set(results.rules.families["methods"]).intersection(study.scoring[recipe].methods)
    every = grid.recipe_cells(study, recipe) if tested else []
    return [cell for cell in every if not results.lacking([cell], *EVALUATION)]


def draw_forest(
    data: pd.DataFrame, ax: figure_style.Axes, titles: Mapping[str, str] | None = None
) -> None:
    """Differences with their intervals, a row a dataset within a model, the mean over datasets
    last, as a diamond.

    ``data``: columns ``model``, ``dataset`` ("mean": the mean), ``difference`` (NaN: n/a), ``low``,
    ``high`` (NaN: none) and ``significant``, which fills the marker. ``titles``: what models and
    datasets are called. The axis is at least ``LEAST_WIDTH`` wide; differences within 1e-12 of 0
    are ties.
    """
    names = {MEAN: "Mean"} | dict(titles or {})
    datasets = [*(of for of in dict.fromkeys(data["dataset"]) if of != MEAN), MEAN]
    rows = [(model, of) for model in dict.fromkeys(data["model"]) for of in ("", *datasets)]
    ax.axvline(0, color=figure_style.GREY, linewidth=0.8)
    for look in LOOKS.values():
        ax.plot([], [], look.marker, color=look.colour, markersize=look.size, label=look.title)
    for row in records(data):
        y, difference = -rows.index((row["model"], row["dataset"])), row["difference"]
        if np.isnan(difference):
            ax.text(0, y, "n/a", ha="center", va="center", color=figure_style.GREY)
            continue
        look = LOOKS[_kind(row["dataset"], difference)]
        filled = look.colour if row["significant"] else "white"
        ax.plot(
            [row["low"], row["high"]],
            [y, y],
            color=look.colour,
            linewidth=0.9,
            solid_capstyle="butt",
        )
        ax.plot(
            difference, y, look.marker, color=look.colour, markersize=look.size, mfc=filled, mew=0.8
        )
    ax.update_datalim([(-LEAST_WIDTH / 2, 0), (LEAST_WIDTH / 2, 0)])
    ax.autoscale_view()
    ax.set_yticks(
        [-place for place in range(len(rows))],
        [names.get(of or model, of or model) for model, of in rows],
    )
    for label, (_, of) in zip(ax.get_yticklabels(), rows, strict=False):
        label.set_fontweight("normal" if of else "bold")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=3)
    ax.set_ylim(-len(rows) + 0.2, 0.8)


def _kind(dataset: str, difference: float) -> str:
    """Which look a difference has."""
    if dataset == MEAN:
        return "mean"
    if abs(difference) <= TIE:
        return "tie"
    return "beams better" if difference > 0 else "samples better"
