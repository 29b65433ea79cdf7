"""Figures of estimators of U: why beams win, where, under which condition, and against what is decoded for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import beam_mass_theorem, strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation import intervals
from beamuq.evaluation.candidate_sets import QuestionBin, equal_bins, groups_of, with_all
from beamuq.evaluation.estimates import MEAN, TIE, Estimates, joined
from beamuq.evaluation.estimators_of_u import METHOD, OF_U, Estimator, EstimatorsOfCell, U, samples
from beamuq.exhibits import figure_style
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import means
from beamuq.exhibits.estimators import READS, cells_with_exact_value, estimators, facts, read
from beamuq.exhibits.exhibit import Exhibit, Figure
from beamuq.exhibits.figure_style import SeriesStyle
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.number_format import decimal
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes

LARGEST = 15  # M of the figure of reasons
GAIN, NOISE, TARGET = "beams - samples", "noise", "target"
REASONS = {
    GAIN: SeriesStyle("beams − samples", figure_style.BLACK, "-", "o"),
    NOISE: SeriesStyle("noise: U − samples", figure_style.BLUE, "--", "s"),
    TARGET: SeriesStyle("target: beams − U", figure_style.VERMILLION, ":", "^"),
}
BINS, LEAST = 5, 12  # bins of questions; questions of the least
GAINS = {
    "normalised": SeriesStyle("beams, normalised", figure_style.VERMILLION, "", "s"),
    "unnormalised": SeriesStyle("beams, unnormalised", figure_style.GREEN, "", "^"),
    OF_U: SeriesStyle(U, figure_style.BLACK, "", "o"),
}
PRINTED, CORRECTED, FAIR, IN_FACT = "printed condition", "M/(M + 1)", "fair share", "in fact"
CONDITIONS = {
    PRINTED: SeriesStyle("printed condition", figure_style.BLUE, "", "o"),
    CORRECTED: SeriesStyle("M/(M + 1)", figure_style.ORANGE, "", "s"),
    FAIR: SeriesStyle("fair share", figure_style.GREEN, "", "^"),
    IN_FACT: SeriesStyle("in fact: beams err less", figure_style.BLACK, "", "D"),
}
LENGTH, MASS = "length", "covered mass"
BY_ROWS = {
    "samples": SeriesStyle("samples", figure_style.BLUE, "--", "o"),
    "beams, normalised": SeriesStyle("beams, normalised", figure_style.VERMILLION, "-", "s"),
    "beams, unnormalised": SeriesStyle("beams, unnormalised", figure_style.GREEN, "-.", "^"),
    "exact top M, normalised": SeriesStyle("exact, normalised", figure_style.GREY, ":", "D"),
    "systematic": SeriesStyle("systematic", figure_style.ORANGE, ":", "v"),
    "never worse": SeriesStyle("never worse", figure_style.BLACK, ":", "*"),
}
PLACE = ["model", "dataset"]
BANDS = ("samples", "beams, unnormalised")


def _title(study: Study, cell: EstimatorsOfCell) -> str:
    return Cell(cell.keys["model"], cell.keys["dataset"]).title(study)


def _undefined(data: pd.DataFrame) -> str:
    missing = int(data["value"].isna().sum())
    return f"{missing} of {len(data)} points are undefined and left out." if missing else ""


def _means_of_several(study: Study, estimates: Estimates) -> Estimates:
    """The rows, and their means over the datasets of each model that has several that a mean may have."""
    kept = estimates.frame[~(estimates.frame["empty"] > 0.2)].groupby("model")["dataset"].nunique()
    several = list(kept.index[kept > 1])
    return joined([estimates, means(study, estimates.where(model=several))]) if several else estimates


def _names(study: Study, data: pd.DataFrame) -> dict[Any, str]:
    """Title and n of each panel: model and dataset, or their mean."""
    first = data.drop_duplicates(["model", "dataset"])
    return {
        (model, dataset): f"{study.datasets[dataset].title if dataset in study.datasets else 'Mean'}\n"
        f"{study.models[model].title}\nn = {n}"
        for model, dataset, n in zip(first["model"], first["dataset"], first["n"], strict=True)
    }


# -- why beams win -----------------------------------------------------------------------------------------------------


def why_beams_win(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The gain of beams in PRR, its part of noise and its part of target, by M: a panel a cell, then their mean.

    Each M once with the first M samples; the main M also with the mean PRR of all disjoint draws of M.
    """
    of_cells = [read(study, inputs, cell) for cell in chosen]
    estimates = _means_of_several(study, joined([part for cell in of_cells for part in _reasons(study, cell)]))
    data = estimates.summary(study.evaluation.confidence).rename(columns={"metric": "part"})
    points = data["setting"].str.split(" ", expand=True).astype(int)
    data = data.assign(M=points[0], draws=points[1])
    data = data[["model", "dataset", "part", "M", "draws", "value", "low", "high", "n", "note"]]
    names = _names(study, data)
    labels = ("Number of candidates M", "Difference in PRR")
    said, across = facts(study, of_cells) | {"undefined": _undefined(data)}, 2 if len(names) == 4 else 3
    return figure_style.figure(data, PLACE, names, draw_reasons, said, labels, across=across)


def _reasons(study: Study, cell: EstimatorsOfCell) -> Iterator[Estimates]:
    """One cell's PRR of samples, beams and U and their three paired differences, by M and number of draws."""
    recipe = study.recipes[cell.keys["recipe"]]
    largest = min(LARGEST, recipe.sample.size) if recipe.sample else 0
    widths = {
        int(strategy_names.parse(name)[1]["M"]): name for name in strategy_names.of_kind(recipe.strategies(), "beam")
    }
    exact = cell.prr(None)
    for M, beam in sorted(widths.items()):
        if largest < M:
            continue
        of_beams, estimator = cell.prr_at("normalised", [beam]), samples(study.main.sample, M)
        for settings in dict.fromkeys([(estimator.setting,), tuple(cell.settings(estimator))]):
            of_samples = cell.prr_at("uniform", settings)
            parts = {
                "PRR of samples": of_samples,
                "PRR of beams": of_beams,
                "PRR of U": exact,
                GAIN: of_beams.combined(of_samples, np.subtract),
                NOISE: exact.combined(of_samples, np.subtract),
                TARGET: of_beams.combined(exact, np.subtract),
            }
            for part, of in parts.items():
                yield of.assign(metric=part, variant="", setting=f"{M} {len(settings)}")


def draw_reasons(data: pd.DataFrame, axes: matplotlib.axes.Axes) -> None:
    """The parts of the gain by M: columns ``part``, ``M``, ``draws`` (of samples), ``value``, ``low``, ``high``.

    One draw is a line with a band; several draws are open marks with bars.
    """
    axes.axhline(0, color=figure_style.GREY, linewidth=0.6)
    for offset, (part, look) in zip((-0.5, 0.0, 0.5), REASONS.items(), strict=True):
        line = data[(data["part"] == part) & (data["draws"] == 1)]
        figure_style.band(axes, "M", line, look)
        figure_style.line(axes, "M", line, look)
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker}
        mean = data[(data["part"] == part) & (data["draws"] > 1)]
        figure_style.points(axes, mean["M"] + offset, mean, markerfacecolor="white", markersize=5.5, zorder=3, **style)
    axes.set_xticks([M for M in sorted(set(data["M"])) if M == 1 or M % 5 == 0])


# -- gain by covered mass ----------------------------------------------------------------------------------------------


def gain_by_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """ΔPRR of beams, and of U itself, against samples in bins of covered mass: a panel a cell, then their mean.

    Five bins, or fewer in every panel where a cell would have fewer than twelve questions in each. PRR within each bin
    is resampled within it.
    """
    M, scored = study.main.num_candidates, study.scoring[chosen[0].recipe].estimators
    variants = [name for name in GAINS if name == OF_U or f"{name} beam" in scored]
    of_cells = [read(study, inputs, cell) for cell in chosen]
    masses = [cell.candidates.mass(study.main.beam, M) for cell in of_cells]
    count = min(BINS, max(1, min(map(len, masses)) // LEAST))
    ends: dict[tuple[str, str, str], QuestionBin] = {}
    parts = []
    for cell, mass in zip(of_cells, masses, strict=True):
        for number, members in enumerate(equal_bins(mass, count), 1):
            ends[cell.keys["model"], cell.keys["dataset"], str(number)] = members
            parts.append(_gains(study, cell, members, variants, inputs.resampling).assign(setting=str(number)))
    each = joined(parts)
    bins = each.frame.groupby(["model", "dataset"])["setting"].nunique()
    whole = [str(model) for model, counts in bins[_kept(each)].groupby("model") if (counts == count).all()]
    estimates = joined([each, _means_of_several(study, each.where(model=whole)).where(dataset=MEAN)]) if whole else each
    data = estimates.summary(study.evaluation.confidence)
    places = list(zip(data["model"], data["dataset"], data["setting"], strict=True))
    data = data.assign(
        bin=data["setting"].astype(int),
        lowest=[ends[place].lowest if place in ends else np.nan for place in places],
        highest=[ends[place].highest if place in ends else np.nan for place in places],
    )[["model", "dataset", "bin", "lowest", "highest", "variant", "value", "low", "high", "n", "note"]]
    names = {key: name.rpartition("\n")[0].replace("\n", ", ") for key, name in _names(study, data).items()}
    paper = data[(data["variant"] == "normalised") & (data["dataset"] != MEAN)]
    clear = ((paper["low"] > 0).sum(), (paper["high"] < 0).sum(), paper["low"].isna().sum())
    labels = ("Bin of covered mass; below, n", "PRR − that of samples")
    said = facts(study, of_cells) | {"bins": count, "undefined": _undefined(data), "of": len(paper)}
    said |= dict(zip(("above", "below", "without"), clear, strict=True))
    return figure_style.figure(data, PLACE, names, draw_gains, said, labels, across=2, sharex=False)


def _kept(estimates: Estimates) -> list[tuple[str, str]]:
    """Model and dataset of the cells that a mean may have."""
    kept = estimates.frame[~(estimates.frame["empty"] > 0.2)]
    return list(dict.fromkeys(zip(kept["model"], kept["dataset"], strict=True)))


def _gains(
    study: Study, cell: EstimatorsOfCell, members: QuestionBin, variants: Sequence[str], resampling: dict[str, Any]
) -> Estimates:
    """Each variant's PRR within the bin minus that of samples, the mean over disjoint draws."""
    exact = cell.exact
    own = [(METHOD, variant, exact if variant == OF_U else study.main.beam) for variant in variants]
    drawn = [(METHOD, "uniform", setting) for setting in cell.settings(cell.main)]
    subset = f"mass {members.lowest!r} to {members.highest!r}"
    measured = cell.scores.prr(members.members, subset, own + drawn, **resampling)
    of_samples = measured.where(variant="uniform").mean_over_draws("samples")
    ours = measured.rows(range(len(own)))
    gains = ours.combined(of_samples.rows([0] * len(own)), np.subtract)
    place = {"model": cell.keys["model"], "dataset": cell.keys["dataset"]}
    return Estimates(gains.frame.assign(**place, empty=cell.keys["empty"]), gains.replicates)


def draw_gains(data: pd.DataFrame, axes: matplotlib.axes.Axes) -> None:
    """Gains by bin: columns ``bin``, ``highest`` (NaN: of a mean), ``variant``, ``value``, ``low``, ``high``, ``n``.

    An open mark has no interval; "n/a" stands where a bin has no value.
    """
    axes.axhline(0, color=figure_style.GREY, linewidth=0.6)
    present = [variant for variant in GAINS if variant in set(data["variant"])]
    for place, variant in enumerate(present):
        part, look = data[data["variant"] == variant], GAINS[variant]
        offset = 0.2 * (place - (len(present) - 1) / 2)
        figure_style.points(axes, part["bin"] + offset, part, color=look.colour, marker=look.marker, label=look.title)
        bare = part[part["low"].isna()]
        open_mark: dict[str, Any] = {"color": look.colour, "markerfacecolor": "white", "zorder": 3}
        axes.plot(bare["bin"] + offset, bare["value"], look.marker, **open_mark)
    for number in sorted(set(data["bin"])):
        if data[data["bin"] == number]["value"].isna().all():
            axes.text(number, 0.03, "n/a", ha="center", va="bottom", rotation=90)
    first = data.drop_duplicates("bin")
    ends = [
        f"≤ {decimal(high, 2)}" if high == high else str(n)
        for high, n in zip(first["highest"], first["bin"], strict=True)
    ]
    axes.set_xticks(first["bin"], [f"{end}\n{n}" for end, n in zip(ends, first["n"], strict=True)])
    axes.set_xlim(0.5, len(first) + 0.5)


# -- conditions --------------------------------------------------------------------------------------------------------


def fair_share(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Shares of questions that meet each condition, and of those where beams have the smaller squared error.

    Two panels a cell: by length of the greedy answer, and by what M beams cover; Wilson intervals.
    """
    M, recipe = study.main.num_candidates, study.recipes[chosen[0].recipe]
    decoded = recipe.decoded(study.main.beam) or study.main.beam
    exact = strategy_names.exact(M)
    most_probable = exact if exact in recipe.strategies() else decoded
    of_cells = [read(study, inputs, cell) for cell in chosen]
    rows: list[tuple[object, ...]] = []
    for cell in of_cells:
        met = conditions(cell, decoded, most_probable, M)
        mass = np.round(cell.candidates.mass(decoded, M), 2)
        for by, bins in (
            (LENGTH, equal_bins(cell.candidates.lengths(), BINS)),
            (MASS, equal_bins(mass, BINS, lambda value: decimal(value, 2))),
        ):
            for members in with_all(bins):
                groups = groups_of(cell.scores.groups, members.members)
                for what, holds in met.items():
                    share = holds[members.members]
                    ends = intervals.proportion_interval(share, groups, study.evaluation.confidence)
                    place = (cell.keys["model"], cell.keys["dataset"], by, members.title, what)
                    rows.append((*place, float(share.mean()), *ends, len(share)))
    data = pd.DataFrame(rows, columns=["model", "dataset", "by", "bin", "what", "share", "low", "high", "n"])
    names = {
        (cell.keys["model"], cell.keys["dataset"], by): f"{_title(study, cell)}\nby {by}, n = {cell.n}"
        for cell in of_cells
        for by in (LENGTH, MASS)
    }
    labels = ("Bin; below, n", "Questions (%)")
    said = facts(study, of_cells) | {
        "printed": f"{beam_mass_theorem.printed_threshold(M):.3f}",
        "corrected": f"{beam_mass_theorem.corrected_threshold(M):.3f}",
        "most_probable": most_probable,
        "overall": "; ".join(_overall(study, cell, data) for cell in of_cells),
    }
    options: dict[str, Any] = {"height": 1.75, "across": 2, "legend_columns": 4, "sharex": False}
    return figure_style.figure(data, [*PLACE, "by"], names, draw_conditions, said, labels, **options)


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


def _overall(study: Study, cell: EstimatorsOfCell, data: pd.DataFrame) -> str:
    part = data[(data["model"] == cell.keys["model"]) & (data["dataset"] == cell.keys["dataset"])]
    part = part[(part["bin"] == "All") & (part["by"] == LENGTH)]
    shares = zip(part["what"], part["share"], strict=True)
    return f"{_title(study, cell)}: {', '.join(f'{CONDITIONS[what].title} {share:.0%}' for what, share in shares)}"


def draw_conditions(data: pd.DataFrame, axes: matplotlib.axes.Axes) -> None:
    """Shares by bin: columns ``by``, ``bin``, ``what`` (a condition), ``share``, ``low``, ``high`` in [0, 1], ``n``."""
    bins = data[data["what"] == FAIR]
    places = figure_style.bar_places(len(bins))
    for offset, (what, look) in zip(np.linspace(-0.27, 0.27, len(CONDITIONS)), CONDITIONS.items(), strict=True):
        part = 100 * data[data["what"] == what][["share", "low", "high"]].rename(columns={"share": "value"})
        figure_style.points(axes, places + offset, part, color=look.colour, marker=look.marker, label=look.title)
    names = [
        name if name == "All" or by == LENGTH else f"≤{name.split('–')[-1]}"
        for by, name in bins[["by", "bin"]].to_numpy()
    ]
    axes.set_ylim(-4, 104)
    axes.set_yticks([0, 50, 100])
    axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    axes.set_xticks(places, [f"{name}\n{n}" for name, n in zip(names, bins["n"], strict=True)])


# -- decoded rows ------------------------------------------------------------------------------------------------------


def matched_rows(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR of estimators of U by decoded rows a question, a panel a cell: a point an estimator and M."""
    of_cells = [read(study, inputs, cell) for cell in chosen]
    parts: list[Estimates] = []
    rows: list[tuple[str, int | None, float | None]] = []
    for cell in of_cells:
        effort, _ = cell.candidates.effort(cell.exact)
        parts.append(cell.prr(None))
        rows.append((U, None, None if effort is None else float(effort.mean())))
        for estimator in estimators(study, cell.keys["recipe"], range(1, 10**6)):
            if estimator.title in BY_ROWS:
                parts.append(cell.prr(estimator))
                rows.append((estimator.title, estimator.M, cell.effort(estimator)["rows"]))
    data = joined(parts).summary(study.evaluation.confidence)
    data[["estimator", "M", "rows"]] = pd.DataFrame(rows, index=data.index).astype({1: float, 2: float})
    data = data[["model", "dataset", "estimator", "M", "rows", "value", "low", "high", "n", "note"]]
    points = data[data["estimator"] != U]
    sizes = points.dropna(subset=["rows"]).groupby("estimator", sort=False)["M"].agg(["min", "max"])
    missing = int((points["value"].isna() | points["rows"].isna()).sum())
    labels = ("Decoded rows a question", "PRR")
    names = {(cell.keys["model"], cell.keys["dataset"]): f"{_title(study, cell)}\nn = {cell.n}" for cell in of_cells}
    said = facts(study, of_cells) | {
        "Ms": ", ".join(f"{name} {low:g} to {high:g}" for name, low, high in sizes.itertuples()),
        "missing": f"{missing} points are undefined, or of files without rows, and left out." if missing else "",
    }
    options: dict[str, Any] = {"height": 2.3, "across": 2, "legend_rows": 3, "sharex": False, "sharey": False}
    return figure_style.figure(data, PLACE, names, draw_by_rows, said, labels, **options)


def draw_by_rows(data: pd.DataFrame, axes: matplotlib.axes.Axes) -> None:
    """PRR by decoded rows: columns ``estimator``, ``M``, ``rows``, ``value``, ``low``, ``high``; U is a line across."""
    for estimator, look in BY_ROWS.items():
        part = data[data["estimator"] == estimator].sort_values("M")
        if estimator in BANDS:
            figure_style.band(axes, "rows", part, look)
        figure_style.line(axes, "rows", part, look)
    for value in data[data["estimator"] == U]["value"].dropna():
        axes.axhline(value, color=figure_style.BLACK, linewidth=0.8, linestyle=":", label=U)
    top = 1.05 * float(np.nanmax([1.0, *data[data["estimator"] != U]["rows"]]))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= top])
    axes.set_xlim(0, top)


def exhibits(study: Study) -> list[Exhibit]:  # noqa: ARG001  (as every module's)
    """The four figures."""

    def with_beams(study: Study) -> list[Cell]:
        return cells_with_exact_value(study, "", study.main.beam)

    def with_widths(study: Study) -> list[Cell]:
        chosen = cells_with_exact_value(study)
        if not study.recipes[chosen[0].recipe].beam:
            raise BeamUQError(f"needs beams of several widths; add recipes.{chosen[0].recipe}.beam.widths or drop it")
        return chosen

    return [
        Exhibit("why_beams_win", "figure", with_widths, READS, why_beams_win, beyond_paper=True),
        Exhibit("gain_by_mass", "figure", with_beams, READS, gain_by_mass, beyond_paper=True),
        Exhibit("fair_share", "figure", cells_with_exact_value, READS, fair_share, beyond_paper=True, quality=False),
        Exhibit("matched_rows", "figure", cells_with_exact_value, READS, matched_rows, beyond_paper=True),
    ]
