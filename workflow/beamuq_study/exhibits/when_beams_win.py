"""When beams win: a map by covered mass and κ, where the study's own cells are on it, and what estimators do there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq import strategy_names
from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.known_distribution import coordinates
from beamuq.scorers.quality_metrics import exact_match, gold_label
from beamuq.text_normalization import normalize_squad, normalize_triviaqa
from beamuq_study.exhibits import cells, figure_style
from beamuq_study.exhibits.estimates_table import Column, means, table
from beamuq_study.exhibits.exhibit import Exhibit, Figure, Row, Table
from beamuq_study.exhibits.figure_style import BLACK, BLUE, VERMILLION
from beamuq_study.exhibits.table_formats import decimal, signed
from beamuq_study.result_files import Cell, Inputs
from beamuq_study.stages.beams_map import BEAMS, DISSIMILARITY, EXACT_TEXT, SAMPLES, SIMILARITY, TRUE, setting
from beamuq_study.study_config import Study

GAIN, NOISE, TARGET = "beams - samples", "noise", "target"
MIXED = {"stratified optimal_stratified": "Optimal stratified", "stratified adaptive": "Adaptive systematic"}
READS = ("beams_map", "candidates", "questions")
PLACE = ["model", "dataset"]
OWN = "cell of the study"
PRINTED = (1.0, 0.5)  # κ in the table
NUMBER_WIDTH = 0.11  # of mass; nearer ones are not printed
LIMIT = 0.1  # a larger difference in PRR has the same colour
AXES = "Mass that {M} beams cover", "κ (below 1: overconfident)"


def with_map(study: Study) -> list[Cell]:
    """The cells whose distribution is known."""
    return cells.select(study, lists=["beams_map"], of="all")


def with_points(study: Study) -> list[Cell]:
    """Those, and the main cells of other models and datasets: points on the map."""
    maps = {(cell.model, cell.dataset): cell for cell in with_map(study)}
    return list(({(cell.model, cell.dataset): cell for cell in cells.main_cells(study)} | maps).values())


def read(study: Study, inputs: Inputs, chosen: Sequence[Cell]) -> Estimates:
    """Every place of some cells' maps; the mean over the first model's datasets without options, if several."""
    every = joined([inputs.beams_map(cell) for cell in chosen])
    asked = [cell.dataset for cell in chosen if not inputs.of(cell, "questions")["options"].map(len).any()]
    rows = every.where(model=chosen[0].model, dataset=asked)
    return joined([every, means(study, rows)]) if rows.frame["dataset"].nunique() > 1 else every


def differences(each: Estimates) -> Estimates:
    """PRR of each estimator minus that of as many samples, and the two parts of beams', by place on the map.

    ``metric`` says which: of beams ``beams - samples`` is ``noise`` (U − samples) and ``target`` (beams − U).
    """
    parts = []
    for method in dict.fromkeys(each.frame["method"]):
        of = each.where(metric="PRR", method=method)
        samples = of.where(variant=SAMPLES)
        places = samples.frame[[*PLACE, "quality", "setting"]]
        found = {name: of.where(variant=name) for name in (BEAMS, *MIXED) if name in set(of.frame["variant"])}
        values = {name: rows.at(places) for name, rows in found.items()} if len(samples) else {}
        pairs = [(GAIN, name, rows, samples) for name, rows in values.items()]
        if values:
            without_M = places["setting"].str.replace(r" ?M=\d+$", "", regex=True)
            exact = of.where(variant=TRUE).at(places.assign(setting=without_M))
            pairs += [(NOISE, BEAMS, exact, samples), (TARGET, BEAMS, values[BEAMS], exact)]
        for metric, variant, a, b in pairs:
            parts.append(a.minus(b).assign(metric=metric, variant=variant, setting=places["setting"].tolist()))
    return joined(parts)


def when_beams_win(study: Study, chosen: Sequence[Cell], inputs: Inputs, *, by_dataset: bool) -> Figure:
    """Beams − samples by covered mass and κ as colour and number, a panel a quality; cells as points."""
    grid = _grid(study, inputs, [cell for cell in chosen if study.scoring[cell.recipe].beams_map])
    if MEAN in set(grid["dataset"]):
        grid = grid[(grid["dataset"] == MEAN) != by_dataset]
    points = pd.DataFrame([_point(study, inputs, cell) for cell in chosen])
    panels = [tuple(row) for row in grid[["dataset", "quality"]].drop_duplicates().to_numpy()]
    judged = [dataset for dataset, quality in panels if quality == SIMILARITY]
    panels.sort(key=lambda panel: panel[0] not in judged)  # pairs of panels side by side
    parts = []
    for dataset, quality in panels or [(dataset, "no map") for dataset in points["dataset"].unique()]:
        of_panel = grid[(grid["dataset"] == dataset) & (grid["quality"] == quality)]
        own = points if dataset == MEAN else points[points["dataset"] == dataset]
        both = pd.concat([of_panel, own.assign(quality=quality)], ignore_index=True)
        parts.append(both.assign(panel=dataset))
    data = pd.concat(parts, ignore_index=True)[["panel", "what", *PLACE, "quality", "power", *COORDINATES, *VALUE]]
    told = ", ".join(
        f"{study.datasets[d].title} {study.models[m].title} {decimal(mass, 2)} and "
        f"{'not known' if np.isnan(kappa) else decimal(kappa, 2)}"
        for m, d, mass, kappa in points[[*PLACE, "mass", "kappa"]].to_numpy()
    )
    facts = {"points": told, "undefined": f"{int(points['kappa'].isna().sum())} cells have no κ and are left out."}
    labels = AXES[0].format(M=study.main.num_candidates), AXES[1]
    name = "{panel}; quality: {quality}"
    return figure_style.figure(study, data, ["panel", "quality"], name, draw_map, facts, labels, across=2, height=2.3)


COORDINATES = ["mass", "mass_low", "mass_high", "kappa", "kappa_low", "kappa_high"]
VALUE = ["value", "low", "high", "n", "note"]


def _grid(study: Study, inputs: Inputs, chosen: Sequence[Cell]) -> pd.DataFrame:
    """Beams − samples at the main M, at each mass and κ of each map of the first model."""
    if not chosen:
        return pd.DataFrame(columns=["what", *PLACE, "quality", "power", *COORDINATES, *VALUE])
    every, M = read(study, inputs, chosen), study.main.num_candidates
    gains = differences(every.where(method=DISSIMILARITY)).where(metric=GAIN, variant=BEAMS)
    data = gains.summary(study.evaluation.confidence)
    data = data.join(pd.DataFrame([strategy_names.parse(name)[1] for name in data["setting"]], data.index))
    data = data[data["kappa"].notna() & (data["M"] == M) & (data["model"] == chosen[0].model)]
    mass = every.where(metric="mass").summary(study.evaluation.confidence).set_index([*PLACE, "setting"])
    at = mass.loc[[(m, d, setting(power, M=M)) for m, d, power in data[[*PLACE, "power"]].to_numpy()]]
    masses = dict(zip(COORDINATES[:3], at[["value", "low", "high"]].to_numpy().T, strict=True))
    return data.assign(what=GAIN, kappa_low=np.nan, kappa_high=np.nan, **masses)


def _point(study: Study, inputs: Inputs, cell: Cell) -> dict[str, Any]:
    """Where a cell is on the map, of all outcomes that its searches found, under its own questions' references."""
    sets, questions = inputs.candidates(cell), inputs.of(cell, "questions").set_index("id")
    normalize = normalize_squad if study.datasets[cell.dataset].adapter == "coqa" else normalize_triviaqa
    found = sets.found()
    references, options = (questions[name].loc[found["id"]] for name in ("references", "options"))
    right = [
        gold_label(text, list(accepted), list(shown)) if len(shown) else exact_match(text, list(accepted), normalize)
        for text, accepted, shown in zip(found["text"], references, options, strict=True)
    ]
    wide = found.assign(right=np.array(right, dtype=np.float64), place=found.groupby("id").cumcount())
    logprob, is_right = (
        wide.pivot(index="id", columns="place", values=name).loc[sets.ids].to_numpy(dtype=np.float64)
        for name in ("logprob", "right")
    )
    counts = np.column_stack([np.ones(len(sets.ids), dtype=np.int64), inputs.resample_counts(cell, sets.ids)])
    told: dict[str, Any] = {"what": OWN, **cell.place, "n": len(sets.ids)}
    for name, values in coordinates(logprob, is_right > 0, counts, study.main.num_candidates).items():
        ends = interval(values[1:], study.evaluation.confidence)
        told |= {name: values[0], f"{name}_low": ends.low, f"{name}_high": ends.high}
    return told


def draw_map(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """A difference by covered ``mass`` and ``kappa``: its colour and number; points of cells with bars.

    ``data`` has ``what`` ("beams - samples", or a cell of the study, whose ``value`` is empty), ``mass``, ``kappa``,
    and their ends ``mass_low`` …; ``value``, ``low``, ``high``, of a full grid. The line is where the value is 0, the
    dashed ones where the ends of its interval are.
    """
    from matplotlib.colors import LinearSegmentedColormap

    grid, own = data[data["what"] == GAIN], data[data["what"] == OWN]
    if len(grid):
        colours = LinearSegmentedColormap.from_list("samples to beams", [BLUE, "white", VERMILLION])
        tables = {name: grid.pivot(index="kappa", columns="mass", values=name) for name in ("value", "low", "high")}
        x, y = (axis.to_numpy(np.float64) for axis in (tables["value"].columns, tables["value"].index))
        levels = np.linspace(-LIMIT, LIMIT, 21)
        ax.contourf(x, y, tables["value"].to_numpy(np.float64), levels=levels, cmap=colours, extend="both", alpha=0.8)
        for name, line in (("value", "-"), ("low", "--"), ("high", "--")):
            ends = tables[name].to_numpy(np.float64)
            if (ends < 0).any() and (ends > 0).any():
                ax.contour(x, y, ends, levels=[0], colors=BLACK, linestyles=line, linewidths=1.2 - 0.4 * (line != "-"))
        apart = grid["mass"].isin(x[np.diff(x, prepend=-1.0) >= NUMBER_WIDTH])
        for mass, kappa, value in grid[apart][["mass", "kappa", "value"]].to_numpy():
            side = "left" if mass == x[0] else "center"
            box = {"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.6}
            ax.text(mass, kappa, signed(value), ha=side, va="center", fontsize=5.5, bbox=box)
        ax.set_ylim(y[0] - 0.1, y[-1] + 0.1)
        ax.plot([], [], color=BLACK, label="beams = samples")
        ax.plot([], [], color=BLACK, linestyle="--", linewidth=0.8, label="ends of its interval")
    places = own.dropna(subset=["kappa"])
    bars = {axis: _bars(places, axis) for axis in ("mass", "kappa")}
    style: dict[str, Any] = {"color": BLACK, "marker": "D", "markersize": 3, "linestyle": "", "elinewidth": 0.5}
    ax.errorbar(places["mass"], places["kappa"], bars["kappa"], bars["mass"], label=OWN, zorder=5, **style)
    ax.set_xlim(0, 1.04)


def _bars(places: pd.DataFrame, axis: str) -> Any:
    named = places.rename(columns={f"{axis}_low": "lower", f"{axis}_high": "upper"})
    ends = named[[axis, "lower", "upper"]].set_axis(["value", "low", "high"], axis=1)
    return figure_style.error_lengths(ends.astype(float))


def beams_map(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a quality, κ, power and M; of the mean, or of the one dataset."""
    every = read(study, inputs, chosen)
    gains = differences(every)
    gains = gains.assign(setting=(gains.frame["quality"] + " " + gains.frame["setting"]).tolist())
    masses = every.where(metric="mass")
    place = {"model": chosen[0].model, "dataset": MEAN if MEAN in set(every.frame["dataset"]) else chosen[0].dataset}
    mass = masses.where(**place).frame.set_index("setting")["value"]
    of = study.scoring[chosen[0].recipe].beams_map
    assert of is not None
    rows = [
        Row(
            (decimal(mass[setting(power, M=M)], 2), f"{power:g}", str(M)),
            place | {"setting": f"{quality} {setting(power, kappa, M)}"},
            f"Quality: {quality}, κ = {kappa:g}",
        )
        for quality in (SIMILARITY, EXACT_TEXT)
        for kappa in PRINTED
        if kappa in of.kappas
        for power in of.powers
        for M in of.sizes
    ]
    of_beams = {"method": DISSIMILARITY, "variant": BEAMS}
    heads = [({"metric": GAIN} | of_beams, "Beams"), ({"metric": NOISE} | of_beams, "Noise")]
    heads += [({"metric": TARGET} | of_beams, "Target")]
    heads += [({"metric": GAIN, "method": DISSIMILARITY, "variant": name}, title) for name, title in MIXED.items()]
    heads += [({"metric": GAIN, "method": name, "variant": BEAMS}, name) for name in ("CocoaMSP", "CocoaPPL")]
    columns = [Column(keys, (title,), "signed", "interval") for keys, title in heads]
    return table(study, gains, ("Mass", "g", "M"), rows, columns, further=[gains, masses])


def exhibits(study: Study) -> list[Exhibit]:  # noqa: ARG001  (each module's is called so)
    drawn = partial(Exhibit, cells=with_points, reads=READS, beyond_paper=True, quality=False)
    return [
        drawn("when_beams_win", "figure", build=partial(when_beams_win, by_dataset=False)),
        drawn("when_beams_win_by_dataset", "figure", build=partial(when_beams_win, by_dataset=True)),
        drawn("beams_map", "table", cells=with_map, reads=("beams_map", "questions"), build=beams_map),
    ]
