"""The figures of what a model generates, without scores: repeated samples, and probability that candidates cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.evaluation.candidate_sets import CandidateSets, Floats, QuestionBin, groups_of, length_bins, with_all
from beamuq.evaluation.intervals import mean_interval, proportion_interval
from beamuq.exhibits import captions, cells, figure_style, number_format
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, Exhibit, Figure
from beamuq.exhibits.figure_style import BLACK, BLUE, ORANGE, VARIANTS, SeriesStyle, bars_by_length
from beamuq.exhibits.inputs import Inputs
from beamuq.study_config import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, DATASET = "gemma-3-4b-base", "triviaqa"
LENGTH = "Greedy answer length in tokens; below, n questions"
SETS = {MULTINOMIAL: SeriesStyle("samples", BLUE), BEAMSEARCH: SeriesStyle("beams", ORANGE, hatch="////")}
FORMULAS = {"printed": r"$m_B > 1 - 1/(2\sqrt{M})$", "corrected": r"$m_B > M/(M + 1)$"}
MASS, RANKS = "mass by length", "p by rank"
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def shown(study: Study) -> list[Cell]:
    """The cell of the main recipe that stands for the paper's, whatever scores it."""
    recipe = study.main.recipe
    places = [(model, dataset) for model in study.models for dataset in study.datasets]
    run = [Cell(*place, recipe) for place in places if cells.covers(study, recipe, *place)]
    return [cells.nearest(study, run, MODEL, DATASET)]


def redundancy(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """(M − distinct cleaned texts) / M of samples and beams, averaged over the questions of a length."""
    found = inputs.candidates(chosen[0])
    values = {name: found.redundancy(of, study.main.num_candidates) for name, of in _strategies(study).items()}
    rows = _by_length(study, found, with_all(length_bins(found.lengths())), "variant", "redundancy", values)
    facts = _facts(study, chosen, found) | {"repeated": number_format.percent(float(values[BEAMSEARCH].mean()), 1)}
    return _bars(pd.DataFrame(rows), draw_redundancy, "Texts that repeat (%)", facts)


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold of the theorem, strictly; Wilson intervals (D20, theorem)."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    mass = found.mass(study.main.beam, size)
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    above = {name: mass > threshold for name, threshold in thresholds.items()}
    bins = with_all(length_bins(found.lengths()))
    data = pd.DataFrame(_by_length(study, found, bins, "threshold", "share", above, proportion_interval))
    data.insert(2, "mass_above", data["threshold"].map(thresholds))
    facts = {name: f"{threshold:.3f}" for name, threshold in thresholds.items()}
    facts |= {f"above_{name}": number_format.percent(float(of.mean()), 1) for name, of in above.items()}
    return _bars(data, draw_thresholds, "Questions above (%)", _facts(study, chosen, found) | facts)


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each beam rank."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    rows: list[dict[str, Any]] = []
    for variant, strategy in _strategies(study).items():
        mass, bins = {variant: found.mass(strategy, size)}, length_bins(found.lengths(), 7)
        rows += [{"panel": MASS} | row for row in _by_length(study, found, bins, "variant", "mean", mass)]
    for rank, part in found.of(study.main.beam, size).groupby("rank"):
        p = np.exp(part["logprob"].to_numpy())
        quantiles = {name: float(np.quantile(p, share)) for name, share in QUANTILES.items()}
        place = {"panel": RANKS, "variant": BEAMSEARCH, "rank": int(str(rank)) + 1}
        rows.append(place | {"mean": float(p.mean()), **quantiles, "n": len(p)})
    data = pd.DataFrame(rows, columns=["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"])
    names = {MASS: "", RANKS: f"n = {rows[-1]['n']}"}
    draws = {MASS: draw_covered_mass, RANKS: draw_rank_probabilities}
    facts = _facts(study, chosen, found) | {"order": captions.BEAM_ORDER}
    options = {"height": 2.3, "sharex": False, "sharey": False}
    return figure_style.figure(
        data, ["panel"], names, lambda of, ax: draws[of["panel"].iloc[0]](of, ax), facts, **options
    )


def draw_redundancy(data: pd.DataFrame, ax: Axes) -> None:
    """Bars of ``redundancy`` in percent, with ``low`` and ``high``, by ``length`` (``n`` below) and ``variant``."""
    top = bars_by_length(data, ax, "redundancy", SETS, scale=100)
    ax.set_ylim(0, figure_style.percent_top(top))


def draw_thresholds(data: pd.DataFrame, ax: Axes) -> None:
    """Bars of ``share`` in percent, with ``low`` and ``high``, by ``length`` (``n`` below) and ``threshold``.

    ``threshold`` is "printed" or "corrected", ``mass_above`` its value.
    """
    of = data.drop_duplicates("threshold").set_index("threshold")["mass_above"]
    titles = {name: f"{name}: {formula} = {of[name]:.3f}" for name, formula in FORMULAS.items()}
    looks = {key: replace(look, title=title) for (key, title), look in zip(titles.items(), SETS.values(), strict=True)}
    top = bars_by_length(data, ax, "share", looks, "threshold", scale=100)
    ax.set_ylim(0, figure_style.percent_top(top))


def draw_covered_mass(data: pd.DataFrame, ax: Axes) -> None:
    """Bars of the ``mean`` mass, with ``low`` and ``high``, by ``length`` (``n`` below) and ``variant``."""
    bars_by_length(data, ax, "mean", VARIANTS)
    ax.set(ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered")


def draw_rank_probabilities(data: pd.DataFrame, ax: Axes) -> None:
    """A box of p at each beam ``rank``: ``q05``, ``q25``, ``median``, ``q75``, ``q95``, and its ``mean`` as a dot."""
    names = {"med": "median", "q1": "q25", "q3": "q75", "whislo": "q05", "whishi": "q95", "mean": "mean"}
    ranks, thin = data["rank"].astype(int).to_list(), {"linewidth": 0.7}
    ax.bxp(
        [{name: row[column] for name, column in names.items()} for row in data.to_dict("records")],
        positions=ranks,
        widths=0.6,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        boxprops={"facecolor": figure_style.PALE} | thin,
        medianprops={"color": figure_style.VERMILLION, "linewidth": 1.3},
        meanprops={"marker": "o", "markersize": 2.5, "markerfacecolor": BLACK, "markeredgecolor": BLACK},
        whiskerprops=thin,
        capprops=thin,
    )
    every = slice(None, None, 1 if len(ranks) <= 12 else 5)
    ax.set_xticks(ranks[every], [str(rank) for rank in ranks[every]])
    ax.set(ylim=(0, None), xlabel="Beam rank", ylabel="Sequence probability p")


def _strategies(study: Study) -> dict[str, str]:
    return {MULTINOMIAL: study.main.sample, BEAMSEARCH: study.main.beam}


def _by_length(
    study: Study,
    found: CandidateSets,
    bins: Sequence[QuestionBin],
    by: str,
    name: str,
    values: Mapping[str, Any],
    interval: Callable[[Any, Sequence[str], float], tuple[float, float] | None] = mean_interval,
) -> Iterator[dict[str, Any]]:
    """The mean of each series of values [N] over the questions of a length, its interval NaN where there is none."""
    for of in bins:
        for series, column in values.items():
            part, groups = column[of.members], groups_of(found.groups, of.members)
            low, high = interval(part, groups, study.evaluation.confidence) or (np.nan, np.nan)
            means = {name: float(part.mean()), "low": low, "high": high, "n": len(part)}
            yield {"length": of.title, by: series} | means


def _facts(study: Study, chosen: Sequence[Cell], found: CandidateSets) -> dict[str, Any]:
    return cells.facts(study, chosen, [MODEL], len(found.ids))


def _bars(data: pd.DataFrame, draw: figure_style.Draw, what: str, facts: Mapping[str, Any]) -> Figure:
    labels = LENGTH, what
    return figure_style.figure(data, [], {(): ""}, draw, facts, labels, height=2.3, legend_columns=2)


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of candidates."""
    builds = {"redundancy": redundancy, "beam_mass_threshold": mass_above_thresholds, "abl_prob_mass": covered_mass}
    return [
        Exhibit(label, "figure", shown, CANDIDATES, of, quality=False, scored=False) for label, of in builds.items()
    ]
