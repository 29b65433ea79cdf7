"""Tables of estimators of U: how far they are off, what controls say, and what luck of the draw does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from beamuq import strategy_names
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.estimators_of_u import BEAMS, METHOD, PARTIAL, PROB, U, spread
from beamuq.exhibits import captions, cells
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import Column, Layout, Row, table, table_facts, with_mean
from beamuq.exhibits.estimators import READS, cells_with_exact_value, compared_sizes, estimators, facts, read
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Table
from beamuq.exhibits.inputs import Inputs
from beamuq.study_config import Study

GAIN = "ΔPRR"
EFFORT = ("candidates", "distinct texts", "rows", "passes")


# -- estimators --------------------------------------------------------------------------------------------------------


def estimators_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a model: U itself, then a row an estimator and M; ΔPRR is against samples at the same M."""
    recipe = chosen[0].recipe
    listed = estimators(study, recipe, compared_sizes(study, recipe))
    of_cells = [read(study, inputs, cell) for cell in chosen]
    each = joined([cell.numbers(listed) for cell in of_cells])
    every, dataset, name = with_mean(study, each)
    shown = every.where(dataset=dataset)
    sampled = {estimator.M: estimator for estimator in listed if estimator.title == "samples"}
    others = [estimator for estimator in listed if estimator.title != "samples" and estimator.M in sampled]
    body, gains = [], []
    for model in cells.by_model(chosen):
        place, prr = {"model": model, "dataset": dataset}, shown.where(model=model, metric="PRR")
        for of in others:
            own, reference = (prr.where(variant=e.weighting, setting=e.setting) for e in (of, sampled[of.M]))
            gains.append(own.combined(reference, np.subtract).assign(metric=GAIN))
        body.append(Row(("", U, ""), place | {"variant": U}, study.models[model].title))
        for of in listed:
            keys = place | {"variant": of.weighting, "setting": of.setting}
            titles = str(of.M), of.title, "yes" if of.unbiased else "no"
            body.append(Row(titles, keys, study.models[model].title))
    columns = [_column(name, name.capitalize(), digits=1) for name in EFFORT]
    columns += [_column("bias", "Bias"), _column("RMSE ratio", "RMSE ÷"), _column("Spearman with U", "Spearman")]
    columns += [_column("PRR", "PRR"), _column(GAIN, GAIN, style="signed", beside="interval")]
    layout = Layout(
        joined([every, *gains]),
        ("M", "Estimator", "Unbiased"),
        body,
        columns,
        family=("model",),
        further=[every.where(metric="unbiased"), each],
    )
    return table(study, layout, facts(study, of_cells) | {"of": name})


def _column(metric: str, title: str, **more: Any) -> Column:
    return Column({"metric": metric, "method": METHOD}, (title,), **more)


# -- controls ----------------------------------------------------------------------------------------------------------


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's: a row a score, its PRR, ΔPRR and partial correlation."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    each = joined([cell.controls(study.main.beam) for cell in of_cells])
    estimates, *_ = with_mean(study, each)
    gains = estimates.where(metric="PRR")
    reference = gains.frame.assign(variant=BEAMS, method=METHOD)[["model", "dataset", "method", "variant"]]
    gains = gains.combined(gains.at(reference), np.subtract).assign(metric=GAIN)
    estimates = joined([estimates, gains.rows(gains.frame["variant"] != BEAMS)])
    body = []
    for (model, dataset), rows in estimates.where(metric="PRR").frame.groupby(["model", "dataset"], sort=False):
        where = "mean over datasets" if dataset == MEAN else study.datasets[str(dataset)].title
        group = f"{study.models[str(model)].title}, {where}, n = {rows['n'].iloc[0]}"
        for variant, method in zip(rows["variant"], rows["method"], strict=True):
            keys = {"model": str(model), "dataset": str(dataset), "variant": variant, "method": method}
            body.append(Row((variant,), keys, group))
    columns = [
        Column({"metric": "PRR"}, ("PRR",), beside="interval"),
        Column({"metric": GAIN}, ("ΔPRR against beams",), "signed", "interval"),
        Column({"metric": PARTIAL}, ("Partial",), beside="interval"),
    ]
    layout = Layout(estimates, ("Score",), body, columns, family=("model", "dataset"))
    return table(study, layout, facts(study, of_cells))


# -- draws -------------------------------------------------------------------------------------------------------------


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples at least."""

    def has(recipe: str) -> bool:
        return bool(draws(study, recipe) and study.recipes[recipe].decoded(study.main.beam))

    needs = f"with {study.main.beam!r}, two draws of samples at least and, among its estimators, 'uniform sample'"
    pools = cells.recipes_with(study, has, needs)
    found = cells.by_model([cell for recipe in pools for cell in cells.recipe_cells(study, recipe)])
    return [cell for model in study.models for cell in found.get(model, [])]


def draws(study: Study, recipe: str) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples that are scored; 0: not two."""
    of, M = study.recipes[recipe], study.main.num_candidates
    scored = "uniform sample" in study.scoring[recipe].estimators and study.main.sample in of.samples()
    return of.sample.size // M if scored and of.sample and of.sample.size >= 2 * M else 0


def draw_spread_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the first draw, mean, spread and range over draws, and beams."""
    each = joined([_spread(study, inputs, cell) for cell in chosen])
    body = []
    for cell in chosen:
        n = each.where(model=cell.model, dataset=cell.dataset, recipe=cell.recipe).frame["n"].iloc[0]
        keys = {"model": cell.model, "dataset": cell.dataset, "method": METHOD, "setting": cell.recipe}
        titles = study.datasets[cell.dataset].title, cell.recipe, str(n)
        body.append(Row(titles, keys, study.models[cell.model].title))
    over = {"first": "First draw", "mean": "Mean", "sd": "SD", "lowest": "Lowest", "highest": "Highest"}
    columns = [Column({"metric": "PRR", "setting": name}, (title,)) for name, title in over.items()]
    columns += [
        Column({"metric": "PRR", "setting": "beams"}, ("Beams",)),
        Column({"metric": "PRR", "setting": "beams - mean"}, ("Beams − mean",), "signed", "interval"),
        Column({"metric": "PRR", "setting": "beaten"}, ("Below beams",), digits=0),
    ]
    layout = Layout(each, ("Dataset", "Recipe", "n"), body, columns, further=[each])
    counts = captions.listing([str(count) for count in sorted({draws(study, cell.recipe) for cell in chosen})])
    return table(study, layout, table_facts(study, each) | {"draws": counts})


def _spread(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """PRR of each draw of a cell, over them, and of its beams."""
    found = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all", method=METHOD)
    M, sample = study.main.num_candidates, study.main.sample
    settings = [strategy_names.samples_of(sample, M, draw + 1) for draw in range(draws(study, cell.recipe))]
    of_draws = found.where(variant="uniform", setting=settings)
    each = spread(of_draws, found.where(variant=captions.BEAMSEARCH, setting=""))
    return each.assign(setting=[f"{setting} {cell.recipe}" for setting in each.frame["setting"]])


def exhibits(study: Study) -> list[Exhibit]:
    """The tables of estimators, of all datasets and of each that knows U."""
    known = {dataset for each in study.grid if study.recipes[each.recipe].above for dataset in each.datasets}
    datasets = {"estimators": "", **{f"estimators_{name}": name for name in study.datasets if name in known}}
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    exact = partial(ours, reads=READS, build=estimators_table, template="estimators")
    made = [exact(label, cells=partial(cells_with_exact_value, dataset=of)) for label, of in datasets.items()]
    made.append(ours("controls", cells=_with_controls, reads=READS, build=controls_table))
    made.append(ours("draw_spread", cells=cells_with_draws, reads=EVALUATION, build=draw_spread_table))
    return made


def _with_controls(study: Study) -> list[Cell]:
    return cells_with_exact_value(study, "", "uniform beam", "match beam", "match sample", PROB, study.main.beam)
