"""The figures of what a model generates, without scores: repeated samples, and probability that candidates cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.evaluation.candidate_sets import CandidateSets, QuestionBin, groups_of, length_bins, with_all
from beamuq.evaluation.intervals import mean_interval, proportion_interval
from beamuq.exhibits import captions, cells, figure_style
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, Exhibit, Figure
from beamuq.exhibits.figure_style import BLACK, BLUE, ORANGE, PALE, VERMILLION, SeriesStyle, draw_bars_by_length
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.number_format import percent
from beamuq.study_config import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, DATASET = "gemma-3-4b-base", "triviaqa"
SETS = {MULTINOMIAL: SeriesStyle("samples", BLUE), BEAMSEARCH: SeriesStyle("beams", ORANGE, hatch="////")}
FORMULAS = {"printed": r"$m_B > 1 - 1/(2\sqrt{M})$", "corrected": r"$m_B > M/(M + 1)$"}
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
OF_BOX = {"med": "median", "q1": "q25", "q3": "q75", "whislo": "q05", "whishi": "q95", "mean": "mean"}
MASS, RANKS = "mass by length", "p by rank"
LENGTH = "Greedy answer length in tokens; below, n questions"


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
    data = _means(study, found, with_all(length_bins(found.lengths())), ("variant", "redundancy"), values)
    facts = _facts(study, chosen, found) | {"repeated": percent(float(values[BEAMSEARCH].mean()), 1)}
    draw, labels = partial(draw_bars_by_length, column="redundancy", looks=SETS, percent=True), "Texts that repeat (%)"
    return figure_style.figure(data, [], {(): ""}, draw, facts, (LENGTH, labels), height=2.3)


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold of the theorem, strictly; Wilson intervals (D20, theorem)."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    mass = found.mass(study.main.beam, size)
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    above = {name: mass > threshold for name, threshold in thresholds.items()}
    bins = with_all(length_bins(found.lengths()))
    data = _means(study, found, bins, ("threshold", "share"), above, proportion_interval)
    data.insert(2, "mass_above", data["threshold"].map(thresholds))
    facts = _facts(study, chosen, found) | {name: f"{threshold:.3f}" for name, threshold in thresholds.items()}
    facts |= {f"above_{name}": percent(float(of.mean()), 1) for name, of in above.items()}
    looks = {
        name: replace(look, title=f"{name}: {FORMULAS[name]} = {facts[name]}")
        for name, look in zip(FORMULAS, SETS.values(), strict=True)
    }
    draw = partial(draw_bars_by_length, column="share", looks=looks, by="threshold", percent=True)
    return figure_style.figure(data, [], {(): ""}, draw, facts, (LENGTH, "Questions above (%)"), height=2.3)


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each beam rank."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    bins = length_bins(found.lengths(), 7)
    masses = [{variant: found.mass(strategy, size)} for variant, strategy in _strategies(study).items()]
    parts = [_means(study, found, bins, ("variant", "mean"), mass).assign(panel=MASS) for mass in masses]
    for rank, part in found.of(study.main.beam, size).groupby("rank"):
        p = np.exp(part["logprob"].to_numpy())
        place = {"panel": RANKS, "variant": BEAMSEARCH, "rank": int(str(rank)) + 1, "mean": float(p.mean())}
        quantiles = {name: float(np.quantile(p, share)) for name, share in QUANTILES.items()}
        parts.append(pd.DataFrame([place | quantiles | {"n": len(p)}]))
    columns = ["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"]
    data = pd.concat(parts, ignore_index=True)[columns]
    names, facts = {MASS: "", RANKS: f"n = {len(found.ids)}"}, {"order": captions.BEAM_ORDER}
    return figure_style.figure(
        data, ["panel"], names, _draw_mass, facts | _facts(study, chosen, found), height=2.3, sharex=False, sharey=False
    )


def draw_rank_probabilities(data: pd.DataFrame, ax: Axes) -> None:
    """A box of p at each beam ``rank``: ``q05``, ``q25``, ``median``, ``q75``, ``q95``, and its ``mean`` as a dot."""
    boxes = [{name: row[column] for name, column in OF_BOX.items()} for row in data.to_dict("records")]
    ranks, thin = data["rank"].astype(int).to_list(), {"linewidth": 0.7}
    drawn = ax.bxp(boxes, ranks, widths=0.6, showfliers=False, showmeans=True, patch_artist=True)
    looks: dict[str, dict[str, Any]] = {"boxes": thin | {"facecolor": PALE}, "whiskers": thin, "caps": thin}
    looks["medians"] = {"color": VERMILLION, "linewidth": 1.3}
    looks["means"] = {"marker": "o", "markersize": 2.5, "markerfacecolor": BLACK, "markeredgecolor": BLACK}
    for name, look in looks.items():
        for artist in drawn[name]:
            artist.set(**look)
    every = slice(None, None, 1 if len(ranks) <= 12 else 5)
    ax.set_xticks(ranks[every], [str(rank) for rank in ranks[every]])
    ax.set(ylim=(0, None), xlabel="Beam rank", ylabel="Sequence probability p")


def _draw_mass(data: pd.DataFrame, ax: Axes) -> None:
    if data["panel"].iloc[0] == RANKS:
        draw_rank_probabilities(data, ax)
    else:
        draw_bars_by_length(data, ax, "mean")
        ax.set(ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered")


def _strategies(study: Study) -> dict[str, str]:
    return {MULTINOMIAL: study.main.sample, BEAMSEARCH: study.main.beam}


def _means(
    study: Study,
    found: CandidateSets,
    bins: Sequence[QuestionBin],
    columns: tuple[str, str],
    values: Mapping[str, Any],
    interval: Callable[..., tuple[float, float] | None] = mean_interval,
) -> pd.DataFrame:
    """The mean of each series of values [N] over the questions of a bin, with its interval, NaN where there is none.

    ``columns``: what the series and the means are called.
    """
    rows = []
    for of in bins:
        groups = groups_of(found.groups, of.members)
        for name, column in values.items():
            part = column[of.members]
            low, high = interval(part, groups, study.evaluation.confidence) or (np.nan, np.nan)
            rows.append((of.title, name, float(part.mean()), low, high, len(part)))
    return pd.DataFrame(rows, columns=["length", *columns, "low", "high", "n"])


def _facts(study: Study, chosen: Sequence[Cell], found: CandidateSets) -> dict[str, Any]:
    return cells.facts(study, chosen, [MODEL], len(found.ids))


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of candidates."""
    builds = {"redundancy": redundancy, "beam_mass_threshold": mass_above_thresholds, "abl_prob_mass": covered_mass}
    return [Exhibit(name, "figure", shown, CANDIDATES, of, quality=False, scored=False) for name, of in builds.items()]
