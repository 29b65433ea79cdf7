"""``fig:abl_prob_mass``: the probability that samples and beams cover, by length; probability by beam rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.evaluation import intervals
from beamuq.exhibits import figure_style, number_format, study_grid, wording
from beamuq.exhibits.candidate_measures import Candidates, group_of, length_bins
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.figure

LABEL, MODEL, DATASET = "abl_prob_mass", "gemma-3-4b-base", "triviaqa"
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def needs(study: Study) -> list[Artifact]:
    """Candidates of one model on TriviaQA, and its questions for the order and groups."""
    return study_grid.candidate_artifacts(study, *study_grid.one_cell(study, MODEL, DATASET))


def build(study: Study, inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct token sequences, mean by length. Right: quantiles of p at each beam rank."""
    files, size = needs(study), study.main.num_candidates
    found = Candidates(inputs, *files)
    rows: list[dict[str, str | int | float]] = []
    for variant, strategy in (("multinomial", study.main.sample), ("beamsearch", study.main.beam)):
        mass = found.mass(strategy, size)
        for chosen in length_bins(found.lengths(), 7):
            interval = intervals.mean_interval(
                mass[chosen.members],
                group_of(found.groups, chosen.members),
                study.evaluation.confidence,
            )
            low, high = interval or (np.nan, np.nan)
            rows.append(
                {
                    "panel": "mass by length",
                    "variant": variant,
                    "length": chosen.title,
                    "mean": float(mass[chosen.members].mean()),
                    "low": low,
                    "high": high,
                    "n": int(chosen.members.sum()),
                }
            )
    for rank, part in found.of(study.main.beam, size).groupby("rank"):
        p = np.exp(part["logprob"].to_numpy())
        rows.append(
            {
                "panel": "p by rank",
                "variant": "beamsearch",
                "rank": int(str(rank)) + 1,
                "mean": float(p.mean()),
                **{name: float(np.quantile(p, share)) for name, share in QUANTILES.items()},
                "n": len(p),
            }
        )
    columns = ["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"]
    data = pd.DataFrame(rows, columns=columns)
    model, dataset = study.models[files[0].model].title, study.datasets[DATASET].title
    title = wording.titled(study, f"Probability covered by {size} candidates, {dataset}, {model}")
    caption = wording.caption(
        study,
        [
            f"Left: probability mass of the distinct token sequences among {size} samples and among {size} beams, mean "
            "over the questions of a length of the greedy answer (generated tokens with the terminator), with "
            f"{figure_style.confidence(study)} {number_format.MEAN_INTERVALS}.",
            f"Right: sequence probability p by beam rank, {wording.BEAM_ORDER}: median, quartiles (box), 5 % and 95 % "
            f"(whiskers), mean (dot). {dataset}, {model}, n = {len(found.ids)} questions.",
            study_grid.shown_instead(study, [MODEL], [files[0].model]),
        ],
    )
    return Figure(LABEL, title, caption, data, lambda: _draw(title, data))


def _draw(title: str, data: pd.DataFrame) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.2, title, legend_rows=1)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    mass = data[data["panel"] == "mass by length"]
    for offset, (variant, look) in zip((-0.2, 0.2), figure_style.VARIANTS.items(), strict=True):
        part = mass[mass["variant"] == variant]
        bins, heights = np.arange(len(part), dtype=np.float64), part["mean"].to_numpy()
        errors = figure_style.error_lengths(heights, part["low"].to_numpy(), part["high"].to_numpy())
        left.bar(
            bins + offset,
            heights,
            0.38,
            color=look.colour,
            hatch=look.hatch,
            label=look.title,
            yerr=errors,
            **figure_style.ERROR_BARS,
        )
    left.set_ylim(0, 1.04)
    left.set_ylabel("Probability mass covered")
    figure_style.length_axis(left, bins, part["length"], part["n"], short=True)
    ranks = data[data["panel"] == "p by rank"]
    places = ranks["rank"].astype(int).to_list()
    boxes: list[dict[str, Any]] = [
        {"med": r.median, "q1": r.q25, "q3": r.q75, "whislo": r.q05, "whishi": r.q95, "mean": r.mean, "fliers": []}
        for r in ranks[["mean", *QUANTILES]].itertuples(index=False)
    ]
    look = figure_style.VARIANTS["beamsearch"]
    right.bxp(
        boxes,
        positions=places,
        widths=0.6,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        boxprops={"facecolor": figure_style.PALE, "linewidth": 0.7},
        medianprops={"color": look.colour, "linewidth": 1.3},
        meanprops={
            "marker": "o",
            "markerfacecolor": figure_style.BLACK,
            "markeredgecolor": figure_style.BLACK,
            "markersize": 2.5,
        },
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
    )
    right.set_xticks(places, [str(place) for place in places])
    right.set_ylim(0, None)
    right.set_xlabel("Beam rank")
    right.set_ylabel("Sequence probability p")
    right.set_title(f"n = {ranks['n'].iloc[0]}")
    figure_style.legend(figure, left, 2)
    return figure


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)
