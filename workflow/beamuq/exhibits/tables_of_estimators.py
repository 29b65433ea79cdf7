"""Tables of estimators of U: how far they are off, what controls say, and what luck of the draw does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from beamuq import strategy_names
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.estimators_of_u import BEAMS, METHOD, PARTIAL, PROB, U, spread
from beamuq.exhibits import captions, cells
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import Column, records, table, with_mean
from beamuq.exhibits.estimators import READS, cells_with_exact_value, compared_sizes, draws, estimators, read
from beamuq.exhibits.estimators import facts as facts_of
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Row, Table
from beamuq.exhibits.inputs import Inputs
from beamuq.study_config import Recipe, Scoring, Study

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
    body, gains = [], []
    for model in cells.by_model(chosen):
        title, place = study.models[model].title, {"model": model, "dataset": dataset}
        body.append(Row(("", U, ""), place | {"variant": U}, title))
        prr = shown.where(model=model, metric="PRR")
        for of in listed:
            keys = {"variant": of.weighting, "setting": of.setting}
            body.append(Row((str(of.M), of.title, "yes" if of.unbiased else "no"), place | keys, title))
            if of.title != "samples" and of.M in sampled:
                reference = prr.where(variant=sampled[of.M].weighting, setting=sampled[of.M].setting)
                gains.append(prr.where(**keys).combined(reference, np.subtract).assign(metric=GAIN))
    heads = {"bias": "Bias", "RMSE ratio": "RMSE ÷", "Spearman with U": "Spearman", "PRR": "PRR"}
    columns = [Column({"metric": name, "method": METHOD}, (name.capitalize(),), digits=1) for name in EFFORT]
    columns += [Column({"metric": metric, "method": METHOD}, (title,)) for metric, title in heads.items()]
    columns.append(Column({"metric": GAIN, "method": METHOD}, (GAIN,), "signed", "interval"))
    further, facts = (every.where(metric="unbiased"), each), facts_of(study, of_cells) | {"of": name}
    stub = ("M", "Estimator", "Unbiased")
    return table(study, joined([every, *gains]), stub, body, columns, family=("model",), further=further, **facts)


# -- controls ----------------------------------------------------------------------------------------------------------


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's: a row a score, its PRR, ΔPRR and partial correlation."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    estimates, *_ = with_mean(study, joined([cell.controls(study.main.beam) for cell in of_cells]))
    prr = estimates.where(metric="PRR")
    reference = prr.at(prr.frame[["model", "dataset"]].assign(variant=BEAMS))
    gains = prr.combined(reference, np.subtract).assign(metric=GAIN).rows(prr.frame["variant"] != BEAMS)
    body = []
    for (model, dataset), rows in prr.frame.groupby(["model", "dataset"], sort=False):
        where = "mean over datasets" if dataset == MEAN else study.datasets[str(dataset)].title
        group = f"{study.models[str(model)].title}, {where}, n = {rows['n'].iloc[0]}"
        for keys in records(rows[["model", "dataset", "variant", "method"]]):
            body.append(Row((keys["variant"],), keys, group))
    columns = [
        Column({"metric": "PRR"}, ("PRR",), beside="interval"),
        Column({"metric": GAIN}, ("ΔPRR against beams",), "signed", "interval"),
        Column({"metric": PARTIAL}, ("Partial",), beside="interval"),
    ]
    family, facts = ("model", "dataset"), facts_of(study, of_cells)
    return table(study, joined([estimates, gains]), ("Score",), body, columns, family=family, **facts)


# -- draws -------------------------------------------------------------------------------------------------------------


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples at least."""
    main = study.main

    def has(recipe: Recipe, scoring: Scoring) -> bool:
        scored = "uniform sample" in scoring.estimators and main.sample in recipe.samples()
        return scored and draws(study, recipe) > 1 and recipe.decoded(main.beam) is not None

    needs = f"with {main.beam!r}, two draws of samples at least and, among its estimators, 'uniform sample'"
    found = [cell for recipe in cells.recipes_with(study, has, needs) for cell in cells.recipe_cells(study, recipe)]
    return sorted(found, key=lambda cell: list(study.models).index(cell.model))


def draw_spread_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the first draw, mean, spread and range over draws, and beams."""
    parts, body, counts = [], [], set()
    for cell in chosen:
        counts.add(draws(study, study.recipes[cell.recipe]))
        parts.append(_spread(study, inputs, cell))
        keys = cell.place | {"method": METHOD, "setting": cell.recipe}
        titles = study.datasets[cell.dataset].title, cell.recipe, str(parts[-1].frame["n"].iloc[0])
        body.append(Row(titles, keys, study.models[cell.model].title))
    heads = {"first": "First draw", "mean": "Mean", "sd": "SD", "lowest": "Lowest", "highest": "Highest"}
    columns = [Column({"metric": "PRR", "setting": of}, (head,)) for of, head in (heads | {"beams": "Beams"}).items()]
    columns += [
        Column({"metric": "PRR", "setting": "beams - mean"}, ("Beams − mean",), "signed", "interval"),
        Column({"metric": "PRR", "setting": "beaten"}, ("Below beams",), digits=0),
    ]
    each, told = joined(parts), captions.listing(list(map(str, sorted(counts))))
    return table(study, each, ("Dataset", "Recipe", "n"), body, columns, further=[each], draws=told)


def _spread(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """PRR of each draw of a cell, over them, and of its beams."""
    found = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all", method=METHOD)
    M, count = study.main.num_candidates, draws(study, study.recipes[cell.recipe])
    settings = [strategy_names.samples_of(study.main.sample, M, draw + 1) for draw in range(count)]
    of_draws = found.where(variant="uniform", setting=settings)
    each = spread(of_draws, found.where(variant=captions.BEAMSEARCH, setting=""))
    return each.assign(setting=[f"{setting} {cell.recipe}" for setting in each.frame["setting"]])


def exhibits(study: Study) -> list[Exhibit]:
    """The tables of estimators, of all datasets and of each that knows U."""
    known = {dataset for each in study.grid if study.recipes[each.recipe].above for dataset in each.datasets}
    datasets = {"estimators": "", **{f"estimators_{name}": name for name in study.datasets if name in known}}
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    exact = partial(ours, reads=READS, build=estimators_table, template="estimators")
    return [
        *(exact(label, cells=partial(cells_with_exact_value, dataset=of)) for label, of in datasets.items()),
        ours("controls", cells=_with_controls, reads=READS, build=controls_table),
        ours("draw_spread", cells=cells_with_draws, reads=EVALUATION, build=draw_spread_table),
    ]


def _with_controls(study: Study) -> list[Cell]:
    return cells_with_exact_value(study, "", "uniform beam", "match beam", "match sample", PROB, study.main.beam)
