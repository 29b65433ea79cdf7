"""Figures of U: why beams win, where they do, and what estimators cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from beamuq import strategy_names
from beamuq.evaluation.candidate_sets import QuestionBin, equal_bins, means_by_bin, with_all
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.intervals import proportion_interval
from beamuq_study.errors_where_u_is_known import (
    TRUE_DISSIMILARITY,
    TRUTH,
    Estimator,
    EstimatorsOfCell,
)
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Figure
from beamuq_study.exhibits.figure_style import BLACK, GREY, Axes, Layout
from beamuq_study.exhibits.numbers_of_cells import means
from beamuq_study.exhibits.table_formats import decimal
from beamuq_study.exhibits.true_dissimilarity import (
    ANY_SIZE,
    PLACE,
    estimators,
    measured_in_cells,
    sizes_in,
    with_exact_value,
)
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

REASONS = figure_style.looks("reasons")
GAINS = figure_style.looks("gains")
CONDITIONS = figure_style.looks("conditions")
BY_ROWS = figure_style.looks("rows")
WITH_ENDS = ("samples", "beams, normalised")
"""The series by decoded rows whose intervals are drawn."""
LARGEST = 15  # M of the figure of reasons
OFFSETS = (-0.6, 0.0, 0.6)  # of the marks of each part at one M
BINS = 5  # of questions
LEAST = 12  # questions of a bin; where they are fewer there are fewer bins
ONE_ROW = 3  # panels of gains that stand side by side: two in a row would leave a quarter empty
LENGTH = "length"
MASS = "covered mass"


def _with_means(study: Study, estimates: Estimates) -> Estimates:
    """Estimates, then means over datasets of the models of which every dataset has all rows.

    Datasets of too many empty answers do not count.
    """
    counted = estimates.frame[~estimates.too_empty]
    rows = counted.groupby(PLACE).size().groupby("model").agg(["size", "nunique"])
    several = list(rows.index[(rows["size"] > 1) & (rows["nunique"] == 1)])
    if not several:
        return estimates
    return joined([estimates, means(study, estimates.where(model=several))])


# -- parts of the gain -----------------------------------------------------------------------------


def why_beams_win(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The gain of beams in PRR and its two parts, by M of the first samples.

    At the main M it is also of all draws of samples.
    """
    beams = _beams_by_size(study, chosen[0].recipe)
    parts, facts = measured_in_cells(study, inputs, chosen, partial(_parts_of_gain, beams=beams))
    estimates = _with_means(study, joined(parts))
    data = estimates.summary(study.evaluation.confidence).rename(columns={"metric": "part"})
    data[["M", "draws"]] = data["setting"].str.split(" ", expand=True).astype(int)
    data = data[[*PLACE, "part", "M", "draws", "value", "low", "high", "n", "note"]]
    return drawn_reasons(study, data).with_facts(facts)


def drawn_reasons(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    layout = Layout(
        ("Number of candidates M", "Difference in PRR"),
        height=2.4,
        legend_rows=2,
        before=f"{figure_style.thin_lines(study)} ",
    )
    name = "{dataset}\n{model}\nn = {n}"
    return figure_style.figure(study, data, PLACE, name, draw_reasons, {}, layout)


def _beams_by_size(study: Study, recipe: str) -> Mapping[int, str]:
    """The beam search of each width that is not above the number of samples."""
    decoded = study.recipes[recipe]
    largest = min(LARGEST, decoded.sample.size) if decoded.sample else 0
    beams = {
        M: name
        for name in strategy_names.of_kind(decoded.strategies(), "beam")
        for M in sizes_in([name])
    }
    return {M: beams[M] for M in sorted(beams) if largest >= M}


def _parts_of_gain(results: EstimatorsOfCell, beams: Mapping[int, str]) -> Estimates:
    return joined([results.parts_of_gain(beam, M) for M, beam in beams.items()])


def draw_reasons(data: pd.DataFrame, ax: Axes) -> None:
    """The parts of the gain by M: one draw is a line between thin ones.

    Several draws are open marks with bars.
    ``data`` has ``part``, ``M``, ``draws`` (of samples), ``value``, ``low``, ``high``.
    """
    ax.axhline(0, color=GREY, linewidth=0.6)
    parts = figure_style.series(data, REASONS, "part")
    for offset, (part, look) in zip(OFFSETS, parts, strict=False):
        figure_style.line(ax, part[part["draws"] == 1], look, "M")
        several = part[part["draws"] > 1]
        figure_style.points(
            ax,
            several["M"] + offset,
            several,
            look,
            label="",
            markerfacecolor="white",
            markersize=4.5,
            zorder=3,
        )
    ax.plot(
        [],
        [],
        "o",
        color=BLACK,
        label="open: mean over draws of samples",
        markerfacecolor="white",
        markersize=4.5,
        zorder=3,
    )
    ax.set_xticks([M for M in sorted(set(data["M"])) if M == 1 or M % 5 == 0])


# -- gains by covered mass -------------------------------------------------------------------------


class _GainsByBin(NamedTuple):
    gains: Estimates  # the number of a bin is their setting
    ends: pd.DataFrame  # the lowest and the highest mass of each bin, by place and setting


def gain_by_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """ΔPRR of beams, and of U, against samples, resampled within each bin of covered mass."""
    scored = study.scoring[chosen[0].recipe].estimators
    variants = [name for name in GAINS if name == TRUTH or f"{name} beam" in scored]
    count = min(BINS, max(1, _fewest_questions(chosen, inputs) // LEAST))
    measure = partial(_gains_by_bin, study=study, inputs=inputs, variants=variants, count=count)
    by_cell, facts = measured_in_cells(study, inputs, chosen, measure)
    data = _data_of_gains(study, by_cell)
    all_facts = {**facts, "bins": count, **_counts_of_bins(data)}
    return drawn_gains(study, data).with_facts(all_facts)


def drawn_gains(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone; three panels stand side by side, of more two in a row."""
    labels = ("Covered mass; below, n", "PRR − PRR of samples")
    is_one_row = data[PLACE].drop_duplicates().shape[0] == ONE_ROW
    layout = Layout(labels, across=ONE_ROW if is_one_row else 2, sharex=False)
    name = "{dataset}\n{model}"
    return figure_style.figure(study, data, PLACE, name, draw_gains, {}, layout)


def _data_of_gains(study: Study, by_cell: Sequence[_GainsByBin]) -> pd.DataFrame:
    """A row a bin and variant of each cell, and of means over datasets."""
    gains = _with_means(study, joined([cell.gains for cell in by_cell]))
    ends = pd.concat([cell.ends for cell in by_cell], ignore_index=True)
    data = gains.summary(study.evaluation.confidence).merge(ends, "left")
    data["bin"] = data["setting"].astype(int)
    columns = ["bin", "lowest", "highest", "variant", "value", "low", "high", "n", "note"]
    return data[[*PLACE, *columns]]


def _counts_of_bins(data: pd.DataFrame) -> dict[str, int]:
    """In how many bins of single cells normalised beams are above samples, or below."""
    bins = data[(data["variant"] == "normalised") & (data["dataset"] != MEAN)]
    return {
        "of": len(bins),
        "without": bins["low"].isna().sum(),
        "above": (bins["low"] > 0).sum(),
        "below": (bins["high"] < 0).sum(),
    }


def _fewest_questions(chosen: Sequence[Cell], inputs: Inputs) -> int:
    """The questions of the cell with the fewest."""
    sources = [inputs.of(cell, "quality")["answer_source"] for cell in chosen]
    return min(int((source == "greedy").sum()) for source in sources)


def _gains_by_bin(
    results: EstimatorsOfCell, study: Study, inputs: Inputs, variants: Sequence[str], count: int
) -> _GainsByBin:
    """Gains over samples within ``count`` bins of the mass that the main beams cover."""
    beam = study.main.beam
    place = {name: results.keys[name] for name in PLACE}
    mass = results.candidates.mass(beam, study.main.num_candidates)
    bins = {str(number): part for number, part in enumerate(equal_bins(mass, count), 1)}
    gains = []
    ends = []
    for number, part in bins.items():
        subset = f"mass {part.lowest!r} to {part.highest!r}"
        of_bin = results.gains_within(part.members, subset, beam, variants, **inputs.resampling)
        gains.append(of_bin.assign(setting=number))
        ends.append({**place, "setting": number, "lowest": part.lowest, "highest": part.highest})
    return _GainsByBin(joined(gains), pd.DataFrame(ends))


def draw_gains(data: pd.DataFrame, ax: Axes) -> None:
    """Gains by bin; an open mark has no interval, and "n/a" stands where a bin has no value.

    ``data`` has ``bin``, ``highest`` (NaN: of a mean), ``variant``, ``value``, ``low``, ``high``
    and ``n``.
    """
    figure_style.draw_by_bin(data, ax, looks=GAINS, bins="bin", bars=False)
    names = []
    bins = data.drop_duplicates("bin")[["bin", "highest", "n"]]
    for number, highest, n in bins.itertuples(index=False):
        end = number if np.isnan(highest) else f"≤{decimal(highest, 2)}"
        names.append(f"{end}\n{n}")
    ax.set_xticks(ax.get_xticks(), names)


# -- conditions ------------------------------------------------------------------------------------


def fair_share(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Shares of questions that meet each condition, by length and by what M beams cover."""
    recipe = study.recipes[chosen[0].recipe]
    beam = recipe.decoded(study.main.beam) or study.main.beam
    most_probable = strategy_names.of_size("exact", study.main.num_candidates)
    if most_probable not in recipe.strategies():
        most_probable = beam
    measure = partial(_shares_by_bin, study=study, beam=beam, most_probable=most_probable)
    shares, facts = measured_in_cells(study, inputs, chosen, measure)
    data = pd.concat(shares, ignore_index=True).rename(columns={"name": "what", "value": "share"})
    data = data[[*PLACE, "by", "bin", "what", "share", "low", "high", "n"]]
    overall = _overall_shares(study, data)
    all_facts = {**facts, "most_probable": most_probable, "overall": overall}
    return drawn_conditions(study, data).with_facts(all_facts)


def drawn_conditions(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    layout = Layout(("Bin; below, n", "Questions (%)"), height=1.75, across=2, sharex=False)
    by = [*PLACE, "by"]
    name = "{dataset}, {model}\nby {by}"
    return figure_style.figure(study, data, by, name, draw_conditions, {}, layout)


def _shares_by_bin(
    results: EstimatorsOfCell, study: Study, beam: str, most_probable: str
) -> pd.DataFrame:
    """Shares of a cell's questions that meet each condition, in bins of length and of mass."""
    M = study.main.num_candidates
    conditions = results.conditions(beam, most_probable, M)
    mass = np.round(results.candidates.mass(beam, M), 2)
    bins: dict[str, list[QuestionBin]] = {
        LENGTH: equal_bins(results.candidates.lengths(), BINS),
        MASS: equal_bins(mass, BINS, partial(decimal, digits=2)),
    }
    place = {name: results.keys[name] for name in PLACE}
    parts = []
    for by, bins_of_kind in bins.items():
        shares = means_by_bin(
            with_all(bins_of_kind),
            results.scores.groups,
            conditions,
            study.evaluation.confidence,
            proportion_interval,
        )
        parts.append(shares.assign(**place, by=by))
    return pd.concat(parts, ignore_index=True)


def _overall_shares(study: Study, data: pd.DataFrame) -> str:
    """How many questions of each cell meet each condition."""
    overall = data[(data["bin"] == "All") & (data["by"] == LENGTH)]
    cells = []
    for place, shares in overall.groupby(PLACE, sort=False):
        model, dataset = map(str, place)
        parts = [
            f"{CONDITIONS[what].title} {share:.0%}"
            for what, share in shares[["what", "share"]].to_numpy()
        ]
        cells.append(f"{Cell(model, dataset).title(study)}: {', '.join(parts)}")
    return "; ".join(cells)


def draw_conditions(data: pd.DataFrame, ax: Axes) -> None:
    """Shares by bin.

    ``data`` has ``by``, ``bin``, ``what`` (a condition), ``share``, ``low`` and ``high`` in
    [0, 1], and ``n``.
    """
    names = list(data["bin"])
    if data["by"].iloc[0] == MASS:
        names = [name if name == "All" else f"≤{name.split('–')[-1]}" for name in names]
    figure_style.draw_by_bin(
        data.assign(bin=names), ax, "share", CONDITIONS, "what", "bin", bars=False, percent=True
    )
    ax.set(ylim=(-0.04, 1.04), yticks=[0, 0.5, 1])


# -- decoded rows ----------------------------------------------------------------------------------


class _ByRows(NamedTuple):
    prr: Estimates  # of U, then of each estimator
    rows: pd.DataFrame  # its M and decoded rows


def matched_rows(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR of estimators of U by decoded rows a question: a point an estimator and M."""
    scored = estimators(study, chosen[0].recipe, ANY_SIZE)
    listed = [estimator for estimator in scored if estimator.title in BY_ROWS]
    measure = partial(_prr_by_rows, listed=listed)
    by_cell, facts = measured_in_cells(study, inputs, chosen, measure)
    prr = joined([cell.prr for cell in by_cell]).summary(study.evaluation.confidence)
    data = prr.join(pd.concat([cell.rows for cell in by_cell], ignore_index=True))
    data = data[[*PLACE, "estimator", "M", "rows", "value", "low", "high", "n", "note"]]
    return drawn_by_rows(study, data).with_facts({**facts, **_facts_of_points(data)})


def drawn_by_rows(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    layout = Layout(
        ("Decoded rows per question", "PRR"),
        height=2.3,
        across=2,
        legend_rows=3,
        sharex=False,
        sharey=False,
        before=f"{figure_style.thin_lines(study, WITH_ENDS)} ",
    )
    name = "{dataset}, {model}\nn = {n}"
    return figure_style.figure(study, data, PLACE, name, draw_by_rows, {}, layout)


def _prr_by_rows(results: EstimatorsOfCell, listed: Sequence[Estimator]) -> _ByRows:
    rows_of_truth, _ = results.candidates.effort(results.exact)
    rows = [{"estimator": TRUE_DISSIMILARITY, "M": np.nan, "rows": rows_of_truth.mean()}]
    for estimator in listed:
        decoded = results.effort(estimator)["rows"]
        rows.append({"estimator": estimator.title, "M": float(estimator.M), "rows": decoded})
    prr = joined([results.prr(estimator) for estimator in (None, *listed)])
    return _ByRows(prr, pd.DataFrame(rows))


def _facts_of_points(data: pd.DataFrame) -> dict[str, str]:
    """Which M each estimator has, and how many points are left out."""
    points = data[data["estimator"] != TRUE_DISSIMILARITY]
    drawn = points.dropna(subset=["rows"])
    sizes = drawn.groupby("estimator", sort=False)["M"].agg(["min", "max"])
    ranges = [f"{name} {low:g} to {high:g}" for name, low, high in sizes.itertuples()]
    missing = int((points["value"].isna() | points["rows"].isna()).sum())
    left_out = f"{missing} points are undefined, or of files without rows, and left out."
    return {"Ms": ", ".join(ranges), "missing": left_out if missing else ""}


def draw_by_rows(data: pd.DataFrame, ax: Axes) -> None:
    """PRR by decoded rows; U is a line across.

    ``data`` has ``estimator``, ``M``, ``rows``, ``value``, ``low`` and ``high``.
    """
    for part, look in figure_style.series(data.sort_values("M"), BY_ROWS, "estimator"):
        figure_style.line(ax, part, look, "rows", ends=look.title in WITH_ENDS)
    for value in data[data["estimator"] == TRUE_DISSIMILARITY]["value"].dropna():
        ax.axhline(value, color=BLACK, linewidth=0.8, linestyle=":", label=TRUE_DISSIMILARITY)
    ax.set_xlim(left=0)


def exhibits(study: Study) -> list[Exhibit]:
    drawn = partial(
        Exhibit, kind="figure", reads=(*CANDIDATES, *SCORES, *EVALUATION), beyond_paper=True
    )
    with_beams = partial(with_exact_value, strategies=[study.main.beam])
    return [
        drawn("why_beams_win", cells=with_beams, build=why_beams_win),
        drawn("gain_by_mass", cells=with_beams, build=gain_by_mass),
        drawn("fair_share", cells=with_exact_value, build=fair_share, quality=False),
        drawn("matched_rows", cells=with_exact_value, build=matched_rows),
    ]
