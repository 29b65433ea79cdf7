"""Tables of estimators of U: how far they are off, what controls say, and what luck of the draw does."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from beamuq import strategy_names
from beamuq.evaluation import estimator_errors
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.estimator_errors import METHOD, PROB, TRUE_DISSIMILARITY, Estimator, EstimatorsOfCell, samples
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq_study.exhibits import captions, cells
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.estimates_table import Column, records, table, with_mean
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Row, Table
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.study_config import Recipe, Study

GAIN = "ΔPRR"
EFFORT = ("candidates", "distinct texts", "rows", "passes")
LARGE_ERROR = 0.01
"""Questions whose U has a larger standard error are counted in captions."""
READS = tuple(dict.fromkeys((*CANDIDATES, *SCORES, *EVALUATION)))


# -- which estimators a study scores, and what its files tell of them --------------------------------------------------


def estimators(study: Study, recipe: str, sizes: Container[int]) -> list[Estimator]:
    """What the recipe's scoring estimates U by from M candidates, M among the ``sizes``: by M, then as listed."""
    of, listed = study.recipes[recipe], []
    strategies = of.strategies()
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        for strategy in strategy_names.of_kind(strategies, kind):
            if lacks(weighting, strategy) is not None or kind == "above" or weighting == "match":
                continue
            settings = dict.fromkeys(_sizes_in([strategy]), strategy)
            if kind == "sample" and of.sample:
                scored = (M for M in {study.main.num_candidates, *_sizes_in(strategies)} if of.sample.size >= M)
                settings = {M: strategy_names.samples_of(strategy, M) for M in scored}
            elif kind == "hybrid" and of.hybrid:
                settings = {of.hybrid.size: strategy}
            listed += [Estimator(weighting, strategy, M, setting) for M, setting in settings.items() if M in sizes]
    return sorted(listed, key=lambda estimator: estimator.M)


def compared_sizes(study: Study, recipe: str) -> list[int]:
    """The M at which estimators are compared: those of strategies that only estimators read, else the main one."""
    of = study.recipes[recipe]
    names = [name for name in of.strategies() if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS]
    sizes = _sizes_in(names) or {study.main.num_candidates}
    return sorted(M for M in sizes if of.sample is None or of.sample.size >= M)


def _sizes_in(strategies: Iterable[str]) -> set[int]:
    return {int(M) for name in strategies if (M := strategy_names.parse(name)[1].get("M"))}


def with_exact_value(
    study: Study,
    dataset: str = "",
    estimators: Sequence[str] = (),
    methods: Sequence[str] = (),
    strategies: Sequence[str] = (),
) -> list[Cell]:
    """The cells, on one dataset or all, of the first recipe that knows U with its standard error and has the others."""
    scored = ("stratified above", "uniform sample", "normalised beam", *estimators)

    def has(recipe: Recipe) -> bool:
        return recipe.above is not None and recipe.above.lattices > 1

    supplied = cells.select(study, estimators=scored, methods=methods, strategies=strategies, has=has)
    return [cell for cell in supplied if dataset in ("", cell.dataset)]


def draws(study: Study, recipe: Recipe) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples; 1 where there are not two."""
    return max(1, recipe.sample.size // study.main.num_candidates) if recipe.sample else 1


def read(study: Study, inputs: Inputs, cell: Cell) -> EstimatorsOfCell:
    """What a cell's files tell of estimators of U, which is the stratified estimate above a probability."""
    scores, recipe = inputs.scores(cell), study.recipes[cell.recipe]
    prr = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all")
    names = strategy_names.of_kind(recipe.strategies(), "above")
    exact = next(name for name in names if "lattices" in strategy_names.parse(name)[1])
    main, counts = samples(study.main.sample, study.main.num_candidates), inputs.resample_counts(cell, scores.ids)
    return EstimatorsOfCell(scores, inputs.candidates(cell), prr, counts, exact, main, draws(study, recipe))


def facts(study: Study, of_cells: Sequence[EstimatorsOfCell]) -> dict[str, Any]:
    """What captions say of U, of its standard error, and of draws."""
    errors, count = np.concatenate([of.error for of in of_cells]), of_cells[0].draws
    M = study.main.num_candidates
    return {
        "U": f"U is {METHOD} under the model's whole distribution, from every outcome above a probability and draws "
        f"outside them ({of_cells[0].exact}); its standard error is above {LARGE_ERROR:g} at "
        f"{(errors > LARGE_ERROR).sum()} of {len(errors)} questions (at most {errors.max():.3f}).",
        "draws": f"Samples at M = {M} are the mean over {count} disjoint draws of the same questions." * (count > 1),
    }


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
        body.append(Row(("", TRUE_DISSIMILARITY, ""), place | {"variant": TRUE_DISSIMILARITY}, title))
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
    shows: dict[str, Any] = {"family": ("model",), "further": (every.where(metric="unbiased"), each), "of": name}
    stub = ("M", "Estimator", "Unbiased")
    return table(study, joined([every, *gains]), stub, body, columns, **shows, **facts(study, of_cells))


# -- controls ----------------------------------------------------------------------------------------------------------


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's: a row a score, its PRR, ΔPRR and partial correlation."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    estimates, *_ = with_mean(study, joined([cell.controls(study.main.beam) for cell in of_cells]))
    prr = estimates.where(metric="PRR")
    beams = estimator_errors.BEAMS
    reference = prr.at(prr.frame[["model", "dataset"]].assign(variant=beams))
    gains = prr.combined(reference, np.subtract).assign(metric=GAIN).rows(prr.frame["variant"] != beams)
    body = []
    for (model, dataset), rows in prr.frame.groupby(["model", "dataset"], sort=False):
        where = "mean over datasets" if dataset == MEAN else study.datasets[str(dataset)].title
        group = f"{study.models[str(model)].title}, {where}, n = {rows['n'].iloc[0]}"
        for keys in records(rows[["model", "dataset", "variant", "method"]]):
            body.append(Row((keys["variant"],), keys, group))
    columns = [
        Column({"metric": "PRR"}, ("PRR",), beside="interval"),
        Column({"metric": GAIN}, ("ΔPRR against beams",), "signed", "interval"),
        Column({"metric": estimator_errors.PARTIAL}, ("Partial",), beside="interval"),
    ]
    shows: dict[str, Any] = {"family": ("model", "dataset")} | facts(study, of_cells)
    return table(study, joined([estimates, gains]), ("Score",), body, columns, **shows)


# -- draws -------------------------------------------------------------------------------------------------------------


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples at least."""

    def has(recipe: Recipe) -> bool:
        return draws(study, recipe) > 1 and recipe.decoded(study.main.beam) is not None

    of: dict[str, Any] = {"estimators": ["uniform sample"], "strategies": [study.main.sample], "has": has}
    recipes = dict.fromkeys(entry.recipe for entry in study.grid)
    supplied = [cell for recipe in recipes for cell in cells.select(study, recipe=recipe, **of)]
    return sorted(supplied, key=lambda cell: list(study.models).index(cell.model))


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
    each, sizes = joined(parts), captions.listing(list(map(str, sorted(counts))))
    return table(study, each, ("Dataset", "Recipe", "n"), body, columns, further=[each], draws=sizes)


def _spread(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """PRR of each draw of a cell, over them, and of its beams."""
    estimates = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all", method=METHOD)
    M, count = study.main.num_candidates, draws(study, study.recipes[cell.recipe])
    settings = [strategy_names.samples_of(study.main.sample, M, draw + 1) for draw in range(count)]
    of_draws = estimates.where(variant="uniform", setting=settings)
    each = estimator_errors.spread(of_draws, estimates.where(variant=captions.BEAMSEARCH, setting=""))
    return each.assign(setting=[f"{setting} {cell.recipe}" for setting in each.frame["setting"]])


def exhibits(study: Study) -> list[Exhibit]:
    """The tables of estimators, of all datasets and of each that knows U."""
    pooled = {dataset for each in study.grid if study.recipes[each.recipe].above for dataset in each.datasets}
    datasets = {"estimators": "", **{f"estimators_{name}": name for name in study.datasets if name in pooled}}
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    exact = partial(ours, reads=READS, build=estimators_table, template="estimators")
    controls: dict[str, Any] = {"estimators": ("uniform beam", "match beam", "match sample"), "methods": (PROB,)}
    with_controls = partial(with_exact_value, strategies=(study.main.beam,), **controls)
    return [
        *(exact(label, cells=partial(with_exact_value, dataset=of)) for label, of in datasets.items()),
        ours("controls", cells=with_controls, reads=READS, build=controls_table),
        ours("draw_spread", cells=cells_with_draws, reads=EVALUATION, build=draw_spread_table),
    ]
