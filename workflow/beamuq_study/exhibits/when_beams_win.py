"""When beams win: a map by covered mass and κ, where the study's own cells are on it, and what
estimators do there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.estimator_errors import GAIN, NOISE, TARGET
from beamuq.evaluation.known_distribution import coordinates
from beamuq.scorers.quality_metrics import exact_match, gold_label
from beamuq_study import grid as cells
from beamuq_study.data.dataset_adapters import normalizer_of
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.estimates_table import Column, means, table
from beamuq_study.exhibits.exhibit import Exhibit, Figure, Row, Table
from beamuq_study.exhibits.figure_style import BLACK
from beamuq_study.exhibits.table_formats import decimal, signed
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.stages.beams_map import (
    BEAMS,
    DISSIMILARITY,
    EXACT_TEXT,
    SAMPLES,
    SIMILARITY,
    TRUE,
    setting,
)
from beamuq_study.study_config import Study

MIXED = {
    "stratified optimal_stratified": "Optimal stratified",
    "stratified adaptive": "Adaptive systematic",
}
PLACE = ["model", "dataset"]
ON = [*PLACE, "quality", "method", "setting"]
COVERING = [*PLACE, "power", "M"]  # what a covered mass depends on
COORDINATES = ["mass", "mass_low", "mass_high", "kappa", "kappa_low", "kappa_high"]
COLUMNS = [
    "panel",
    "what",
    *PLACE,
    "quality",
    "power",
    *COORDINATES,
    "value",
    "low",
    "high",
    "n",
    "note",
]
OWN = "cell of the study"
PRINTED = (1.0, 0.5)  # κ in the table
NUMBER_WIDTH = 0.11  # of mass; nearer ones are not printed
LIMIT = 0.1  # a larger difference in PRR has the same colour


def with_map(study: Study) -> list[Cell]:
    """The cells whose distribution is known."""
    return cells.select(study, lists=["beams_map"], take="all")


def with_points(study: Study) -> list[Cell]:
    """Those, and the main cells of other models and datasets: points on the map."""
    maps = {(cell.model, cell.dataset): cell for cell in with_map(study)}
    return list(
        ({(cell.model, cell.dataset): cell for cell in cells.main_cells(study)} | maps).values()
    )


def read(study: Study, inputs: Inputs, chosen: Sequence[Cell]) -> Estimates:
    """Every place of some cells' maps; the mean over the first model's datasets without options, if
    several.
    """
    every = joined([inputs.beams_map(cell) for cell in chosen])
    asked = [
        cell.dataset
        for cell in chosen
        if not inputs.of(cell, "questions")["options"].map(len).any()
    ]
    rows = every.where(model=chosen[0].model, dataset=asked)
    return joined([every, means(study, rows)]) if rows.frame["dataset"].nunique() > 1 else every


def differences(each: Estimates) -> Estimates:
    """PRR of each estimator minus that of as many samples, and the two parts of beams', by place on
    the map.

    ``metric`` says which: of beams ``beams - samples`` is ``noise`` (U − samples) and ``target``
    (beams − U).
    """
    of = {name: each.where(metric="PRR", variant=name) for name in (SAMPLES, BEAMS, TRUE, *MIXED)}
    samples, beams, at = of[SAMPLES], of[BEAMS], of[SAMPLES].frame
    true = of[TRUE].at(at[[*PLACE, "quality", "method", "power", "kappa"]])
    true = true.assign(setting=at["setting"].tolist(), M=at["M"].tolist())
    pairs = [(GAIN, name, of[name], samples) for name in (BEAMS, *MIXED)]
    pairs += [(NOISE, BEAMS, true, samples), (TARGET, BEAMS, beams, true)]
    return joined(
        [
            a.minus(b, on=ON).assign(metric=metric, variant=variant)
            for metric, variant, a, b in pairs
        ]
    )


def when_beams_win(
    study: Study, chosen: Sequence[Cell], inputs: Inputs, *, by_dataset: bool
) -> Figure:
    """Beams − samples by covered mass and κ as colour and number, a panel a quality; cells as
    points.
    """
    mapped = [cell for cell in chosen if study.scoring[cell.recipe].beams_map]
    grid = _grid(study, inputs, mapped) if mapped else pd.DataFrame(columns=COLUMNS)
    if MEAN in set(grid["dataset"]):
        grid = grid[(grid["dataset"] == MEAN) != by_dataset]
    points = pd.DataFrame([_point(study, inputs, cell) for cell in chosen])
    judged = set(grid.loc[grid["quality"] == SIMILARITY, "dataset"])
    panels = list(grid[["dataset", "quality"]].drop_duplicates().itertuples(index=False, name=None))
    panels.sort(key=lambda panel: panel[0] not in judged)  # pairs of panels side by side
    parts = []
    for dataset, quality in panels or [
        (dataset, "no map") for dataset in points["dataset"].unique()
    ]:
        own = points[(points["dataset"] == dataset) | (dataset == MEAN)].assign(quality=quality)
        of_panel = grid[(grid["dataset"] == dataset) & (grid["quality"] == quality)]
        parts.append(pd.concat([of_panel, own], ignore_index=True).assign(panel=dataset))
    data = pd.concat(parts, ignore_index=True)[COLUMNS]
    told = ", ".join(
        f"{study.datasets[d].title} {study.models[m].title} {decimal(mass, 2)} and "
        f"{'not known' if np.isnan(kappa) else decimal(kappa, 2)}"
        for m, d, mass, kappa in points[[*PLACE, "mass", "kappa"]].to_numpy()
    )
    facts = {
        "points": told,
        "undefined": f"{int(points['kappa'].isna().sum())} cells have no κ and are left out.",
    }
    labels = f"Mass that {study.main.num_candidates} beams cover", "κ (below 1: overconfident)"
    name, shape = (
        "{panel}, n = {n}; quality: {quality}",
        dict[str, Any](across=2, height=2.3, legend_rows=2),
    )
    return figure_style.figure(
        study, data, ["panel", "quality"], name, draw_map, facts, labels, **shape
    )


def _grid(study: Study, inputs: Inputs, chosen: Sequence[Cell]) -> pd.DataFrame:
    """Beams − samples at the main M, at each mass and κ of each map of the first model."""
    every, confidence = read(study, inputs, chosen), study.evaluation.confidence
    gains = differences(every.where(model=chosen[0].model, method=DISSIMILARITY)).where(
        metric=GAIN, variant=BEAMS
    )
    gains = gains.rows(
        gains.frame["kappa"].notna() & (gains.frame["M"] == study.main.num_candidates)
    )
    mass = (
        every.where(metric="mass")
        .at(gains.frame[COVERING])
        .summary(confidence)[["value", "low", "high"]]
    )
    data = gains.summary(confidence).join(mass.set_axis(COORDINATES[:3], axis=1))
    return data.assign(what=GAIN, kappa_low=np.nan, kappa_high=np.nan)


def _point(study: Study, inputs: Inputs, cell: Cell) -> dict[str, Any]:
    """Where a cell is on the map, of all outcomes that its searches found, under its own questions'
    references.
    """
    sets, M = inputs.candidates(cell), study.main.num_candidates
    normalizer = normalizer_of(study.datasets[cell.dataset])
    found = sets.found().join(sets.questions[["references", "options"]], on="id")
    right = [
        gold_label(text, list(accepted), list(shown))
        if len(shown)
        else exact_match(text, list(accepted), normalizer)
        for text, accepted, shown in found[["text", "references", "options"]].to_numpy()
    ]
    found = found.assign(right=right, place=found.groupby("id").cumcount())
    wide = (
        found.pivot(index="id", columns="place", values=["logprob", "right"])
        .loc[sets.ids]
        .astype(float)
    )
    counts = np.insert(inputs.resample_counts(cell, sets.ids), 0, 1, axis=1)
    told: dict[str, Any] = {"what": OWN, **cell.place, "n": len(sets.ids)}
    for name, values in coordinates(
        wide["logprob"].to_numpy(), wide["right"].to_numpy() > 0, counts, M
    ).items():
        ends = interval(values[1:], study.evaluation.confidence)
        told |= {name: values[0], f"{name}_low": ends.low, f"{name}_high": ends.high}
    return told


def draw_map(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """A difference by covered ``mass`` and ``kappa``: its colour and number; points of cells with
    bars.

    ``data`` has ``what`` ("beams - samples", or a cell of the study, whose ``value`` is empty),
    ``mass``, ``kappa``, and their ends ``mass_low`` …; ``value``, ``low``, ``high``, of a full
    grid. The line is where the value is 0, the dashed ones where the ends of its interval are.
    """
    from matplotlib.colors import LinearSegmentedColormap

    grid, own = data[data["what"] == GAIN], data[(data["what"] == OWN) & data["kappa"].notna()]
    if len(grid):
        samples, beams = figure_style.SAMPLES, figure_style.BEAMS
        colours = LinearSegmentedColormap.from_list("samples to beams", [samples, "white", beams])
        wide = grid.pivot(index="kappa", columns="mass", values=["value", "low", "high"]).astype(
            np.float64
        )
        x, y = wide["value"].columns.to_numpy(np.float64), wide.index.to_numpy(np.float64)
        levels = np.linspace(-LIMIT, LIMIT, 21)
        ax.contourf(x, y, wide["value"], levels=levels, cmap=colours, extend="both", alpha=0.8)
        for name, line, width in (("value", "-", 1.2), ("low", "--", 0.8), ("high", "--", 0.8)):
            ends = wide[name].to_numpy()
            if (ends < 0).any() and (ends > 0).any():
                ax.contour(x, y, ends, levels=[0], colors=BLACK, linestyles=line, linewidths=width)
        box = {"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.6}
        apart = grid["mass"].isin(x[np.diff(x, prepend=-1.0) >= NUMBER_WIDTH])
        for mass, kappa, value in grid.loc[apart, ["mass", "kappa", "value"]].to_numpy():
            side = "left" if mass == x[0] else "center"
            ax.text(mass, kappa, signed(value), ha=side, va="center", fontsize=5.5, bbox=box)
        ax.plot([], [], color=BLACK, label="beams = samples")
        ax.plot([], [], color=BLACK, linestyle="--", linewidth=0.8, label="ends of its interval")
        for colour, label in ((beams, "beams ahead"), (samples, "samples ahead")):
            ax.plot([], [], color=colour, marker="s", linestyle="", label=label)
    across, up = (
        figure_style.error_lengths(own, of, f"{of}_low", f"{of}_high") for of in ("mass", "kappa")
    )
    style: dict[str, Any] = {
        "color": BLACK,
        "marker": "D",
        "markersize": 3,
        "linestyle": "",
        "elinewidth": 0.5,
    }
    ax.errorbar(
        own["mass"], own["kappa"], up, across, label="this study's questions", zorder=5, **style
    )
    ax.set_xlim(0, 1.04)
    ax.use_sticky_edges = False
    ax.autoscale(axis="y")  # room above and below the numbers, and for cells off the map


def beams_map(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a quality, κ, power and M; of the mean, or of the one dataset."""
    every, of = read(study, inputs, chosen), study.scoring[chosen[0].recipe].beams_map
    assert of is not None
    gains, mass = differences(every), every.where(metric="mass")
    judged = (
        gains.frame["kappa"].isin(PRINTED) | gains.frame["kappa"].isna()
    )  # or by a real quality
    apart = (gains.frame["M"] == study.main.num_candidates) & judged
    gains = gains.assign(setting=(gains.frame["quality"] + " " + gains.frame["setting"]).tolist())
    place = {
        "model": chosen[0].model,
        "dataset": MEAN if MEAN in set(every.frame["dataset"]) else chosen[0].dataset,
    }
    by_setting = mass.where(**place).frame.set_index("setting")["value"]
    rows = [
        Row(
            (decimal(by_setting[setting(power, M=M)], 2), f"{power:g}", str(M)),
            place | {"setting": f"{quality} {setting(power, kappa, M)}"},
            f"Quality: {quality}, κ = {kappa:g}",
        )
        for quality in (SIMILARITY, EXACT_TEXT)
        for kappa in PRINTED
        if kappa in of.kappas
        for power in of.powers
        for M in of.sizes
    ]
    of_beams = {"metric": GAIN, "method": DISSIMILARITY, "variant": BEAMS}
    heads = {
        "Beams": of_beams,
        "Noise": of_beams | {"metric": NOISE},
        "Target": of_beams | {"metric": TARGET},
    }
    heads |= {title: of_beams | {"variant": name} for name, title in MIXED.items()}
    heads |= {name: of_beams | {"method": name} for name in ("CocoaMSP", "CocoaPPL")}
    columns = [Column(keys, (title,), "signed", "interval") for title, keys in heads.items()]
    return table(study, gains, ("Mass", "g", "M"), rows, columns, further=[gains.rows(apart), mass])


def exhibits(study: Study) -> list[Exhibit]:  # noqa: ARG001  (each module's is called so)
    reads = ("beams_map", "candidates", "questions")
    drawn = partial(Exhibit, cells=with_points, reads=reads, beyond_paper=True, quality=False)
    return [
        drawn("when_beams_win", "figure", build=partial(when_beams_win, by_dataset=False)),
        drawn(
            "when_beams_win_by_dataset", "figure", build=partial(when_beams_win, by_dataset=True)
        ),
        drawn(
            "beams_map", "table", cells=with_map, reads=("beams_map", "questions"), build=beams_map
        ),
    ]
