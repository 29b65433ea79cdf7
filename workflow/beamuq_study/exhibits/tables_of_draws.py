"""Tables of cells whose samples are scored draw by draw: how sure the model is, what beams gain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from beamuq.beam_mass_theorem import printed_threshold
from beamuq.evaluation.candidate_sets import QuestionBin
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq_study import grid
from beamuq_study.errors_where_u_is_known import GAIN, METHOD, NOISE, TARGET
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Row, Table
from beamuq_study.exhibits.figure_of_beams_map import (
    differences,
    place_on_map,
    right_under_references,
)
from beamuq_study.exhibits.method_groups import CONSISTENCY, OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import bins_of_mass, gains_over_draws, measured
from beamuq_study.exhibits.table_of_numbers import Column, records, table
from beamuq_study.exhibits.table_of_places import UNKNOWN
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.stages.beams_map import BEAMS
from beamuq_study.study_config import Quality, Study

FIVE = "the five"
BINS = 4  # of questions by covered mass
ON_MAP = ("kappa", "mass of the most probable")
SHARES = {
    "quality": ("Quality", "mean"),
    "right": ("Quality", "right"),
    "covered mass": ("Beams", "mass"),
    "share above the threshold": ("Beams", "above"),
    "repeats": ("Samples", "repeats"),
}
"""What is measured of each cell, and its two titles."""

# -- cells -----------------------------------------------------------------------------------------


def drawn_cells(study: Study) -> list[Cell]:
    """The cells whose recipe scores both forms of the five on every draw of samples."""

    def has_draws(recipe: str) -> bool:
        return study.scoring[recipe].every_draw and grid.draws(study, recipe) > 1

    strategies = [study.main.sample, study.main.beam]
    return grid.select(study, methods=CONSISTENCY, strategies=strategies, has=has_draws, take="all")


def with_maps(study: Study) -> list[Cell]:
    """Those cells, then the cells with a map of the same models and datasets."""
    drawn = drawn_cells(study)
    places = {(cell.model, cell.dataset) for cell in drawn}
    mapped = grid.select(study, scoring_keys=["beams_map"], take="all")
    return [*drawn, *(cell for cell in mapped if (cell.model, cell.dataset) in places)]


def _split(study: Study, chosen: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells whose draws are scored, and those with a map."""
    drawn = [cell for cell in chosen if study.scoring[cell.recipe].every_draw]
    mapped = [cell for cell in chosen if study.scoring[cell.recipe].beams_map]
    return drawn, mapped


def _rows(study: Study, cells: Sequence[Cell], estimates: Estimates) -> list[Row]:
    """A row a cell, under its dataset."""
    rows = []
    for dataset in grid.datasets_of(study, cells):
        for cell in cells:
            if cell.dataset != dataset:
                continue
            n = estimates.where(**cell.place).frame["n"].max()
            titles = (study.models[cell.model].title, str(n))
            rows.append(Row(titles, cell.place, study.datasets[dataset].title))
    return rows


# -- how sure the model is -------------------------------------------------------------------------


def sharpness(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: how good its answers are, what beams cover, how samples repeat, and κ."""
    drawn, mapped = _split(study, chosen)
    of_cells = joined([_shares(study, inputs, cell) for cell in drawn])
    of_maps = [_known_place(study, inputs, cell) for cell in mapped]
    estimates = joined([of_cells, *of_maps])
    columns = [
        Column({"metric": metric}, titles, beside="interval") for metric, titles in SHARES.items()
    ]
    columns += [
        Column({"metric": "mass of the most probable"}, ("Map", "mass"), beside="interval"),
        Column({"metric": "kappa"}, ("Map", "κ"), beside="interval", digits=2),
    ]
    rows = _rows(study, drawn, of_cells)
    return table(study, estimates, ("Model", "n"), rows, columns)


def _shares(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """Means over the questions of a cell, on the resamples of its evaluation."""
    sets = inputs.candidates(cell)
    size = study.main.num_candidates
    mass = sets.mass(study.main.beam, size)
    quality = inputs.of(cell, "quality").set_index(["answer_source", "id"])["value"]
    answers = sets.greedy[["text"]].join(sets.questions[["references", "options"]])
    values = {
        "quality": quality.loc["greedy"].loc[sets.ids].to_numpy(dtype=np.float64),
        "right": right_under_references(answers, study.datasets[cell.dataset]),
        "covered mass": mass,
        "share above the threshold": mass > printed_threshold(size),
        "repeats": sets.redundancy(study.main.sample, size),
    }
    return inputs.means(cell, sets.ids, values)


def _known_place(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """Where a cell with a map is on it, by all outcomes that its searches found."""
    place = place_on_map(study, inputs, cell)
    rows = []
    for metric, name in zip(ON_MAP, ("kappa", "mass"), strict=True):
        ends = {end: place[f"{name}_{end}"] for end in ("low", "high")}
        row = {**cell.place, "metric": metric, "value": place[name], "n": place["n"], **ends}
        note = "" if np.isfinite(place[name]) else UNKNOWN
        rows.append(row | {"note": note})
    return Estimates.from_rows(rows, [row["value"] for row in rows])


# -- what beams gain -------------------------------------------------------------------------------


def gains_table(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: beams − samples by each quality, its parts, and the spread of draws."""
    drawn, mapped = _split(study, chosen)
    of_cells = joined(
        [
            part
            for cell in drawn
            for quality in study.qualities(cell.dataset)
            for part in _gains(study, inputs, cell, quality)
        ]
    )
    parts = [_parts_of_gain(study, inputs, cell) for cell in mapped]
    spreads = [_spread(study, inputs, cell) for cell in drawn]
    estimates = joined([of_cells, *parts, *spreads])
    columns = _columns_of_gains(study)
    rows = _rows(study, drawn, of_cells)
    return table(study, estimates, ("Model", "n"), rows, columns, further=[of_cells])


def _columns_of_gains(study: Study) -> list[Column]:
    """By each quality the gain of Dissimilarity and of the five; noise, target, and the spread."""
    columns = [
        Column(
            {"metric": GAIN, "method": method, "setting": quality.metric},
            (quality.title, title),
            "signed",
            "interval",
        )
        for quality in study.quality
        for method, title in ((METHOD, "Dissim"), (FIVE, "five"))
    ]
    columns += [
        Column({"metric": part, "method": METHOD}, ("Map", part.capitalize()), "signed", "interval")
        for part in (NOISE, TARGET)
    ]
    return [*columns, Column({"metric": "sd of draws", "method": METHOD}, ("Draws", "SD"))]


def _gains(study: Study, inputs: Inputs, cell: Cell, quality: Quality) -> list[Estimates]:
    """By one quality what each method gains, and the mean over the five."""
    draws = grid.settings_of_draws(study, cell.recipe)
    forms = [
        {"method": method, "variant": variant, "setting": setting}
        for method in CONSISTENCY
        for variant, setting in [(OVER_BEAMS, ""), *((OVER_SAMPLES, draw) for draw in draws)]
    ]
    prr = measured(study, inputs, [cell], forms, quality=quality.metric)
    gains = gains_over_draws(prr, draws)
    named = {"metric": GAIN, "variant": "", "setting": quality.metric}
    return [gains.assign(**named), gains.mean_over_methods(FIVE).assign(**named)]


def _spread(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """The standard deviation of PRR between draws, of Dissimilarity by the main quality."""
    forms = [
        {"method": METHOD, "variant": OVER_SAMPLES, "setting": setting}
        for setting in grid.settings_of_draws(study, cell.recipe)
    ]
    prr = measured(study, inputs, [cell], forms).frame
    spread = float(prr["value"].std(ddof=1))
    row = cell.place | {"metric": "sd of draws", "method": METHOD, "value": spread}
    note = "" if np.isfinite(spread) else prr["note"].iloc[0]
    return Estimates.from_rows([{**row, "n": prr["n"].iloc[0], "note": note}], [spread])


def _parts_of_gain(study: Study, inputs: Inputs, cell: Cell) -> Estimates:
    """Noise and target by the real quality, where the distribution is known and not sharpened."""
    of_method = differences(inputs.beams_map(cell).where(method=METHOD))
    parts = of_method.where(metric=(NOISE, TARGET), variant=BEAMS)
    frame = parts.frame
    is_real = frame["kappa"].isna() & (frame["power"] == 1)
    of_size = parts.rows(is_real & (frame["M"] == study.main.num_candidates))
    summary = of_size.summary(study.evaluation.confidence)
    numbers = summary[["metric", "value", "low", "high", "n", "note"]]
    rows = [{**cell.place, "method": METHOD, **row} for row in records(numbers)]
    # a map may have fewer resamples than the other gains of the table
    drawn = of_size.replicates[:, : study.evaluation.resamples]
    replicates = np.full((len(rows), study.evaluation.resamples), np.nan)
    replicates[:, : drawn.shape[1]] = drawn
    return Estimates.from_rows(rows, [*replicates])


# -- gains by covered mass -------------------------------------------------------------------------


def gains_by_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a bin of covered mass of each cell: beams − samples, resampled within the bin."""
    estimates = []
    rows = []
    for cell in chosen:
        scored = inputs.scores(cell)
        for number, part in enumerate(bins_of_mass(study, inputs, cell, BINS), 1):
            place = cell.place | {"setting": str(number)}
            gain = _gain_within(study, inputs, cell, scored, part)
            estimates.append(gain.assign(**place, metric=GAIN, variant=""))
            titles = (part.title, str(int(part.members.sum())))
            rows.append(Row(titles, place, cell.title(study)))
    column = Column({"metric": GAIN, "method": METHOD}, ("Beams − samples",), "signed", "interval")
    return table(study, joined(estimates), ("Mass", "n"), rows, [column])


def _gain_within(
    study: Study, inputs: Inputs, cell: Cell, scored: QuestionScores, part: QuestionBin
) -> Estimates:
    """What Dissimilarity gains on the questions of a bin, by the main quality."""
    draws = grid.settings_of_draws(study, cell.recipe)
    forms = [(METHOD, OVER_BEAMS, ""), *((METHOD, OVER_SAMPLES, draw) for draw in draws)]
    subset = f"draws, mass {part.lowest!r} to {part.highest!r}"
    prr = scored.prr(part.members, subset, forms, **inputs.resampling)
    return gains_over_draws(prr, draws)


def exhibits(_: Study) -> list[Exhibit]:
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    return [
        ours(
            "sharpness",
            cells=with_maps,
            reads=(*EVALUATION, "quality", *CANDIDATES),
            build=sharpness,
        ),
        ours(
            "gains_over_draws",
            cells=with_maps,
            reads=(*EVALUATION, "beams_map"),
            build=gains_table,
            metric="PRR",
        ),
        ours(
            "gains_over_draws_by_mass",
            cells=drawn_cells,
            reads=(*CANDIDATES, *SCORES),
            build=gains_by_mass,
            metric="PRR",
        ),
    ]
