"""Figures of estimators of U: why beams win, where, under which condition, and against what is decoded for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import beam_mass_theorem, strategy_names
from beamuq.evaluation.candidate_sets import QuestionBin, equal_bins, means_by_bin, with_all
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY, TIE, Estimates, joined
from beamuq.evaluation.estimator_errors import METHOD, TRUE_DISSIMILARITY, TRUTH, Estimator, EstimatorsOfCell, samples
from beamuq.evaluation.intervals import proportion_interval
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.estimates_table import means
from beamuq_study.exhibits.exhibit import Exhibit, Figure
from beamuq_study.exhibits.figure_style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION, SeriesStyle
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.exhibits.table_formats import decimal
from beamuq_study.exhibits.tables_of_estimators import READS, estimators, facts, read, with_exact_value
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST = 15  # M of the figure of reasons
GAIN, NOISE, TARGET = "beams - samples", "noise", "target"
REASONS = {
    GAIN: SeriesStyle("beams − samples", BLACK, "-", "o"),
    NOISE: SeriesStyle("noise: U − samples", BLUE, "--", "s"),
    TARGET: SeriesStyle("target: beams − U", VERMILLION, ":", "^"),
}
BINS, LEAST = 5, 12  # bins of questions; questions of the least
GAINS = {
    "normalised": SeriesStyle("beams, normalised", VERMILLION, "", "s"),
    "unnormalised": SeriesStyle("beams, unnormalised", GREEN, "", "^"),
    TRUTH: SeriesStyle(TRUE_DISSIMILARITY, BLACK, "", "o"),
}
PRINTED, CORRECTED, FAIR, IN_FACT = "printed condition", "M/(M + 1)", "fair share", "in fact"
CONDITIONS = {
    PRINTED: SeriesStyle(PRINTED, BLUE, "", "o"),
    CORRECTED: SeriesStyle(CORRECTED, ORANGE, "", "s"),
    FAIR: SeriesStyle(FAIR, GREEN, "", "^"),
    IN_FACT: SeriesStyle("in fact: beams err less", BLACK, "", "D"),
}
LENGTH, MASS = "length", "covered mass"
BY_ROWS = {
    "samples": SeriesStyle("samples", BLUE, "--", "o"),
    "beams, normalised": SeriesStyle("beams, normalised", VERMILLION, "-", "s"),
    "beams, unnormalised": SeriesStyle("beams, unnormalised", GREEN, "-.", "^"),
    "exact top M, normalised": SeriesStyle("exact, normalised", GREY, ":", "D"),
    "systematic": SeriesStyle("systematic", ORANGE, ":", "v"),
    "never worse": SeriesStyle("never worse", BLACK, ":", "*"),
}
BANDS = ("samples", "beams, unnormalised")
PLACE = ["model", "dataset"]


def _with_means(study: Study, each: Estimates) -> Estimates:
    """Estimates, then their means over datasets, of the models of which every dataset that counts has all rows."""
    kept = each.frame[~(each.frame["empty"] > MOST_EMPTY)]
    rows = kept.groupby(PLACE).size().groupby("model").agg(["size", "nunique"])
    several = list(rows.index[(rows["size"] > 1) & (rows["nunique"] == 1)])
    return joined([each, means(study, each.where(model=several))]) if several else each


# -- why beams win -----------------------------------------------------------------------------------------------------


def why_beams_win(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The gain of beams in PRR, its part of noise and its part of target, by M: a panel a cell, then their mean.

    Each M once with the first M samples; the main M also with the mean PRR of all disjoint draws of M.
    """
    of_cells = [read(study, inputs, cell) for cell in chosen]
    each = _with_means(study, joined([part for cell in of_cells for part in _reasons(study, cell)]))
    data = each.summary(study.evaluation.confidence).rename(columns={"metric": "part"})
    data[["M", "draws"]] = data["setting"].str.split(" ", expand=True).astype(int)
    data = data[[*PLACE, "part", "M", "draws", "value", "low", "high", "n", "note"]]
    name, labels = "{dataset}\n{model}\nn = {n}", ("Number of candidates M", "Difference in PRR")
    return figure_style.figure(study, data, PLACE, name, draw_reasons, facts(study, of_cells), labels)


def _reasons(study: Study, cell: EstimatorsOfCell) -> Iterator[Estimates]:
    """One cell's PRR of samples, beams and U and their three paired differences, by M and number of draws."""
    recipe = study.recipes[cell.keys["recipe"]]
    names = strategy_names.of_kind(recipe.strategies(), "beam")
    widths = {int(strategy_names.parse(name)[1]["M"]): name for name in names}
    largest, exact = min(LARGEST, recipe.sample.size) if recipe.sample else 0, cell.prr(None)
    for M, beam in sorted((M, beam) for M, beam in widths.items() if largest >= M):
        beams, estimator = cell.prr_at("normalised", [beam]), samples(study.main.sample, M)
        for settings in dict.fromkeys([(estimator.setting,), tuple(cell.settings(estimator))]):
            drawn = cell.prr_at("uniform", settings)
            parts = {"PRR of samples": drawn, "PRR of beams": beams, "PRR of U": exact}
            parts |= {GAIN: beams.minus(drawn), NOISE: exact.minus(drawn), TARGET: beams.minus(exact)}
            for part, of in parts.items():
                yield of.assign(metric=part, variant="", setting=f"{M} {len(settings)}")


def draw_reasons(data: pd.DataFrame, ax: Axes) -> None:
    """The parts of the gain by M: columns ``part``, ``M``, ``draws`` (of samples), ``value``, ``low``, ``high``.

    One draw is a line with a band; several draws are open marks with bars.
    """
    ax.axhline(0, color=GREY, linewidth=0.6)
    mark: dict[str, Any] = {"label": "", "markerfacecolor": "white", "markersize": 5.5, "zorder": 3}
    for offset, (part, look) in zip((-0.5, 0.0, 0.5), figure_style.series(data, REASONS, "part"), strict=False):
        figure_style.line(ax, part[part["draws"] == 1], look, "M")
        mean = part[part["draws"] > 1]
        figure_style.points(ax, mean["M"] + offset, mean, look, **mark)
    ax.set_xticks([M for M in sorted(set(data["M"])) if M == 1 or M % 5 == 0])


# -- gain by covered mass ----------------------------------------------------------------------------------------------


def gain_by_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """ΔPRR of beams, and of U itself, against samples in bins of covered mass: a panel a cell, then their mean.

    Five bins, or fewer in every panel where a cell would have fewer than twelve questions in each. PRR within each bin
    is resampled within it.
    """
    of_cells, scored = [read(study, inputs, cell) for cell in chosen], study.scoring[chosen[0].recipe].estimators
    variants = [name for name in GAINS if name == TRUTH or f"{name} beam" in scored]
    count = min(BINS, max(1, min(cell.n for cell in of_cells) // LEAST))
    parts, ends = [], []
    for cell in of_cells:
        bins = equal_bins(cell.candidates.mass(study.main.beam, study.main.num_candidates), count)
        for number, of in enumerate(bins, 1):
            parts.append(_gains(study, cell, of, variants, inputs.resampling).assign(setting=str(number)))
            ends.append((cell.keys["model"], cell.keys["dataset"], str(number), of.lowest, of.highest))
    data = _with_means(study, joined(parts)).summary(study.evaluation.confidence)
    data = data.merge(pd.DataFrame(ends, columns=[*PLACE, "setting", "lowest", "highest"]), "left")
    data["bin"] = data["setting"].astype(int)
    data = data[[*PLACE, "bin", "lowest", "highest", "variant", "value", "low", "high", "n", "note"]]
    paper = data[(data["variant"] == "normalised") & (data["dataset"] != MEAN)]
    caption_facts = facts(study, of_cells) | {"bins": count, "of": len(paper), "without": paper["low"].isna().sum()}
    caption_facts |= {"above": (paper["low"] > 0).sum(), "below": (paper["high"] < 0).sum()}
    name, labels = "{dataset}, {model}", ("Bin of covered mass; below, n", "PRR − that of samples")
    return figure_style.figure(study, data, PLACE, name, draw_gains, caption_facts, labels, across=2, sharex=False)


def _gains(
    study: Study, cell: EstimatorsOfCell, of: QuestionBin, variants: Sequence[str], resampling: Mapping[str, Any]
) -> Estimates:
    """Each variant's PRR within the bin minus that of samples, the mean over disjoint draws."""
    own = [(METHOD, variant, cell.exact if variant == TRUTH else study.main.beam) for variant in variants]
    drawn = [(METHOD, "uniform", setting) for setting in cell.settings(cell.main)]
    measured = cell.scores.prr(of.members, f"mass {of.lowest!r} to {of.highest!r}", own + drawn, **resampling)
    of_samples = measured.where(variant="uniform").mean_over_draws("samples")
    gains = measured.rows(range(len(own))).minus(of_samples.rows([0] * len(own)))
    place = {name: cell.keys[name] for name in (*PLACE, "empty")}
    return Estimates(gains.frame.assign(**place, variant=variants), gains.replicates)


def draw_gains(data: pd.DataFrame, ax: Axes) -> None:
    """Gains by bin: columns ``bin``, ``highest`` (NaN: of a mean), ``variant``, ``value``, ``low``, ``high``, ``n``.

    An open mark has no interval; "n/a" stands where a bin has no value.
    """
    figure_style.draw_by_bin(data, ax, looks=GAINS, bins="bin", bars=False)
    first = data.drop_duplicates("bin")[["bin", "highest", "n"]].itertuples(index=False)
    ends = [f"{number if np.isnan(end) else f'≤{decimal(end, 2)}'}\n{n}" for number, end, n in first]
    ax.set_xticks(ax.get_xticks(), ends)


# -- conditions --------------------------------------------------------------------------------------------------------


def fair_share(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Shares of questions that meet each condition, and of those where beams have the smaller squared error.

    Two panels a cell: by length of the greedy answer, and by what M beams cover; Wilson intervals.
    """
    M, recipe = study.main.num_candidates, study.recipes[chosen[0].recipe]
    decoded, exact = recipe.decoded(study.main.beam) or study.main.beam, strategy_names.of_size("exact", M)
    most_probable = exact if exact in recipe.strategies() else decoded
    of_cells, parts = [read(study, inputs, cell) for cell in chosen], []
    for cell in of_cells:
        met, groups = conditions(cell, decoded, most_probable, M), cell.scores.groups
        mass = np.round(cell.candidates.mass(decoded, M), 2)
        bins = {LENGTH: equal_bins(cell.candidates.lengths(), BINS)}
        bins[MASS] = equal_bins(mass, BINS, lambda value: decimal(value, 2))
        for by, of in bins.items():
            shares = means_by_bin(with_all(of), groups, met, study.evaluation.confidence, proportion_interval)
            parts.append(shares.assign(model=cell.keys["model"], dataset=cell.keys["dataset"], by=by))
    data = pd.concat(parts, ignore_index=True).rename(columns={"name": "what", "value": "share"})
    data = data[[*PLACE, "by", "bin", "what", "share", "low", "high", "n"]]
    caption_facts = facts(study, of_cells) | {
        "most_probable": most_probable,
        "overall": "; ".join(_overall(study, part) for _, part in data.groupby(PLACE, sort=False)),
    }
    name, labels = "{dataset}, {model}\nby {by}", ("Bin; below, n", "Questions (%)")
    options: dict[str, Any] = {"height": 1.75, "across": 2, "sharex": False}
    return figure_style.figure(study, data, [*PLACE, "by"], name, draw_conditions, caption_facts, labels, **options)


def conditions(cell: EstimatorsOfCell, beam: str, most_probable: str, M: int) -> dict[str, NDArray[np.bool_]]:
    """By name: [N] whether a question meets it. ``most_probable``: the strategy that knows the likeliest outcomes."""
    mass = cell.candidates.mass(beam, M)
    logprob = cell.candidates.log_probabilities(most_probable, M)
    left = beam_mass_theorem.left_by_size(logprob, ~np.isnan(logprob))
    of_beams = cell.errors(Estimator("normalised", beam, M, beam))
    return {
        PRINTED: mass > beam_mass_theorem.printed_threshold(M),
        CORRECTED: mass > beam_mass_theorem.corrected_threshold(M),
        FAIR: beam_mass_theorem.meets_fair_share(left, M),
        IN_FACT: of_beams < cell.errors_of_samples(M) - TIE,
    }


def _overall(study: Study, data: pd.DataFrame) -> str:
    """The shares of all questions of a cell."""
    rows = data[(data["bin"] == "All") & (data["by"] == LENGTH)]
    shares = (f"{CONDITIONS[what].title} {share:.0%}" for what, share in rows[["what", "share"]].to_numpy())
    return f"{Cell(*rows[PLACE].iloc[0]).title(study)}: {', '.join(shares)}"


def draw_conditions(data: pd.DataFrame, ax: Axes) -> None:
    """Shares by bin: columns ``by``, ``bin``, ``what`` (a condition), ``share``, ``low``, ``high`` in [0, 1], ``n``."""
    by_mass = data["by"].iloc[0] == MASS
    names = [f"≤{name.split('–')[-1]}" if by_mass and name != "All" else name for name in data["bin"]]
    figure_style.draw_by_bin(data.assign(bin=names), ax, "share", CONDITIONS, "what", "bin", bars=False, percent=True)
    ax.set(ylim=(-0.04, 1.04), yticks=[0, 0.5, 1])


# -- decoded rows ------------------------------------------------------------------------------------------------------


def matched_rows(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR of estimators of U by decoded rows a question, a panel a cell: a point an estimator and M."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    every = estimators(study, chosen[0].recipe, range(1, 10**6))
    listed = [estimator for estimator in every if estimator.title in BY_ROWS]
    parts, rows = [], []
    for cell in of_cells:
        effort, _ = cell.candidates.effort(cell.exact)
        parts += [cell.prr(estimator) for estimator in (None, *listed)]
        rows.append((TRUE_DISSIMILARITY, np.nan, np.nan if effort is None else effort.mean()))
        rows += [(estimator.title, float(estimator.M), cell.effort(estimator)["rows"]) for estimator in listed]
    data = joined(parts).summary(study.evaluation.confidence)
    data = data.join(pd.DataFrame(rows, columns=["estimator", "M", "rows"]))
    data = data[[*PLACE, "estimator", "M", "rows", "value", "low", "high", "n", "note"]]
    points = data[data["estimator"] != TRUE_DISSIMILARITY]
    sizes = points.dropna(subset=["rows"]).groupby("estimator", sort=False)["M"].agg(["min", "max"])
    missing = int((points["value"].isna() | points["rows"].isna()).sum())
    caption_facts = facts(study, of_cells) | {
        "Ms": ", ".join(f"{name} {low:g} to {high:g}" for name, low, high in sizes.itertuples()),
        "missing": f"{missing} points are undefined, or of files without rows, and left out." if missing else "",
    }
    name, labels = "{dataset}, {model}\nn = {n}", ("Decoded rows a question", "PRR")
    options: dict[str, Any] = {"height": 2.3, "across": 2, "legend_rows": 3, "sharex": False, "sharey": False}
    return figure_style.figure(study, data, PLACE, name, draw_by_rows, caption_facts, labels, **options)


def draw_by_rows(data: pd.DataFrame, ax: Axes) -> None:
    """PRR by decoded rows: columns ``estimator``, ``M``, ``rows``, ``value``, ``low``, ``high``; U is a line across."""
    for part, look in figure_style.series(data.sort_values("M"), BY_ROWS, "estimator"):
        figure_style.line(ax, part, look, "rows", band=part["estimator"].iloc[0] in BANDS)
    for value in data[data["estimator"] == TRUE_DISSIMILARITY]["value"].dropna():
        ax.axhline(value, color=BLACK, linewidth=0.8, linestyle=":", label=TRUE_DISSIMILARITY)
    ax.set_xlim(left=0)


def exhibits(_: Study) -> list[Exhibit]:
    """The four figures."""

    def with_beams(study: Study) -> list[Cell]:
        return with_exact_value(study, strategies=[study.main.beam])

    ours = partial(Exhibit, kind="figure", reads=READS, beyond_paper=True)
    return [
        ours("why_beams_win", cells=with_beams, build=why_beams_win),
        ours("gain_by_mass", cells=with_beams, build=gain_by_mass),
        ours("fair_share", cells=with_exact_value, build=fair_share, quality=False),
        ours("matched_rows", cells=with_exact_value, build=matched_rows),
    ]
