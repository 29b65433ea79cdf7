"""The figures of what a model generates, without scores: repeated samples, and probability that candidates cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from beamuq.exhibits.figure_style import BLACK, BLUE, ORANGE, PALE, VARIANTS, VERMILLION, SeriesStyle, bars_by_length
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
BARS: dict[str, Any] = {"labels": ("Greedy answer length in tokens; below, n questions", ""), "height": 2.3}


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
    rows = [
        {"length": of.title, "variant": variant, "redundancy": float(column[of.members].mean())}
        | _interval(study, found, of, column)
        for of in with_all(length_bins(found.lengths()))
        for variant, column in values.items()
    ]
    facts = _facts(study, chosen, found) | {"repeated": percent(float(values[BEAMSEARCH].mean()), 1)}
    return figure_style.figure(pd.DataFrame(rows), [], {(): ""}, draw_redundancy, facts, **BARS)


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold of the theorem, strictly; Wilson intervals (D20, theorem)."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    mass = found.mass(study.main.beam, size)
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    rows = [
        {"length": of.title, "threshold": name, "mass_above": threshold, "share": float(above[of.members].mean())}
        | _interval(study, found, of, above, proportion_interval)
        for of in with_all(length_bins(found.lengths()))
        for name, threshold in thresholds.items()
        for above in [mass > threshold]
    ]
    facts = {name: f"{threshold:.3f}" for name, threshold in thresholds.items()}
    facts |= {f"above_{row['threshold']}": percent(row["share"], 1) for row in rows[-2:]}
    facts |= _facts(study, chosen, found)
    return figure_style.figure(pd.DataFrame(rows), [], {(): ""}, draw_thresholds, facts, **BARS)


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each beam rank."""
    found, size = inputs.candidates(chosen[0]), study.main.num_candidates
    rows: list[dict[str, Any]] = []
    for variant, strategy in _strategies(study).items():
        mass = found.mass(strategy, size)
        for of in length_bins(found.lengths(), 7):
            place = {"panel": MASS, "variant": variant, "length": of.title, "mean": float(mass[of.members].mean())}
            rows.append(place | _interval(study, found, of, mass))
    for rank, part in found.of(study.main.beam, size).groupby("rank"):
        p = np.exp(part["logprob"].to_numpy())
        place = {"panel": RANKS, "variant": BEAMSEARCH, "rank": int(str(rank)) + 1, "mean": float(p.mean())}
        rows.append(place | {name: float(np.quantile(p, share)) for name, share in QUANTILES.items()} | {"n": len(p)})
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
    ax.set(ylim=(0, figure_style.percent_top(top)), ylabel="Texts that repeat (%)")


def draw_thresholds(data: pd.DataFrame, ax: Axes) -> None:
    """Bars of ``share`` in percent, with ``low`` and ``high``, by ``length`` (``n`` below) and ``threshold``.

    ``threshold`` is "printed" or "corrected", ``mass_above`` its value.
    """
    of = data.drop_duplicates("threshold").set_index("threshold")["mass_above"]
    titles = {name: f"{name}: {formula} = {of[name]:.3f}" for name, formula in FORMULAS.items()}
    looks = {key: replace(look, title=title) for (key, title), look in zip(titles.items(), SETS.values(), strict=True)}
    top = bars_by_length(data, ax, "share", looks, "threshold", scale=100)
    ax.set(ylim=(0, figure_style.percent_top(top)), ylabel="Questions above (%)")


def draw_covered_mass(data: pd.DataFrame, ax: Axes) -> None:
    """Bars of the ``mean`` mass, with ``low`` and ``high``, by ``length`` (``n`` below) and ``variant``."""
    bars_by_length(data, ax, "mean", VARIANTS)
    ax.set(ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered")


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


def _strategies(study: Study) -> dict[str, str]:
    return {MULTINOMIAL: study.main.sample, BEAMSEARCH: study.main.beam}


def _interval(
    study: Study, found: CandidateSets, of: QuestionBin, values: Any, kind: Any = mean_interval
) -> dict[str, Any]:
    """The interval of the mean of values [N] over the questions of a bin, NaN where there is none, and their n."""
    groups = groups_of(found.groups, of.members)
    low, high = kind(values[of.members], groups, study.evaluation.confidence) or (np.nan, np.nan)
    return {"low": low, "high": high, "n": len(groups)}


def _facts(study: Study, chosen: Sequence[Cell], found: CandidateSets) -> dict[str, Any]:
    return cells.facts(study, chosen, [MODEL], len(found.ids))


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of candidates."""
    builds = {"redundancy": redundancy, "beam_mass_threshold": mass_above_thresholds, "abl_prob_mass": covered_mass}
    return [Exhibit(name, "figure", shown, CANDIDATES, of, quality=False, scored=False) for name, of in builds.items()]
