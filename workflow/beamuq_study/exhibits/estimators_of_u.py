"""Estimators of U: how far they are off, what controls say and luck of the draw does, and why and
where beams win.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from beamuq import strategy_names
from beamuq.array_types import Floats
from beamuq.evaluation import estimator_errors
from beamuq.evaluation.candidate_sets import equal_bins, means_by_bin, with_all
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.estimator_errors import (
    METHOD,
    TRUE_DISSIMILARITY,
    TRUTH,
    Estimator,
    EstimatorsOfCell,
    samples,
)
from beamuq.evaluation.intervals import proportion_interval
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq_study import grid as cells
from beamuq_study.exhibits import captions, figure_style
from beamuq_study.exhibits.estimates_table import Column, means, records, table, with_mean
from beamuq_study.exhibits.exhibit import (
    CANDIDATES,
    EVALUATION,
    SCORES,
    Exhibit,
    Figure,
    Row,
    Table,
)
from beamuq_study.exhibits.table_formats import decimal
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

DELTA = "ΔPRR"
EFFORT = ("candidates", "distinct texts", "rows", "passes")
HEADS = {"bias": "Bias", "RMSE ratio": "RMSE ÷", "Spearman with U": "Spearman", "PRR": "PRR"}
SPREAD = {
    "first": "First draw",
    "mean": "Mean",
    "sd": "SD",
    "lowest": "Lowest",
    "highest": "Highest",
    "beams": "Beams",
}
LARGE_ERROR = 0.01  # questions whose U has a larger standard error are counted in captions
LARGEST = 15  # M of the figure of reasons
REASONS = figure_style.looks("reasons")
BINS, LEAST = 5, 12  # bins of questions, or fewer where the least would have fewer questions
GAINS, CONDITIONS, BY_ROWS = (
    figure_style.looks(group) for group in ("gains", "conditions", "rows")
)
LENGTH, MASS = "length", "covered mass"
PLACE = ["model", "dataset"]
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class TrueValues:
    """What captions tell of a cell's U: the setting that knows it, draws of samples, standard
    errors [N].
    """

    exact: str
    draws: int
    error: Floats


def estimators(study: Study, recipe: str, sizes: Container[int]) -> list[Estimator]:
    """What the recipe's scoring estimates U by from M candidates, M among the ``sizes``: by M, then
    as listed.
    """
    of, listed = study.recipes[recipe], []
    strategies = of.strategies()
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        for strategy in strategy_names.of_kind(strategies, kind):
            if (
                lacks(weighting, strategy) is not None
                or kind == "all_above"
                or weighting == "match"
            ):
                continue
            settings = dict.fromkeys(_sizes_in([strategy]), strategy)
            if kind == "sample" and of.sample:
                scored = (
                    M
                    for M in {study.main.num_candidates, *_sizes_in(strategies)}
                    if of.sample.size >= M
                )
                settings = {M: strategy_names.samples_of(strategy, M) for M in scored}
            elif kind == "hybrid" and of.hybrid:
                settings = {of.hybrid.size: strategy}
            listed += [
                Estimator(weighting, strategy, M, setting)
                for M, setting in settings.items()
                if M in sizes
            ]
    return sorted(listed, key=lambda estimator: estimator.M)


def _sizes_in(strategies: Iterable[str]) -> set[int]:
    return {int(M) for name in strategies if (M := strategy_names.parse(name)[1].get("M"))}


def with_exact_value(
    study: Study, dataset: str = "", estimators: Sequence[str] = (), **needs: Any
) -> list[Cell]:
    """The cells, on one dataset or all, of the first recipe that knows U with its standard error
    and has the others.
    """
    scored = ("stratified all_above", "uniform sample", "normalised beam", *estimators)
    exact = {
        name for name, of in study.recipes.items() if of.all_above and of.all_above.lattices > 1
    }
    found = cells.select(study, estimators=scored, has=exact.__contains__, **needs)
    return [cell for cell in found if dataset in ("", cell.dataset)]


def read(study: Study, inputs: Inputs, cell: Cell) -> EstimatorsOfCell:
    """What a cell's files tell of estimators of U, which is the stratified estimate above a
    probability.
    """
    scores = inputs.scores(cell)
    prr = inputs.estimates([cell], metric="PRR", answer_source="greedy", subset=ALL)
    names = strategy_names.of_kind(study.recipes[cell.recipe].strategies(), "all_above")
    exact = next(name for name in names if "lattices" in strategy_names.parse(name)[1])
    main, counts = (
        samples(study.main.sample, study.main.num_candidates),
        inputs.resample_counts(cell, scores.ids),
    )
    drawn = cells.draws(study, cell.recipe)
    return EstimatorsOfCell(scores, inputs.candidates(cell), prr, counts, exact, main, drawn)


def measured(
    study: Study,
    inputs: Inputs,
    chosen: Sequence[Cell],
    measure: Callable[[EstimatorsOfCell], Measured],
) -> tuple[list[Measured], dict[str, Any]]:
    """What ``measure`` finds in each cell, and what captions tell of U there.

    A cell's candidates and counts take hundreds of megabytes: they are held while it is measured,
    and no longer.
    """

    def in_cell(cell: Cell) -> tuple[Measured, TrueValues]:
        of_cell = read(study, inputs, cell)
        return measure(of_cell), TrueValues(of_cell.exact, of_cell.draws, of_cell.error)

    found = [in_cell(cell) for cell in chosen]
    return [of_cell for of_cell, _ in found], facts(study, [known for _, known in found])


DRAWS = (
    "Samples at M = {M} are the mean over {count} disjoint draws of the same questions, at other M "
    "over as many as were scored."
)


def facts(study: Study, of_cells: Sequence[TrueValues]) -> dict[str, Any]:
    errors, count = np.concatenate([of.error for of in of_cells]), of_cells[0].draws
    M = study.main.num_candidates
    return {
        "U": (
            f"U is {METHOD} under the model's whole distribution, from every outcome above a "
            "probability and draws "
            f"outside them ({of_cells[0].exact}); its standard error is above {LARGE_ERROR:g} at "
            f"{(errors > LARGE_ERROR).sum()} of {len(errors)} questions (at most "
            f"{errors.max():.3f})."
        ),
        "draws": DRAWS.format(M=M, count=count) if count > 1 else "",
    }


# -- tables ----------------------------------------------------------------------------------------


def estimators_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block per model: the true dissimilarity, then a row per estimator and M; ΔPRR: against
    samples at that M.
    """
    recipe = chosen[0].recipe
    of = study.recipes[
        recipe
    ]  # at the M of strategies that only estimators read, else the main one
    names = [
        name
        for name in of.strategies()
        if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS
    ]
    sizes = _sizes_in(names) or {study.main.num_candidates}
    listed = estimators(
        study, recipe, {M for M in sizes if of.sample is None or of.sample.size >= M}
    )
    numbers, told = measured(study, inputs, chosen, lambda of_cell: of_cell.numbers(listed))
    each = joined(numbers)
    every, dataset, name = with_mean(study, each)
    prr, sampled = (
        every.where(dataset=dataset, metric="PRR"),
        {of.M: of for of in listed if of.title == "samples"},
    )
    of_each = {of: prr.where(variant=of.weighting, setting=of.setting) for of in listed}
    compared = [of for of in listed if of.title != "samples" and of.M in sampled]
    gains = [
        of_each[of].combined(of_each[sampled[of.M]], np.subtract).assign(metric=DELTA)
        for of in compared
    ]
    lines = [(("", TRUE_DISSIMILARITY, ""), {"variant": TRUE_DISSIMILARITY})]
    for estimator in listed:
        titles = str(estimator.M), estimator.title, "yes" if estimator.unbiased else "no"
        lines.append((titles, {"variant": estimator.weighting, "setting": estimator.setting}))
    body = [
        Row(titles, {"model": model, "dataset": dataset} | keys, study.models[model].title)
        for model in cells.by_model(chosen)
        for titles, keys in lines
    ]
    columns = [
        Column({"metric": metric, "method": METHOD}, (metric.capitalize(),), digits=1)
        for metric in EFFORT
    ]
    columns += [
        Column({"metric": metric, "method": METHOD}, (title,)) for metric, title in HEADS.items()
    ]
    columns.append(Column({"metric": DELTA, "method": METHOD}, (DELTA,), "signed", "interval"))
    shows: dict[str, Any] = {
        "family": ("model",),
        "further": (every.where(metric="unbiased"), each),
        "of": name,
    }
    stub = ("M", "Estimator", "Unbiased")
    return table(study, joined([every, *gains]), stub, body, columns, **shows, **told)


def controls_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A block a cell, then one of the mean of a model's: a row a score, its PRR, ΔPRR and partial
    correlation.
    """
    controls, told = measured(
        study, inputs, chosen, lambda of_cell: of_cell.controls(study.main.beam)
    )
    estimates, *_ = with_mean(study, joined(controls))
    prr = estimates.where(metric="PRR")
    reference = prr.at(prr.frame[PLACE].assign(variant=estimator_errors.BEAMS))
    gains = prr.combined(reference, np.subtract).assign(metric=DELTA)
    gains = gains.rows(prr.frame["variant"] != estimator_errors.BEAMS)
    body = []
    for (model, dataset), rows in prr.frame.groupby(PLACE, sort=False):
        where = "mean over datasets" if dataset == MEAN else study.datasets[str(dataset)].title
        group = f"{study.models[str(model)].title}, {where}, n = {rows['n'].iloc[0]}"
        for keys in records(rows[[*PLACE, "variant", "method"]]):
            body.append(Row((keys["variant"],), keys, group))
    columns = [
        Column({"metric": "PRR"}, ("PRR",), beside="interval"),
        Column({"metric": DELTA}, (f"{DELTA} against beams",), "signed", "interval"),
        Column({"metric": estimator_errors.PARTIAL}, ("Partial",), beside="interval"),
    ]
    shown, family = joined([estimates, gains]), tuple(PLACE)
    return table(study, shown, ("Score",), body, columns, family=family, **told)


def cells_with_draws(study: Study) -> list[Cell]:
    """Every cell with the main beams and two scored draws of the main samples at least, model by
    model.
    """
    drawn = {
        name
        for name, of in study.recipes.items()
        if cells.draws(study, name) > 1 and of.decoded(study.main.beam)
    }
    needs: dict[str, Any] = {"estimators": ["uniform sample"], "strategies": [study.main.sample]}
    found = cells.select(study, has=drawn.__contains__, take="all", **needs)
    return sorted(found, key=lambda cell: list(study.models).index(cell.model))


def draw_spread_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the first draw, mean, spread and range over draws, and beams."""
    parts, body, M = [], [], study.main.num_candidates
    for cell in chosen:
        found = inputs.estimates(
            [cell], metric="PRR", answer_source="greedy", subset=ALL, method=METHOD
        )
        drawn = range(1, cells.draws(study, cell.recipe) + 1)
        settings = [strategy_names.samples_of(study.main.sample, M, draw) for draw in drawn]
        beams = found.where(variant=captions.BEAMSEARCH, setting="")
        each = estimator_errors.spread(found.where(variant="uniform", setting=settings), beams)
        parts.append(
            each.assign(setting=[f"{setting} {cell.recipe}" for setting in each.frame["setting"]])
        )
        keys = cell.place | {"method": METHOD, "setting": cell.recipe}
        titles = study.datasets[cell.dataset].title, cell.recipe, str(parts[-1].frame["n"].iloc[0])
        body.append(Row(titles, keys, study.models[cell.model].title))
    columns = [Column({"metric": "PRR", "setting": of}, (head,)) for of, head in SPREAD.items()]
    columns += [
        Column(
            {"metric": "PRR", "setting": "beams - mean"}, ("Beams − mean",), "signed", "interval"
        ),
        Column({"metric": "PRR", "setting": "beaten"}, ("Below beams",), digits=0),
    ]
    each, counts = joined(parts), sorted({cells.draws(study, cell.recipe) for cell in chosen})
    sizes = captions.listing(list(map(str, counts)))
    return table(
        study, each, ("Dataset", "Recipe", "n"), body, columns, further=[each], draws=sizes
    )


# -- figures ---------------------------------------------------------------------------------------


def _with_means(study: Study, each: Estimates) -> Estimates:
    """Estimates, then their means over datasets, of the models of which every dataset that counts
    has all rows.
    """
    rows = (
        each.frame[~each.too_empty].groupby(PLACE).size().groupby("model").agg(["size", "nunique"])
    )
    several = list(rows.index[(rows["size"] > 1) & (rows["nunique"] == 1)])
    return joined([each, means(study, each.where(model=several))]) if several else each


def why_beams_win(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The gain of beams in PRR and its two parts, by M of the first samples, at the main M also of
    all draws of it.
    """
    recipe = study.recipes[chosen[0].recipe]
    largest = min(LARGEST, recipe.sample.size) if recipe.sample else 0
    widths = {
        M: name
        for name in strategy_names.of_kind(recipe.strategies(), "beam")
        for M in _sizes_in([name])
    }
    sizes = [M for M in sorted(widths) if largest >= M]

    def parts_of_gain(of_cell: EstimatorsOfCell) -> Estimates:
        return joined([of_cell.parts_of_gain(widths[M], M) for M in sizes])

    parts, told = measured(study, inputs, chosen, parts_of_gain)
    each = _with_means(study, joined(parts))
    data = each.summary(study.evaluation.confidence).rename(columns={"metric": "part"})
    data[["M", "draws"]] = data["setting"].str.split(" ", expand=True).astype(int)
    data = data[[*PLACE, "part", "M", "draws", "value", "low", "high", "n", "note"]]
    name, labels = "{dataset}\n{model}\nn = {n}", ("Number of candidates M", "Difference in PRR")
    shape: dict[str, Any] = {"height": 2.4, "legend_rows": 2}
    return figure_style.figure(study, data, PLACE, name, draw_reasons, told, labels, **shape)


def draw_reasons(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """The parts of the gain by M: columns ``part``, ``M``, ``draws`` (of samples), ``value``,
    ``low``, ``high``.

    One draw is a line with a band; several draws are open marks with bars.
    """
    ax.axhline(0, color=figure_style.GREY, linewidth=0.6)
    mark: dict[str, Any] = {"markerfacecolor": "white", "markersize": 4.5, "zorder": 3}
    for offset, (part, look) in zip(
        (-0.6, 0.0, 0.6), figure_style.series(data, REASONS, "part"), strict=False
    ):
        figure_style.line(ax, part[part["draws"] == 1], look, "M")
        mean = part[part["draws"] > 1]
        figure_style.points(ax, mean["M"] + offset, mean, look, label="", **mark)
    ax.plot([], [], "o", color=figure_style.BLACK, label="open: mean over draws of samples", **mark)
    ax.set_xticks([M for M in sorted(set(data["M"])) if M == 1 or M % 5 == 0])


def gain_by_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """ΔPRR of beams, and of the true dissimilarity, against samples, resampled within each bin of
    covered mass.
    """
    scored = study.scoring[chosen[0].recipe].estimators
    variants = [name for name in GAINS if name == TRUTH or f"{name} beam" in scored]
    fewest = min(
        int((inputs.of(cell, "quality")["answer_source"] == "greedy").sum()) for cell in chosen
    )
    count = min(BINS, max(1, fewest // LEAST))

    def gains_by_bin(of_cell: EstimatorsOfCell) -> tuple[Estimates, pd.DataFrame]:
        mass = of_cell.candidates.mass(study.main.beam, study.main.num_candidates)
        parts, ends = [], []
        for number, question_bin in enumerate(equal_bins(mass, count), 1):
            lowest, highest = question_bin.lowest, question_bin.highest
            subset = f"mass {lowest!r} to {highest!r}"
            gains = of_cell.gains_within(
                question_bin.members, subset, study.main.beam, variants, **inputs.resampling
            )
            parts.append(gains.assign(setting=str(number)))
            ends.append(
                (of_cell.keys["model"], of_cell.keys["dataset"], str(number), lowest, highest)
            )
        return joined(parts), pd.DataFrame(ends, columns=[*PLACE, "setting", "lowest", "highest"])

    found, told = measured(study, inputs, chosen, gains_by_bin)
    each = joined([gains for gains, _ in found])
    data = _with_means(study, each).summary(study.evaluation.confidence)
    data = data.merge(pd.concat([ends for _, ends in found], ignore_index=True), "left")
    data["bin"] = data["setting"].astype(int)
    data = data[
        [*PLACE, "bin", "lowest", "highest", "variant", "value", "low", "high", "n", "note"]
    ]
    paper = data[(data["variant"] == "normalised") & (data["dataset"] != MEAN)]
    caption_facts = told | {"bins": count, "of": len(paper), "without": paper["low"].isna().sum()}
    caption_facts |= {"above": (paper["low"] > 0).sum(), "below": (paper["high"] < 0).sum()}
    name, labels = "{dataset}, {model}", ("Bin of covered mass; below, n", "PRR − PRR of samples")
    return figure_style.figure(
        study, data, PLACE, name, draw_gains, caption_facts, labels, across=2, sharex=False
    )


def draw_gains(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """Gains by bin: columns ``bin``, ``highest`` (NaN: of a mean), ``variant``, ``value``, ``low``,
    ``high``, ``n``.

    An open mark has no interval; "n/a" stands where a bin has no value.
    """
    figure_style.draw_by_bin(data, ax, looks=GAINS, bins="bin", bars=False)
    first = data.drop_duplicates("bin")[["bin", "highest", "n"]].itertuples(index=False)
    ends = [
        f"{number if np.isnan(end) else f'≤{decimal(end, 2)}'}\n{n}" for number, end, n in first
    ]
    ax.set_xticks(ax.get_xticks(), ends)


def fair_share(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Shares of questions that meet each condition or where beams err less, by length and by what M
    beams cover.
    """
    M, recipe = study.main.num_candidates, study.recipes[chosen[0].recipe]
    decoded, exact = (
        recipe.decoded(study.main.beam) or study.main.beam,
        strategy_names.of_size("exact", M),
    )
    most_probable = exact if exact in recipe.strategies() else decoded

    def shares_by_bin(of_cell: EstimatorsOfCell) -> pd.DataFrame:
        met = of_cell.conditions(decoded, most_probable, M)
        mass = np.round(of_cell.candidates.mass(decoded, M), 2)
        by_mass = equal_bins(mass, BINS, lambda value: decimal(value, 2))
        place = {name: of_cell.keys[name] for name in PLACE}
        parts = []
        for by, bins in {
            LENGTH: equal_bins(of_cell.candidates.lengths(), BINS),
            MASS: by_mass,
        }.items():
            confidence = study.evaluation.confidence
            shares = means_by_bin(
                with_all(bins), of_cell.scores.groups, met, confidence, proportion_interval
            )
            parts.append(shares.assign(**place, by=by))
        return pd.concat(parts, ignore_index=True)

    found, told = measured(study, inputs, chosen, shares_by_bin)
    data = pd.concat(found, ignore_index=True).rename(columns={"name": "what", "value": "share"})
    data, overall = data[[*PLACE, "by", "bin", "what", "share", "low", "high", "n"]], []
    for place, whole in data[(data["bin"] == "All") & (data["by"] == LENGTH)].groupby(
        PLACE, sort=False
    ):
        titles = (
            f"{CONDITIONS[what].title} {share:.0%}"
            for what, share in whole[["what", "share"]].to_numpy()
        )
        overall.append(f"{Cell(*map(str, place)).title(study)}: {', '.join(titles)}")
    caption_facts = told | {"most_probable": most_probable, "overall": "; ".join(overall)}
    name, labels = "{dataset}, {model}\nby {by}", ("Bin; below, n", "Questions (%)")
    options: dict[str, Any] = {"height": 1.75, "across": 2, "sharex": False}
    return figure_style.figure(
        study, data, [*PLACE, "by"], name, draw_conditions, caption_facts, labels, **options
    )


def draw_conditions(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """Shares by bin: columns ``by``, ``bin``, ``what`` (a condition), ``share``, ``low``, ``high``
    in [0, 1], ``n``.
    """
    by_mass = data["by"].iloc[0] == MASS
    names = [
        f"≤{name.split('–')[-1]}" if by_mass and name != "All" else name for name in data["bin"]
    ]
    figure_style.draw_by_bin(
        data.assign(bin=names), ax, "share", CONDITIONS, "what", "bin", bars=False, percent=True
    )
    ax.set(ylim=(-0.04, 1.04), yticks=[0, 0.5, 1])


def matched_rows(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR of estimators of U by decoded rows a question, a panel a cell: a point an estimator and
    M.
    """
    every = estimators(study, chosen[0].recipe, range(1, 10**6))
    listed = [estimator for estimator in every if estimator.title in BY_ROWS]

    def by_rows(of_cell: EstimatorsOfCell) -> tuple[Estimates, pd.DataFrame]:
        effort, _ = of_cell.candidates.effort(of_cell.exact)
        rows = [(TRUE_DISSIMILARITY, np.nan, effort.mean())]
        rows += [
            (estimator.title, float(estimator.M), of_cell.effort(estimator)["rows"])
            for estimator in listed
        ]
        prr = joined([of_cell.prr(estimator) for estimator in (None, *listed)])
        return prr, pd.DataFrame(rows, columns=["estimator", "M", "rows"])

    found, told = measured(study, inputs, chosen, by_rows)
    data = joined([prr for prr, _ in found]).summary(study.evaluation.confidence)
    data = data.join(pd.concat([rows for _, rows in found], ignore_index=True))
    data = data[[*PLACE, "estimator", "M", "rows", "value", "low", "high", "n", "note"]]
    points = data[data["estimator"] != TRUE_DISSIMILARITY]
    sizes = points.dropna(subset=["rows"]).groupby("estimator", sort=False)["M"].agg(["min", "max"])
    missing = int((points["value"].isna() | points["rows"].isna()).sum())
    caption_facts = told | {
        "Ms": ", ".join(f"{name} {low:g} to {high:g}" for name, low, high in sizes.itertuples()),
        "missing": f"{missing} points are undefined, or of files without rows, and left out."
        if missing
        else "",
    }
    name, labels = "{dataset}, {model}\nn = {n}", ("Decoded rows per question", "PRR")
    options: dict[str, Any] = {
        "height": 2.3,
        "across": 2,
        "legend_rows": 3,
        "sharex": False,
        "sharey": False,
    }
    return figure_style.figure(
        study, data, PLACE, name, draw_by_rows, caption_facts, labels, **options
    )


def draw_by_rows(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """PRR by decoded rows: columns ``estimator``, ``M``, ``rows``, ``value``, ``low``, ``high``; U
    is a line across.
    """
    for part, look in figure_style.series(data.sort_values("M"), BY_ROWS, "estimator"):
        figure_style.line(
            ax, part, look, "rows", band=look.title in ("samples", "beams, unnormalised")
        )
    for value in data[data["estimator"] == TRUE_DISSIMILARITY]["value"].dropna():
        ax.axhline(
            value, color=figure_style.BLACK, linewidth=0.8, linestyle=":", label=TRUE_DISSIMILARITY
        )
    ax.set_xlim(left=0)


def exhibits(study: Study) -> list[Exhibit]:
    pooled = {
        dataset
        for each in study.grid
        if study.recipes[each.recipe].all_above
        for dataset in each.datasets
    }
    datasets = {
        "estimators": "",
        **{f"estimators_{name}": name for name in study.datasets if name in pooled},
    }
    exact = partial(
        Exhibit,
        reads=(*CANDIDATES, *SCORES, *EVALUATION),
        beyond_paper=True,
        cells=with_exact_value,
    )
    of_dataset = partial(exact, kind="table", build=estimators_table, caption="estimators")
    beams, drawn = (
        partial(with_exact_value, strategies=[study.main.beam]),
        partial(exact, kind="figure"),
    )
    controls = "uniform beam", "match beam", "match sample"
    controlled = partial(beams, estimators=controls, methods=[estimator_errors.PROB])
    return [
        *(
            of_dataset(label, cells=partial(with_exact_value, dataset=of))
            for label, of in datasets.items()
        ),
        exact("controls", "table", cells=controlled, build=controls_table),
        exact(
            "draw_spread",
            "table",
            cells=cells_with_draws,
            reads=EVALUATION,
            build=draw_spread_table,
        ),
        drawn("why_beams_win", cells=beams, build=why_beams_win),
        drawn("gain_by_mass", cells=beams, build=gain_by_mass),
        drawn("fair_share", build=fair_share, quality=False),
        drawn("matched_rows", build=matched_rows),
    ]
