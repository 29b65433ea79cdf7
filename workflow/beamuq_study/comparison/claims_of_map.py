"""Judges of what was declared of the map of when beams win, before its questions had a number."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.estimator_errors import GAIN
from beamuq.evaluation.known_distribution import crossing
from beamuq_study.comparison.judging import Case, Part, Verdict, enough, questions
from beamuq_study.exhibits.when_beams_win import COVERING, differences, with_map
from beamuq_study.grid import Cell
from beamuq_study.stages.beams_map import BEAMS, DISSIMILARITY, EXACT_TEXT, SIMILARITY
from beamuq_study.study_config import Study

MAP = ("beams_map",)


def mapped(study: Study, **_: Any) -> list[Cell]:
    """The maps of models as they are."""
    return [cell for cell in with_map(study) if study.models[cell.model].temperature is None]


def tempered(study: Study, **_: Any) -> list[Cell]:
    """The maps of models at another token temperature, of which there is one as it is, too."""
    return [
        cell
        for cell in with_map(study)
        if study.models[cell.model].temperature and _untempered(study, cell)
    ]


def _untempered(study: Study, cell: Cell) -> list[Cell]:
    own, models = study.models[cell.model], study.models
    same = {
        name
        for name, model in models.items()
        if (model.source, model.style) == (own.source, own.style)
    }
    return [of for of in mapped(study) if of.model in same and of.dataset == cell.dataset]


def _gains(
    case: Case, cells: Sequence[Cell], kappas: Collection[float] | None = None, **keys: str
) -> Estimates:
    """Dissimilarity's differences to samples where the truth is drawn: of all places, or at some κ
    and the main M.
    """
    maps = [case.results.inputs.beams_map(cell) for cell in cells]
    for each in maps:
        enough(int(each.frame["n"].max()), f"of {each.frame['dataset'].iloc[0]}")
    every = joined(maps).where(method=DISSIMILARITY, quality=(SIMILARITY, EXACT_TEXT))
    gains, M = differences(every).where(metric=GAIN, **keys), case.results.study.main.num_candidates
    at = gains.frame
    return gains if kappas is None else gains.rows(at["kappa"].isin(list(kappas)) & (at["M"] == M))


def _with_masses(
    case: Case, cell: Cell, kappa: float, quality: str
) -> tuple[Floats, Floats, Estimates]:
    """[rows, 1 + resamples] the mass that beams cover and what they gain at each power, values
    first; the gains.
    """
    gains = _gains(case, [cell], [kappa], quality=quality, variant=BEAMS)
    both = case.results.inputs.beams_map(cell).where(metric="mass").at(gains.frame[COVERING]), gains
    mass, values = (
        np.column_stack([of.frame["value"], of.replicates]).astype(np.float64) for of in both
    )
    return mass, values, gains


def _weakest(parts: Collection[Part]) -> Part:
    return "no" if "no" in parts else "undecided" if "undecided" in parts else "yes"


def _all_above(case: Case, values: Estimates, least: float) -> Verdict:
    """Yes: all lower ends above ``least``; no: an upper one, after Bonferroni, below it; the value
    is the weakest.
    """
    tail = (1 - case.results.study.evaluation.confidence) / 2
    low, high, corrected = np.quantile(
        values.replicates, [tail, 1 - tail, 1 - tail / len(values)], axis=1
    )
    case.notes.append(
        f"{(low > least).sum()} of {len(low)} places shown"
    )  # not one that is undefined in a resample
    sign: Part = (
        "yes" if (low > least).all() else "no" if (corrected < least).any() else "undecided"
    )
    weakest = int(np.nan_to_num(low, nan=-np.inf).argmin())
    ends = float(values.frame["value"].iloc[weakest]), float(low[weakest]), float(high[weakest])
    return Verdict(questions(values), sign, "-", "-", sign == "no", *ends)


def beams_win_everywhere(case: Case, kappas: Collection[float]) -> Verdict:
    """Under exact text, beams − samples above 0 at every power and these κ, on each dataset."""
    return _all_above(
        case, _gains(case, case.cells, kappas, quality=EXACT_TEXT, variant=BEAMS), 0.0
    )


def mixtures_not_behind(case: Case, variant: str, margin: float) -> Verdict:
    """An estimator that mixes the most probable outcomes with draws is not behind samples by more,
    anywhere.
    """
    return _all_above(case, _gains(case, case.cells, variant=variant), -margin)


def overconfidence_costs(case: Case, kappas: tuple[float, float]) -> Verdict:
    """Under similarity, beams − samples is smaller at the first κ than at the second, at every
    power, paired.
    """
    less, more = (
        _gains(case, case.cells, [kappa], quality=SIMILARITY, variant=BEAMS) for kappa in kappas
    )
    return _all_above(case, more.minus(less), 0.0)


def crossing_between(case: Case, kappa: float, ends: tuple[float, float]) -> Verdict:
    """Under similarity, the mass from which beams − samples stays above 0 lies between ``ends`` on
    each dataset.
    """
    verdicts, parts = list[Part](), []
    for cell in case.cells:
        mass, values, gains = _with_masses(case, cell, kappa, SIMILARITY)
        found, *drawn = (crossing(*both) for both in zip(mass.T, values.T, strict=True))
        of = interval(np.nan_to_num(drawn, nan=1.0), case.results.study.evaluation.confidence)
        low, high = (np.nan if end is None else end for end in (of.low, of.high))
        case.notes.append(f"{cell.dataset} {found:.2f} [{low:.2f}, {high:.2f}]")
        inside, outside = ends[0] <= low and high <= ends[1], high < ends[0] or low > ends[1]
        verdicts.append("yes" if inside else "no" if outside else "undecided")
        parts.append((found, low, high, int(gains.frame["n"].max())))
    size, table = _weakest(verdicts), np.array(parts)
    return Verdict(
        int(table[:, 3].sum()), "-", size, "-", size == "no", *map(float, table[:, :3].mean(axis=0))
    )


def tempered_as_sharpened(case: Case, kappas: Collection[float]) -> Verdict:
    """A token temperature gives nearly the beams − samples of a sharpened distribution of equal
    mass.

    The two are of different numbers of questions, so not paired.
    """
    (cell, *_), gaps = case.cells, []
    plain = _untempered(case.results.study, cell)[0]
    for quality, kappa in itertools.product((SIMILARITY, EXACT_TEXT), kappas):
        mass, values, own = _with_masses(case, cell, kappa, quality)
        at_one = (own.frame["power"] == 1).to_numpy()
        sharpened_mass, sharpened, _ = _with_masses(case, plain, kappa, quality)
        columns = zip(mass[at_one][0], sharpened_mass.T, sharpened.T, strict=True)
        gaps.append(values[at_one][0] - [np.interp(*column) for column in columns])
    rows = [{"value": gap[0], "n": int(own.frame["n"].max())} for gap in gaps]
    inside, summary = case.negligible(Estimates.from_rows(rows, [gap[1:] for gap in gaps]))
    size, widest = _weakest(inside), summary.iloc[int(summary["value"].abs().argmax())]
    return Verdict(
        int(widest["n"]), "-", size, "-", size == "no", *widest[["value", "low", "high"]].map(float)
    )


OF_MAPS = (beams_win_everywhere, mixtures_not_behind, overconfidence_costs, crossing_between)
