"""Claims about the map of when beams win, declared before its questions had a number."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.known_distribution import crossing
from beamuq_study.comparison.claims.case import (
    Case,
    NotAskedError,
    question_count,
    require_questions,
)
from beamuq_study.comparison.claims.judges import judge
from beamuq_study.comparison.claims.verdict import Part, Verdict, weakest_part
from beamuq_study.errors_where_u_is_known import GAIN
from beamuq_study.exhibits.figure_of_beams_map import COVERING, differences, with_map
from beamuq_study.grid import Cell
from beamuq_study.stages.beams_map import BEAMS, DISSIMILARITY, EXACT_TEXT, SIMILARITY
from beamuq_study.study_config import Study

MAP = ("beams_map",)


def _mapped(study: Study, **_: Any) -> list[Cell]:
    """The maps of models as they are."""
    return [cell for cell in with_map(study) if study.models[cell.model].temperature is None]


def _tempered(study: Study, **_: Any) -> list[Cell]:
    """The maps of models at another token temperature, of which there is one as it is, too."""
    return [
        cell
        for cell in with_map(study)
        if study.models[cell.model].temperature and _untempered(study, cell)
    ]


def _untempered(study: Study, cell: Cell) -> list[Cell]:
    """The maps of the same model as it is, on the same dataset."""
    tempered = study.models[cell.model]
    untempered = []
    for candidate in _mapped(study):
        model = study.models[candidate.model]
        same_model = (model.source, model.style) == (tempered.source, tempered.style)
        if same_model and candidate.dataset == cell.dataset:
            untempered.append(candidate)
    return untempered


@judge(cells=_mapped, reads=MAP)
def beams_win_everywhere(case: Case, kappas: Collection[float]) -> Verdict:
    """Under exact text, beams − samples above 0 at every power and these κ, on each dataset.

    Yes: on each dataset the lower end of the interval is above 0 at every place of the map; since
    all have to be, no correction is needed.

    No: at one place the upper end, after Bonferroni over all, is below 0.

    Value: the place that is least shown.
    """
    gains = _main_gains(case, case.cells, kappas, EXACT_TEXT)
    return _all_above(case, gains, 0.0)


@judge(cells=_mapped, reads=MAP)
def mixtures_not_behind(case: Case, variant: str, margin: float) -> Verdict:
    """An estimator that mixes probable outcomes with draws is nowhere more behind samples.

    Yes: on each dataset the lower end of the interval is above −``margin`` at every place of the
    map; since all have to be, no correction is needed.

    No: at one place the upper end, after Bonferroni over all, is below −``margin``.

    Value: the place that is least shown.
    """
    gains = _gains(case, case.cells).where(variant=variant)
    return _all_above(case, gains, -margin)


@judge(cells=_mapped, reads=MAP)
def overconfidence_costs(case: Case, kappas: tuple[float, float]) -> Verdict:
    """Under similarity, beams − samples is smaller at the first κ than the second, at any power.

    Yes: on each dataset the lower end of the interval is above 0 at every place of the map; since
    all have to be, no correction is needed.

    No: at one place the upper end, after Bonferroni over all, is below 0.

    Value: the place that is least shown.
    """
    lower_kappa, higher_kappa = kappas
    smaller = _main_gains(case, case.cells, [lower_kappa], SIMILARITY)
    larger = _main_gains(case, case.cells, [higher_kappa], SIMILARITY)
    return _all_above(case, larger.minus(smaller), 0.0)


@judge(cells=_mapped, reads=MAP)
def crossing_between(case: Case, kappa: float, ends: tuple[float, float]) -> Verdict:
    """Under similarity, the mass from which beams are ahead is between ``ends`` on each dataset.

    Yes: on each dataset its interval lies between them; since all have to, no correction is needed.

    No: on one dataset the interval, uncorrected, lies outside.

    Value: the mean over datasets of that mass and of the ends of its interval.
    """
    parts = list[Part]()
    crossings = []
    n = 0
    for cell in case.cells:
        curve = _gain_by_mass(case, cell, kappa, SIMILARITY)
        mass, low, high = _crossing(curve, case.results.study.evaluation.confidence)
        case.notes.append(f"{cell.dataset} {mass:.2f} [{low:.2f}, {high:.2f}]")
        crossings.append((mass, low, high))
        n += curve.n
        parts.append(_is_between(low, high, ends))
    size = weakest_part(parts)
    value, mean_low, mean_high = map(float, np.array(crossings).mean(axis=0))
    return Verdict(n, size=size, opposite=size == "no", value=value, low=mean_low, high=mean_high)


@judge(cells=_tempered, reads=MAP)
def tempered_as_sharpened(case: Case, kappas: Collection[float]) -> Verdict:
    """A token temperature gives nearly the beams − samples of a sharpening of equal mass.

    The two are of different numbers of questions, so not paired.

    Yes: at each κ, by similarity and by exact text, the interval of what they differ by lies within
    ± ``negligible``; since all have to be, no correction is needed.

    No: one such interval, uncorrected, lies outside.

    Value: the largest of these differences.
    """
    cell = case.cells[0]
    plain_cell = _untempered(case.results.study, cell)[0]
    rows = []
    replicates = []
    for quality, kappa in itertools.product((SIMILARITY, EXACT_TEXT), kappas):
        tempered = _gain_by_mass(case, cell, kappa, quality)
        gaps = _minus_sharpened(tempered, _gain_by_mass(case, plain_cell, kappa, quality))
        rows.append({"value": gaps[0], "n": tempered.n})
        replicates.append(gaps[1:])
    inside, summary = case.negligible(Estimates.from_rows(rows, replicates))
    size = weakest_part(inside)
    widest = summary.iloc[int(summary["value"].abs().argmax())]
    interval_of_widest = widest[["value", "low", "high"]].map(float)
    return Verdict(int(widest["n"]), size=size, opposite=size == "no", **interval_of_widest)


# -- what the maps say -----------------------------------------------------------------------------


def _gains(case: Case, cells: Sequence[Cell]) -> Estimates:
    """Dissimilarity's differences to samples at every place where the truth is drawn."""
    maps = [case.results.inputs.beams_map(cell) for cell in cells]
    for of_cell in maps:
        require_questions(int(of_cell.frame["n"].max()), f"of {of_cell.frame['dataset'].iloc[0]}")
    with_drawn_truth = joined(maps).where(method=DISSIMILARITY, quality=(SIMILARITY, EXACT_TEXT))
    return differences(with_drawn_truth).where(metric=GAIN)


def _main_gains(
    case: Case, cells: Sequence[Cell], kappas: Collection[float], quality: str
) -> Estimates:
    """Those of beams at some κ and the main number of candidates.

    Raises NotAskedError where no map has the quality: of datasets with options none has similarity.
    """
    gains = _gains(case, cells).where(quality=quality, variant=BEAMS)
    has_kappa = gains.frame["kappa"].isin(list(kappas))
    has_main_size = gains.frame["M"] == case.results.study.main.num_candidates
    if not (has_kappa & has_main_size).any():
        names = ", ".join(cell.dataset for cell in cells)
        raise NotAskedError(f"no map of {names} has quality {quality}")
    return gains.rows(has_kappa & has_main_size)


@dataclass(frozen=True)
class GainByMass:
    """What beams gain over samples by the mass that they cover, a row a power of the map.

    ``mass`` and ``gain`` are [powers, 1 + resamples], the value first.
    """

    powers: Floats
    mass: Floats
    gain: Floats
    n: int


def _gain_by_mass(case: Case, cell: Cell, kappa: float, quality: str) -> GainByMass:
    """At one κ and the main number of candidates."""
    gains = _main_gains(case, [cell], [kappa], quality)
    masses = case.results.inputs.beams_map(cell).where(metric="mass")
    return GainByMass(
        powers=gains.frame["power"].to_numpy(np.float64),
        mass=_with_replicates(masses.at(gains.frame[COVERING])),
        gain=_with_replicates(gains),
        n=int(gains.frame["n"].max()),
    )


def _with_replicates(estimates: Estimates) -> Floats:
    """[rows, 1 + resamples] values, then their replicates."""
    values = estimates.frame["value"].to_numpy(np.float64)
    return np.column_stack([values, estimates.replicates]).astype(np.float64)


def _crossing(curve: GainByMass, confidence: float) -> tuple[float, float, float]:
    """The mass from which beams stay ahead, and its interval; where they never do, a mass of 1.

    Where they are ahead from the smallest mass of the map on, the crossing lies at it or anywhere
    below: the interval then starts at 0.
    """
    mass, *replicates = (
        crossing(masses, gains) for masses, gains in zip(curve.mass.T, curve.gain.T, strict=True)
    )
    crossings = np.nan_to_num(replicates, nan=1.0)
    is_at_edge = crossings == curve.mass.min(axis=0)[1:]
    lowest = interval(np.where(is_at_edge, 0.0, crossings), confidence)
    highest = interval(crossings, confidence)
    low = np.nan if lowest.low is None else lowest.low
    high = np.nan if highest.high is None else highest.high
    return mass, low, high


def _is_between(low: float, high: float, ends: tuple[float, float]) -> Part:
    """Whether an interval lies between two ends; no: outside."""
    lowest, highest = ends
    if lowest <= low and high <= highest:
        return "yes"
    return "no" if high < lowest or low > highest else "undecided"


def _minus_sharpened(tempered: GainByMass, sharpened: GainByMass) -> Floats:
    """[1 + resamples] the difference at the mass that beams cover of the tempered distribution."""
    unsharpened = tempered.powers == 1
    masses = tempered.mass[unsharpened][0]
    gains = tempered.gain[unsharpened][0]
    columns = zip(masses, sharpened.mass.T, sharpened.gain.T, strict=True)
    gaps: Floats = gains - np.array([np.interp(*column) for column in columns])
    return gaps


def _all_above(case: Case, values: Estimates, least: float) -> Verdict:
    """Yes: all lower ends above ``least``; no: an upper one, after Bonferroni, below it.

    The value is the weakest.
    """
    tail = (1 - case.results.study.evaluation.confidence) / 2
    quantiles = [tail, 1 - tail, 1 - tail / len(values)]
    low, high, corrected_high = np.quantile(values.replicates, quantiles, axis=1)
    # an end that is undefined in a resample is not above
    case.notes.append(f"{(low > least).sum()} of {len(low)} places shown")
    sign: Part = "undecided"
    if (low > least).all():
        sign = "yes"
    elif (corrected_high < least).any():
        sign = "no"
    weakest = int(np.nan_to_num(low, nan=-np.inf).argmin())
    return Verdict(
        question_count(values),
        sign,
        opposite=sign == "no",
        value=float(values.frame["value"].iloc[weakest]),
        low=float(low[weakest]),
        high=float(high[weakest]),
    )
