"""Tables of estimators of U: how far they are off, what controls say, and what luck of the draw does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from beamuq import strategy_names
from beamuq.evaluation.estimates import MEAN, TIE, Estimates, joined
from beamuq.evaluation.estimators_of_u import METHOD, OF_U, Estimator, EstimatorsOfCell, U, samples
from beamuq.evaluation.rank_correlations import partial_spearman
from beamuq.exhibits import captions, cells
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import Column, Layout, Row, Value, table, table_facts, undefined, with_mean
from beamuq.exhibits.estimators import READS, cells_with_exact_value, compared_sizes, estimators, facts, read
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Table, TableCell
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.number_format import decimal
from beamuq.study_config import Study

GAIN, PARTIAL, PROB, BEAMS = "ΔPRR", "partial rank correlation", "Prob", "beams: p and s"
EFFORT = ("candidates", "distinct texts", "rows", "passes")


# -- estimators --------------------------------------------------------------------------------------------------------


def estimators_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a model: U itself, then a row an estimator and M; ΔPRR is against samples at the same M."""
    recipe = chosen[0].recipe
    listed = estimators(study, recipe, compared_sizes(study, recipe))
    of_cells = [read(study, inputs, cell) for cell in chosen]
    each = joined([part for cell in of_cells for part in (cell.prr(None), *_rows_of_cell(cell, listed))])
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
        body.append(Row(("", U), place | {"variant": U}, study.models[model].title))
        for of in listed:
            keys = place | {"variant": of.weighting, "setting": of.setting}
            body.append(Row((str(of.M), of.title), keys, study.models[model].title))
    columns = [_column("unbiased", "Unbiased", show=lambda row: TableCell("yes" if row["value"] else "no"))]
    columns += [_column(name, name.capitalize(), show=_count) for name in EFFORT]
    columns += [_column("bias", "Bias"), _column("RMSE ratio", "RMSE ÷"), _column("Spearman with U", "Spearman")]
    columns += [_column("PRR", "PRR"), _column(GAIN, GAIN, style="signed", beside="interval")]
    layout = Layout(
        joined([every, *gains]), ("M", "Estimator"), body, columns, family=("model",), bold="holm", further=[each]
    )
    return table(study, layout, facts(study, of_cells) | {"of": name})


def _rows_of_cell(cell: EstimatorsOfCell, listed: Sequence[Estimator]) -> list[Estimates]:
    """Every number of every estimator in a cell, ΔPRR apart."""
    rows = []
    for estimator in listed:
        keys = {"variant": estimator.weighting, "setting": estimator.setting}
        effort = {"unbiased": float(estimator.unbiased)} | cell.effort(estimator)
        rows += [cell.estimate(name, value, value, "not told by its file", **keys) for name, value in effort.items()]
        rows += [cell.bias(estimator, **keys), cell.error_ratio(estimator, **keys)]
        rows += [cell.rank_correlation(estimator, **keys), cell.prr(estimator)]
    return rows


def _column(metric: str, title: str, **more: Any) -> Column:
    return Column({"metric": metric, "method": METHOD}, (title,), **more)


def _count(row: Value) -> TableCell:
    return undefined(row["note"]) if np.isnan(row["value"]) else TableCell(decimal(row["value"], 1))


# -- controls ----------------------------------------------------------------------------------------------------------


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's: a row a score, its PRR, ΔPRR and partial correlation."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    each = joined([_controls_of_cell(study, cell) for cell in of_cells])
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
    layout = Layout(estimates, ("Score",), body, columns, family=("model", "dataset"), bold="holm")
    return table(study, layout, facts(study, of_cells))


def _controls_of_cell(study: Study, cell: EstimatorsOfCell) -> Estimates:
    """PRR and the partial correlation of every row of a cell."""
    M, beam = study.main.num_candidates, study.main.beam
    rows: Mapping[str, tuple[str, Sequence[str]]] = {
        BEAMS: ("normalised", [beam]),
        "beams: s without p": ("uniform", [beam]),
        "beams: p without s": ("match", [beam]),
        "samples: s": ("uniform", cell.settings(samples(study.main.sample, M))),
        "samples: without s": ("match", cell.settings(samples(study.main.sample, M, "match"))),
        U: (OF_U, [cell.exact]),
    }
    prob = cell.scores.scores(PROB, "")
    counts = np.column_stack([np.ones(cell.n, dtype=np.int64), cell.counts])
    parts = [cell.prr_at("", [""], PROB).assign(variant=PROB)]
    for name, (variant, settings) in rows.items():
        parts.append(cell.prr_at(variant, settings).assign(variant=name, setting=""))
        scores = [-cell.scores.scores(METHOD, variant, setting) for setting in settings]
        drawn = np.mean([partial_spearman(of, cell.scores.quality, -prob, counts) for of in scores], axis=0)
        parts.append(cell.estimate(PARTIAL, drawn[0], drawn[1:], "undefined: ranks that are all equal", variant=name))
    return joined(parts)


# -- draws -------------------------------------------------------------------------------------------------------------


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples at least."""
    pools = [
        each.recipe
        for each in study.grid
        if draws(study, each.recipe) and study.recipes[each.recipe].decoded(study.main.beam)
    ]
    needs = f"with {study.main.beam!r}, two draws of samples at least and, among its estimators, 'uniform sample'"
    cells.first_recipe(study, pools.__contains__, needs)
    chosen = (cell for recipe in dict.fromkeys(pools) for cell in cells.recipe_cells(study, recipe))
    return sorted(chosen, key=lambda cell: list(study.models).index(cell.model))


def draws(study: Study, recipe: str) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples that are scored; 0: not two."""
    of, M = study.recipes[recipe], study.main.num_candidates
    scored = "uniform sample" in study.scoring[recipe].estimators and study.main.sample in of.samples()
    return of.sample.size // M if scored and of.sample and of.sample.size >= 2 * M else 0


def draw_spread_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the first draw, mean, spread and range over draws, and beams."""
    each = joined([spread_of_draws(study, inputs, cell) for cell in chosen])
    body = []
    for cell in chosen:
        n = each.where(model=cell.model, dataset=cell.dataset, recipe=cell.recipe).frame["n"].iloc[0]
        keys = {"model": cell.model, "dataset": cell.dataset, "method": METHOD, "setting": cell.recipe}
        titles = study.datasets[cell.dataset].title, cell.recipe, str(n)
        body.append(Row(titles, keys, study.models[cell.model].title))
    spread = {"first": "First draw", "mean": "Mean", "sd": "SD", "lowest": "Lowest", "highest": "Highest"}
    columns = [Column({"metric": "PRR", "setting": name}, (title,)) for name, title in spread.items()]
    columns += [
        Column({"metric": "PRR", "setting": "beams"}, ("Beams",)),
        Column({"metric": "PRR", "setting": "beams - mean"}, ("Beams − mean",), "signed", "interval"),
        Column({"metric": "PRR", "setting": "beaten"}, ("Below beams",), digits=0),
    ]
    layout = Layout(each, ("Dataset", "Recipe", "n"), body, columns, further=[each])
    counts = captions.listing([str(count) for count in sorted({draws(study, cell.recipe) for cell in chosen})])
    return table(study, layout, table_facts(study, each) | {"draws": counts})


def spread_of_draws(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """PRR of each draw, and over them: mean, standard deviation (n − 1), range, how many are strictly below beams."""
    found = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all", method=METHOD)
    M, sample = study.main.num_candidates, study.main.sample
    settings = [strategy_names.samples_of(sample, M, draw + 1) for draw in range(draws(study, cell.recipe))]
    of_draws = found.where(variant="uniform", setting=settings)
    ours = found.where(variant=captions.BEAMSEARCH, setting="").assign(setting="beams")
    mean = of_draws.mean_over_draws("mean")
    values, value = of_draws.frame["value"].to_numpy(), float(ours.frame["value"].iloc[0])
    numbers = {"sd": values.std(ddof=1), "lowest": values.min(), "highest": values.max()}
    numbers |= {"beaten": np.where(np.isnan(value) | np.isnan(values).any(), np.nan, np.sum(value > values + TIE))}
    of_mean = {str(key): of for key, of in mean.frame.iloc[0].items()}
    known = [of_mean | {"setting": name, "value": float(of)} for name, of in numbers.items()]
    parts = [of_draws, of_draws.rows([0]).assign(setting="first"), mean, ours]
    parts += [ours.combined(mean, np.subtract).assign(setting="beams - mean")]
    parts += [Estimates.made(known, [np.full(mean.replicates.shape[1], row["value"]) for row in known])]
    each = joined(parts).assign(variant="")
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
