"""When beams win: a map by covered mass and κ, and where the study's own cells are on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.known_distribution import claims_more_than_held, coordinates
from beamuq.scorers.quality_metrics import exact_match, gold_label
from beamuq_study import grid
from beamuq_study.data.dataset_adapters import normalizer_of
from beamuq_study.errors_where_u_is_known import GAIN, NOISE, TARGET
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.exhibit import Exhibit, Figure, Row, Table
from beamuq_study.exhibits.figure_style import BLACK, Axes, Layout
from beamuq_study.exhibits.label_places import LabelPlaces, without_common_words
from beamuq_study.exhibits.numbers_of_cells import means
from beamuq_study.exhibits.table_formats import decimal, signed
from beamuq_study.exhibits.table_of_numbers import Column, Keys, table
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
from beamuq_study.study_config import Dataset, Study

MIXED = {
    "stratified optimal_stratified": "Optimal stratified",
    "stratified adaptive": "Adaptive systematic",
}
FURTHER_SCORES = ("CocoaMSP", "CocoaPPL")
PLACE = ["model", "dataset"]
PAIRED_ON = [*PLACE, "quality", "method", "setting"]
COVERING = [*PLACE, "power", "M"]  # what a covered mass depends on
ENDS = ("", "_low", "_high")
COORDINATES = [name + end for name in ("mass", "kappa", "held") for end in ENDS]
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
NO_MAP = "no map"
PRINTED = (1.0, 0.5)  # κ in the table
MARKER = 3.0  # points, of a cell's mark
NARROW_TEXT = 5.5  # points, of numbers and names on one of two maps in a row
WIDE_TEXT = 6.5  # points, of those on a map as wide as the figure
BOX_ALPHA = 0.85  # of the box behind a text: a line below it is not read as part of it
NUMBER_WIDTH = 0.11  # of mass; nearer ones are not printed
LIMIT = 0.1  # a larger difference in PRR has the same colour

# -- results ---------------------------------------------------------------------------------------


def with_map(study: Study) -> list[Cell]:
    """The cells whose distribution is known."""
    return grid.select(study, scoring_keys=["beams_map"], take="all")


def with_points(study: Study) -> list[Cell]:
    """The cells with a map, and the main cells of other models and datasets: points on it."""
    by_place = {(cell.model, cell.dataset): cell for cell in grid.main_cells(study)}
    for cell in with_map(study):
        by_place[cell.model, cell.dataset] = cell
    return list(by_place.values())


def read(study: Study, inputs: Inputs, chosen: Sequence[Cell]) -> Estimates:
    """Every place of some cells' maps, and the mean over the first model's datasets.

    The mean is of datasets without options, if they are several.
    """
    estimates = joined([inputs.beams_map(cell) for cell in chosen])
    without_options = [
        cell.dataset
        for cell in chosen
        if not inputs.of(cell, "questions")["options"].map(len).any()
    ]
    averaged = estimates.where(model=chosen[0].model, dataset=without_options)
    if averaged.frame["dataset"].nunique() < 2:
        return estimates
    return joined([estimates, means(study, averaged)])


def differences(estimates: Estimates) -> Estimates:
    """PRR of each estimator minus that of as many samples, by place on the map.

    ``metric`` says which: of beams ``beams - samples`` is ``noise`` (U − samples) and ``target``
    (beams − U).
    """
    samples = _prr(estimates, SAMPLES)
    beams = _prr(estimates, BEAMS)
    true = _true_at(samples.frame, _prr(estimates, TRUE))
    parts = [_difference(GAIN, BEAMS, beams, samples)]
    parts += [_difference(GAIN, name, _prr(estimates, name), samples) for name in MIXED]
    parts += [
        _difference(NOISE, BEAMS, true, samples),
        _difference(TARGET, BEAMS, beams, true),
    ]
    return joined(parts)


def _prr(estimates: Estimates, variant: str) -> Estimates:
    return estimates.where(metric="PRR", variant=variant)


def _true_at(places: pd.DataFrame, true: Estimates) -> Estimates:
    """PRR of U, which has no M, at each of some places."""
    repeated = true.at(places[[*PLACE, "quality", "method", "power", "kappa"]])
    frame = repeated.frame.assign(setting=places["setting"].tolist(), M=places["M"].tolist())
    return Estimates(frame, repeated.replicates)


def _difference(metric: str, variant: str, first: Estimates, second: Estimates) -> Estimates:
    return first.minus(second, on=PAIRED_ON).assign(metric=metric, variant=variant)


# -- figure ----------------------------------------------------------------------------------------


def when_beams_win(
    study: Study, chosen: Sequence[Cell], inputs: Inputs, *, by_dataset: bool
) -> Figure:
    """Beams − samples by covered mass and κ as colour and number, a panel a quality.

    Cells are points. ``by_dataset``: a panel a dataset, too, in place of the mean where there is
    one.
    """
    grid = _grid(study, inputs, chosen, by_dataset=by_dataset)
    points = pd.DataFrame([place_on_map(study, inputs, cell) for cell in chosen])
    data = _panels(grid, points)
    facts = {
        "points": _coordinates_of_points(study, points),
        "beside": _beside_the_map(study, points),
        "undefined": f"{int(points['kappa'].isna().sum())} cells have no κ and are left out.",
    }
    return drawn_map(study, data, across=2 if by_dataset else 1).with_facts(facts)


def drawn_map(study: Study, data: pd.DataFrame, across: int) -> Figure:
    """The figure of its frame alone, ``across`` panels in a row; without a map two."""
    sides = sides_of_points(data)
    if not sides:
        across = 2
    text_size = NARROW_TEXT if across > 1 else WIDE_TEXT
    names = _names_of_points(study, data)
    layout = Layout(
        (f"Mass that {study.main.num_candidates} beams cover", "κ (below 1: overconfident)"),
        across=across,
        height=2.3 if across > 1 else 2.6,
        legend_rows=2,
        before=f"{sides}\n" if sides else "",
        finish=partial(finish_map, names=names, text_size=text_size),
    )
    name = "{panel}, n = {n}; quality: {quality}"
    by = ["panel", "quality"]
    draw = partial(draw_map, text_size=text_size)
    return figure_style.figure(study, data, by, name, draw, {"sides": sides}, layout)


def sides_of_points(data: pd.DataFrame) -> str:
    """At how many points of a figure's frame the map has beams ahead and samples, by quality.

    By the map's interval at the point itself: one that holds 0 is undecided. A point that does not
    reach the map is counted apart. "" where there is no map.
    """
    phrases = []
    on_map = data[data["quality"] != NO_MAP]
    for quality, panels in on_map.groupby("quality", sort=False):
        parts = [panel for _, panel in panels.groupby("panel", sort=False)]
        lows = np.concatenate([values_at_points(panel, "low") for panel in parts])
        highs = np.concatenate([values_at_points(panel, "high") for panel in parts])
        beams = int((lows > 0).sum())
        samples = int((highs < 0).sum())
        off_map = int(np.isnan(lows).sum())
        undecided = len(lows) - beams - samples - off_map
        phrases.append(
            f"{quality}: beams ahead at {beams}, samples at {samples}, undecided at {undecided}, "
            f"{off_map} off the map"
        )
    return f"Points by side of the line: {'; '.join(phrases)}." if phrases else ""


def values_at_points(panel: pd.DataFrame, column: str = "value") -> Floats:
    """What a ``column`` of a panel's map has at each of its points, between its places.

    NaN where a point's intervals do not reach the map; at its edge where they do, and the point
    itself does not.
    """
    own = panel[(panel["what"] == OWN) & panel["kappa"].notna()]
    grid = panel[panel["what"] == GAIN]
    if grid.empty:
        return np.full(len(own), np.nan)
    wide = grid.pivot(index="kappa", columns="mass", values=column).astype(np.float64)
    masses = wide.columns.to_numpy(np.float64)
    kappas = wide.index.to_numpy(np.float64)
    is_reached = _reaches(own, "mass", masses) & _reaches(own, "kappa", kappas)
    values = []
    for mass, kappa in own[["mass", "kappa"]].to_numpy(np.float64):
        by_kappa = [np.interp(mass, masses, row) for row in wide.to_numpy()]
        values.append(np.interp(kappa, kappas, by_kappa))
    return np.where(is_reached, np.array(values, np.float64), np.nan)


def _reaches(points: pd.DataFrame, name: str, places: Floats) -> Bools:
    """Whether the interval of each point, or the point where there is none, reaches the places."""
    values = points[name].astype(np.float64)
    lows = points[f"{name}_low"].astype(np.float64).fillna(values)
    highs = points[f"{name}_high"].astype(np.float64).fillna(values)
    return np.asarray((highs >= places[0]) & (lows <= places[-1]), np.bool_)


def _names_of_points(study: Study, data: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What the point of each model and dataset is called, without words that all models have."""
    own = data[data["what"] == OWN]
    models = list(own["model"].unique())
    styles = without_common_words([study.models[model].title for model in models])
    style_by_model = dict(zip(models, styles, strict=True))
    return {
        (model, dataset): f"{study.datasets[dataset].title} {style_by_model[model]}".strip()
        for model, dataset in own[PLACE].drop_duplicates().to_numpy()
    }


def _grid(
    study: Study, inputs: Inputs, chosen: Sequence[Cell], *, by_dataset: bool
) -> pd.DataFrame:
    """Beams − samples at the main M, at each mass and κ of the maps that are shown."""
    mapped = [cell for cell in chosen if study.scoring[cell.recipe].beams_map]
    if not mapped:
        return pd.DataFrame(columns=COLUMNS)
    grid = _gains_on_map(study, read(study, inputs, mapped), mapped[0].model)
    if MEAN not in set(grid["dataset"]):
        return grid
    return grid[(grid["dataset"] == MEAN) != by_dataset]


def _gains_on_map(study: Study, estimates: Estimates, model: str) -> pd.DataFrame:
    """Beams − samples of a model at the main M, with the mass that beams cover and κ."""
    confidence = study.evaluation.confidence
    of_model = differences(estimates.where(model=model, method=DISSIMILARITY))
    gains = of_model.where(metric=GAIN, variant=BEAMS)
    at_main_size = gains.frame["M"] == study.main.num_candidates
    gains = gains.rows(gains.frame["kappa"].notna() & at_main_size)
    mass = estimates.where(metric="mass").at(gains.frame[COVERING]).summary(confidence)
    ends = mass[["value", "low", "high"]].set_axis(["mass", "mass_low", "mass_high"], axis=1)
    data = gains.summary(confidence).join(ends)
    of_points_alone = ["kappa_low", "kappa_high", "held", "held_low", "held_high"]
    return data.assign(what=GAIN, **dict.fromkeys(of_points_alone, np.nan))


def _panels(grid: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """The rows of the figure: of each panel its places on the grid, then its points."""
    parts = []
    for dataset, quality in _names_of_panels(grid, points):
        places = grid[(grid["dataset"] == dataset) & (grid["quality"] == quality)]
        own = points[(points["dataset"] == dataset) | (dataset == MEAN)].assign(quality=quality)
        parts.append(pd.concat([places, own], ignore_index=True).assign(panel=dataset))
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _names_of_panels(grid: pd.DataFrame, points: pd.DataFrame) -> list[tuple[str, str]]:
    """Dataset and quality of each panel, those with both qualities first, side by side."""
    if grid.empty:
        return [(dataset, NO_MAP) for dataset in points["dataset"].unique()]
    names = grid[["dataset", "quality"]].drop_duplicates().itertuples(index=False, name=None)
    judged_by_both = set(grid.loc[grid["quality"] == SIMILARITY, "dataset"])
    return sorted(names, key=lambda panel: panel[0] not in judged_by_both)


def _coordinates_of_points(study: Study, points: pd.DataFrame) -> str:
    """The covered mass, κ and share of right answers among the beams of each cell."""
    phrases = []
    for place, mass, kappa, held in _numbers_of_points(study, points, ["mass", "kappa", "held"]):
        ratio = "not known" if np.isnan(kappa) else decimal(kappa, 2)
        phrases.append(f"{place} {decimal(mass, 2)}, {ratio} and {decimal(held, 2)}")
    return "; ".join(phrases)


def _beside_the_map(study: Study, points: pd.DataFrame) -> str:
    """The cells to which the map does not apply, by the rule of ``advise``."""
    ends = _numbers_of_points(study, points, ["mass_low", "held_high"])
    beside = [place for place, mass, held in ends if claims_more_than_held(mass, held)]
    return "; ".join(beside) or "none"


def _numbers_of_points(
    study: Study, points: pd.DataFrame, names: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Of each cell its title and some numbers, NaN where there is none."""
    titles = [
        f"{study.datasets[dataset].title} {study.models[model].title}"
        for model, dataset in points[PLACE].to_numpy()
    ]
    columns = [points[name].astype(np.float64) for name in names]
    return list(zip(titles, *columns, strict=True))


def place_on_map(study: Study, inputs: Inputs, cell: Cell) -> Mapping[str, Any]:
    """Where a cell is on the map."""
    numbers: dict[str, float | None] = {}
    for name, values in coordinates_of(study, inputs, cell).items():
        ends = interval(values[1:], study.evaluation.confidence)
        numbers |= {name: values[0], f"{name}_low": ends.low, f"{name}_high": ends.high}
    n = len(inputs.candidates(cell).ids)
    return {"what": OWN, **cell.place, "n": n, **numbers}


def coordinates_of(study: Study, inputs: Inputs, cell: Cell) -> dict[str, Floats]:
    """A cell's coordinates, each the value and then its resamples, of all outcomes found.

    Outcomes are right under its own questions' references.
    """
    sets = inputs.candidates(cell)
    outcomes = _outcomes(sets, study.datasets[cell.dataset])
    logprob = outcomes["logprob"].loc[sets.ids].to_numpy(np.float64)
    right = outcomes["right"].loc[sets.ids].to_numpy(np.float64) > 0
    counts = np.insert(inputs.resample_counts(cell, sets.ids), 0, 1, axis=1)
    return coordinates(logprob, right, counts, study.main.num_candidates)


def _outcomes(sets: CandidateSets, dataset: Dataset) -> pd.DataFrame:
    """``logprob`` and ``right`` of every outcome found, a row a question, most probable first."""
    outcomes = sets.found().join(sets.questions[["references", "options"]], on="id")
    right = right_under_references(outcomes, dataset)
    placed = outcomes.assign(right=right, place=outcomes.groupby("id").cumcount())
    return placed.pivot(index="id", columns="place", values=["logprob", "right"])


def right_under_references(outcomes: pd.DataFrame, dataset: Dataset) -> list[float]:
    """Whether each text is the gold option, or equals a reference where there are no options."""
    normalizer = normalizer_of(dataset)
    right = []
    for text, references, options in outcomes[["text", "references", "options"]].to_numpy():
        if len(options):
            right.append(gold_label(text, list(references), list(options)))
        else:
            right.append(exact_match(text, list(references), normalizer))
    return right


def draw_map(data: pd.DataFrame, ax: Axes, text_size: float = NARROW_TEXT) -> None:
    """A difference by covered ``mass`` and ``kappa``: its colour and number; cells with bars.

    ``text_size``: of the numbers, in points.

    ``data`` has ``what`` ("beams - samples", or a cell of the study, whose ``value`` is empty),
    ``mass``, ``kappa``, and their ends ``mass_low`` …; ``value``, ``low``, ``high``, of a full
    grid. The line is where the value is 0, the dashed ones where the ends of its interval are.
    """
    grid = data[data["what"] == GAIN]
    if len(grid):
        _draw_grid(grid, ax, text_size)
    own = data[(data["what"] == OWN) & data["kappa"].notna()]
    ax.errorbar(
        own["mass"],
        own["kappa"],
        figure_style.error_lengths(own, "kappa", "kappa_low", "kappa_high"),
        figure_style.error_lengths(own, "mass", "mass_low", "mass_high"),
        label="this study's questions",
        zorder=5,
        color=BLACK,
        marker="D",
        markersize=MARKER,
        linestyle="",
        elinewidth=0.5,
    )
    ax.set_xlim(0, 1.04)
    ax.use_sticky_edges = False
    ax.autoscale(axis="y")  # room above and below the numbers, and for cells off the map


def _draw_grid(grid: pd.DataFrame, ax: Axes, text_size: float) -> None:
    """The map: colours, the lines where beams and samples are equal, and numbers."""
    from matplotlib.colors import LinearSegmentedColormap

    ends = [figure_style.SAMPLES, "white", figure_style.BEAMS]
    colours = LinearSegmentedColormap.from_list("samples to beams", ends)
    wide = grid.pivot(index="kappa", columns="mass", values=["value", "low", "high"])
    wide = wide.astype(np.float64)
    masses = wide["value"].columns.to_numpy(np.float64)
    kappas = wide.index.to_numpy(np.float64)
    levels = np.linspace(-LIMIT, LIMIT, 21)
    ax.contourf(
        masses, kappas, wide["value"], levels=levels, cmap=colours, extend="both", alpha=0.8
    )
    for name, line, width in (("value", "-", 1.2), ("low", "--", 0.8), ("high", "--", 0.8)):
        values = wide[name].to_numpy()
        if (values < 0).any() and (values > 0).any():
            ax.contour(
                masses, kappas, values, levels=[0], colors=BLACK, linestyles=line, linewidths=width
            )
    printed = masses[np.diff(masses, prepend=-1.0) >= NUMBER_WIDTH]
    _print_numbers(grid[grid["mass"].isin(printed)], ax, masses[0], text_size)
    ax.plot([], [], color=BLACK, label="beams = samples")
    ax.plot([], [], color=BLACK, linestyle="--", linewidth=0.8, label="ends of its interval")
    ax.plot([], [], color=figure_style.BEAMS, marker="s", linestyle="", label="beams ahead")
    ax.plot([], [], color=figure_style.SAMPLES, marker="s", linestyle="", label="samples ahead")


def _print_numbers(places: pd.DataFrame, ax: Axes, leftmost: float, text_size: float) -> None:
    """The value at each place; those of the ``leftmost`` mass begin there, others are centred."""
    box = {"facecolor": "white", "alpha": BOX_ALPHA, "linewidth": 0, "pad": 0.6}
    for mass, kappa, value in places[["mass", "kappa", "value"]].to_numpy():
        side = "left" if mass == leftmost else "center"
        ax.text(mass, kappa, signed(value), ha=side, va="center", fontsize=text_size, bbox=box)


def finish_map(
    data: pd.DataFrame,
    ax: Axes,
    names: Mapping[tuple[str, str], str],
    text_size: float = NARROW_TEXT,
) -> None:
    """Move the numbers that a point covers, and name each point beside it; the layout is final.

    ``names``: of a point, by model and dataset; ``text_size``: of a name, in points.
    """
    own = data[(data["what"] == OWN) & data["kappa"].notna()]
    places = LabelPlaces(ax)
    _keep_points_free(own, places)
    for number in list(ax.texts):
        places.move(number)
    box = {"facecolor": "white", "alpha": BOX_ALPHA, "linewidth": 0, "pad": 0.6}
    for model, dataset, mass, kappa in own[[*PLACE, "mass", "kappa"]].to_numpy():
        name = names[model, dataset]
        text = ax.text(mass, kappa, name, fontsize=text_size, style="italic", bbox=box, zorder=6)
        places.name(text, (mass, kappa), MARKER)


def _keep_points_free(own: pd.DataFrame, places: LabelPlaces) -> None:
    """Take the place of each point and its bars."""
    ends = own[[name + end for end in ENDS for name in ("mass", "kappa")]].to_numpy(np.float64)
    centres, lows, highs = ends[:, :2], ends[:, 2:4], ends[:, 4:]
    places.take_points(
        centres,
        np.where(np.isnan(lows), centres, lows),
        np.where(np.isnan(highs), centres, highs),
        MARKER + 1,
    )


# -- table -----------------------------------------------------------------------------------------


def beams_map(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a quality, κ, power and M; of the mean, or of the one dataset."""
    estimates = read(study, inputs, chosen)
    gains = differences(estimates)
    mass = estimates.where(metric="mass")
    frame = gains.frame
    gains = gains.assign(setting=(frame["quality"] + " " + frame["setting"]).tolist())
    # κ is NaN where a real quality judges.
    published = frame["kappa"].isin(PRINTED) | frame["kappa"].isna()
    further = gains.rows((frame["M"] == study.main.num_candidates) & published)
    has_mean = MEAN in set(estimates.frame["dataset"])
    place = {"model": chosen[0].model, "dataset": MEAN if has_mean else chosen[0].dataset}
    masses = mass.where(**place).frame.set_index("setting")["value"]
    rows = _rows_of_map(study, chosen[0].recipe, place, masses)
    stub = ("Mass", "g", "M")
    return table(study, gains, stub, rows, _columns_of_map(), further=[further, mass])


def _rows_of_map(study: Study, recipe: str, place: Keys, masses: pd.Series[float]) -> list[Row]:
    """The rows of the table; ``masses``: what beams cover, by setting."""
    on_map = study.scoring[recipe].beams_map
    assert on_map is not None
    rows = []
    for quality in (SIMILARITY, EXACT_TEXT):
        for kappa in PRINTED:
            if kappa not in on_map.kappas:
                continue
            group = f"Quality: {quality}, κ = {kappa:g}"
            for power in on_map.powers:
                for M in on_map.sizes:
                    mass = decimal(masses[setting(power, M=M)], 2)
                    keys = {**place, "setting": f"{quality} {setting(power, kappa, M)}"}
                    rows.append(Row((mass, f"{power:g}", str(M)), keys, group))
    return rows


def _columns_of_map() -> list[Column]:
    """Differences of beams and their parts, of mixtures, and of other scores by beams."""
    beams = {"metric": GAIN, "method": DISSIMILARITY, "variant": BEAMS}
    heads: dict[str, Keys] = {
        "Beams": beams,
        "Noise": beams | {"metric": NOISE},
        "Target": beams | {"metric": TARGET},
    }
    heads |= {title: beams | {"variant": name} for name, title in MIXED.items()}
    heads |= {name: beams | {"method": name} for name in FURTHER_SCORES}
    return [Column(keys, (title,), "signed", "interval") for title, keys in heads.items()]


def exhibits(_: Study) -> list[Exhibit]:
    ours = partial(Exhibit, beyond_paper=True, quality=False)
    drawn = partial(
        ours, kind="figure", cells=with_points, reads=("beams_map", "candidates", "questions")
    )
    return [
        drawn("when_beams_win", build=partial(when_beams_win, by_dataset=False)),
        drawn("when_beams_win_by_dataset", build=partial(when_beams_win, by_dataset=True)),
        ours(
            "beams_map",
            "table",
            cells=with_map,
            reads=("beams_map", "questions"),
            build=beams_map,
        ),
    ]
