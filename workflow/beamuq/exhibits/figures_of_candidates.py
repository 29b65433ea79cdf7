"""The figures of what a model generates, without scores: repeated samples, and probability that candidates cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.evaluation.candidate_sets import length_bins, means_by_bin, with_all
from beamuq.evaluation.intervals import proportion_interval
from beamuq.exhibits import captions, cells, figure_style
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, Exhibit, Figure
from beamuq.exhibits.figure_style import BLACK, BLUE, ORANGE, PALE, VERMILLION, SeriesStyle, draw_by_bin
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
    data = means_by_bin(with_all(length_bins(found.lengths())), found.groups, values, study.evaluation.confidence)
    data = data.set_axis(["length", "variant", "redundancy", "low", "high", "n"], axis=1)
    facts = cells.facts(study, chosen, [MODEL], len(found.ids))
    facts |= {"repeated": percent(float(values[BEAMSEARCH].mean()), 1)}
    draw = partial(draw_by_bin, column="redundancy", looks=SETS, percent=True)
    return figure_style.figure(study, data, [], "", draw, facts, (LENGTH, "Texts that repeat (%)"), height=2.3)


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold of the theorem, strictly; Wilson intervals (D20, theorem)."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    mass = found.mass(study.main.beam, size)
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    above = {name: mass > threshold for name, threshold in thresholds.items()}
    confidence = study.evaluation.confidence
    data = means_by_bin(with_all(length_bins(found.lengths())), found.groups, above, confidence, proportion_interval)
    data = data.set_axis(["length", "threshold", "share", "low", "high", "n"], axis=1)
    data.insert(2, "mass_above", data["threshold"].map(thresholds))
    facts = cells.facts(study, chosen, [MODEL], len(found.ids))
    facts |= {name: f"{threshold:.3f}" for name, threshold in thresholds.items()}
    facts |= {f"above_{name}": percent(float(of.mean()), 1) for name, of in above.items()}
    titles = {name: f"{name}: {formula} = {facts[name]}" for name, formula in FORMULAS.items()}
    looks = {name: replace(look, title=titles[name]) for name, look in zip(FORMULAS, SETS.values(), strict=True)}
    draw = partial(draw_by_bin, column="share", looks=looks, by="threshold", percent=True)
    return figure_style.figure(study, data, [], "", draw, facts, (LENGTH, "Questions above (%)"), height=2.3)


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each beam rank."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    bins, confidence = length_bins(found.lengths(), 7), study.evaluation.confidence
    parts = []
    for variant, strategy in _strategies(study).items():
        means = means_by_bin(bins, found.groups, {variant: found.mass(strategy, size)}, confidence)
        parts.append(means.set_axis(["length", "variant", "mean", "low", "high", "n"], axis=1).assign(panel=MASS))
    p = np.exp(found.of(study.main.beam, size).set_index("rank")["logprob"])
    by_rank = (
        p.groupby("rank").agg(["mean", "count"]).join(p.groupby("rank").quantile(list(QUANTILES.values())).unstack())
    )
    by_rank = by_rank.set_axis(["mean", "n", *QUANTILES], axis=1).reset_index()
    parts.append(by_rank.assign(rank=by_rank["rank"] + 1, panel=RANKS, variant=BEAMSEARCH))
    columns = ["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"]
    data, facts = pd.concat(parts, ignore_index=True)[columns], {"order": captions.BEAM_ORDER}
    facts |= cells.facts(study, chosen, [MODEL], len(found.ids))
    options: dict[str, Any] = {"height": 2.3, "sharex": False, "sharey": False}
    return figure_style.figure(study, data, ["panel"], "", _draw_mass, facts, **options)


def draw_rank_probabilities(data: pd.DataFrame, ax: Axes) -> None:
    """A box of p at each beam ``rank``: ``q05``, ``q25``, ``median``, ``q75``, ``q95``, and its ``mean`` as a dot."""
    boxes = [{name: row[column] for name, column in OF_BOX.items()} for row in data.to_dict("records")]
    ranks, thin = data["rank"].astype(int).to_list(), {"linewidth": 0.7}
    dot = {"marker": "o", "markersize": 2.5, "markerfacecolor": BLACK, "markeredgecolor": BLACK}
    looks: dict[str, Any] = {"boxprops": thin | {"facecolor": PALE}, "whiskerprops": thin, "capprops": thin}
    looks |= {"medianprops": {"color": VERMILLION, "linewidth": 1.3}, "meanprops": dot}
    ax.bxp(boxes, ranks, widths=0.6, showfliers=False, showmeans=True, patch_artist=True, **looks)
    every = slice(None, None, 1 if len(ranks) <= 12 else 5)
    ax.set_xticks(ranks[every], [str(rank) for rank in ranks[every]])
    ax.set(ylim=(0, None), xlabel="Beam rank", ylabel="Sequence probability p")


def _draw_mass(data: pd.DataFrame, ax: Axes) -> None:
    if data["panel"].iloc[0] == RANKS:
        draw_rank_probabilities(data, ax)
        ax.set_title(f"n = {data['n'].iloc[0]}")
    else:
        draw_by_bin(data, ax, "mean")
        ax.set(ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered")


def _strategies(study: Study) -> dict[str, str]:
    return {MULTINOMIAL: study.main.sample, BEAMSEARCH: study.main.beam}


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of candidates."""
    builds = {"redundancy": redundancy, "beam_mass_threshold": mass_above_thresholds, "abl_prob_mass": covered_mass}
    return [Exhibit(name, "figure", shown, CANDIDATES, of, quality=False, scored=False) for name, of in builds.items()]
