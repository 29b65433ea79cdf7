"""Tables of U: how far its estimators are off, what controls say, and luck of the draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import methodcaller

import numpy as np

from beamuq import strategy_names
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq_study import errors_where_u_is_known, grid
from beamuq_study.errors_where_u_is_known import METHOD, TRUE_DISSIMILARITY, Estimator
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import (
    CANDIDATES,
    EVALUATION,
    SCORES,
    Exhibit,
    Row,
    Table,
)
from beamuq_study.exhibits.method_groups import OVER_BEAMS
from beamuq_study.exhibits.numbers_of_cells import with_mean
from beamuq_study.exhibits.table_of_numbers import Column, Keys, records, table
from beamuq_study.exhibits.true_dissimilarity import (
    PLACE,
    estimators,
    measured_in_cells,
    sizes_in,
    with_exact_value,
)
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

DELTA = "ΔPRR"
EFFORT = ("candidates", "distinct texts", "rows", "passes")
QUALITY_HEADS = {
    "bias": "Bias",
    "RMSE ratio": "RMSE ÷",
    "Spearman with U": "Spearman",
    "PRR": "PRR",
}
SPREAD_HEADS = {
    "first": "First draw",
    "mean": "Mean",
    "sd": "SD",
    "lowest": "Lowest",
    "highest": "Highest",
    "beams": "Beams",
}
CONTROLS = ("uniform beam", "match beam", "match sample")

# -- estimators ------------------------------------------------------------------------------------


def estimators_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block per model: the true dissimilarity, then a row per estimator and M.

    ΔPRR is against samples at that M.
    """
    recipe = chosen[0].recipe
    listed = estimators(study, recipe, _sizes_of_estimators(study, recipe))
    numbers, facts = measured_in_cells(study, inputs, chosen, methodcaller("numbers", listed))
    of_cells = joined(numbers)
    averaged = with_mean(study, of_cells)
    prr = averaged.estimates.where(dataset=averaged.dataset, metric="PRR")
    body = []
    for model in grid.by_model(chosen):
        place = {"model": model, "dataset": averaged.dataset}
        body += _rows_of_estimators(listed, place, study.models[model].title)
    return table(
        study,
        joined([averaged.estimates, *_gains_over_samples(listed, prr)]),
        ("M", "Estimator", "Unbiased"),
        body,
        _columns_of_estimators(),
        family=("model",),
        further=(averaged.estimates.where(metric="unbiased"), of_cells),
        facts={**facts, "of": averaged.title},
    )


def _sizes_of_estimators(study: Study, recipe: str) -> set[int]:
    """The M of strategies that only estimators read, else the main one, that samples have too."""
    decoded = study.recipes[recipe]
    names = [
        name
        for name in decoded.strategies()
        if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS
    ]
    sizes = sizes_in(names) or {study.main.num_candidates}
    if decoded.sample is None:
        return sizes
    return {M for M in sizes if decoded.sample.size >= M}


def _gains_over_samples(listed: Sequence[Estimator], prr: Estimates) -> list[Estimates]:
    """PRR of each estimator minus that of samples at the same M, where samples have it."""
    of_estimators = {
        estimator: prr.where(variant=estimator.weighting, setting=estimator.setting)
        for estimator in listed
    }
    of_samples = {
        estimator.M: estimates
        for estimator, estimates in of_estimators.items()
        if estimator.title == "samples"
    }
    return [
        estimates.combined(of_samples[estimator.M], np.subtract).assign(metric=DELTA)
        for estimator, estimates in of_estimators.items()
        if estimator.title != "samples" and estimator.M in of_samples
    ]


def _rows_of_estimators(listed: Sequence[Estimator], place: Keys, group: str) -> list[Row]:
    rows = [Row(("", TRUE_DISSIMILARITY, ""), {**place, "variant": TRUE_DISSIMILARITY}, group)]
    for estimator in listed:
        titles = (str(estimator.M), estimator.title, "yes" if estimator.unbiased else "no")
        keys = {**place, "variant": estimator.weighting, "setting": estimator.setting}
        rows.append(Row(titles, keys, group))
    return rows


def _columns_of_estimators() -> list[Column]:
    of_effort = [
        Column({"metric": metric, "method": METHOD}, (metric.capitalize(),), digits=1)
        for metric in EFFORT
    ]
    of_quality = [
        Column({"metric": metric, "method": METHOD}, (title,))
        for metric, title in QUALITY_HEADS.items()
    ]
    gain = Column({"metric": DELTA, "method": METHOD}, (DELTA,), "signed", "interval")
    return [*of_effort, *of_quality, gain]


# -- controls --------------------------------------------------------------------------------------


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's.

    A row a score, its PRR, ΔPRR and partial correlation.
    """
    controls, facts = measured_in_cells(
        study, inputs, chosen, methodcaller("controls", study.main.beam)
    )
    estimates = with_mean(study, joined(controls)).estimates
    prr = estimates.where(metric="PRR")
    beams = prr.at(prr.frame[PLACE].assign(variant=errors_where_u_is_known.BEAMS))
    gains = prr.combined(beams, np.subtract).assign(metric=DELTA)
    gains = gains.rows(prr.frame["variant"] != errors_where_u_is_known.BEAMS)
    columns = [
        Column({"metric": "PRR"}, ("PRR",), beside="interval"),
        Column({"metric": DELTA}, (f"{DELTA} against beams",), "signed", "interval"),
        Column({"metric": errors_where_u_is_known.PARTIAL}, ("Partial",), beside="interval"),
    ]
    return table(
        study,
        joined([estimates, gains]),
        ("Score",),
        _rows_of_controls(study, prr),
        columns,
        family=tuple(PLACE),
        facts=facts,
    )


def _rows_of_controls(study: Study, prr: Estimates) -> list[Row]:
    body = []
    for (model, dataset), rows in prr.frame.groupby(PLACE, sort=False):
        mean = dataset == MEAN
        where = "mean over datasets" if mean else study.datasets[str(dataset)].title
        group = f"{study.models[str(model)].title}, {where}, n = {rows['n'].iloc[0]}"
        for keys in records(rows[[*PLACE, "variant", "method"]]):
            body.append(Row((keys["variant"],), keys, group))
    return body


# -- draws -----------------------------------------------------------------------------------------


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples, model by model."""
    drawn = {
        name
        for name, recipe in study.recipes.items()
        if grid.draws(study, name) > 1 and recipe.decoded(study.main.beam)
    }
    supplied = grid.select(
        study,
        estimators=["uniform sample"],
        strategies=[study.main.sample],
        has=drawn.__contains__,
        take="all",
    )
    return sorted(supplied, key=lambda cell: list(study.models).index(cell.model))


def draw_spread_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the first draw, mean, spread and range over draws, and beams."""
    spreads = {cell: _spread_of_draws(study, inputs, cell) for cell in chosen}
    body = [_row_of_spread(study, cell, spread) for cell, spread in spreads.items()]
    columns = [
        Column({"metric": "PRR", "setting": setting}, (head,))
        for setting, head in SPREAD_HEADS.items()
    ]
    lead = {"metric": "PRR", "setting": "beams - mean"}
    columns += [
        Column(lead, ("Beams − mean",), "signed", "interval"),
        Column({"metric": "PRR", "setting": "beaten"}, ("Below beams",), digits=0),
    ]
    estimates = joined(list(spreads.values()))
    counts = sorted({grid.draws(study, cell.recipe) for cell in chosen})
    return table(
        study,
        estimates,
        ("Dataset", "Recipe", "n"),
        body,
        columns,
        further=[estimates],
        facts={"draws": captions.listing([str(count) for count in counts])},
    )


def _spread_of_draws(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """PRR of draws, statistics over them, and beams; settings end in the recipe."""
    prr = inputs.estimates([cell], metric="PRR", answer_source="greedy", subset=ALL, method=METHOD)
    settings = grid.settings_of_draws(study, cell.recipe)
    spread = errors_where_u_is_known.spread(
        prr.where(variant="uniform", setting=settings), prr.where(variant=OVER_BEAMS, setting="")
    )
    return spread.assign(setting=[f"{name} {cell.recipe}" for name in spread.frame["setting"]])


def _row_of_spread(study: Study, cell: Cell, spread: Estimates) -> Row:
    questions = str(spread.frame["n"].iloc[0])
    return Row(
        (study.datasets[cell.dataset].title, cell.recipe, questions),
        cell.place | {"method": METHOD, "setting": cell.recipe},
        study.models[cell.model].title,
    )


def _datasets_with_exact_value(study: Study) -> Mapping[str, str]:
    """By label of a table of estimators the dataset that it shows; "": all."""
    with_exact = {
        dataset for _, dataset, recipe in study.entries if study.recipes[recipe].all_above
    }
    of_datasets = {f"estimators_{name}": name for name in study.datasets if name in with_exact}
    return {"estimators": "", **of_datasets}


def exhibits(study: Study) -> list[Exhibit]:
    ours = partial(
        Exhibit, kind="table", reads=(*CANDIDATES, *SCORES, *EVALUATION), beyond_paper=True
    )
    of_estimators = partial(ours, build=estimators_table, caption="estimators")
    controlled = partial(
        with_exact_value,
        estimators=CONTROLS,
        methods=[errors_where_u_is_known.PROB],
        strategies=[study.main.beam],
    )
    return [
        *(
            of_estimators(label, cells=partial(with_exact_value, dataset=dataset))
            for label, dataset in _datasets_with_exact_value(study).items()
        ),
        ours("controls", cells=controlled, build=controls_table),
        ours("draw_spread", cells=cells_with_draws, reads=EVALUATION, build=draw_spread_table),
    ]
