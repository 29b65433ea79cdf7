"""The figures of what a model generates, without scores: repeated samples, and probability that candidates cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.evaluation import intervals
from beamuq.exhibits import captions, exhibit_cells, figure_style, number_format
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.redundancy_and_covered_mass import (
    CandidateMeasures,
    Floats,
    LengthBin,
    group_of,
    length_bins,
    with_all,
)
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

Draw = Callable[[str, pd.DataFrame], "matplotlib.figure.Figure"]
MODEL, DATASET = "gemma-3-4b-base", "triviaqa"
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


@dataclass(frozen=True)
class CandidateFigure(FigureExhibit):
    """A figure of the candidates of one model on TriviaQA."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """The candidates, and the questions for their order and groups."""
        return exhibit_cells.candidate_artifacts(study, *exhibit_cells.one_cell(study, MODEL, DATASET))

    def _of(self, study: Study) -> str:
        """Dataset and model as printed."""
        return f"{study.datasets[DATASET].title}, {study.models[self.artifacts(study)[0].model].title}"

    def _built(self, study: Study, title: str, sentences: list[str], data: pd.DataFrame, draw: Draw) -> BuiltFigure:
        shown = exhibit_cells.shown_instead(study, [MODEL], [self.artifacts(study)[0].model])
        title, sentences = f"{title}, {self._of(study)}", [*sentences, shown]
        return self.figure(study, title, sentences, data, lambda title, _: draw(title, data), (), quality=False)


class RedundantSamples(CandidateFigure):
    """The share of samples, and of beams, whose text repeats another one, by length of the greedy answer."""

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """(M − distinct cleaned texts) / M, averaged over the questions of a length; t intervals."""
        found = CandidateMeasures(inputs, *self.artifacts(study))
        size = study.main.num_candidates
        strategies = {captions.MULTINOMIAL: study.main.sample, captions.BEAMSEARCH: study.main.beam}
        values = {variant: found.redundancy(strategy, size) for variant, strategy in strategies.items()}
        repeated = number_format.percent(float(values[captions.BEAMSEARCH].mean()), 1)
        rows = [
            (of.title, variant, *_mean(redundancy, found, of, study), int(of.members.sum()))
            for of in with_all(length_bins(found.lengths()))
            for variant, redundancy in values.items()
        ]
        sentences = [
            f"Redundant samples by length of the greedy answer: (M − distinct texts) / M with M = {size} multinomial "
            f"samples, and of as many beams, averaged over the questions of that length. {self._of(study)}, "
            f"n = {len(found.ids)} questions.",
            f"Beams are distinct token sequences; {repeated} of them repeat another one's text, as an answer can end "
            "in several ways or be written with other tokens.",
            "Length counts generated tokens with the terminator; texts are cleaned before they are compared.",
            f"Bars: {captions.confidence(study)} {number_format.MEAN_INTERVALS}.",
        ]
        data = pd.DataFrame(rows, columns=["length", "variant", "redundancy", "low", "high", "n"])
        return self._built(study, "Redundant samples", sentences, data, _draw_redundancy)


class MassAboveThreshold(CandidateFigure):
    """How often the beams' mass passes the theorem's thresholds, by length of the greedy answer (D20, theorem)."""

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Share of questions with m_B above each threshold, strictly; Wilson intervals."""
        size = study.main.num_candidates
        found = CandidateMeasures(inputs, *self.artifacts(study))
        mass = found.mass(study.main.beam, size)
        thresholds = {
            "printed": beam_mass_theorem.printed_threshold(size),
            "corrected": beam_mass_theorem.corrected_threshold(size),
        }
        rows = []
        for of in with_all(length_bins(found.lengths())):
            groups = group_of(found.groups, of.members)
            for name, threshold in thresholds.items():
                passed = mass[of.members] > threshold
                interval = intervals.proportion_interval(passed, groups, study.evaluation.confidence)
                rows.append((of.title, name, threshold, float(passed.mean()), *interval, len(passed)))
        data = pd.DataFrame(rows, columns=["length", "threshold", "mass_above", "share", "low", "high", "n"])
        overall = data[data["length"] == "All"].set_index("threshold")["share"]
        sentences = [
            f"Share of questions whose {size} beams cover a probability mass m_B above a threshold, by length of the "
            f"greedy answer (generated tokens with the terminator) and over all. {self._of(study)}, n = {len(mass)} "
            "questions.",
            f"The printed threshold is 1 − 1/(2√M) = {thresholds['printed']:.3f}; its proof uses an upper bound on the "
            f"variance where it needs a lower one, and the sharp sufficient condition is M/(M + 1) = "
            f"{thresholds['corrected']:.3f}.",
            f"Over all: {number_format.percent(overall['printed'], 1)} pass the printed threshold, "
            f"{number_format.percent(overall['corrected'], 1)} the corrected one.",
            f"Bars: {captions.confidence(study)} Wilson intervals.",
        ]
        return self._built(study, "Questions that meet the sufficient condition", sentences, data, _draw_thresholds)


class CoveredMassFigure(CandidateFigure):
    """The probability that samples and beams cover, by length of the greedy answer; probability by beam rank."""

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each beam rank."""
        size = study.main.num_candidates
        found = CandidateMeasures(inputs, *self.artifacts(study))
        rows: list[dict[str, str | int | float]] = []
        for variant, strategy in (
            (captions.MULTINOMIAL, study.main.sample),
            (captions.BEAMSEARCH, study.main.beam),
        ):
            mass = found.mass(strategy, size)
            for of in length_bins(found.lengths(), 7):
                mean, low, high = _mean(mass, found, of, study)
                place = {"panel": "mass by length", "variant": variant, "length": of.title}
                rows.append({**place, "mean": mean, "low": low, "high": high, "n": int(of.members.sum())})
        for rank, part in found.of(study.main.beam, size).groupby("rank"):
            p = np.exp(part["logprob"].to_numpy())
            place = {"panel": "p by rank", "variant": captions.BEAMSEARCH}
            quantiles = {name: float(np.quantile(p, share)) for name, share in QUANTILES.items()}
            rows.append({**place, "rank": int(str(rank)) + 1, "mean": float(p.mean()), **quantiles, "n": len(p)})
        columns = ["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"]
        sentences = [
            f"Left: probability mass of the distinct token sequences among {size} samples and among {size} beams, mean "
            "over the questions of a length of the greedy answer (generated tokens with the terminator), with "
            f"{captions.confidence(study)} {number_format.MEAN_INTERVALS}.",
            f"Right: sequence probability p by beam rank, {captions.BEAM_ORDER}: median, quartiles (box), 5 % and 95 % "
            f"(whiskers), mean (dot). {self._of(study)}, n = {len(found.ids)} questions.",
        ]
        title = f"Probability covered by {size} candidates"
        return self._built(study, title, sentences, pd.DataFrame(rows, columns=columns), _draw_mass)


def _mean(values: Floats, found: CandidateMeasures, of: LengthBin, study: Study) -> tuple[float, float, float]:
    """Mean over the questions of a length, and its interval, NaN where there is none."""
    chosen, groups = values[of.members], group_of(found.groups, of.members)
    low, high = intervals.mean_interval(chosen, groups, study.evaluation.confidence) or (np.nan, np.nan)
    return float(chosen.mean()), low, high


def _draw_redundancy(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.3, title, legend_rows=1)
    axes = figure.subplots()
    looks = {
        captions.MULTINOMIAL: figure_style.SeriesStyle("samples", figure_style.BLUE),
        captions.BEAMSEARCH: figure_style.SeriesStyle("beams", figure_style.ORANGE, hatch="////"),
    }
    places = figure_style.bar_places(len(data) // len(looks))
    ends = []
    for offset, (variant, look) in zip((-0.2, 0.2), looks.items(), strict=True):
        part = data[data["variant"] == variant]
        ends.append(figure_style.bars(axes, places + offset, part, "redundancy", look, scale=100))
    axes.set_ylim(0, figure_style.percent_top(np.concatenate(ends)))
    axes.set_ylabel("Texts that repeat (%)")
    figure_style.length_axis(axes, places, part["length"], part["n"])
    figure_style.legend(figure, axes, 2)
    return figure


def _draw_thresholds(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.3, title, legend_rows=1)
    axes = figure.subplots()
    looks = {
        "printed": (r"$m_B > 1 - 1/(2\sqrt{M})$", figure_style.BLUE, ""),
        "corrected": (r"$m_B > M/(M + 1)$", figure_style.ORANGE, "////"),
    }
    places = figure_style.bar_places(len(data) // len(looks))
    ends = []
    for offset, (name, (formula, colour, hatch)) in zip((-0.2, 0.2), looks.items(), strict=True):
        part = data[data["threshold"] == name]
        label = f"{name}: {formula} = {part['mass_above'].iloc[0]:.3f}"
        look = figure_style.SeriesStyle(label, colour, hatch=hatch)
        ends.append(figure_style.bars(axes, places + offset, part, "share", look, scale=100))
    axes.set_ylim(0, figure_style.percent_top(np.concatenate(ends)))
    axes.set_ylabel("Questions above (%)")
    figure_style.length_axis(axes, places, part["length"], part["n"])
    figure_style.legend(figure, axes, 2)
    return figure


def _draw_mass(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.2, title, legend_rows=1)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    mass = data[data["panel"] == "mass by length"]
    for offset, (variant, look) in zip((-0.2, 0.2), figure_style.VARIANTS.items(), strict=True):
        part = mass[mass["variant"] == variant]
        places = np.arange(len(part), dtype=np.float64)
        figure_style.bars(left, places + offset, part, "mean", look)
    left.set_ylim(0, 1.04)
    left.set_ylabel("Probability mass covered")
    figure_style.length_axis(left, places, part["length"], part["n"], short=True)
    ranks = data[data["panel"] == "p by rank"]
    positions = ranks["rank"].astype(int).to_list()
    boxes: list[dict[str, Any]] = [
        {"med": r.median, "q1": r.q25, "q3": r.q75, "whislo": r.q05, "whishi": r.q95, "mean": r.mean, "fliers": []}
        for r in ranks[["mean", *QUANTILES]].itertuples(index=False)
    ]
    right.bxp(
        boxes,
        positions=positions,
        widths=0.6,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        boxprops={"facecolor": figure_style.PALE, "linewidth": 0.7},
        medianprops={"color": figure_style.VERMILLION, "linewidth": 1.3},
        meanprops={
            "marker": "o",
            "markerfacecolor": figure_style.BLACK,
            "markeredgecolor": figure_style.BLACK,
            "markersize": 2.5,
        },
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
    )
    right.set_xticks(positions, [str(position) for position in positions])
    right.set_ylim(0, None)
    right.set_xlabel("Beam rank")
    right.set_ylabel("Sequence probability p")
    right.set_title(f"n = {ranks['n'].iloc[0]}")
    figure_style.legend(figure, left, 2)
    return figure
