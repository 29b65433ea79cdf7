"""Judges of what was declared of the map of when beams win, before its questions had a number."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Floats
from beamuq.evaluation.bootstrap import interval
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.known_distribution import crossing
from beamuq.strategy_names import parse
from beamuq_study.comparison.judging import Case, Part, Verdict, enough, questions
from beamuq_study.exhibits.when_beams_win import GAIN, differences, with_map
from beamuq_study.result_files import Cell
from beamuq_study.stages.beams_map import BEAMS, DISSIMILARITY, EXACT_TEXT, SIMILARITY, setting
from beamuq_study.study_config import Study

MAP = ("beams_map",)


def mapped(study: Study, **_: Any) -> list[Cell]:
    """The maps of models as they are."""
    return [cell for cell in with_map(study) if study.models[cell.model].temperature is None]


def tempered(study: Study, **_: Any) -> list[Cell]:
    """The maps of models at another token temperature, of which there is one as it is, too."""
    others = (cell for cell in with_map(study) if study.models[cell.model].temperature is not None)
    return [cell for cell in others if _untempered(study, cell)]


def _untempered(study: Study, cell: Cell) -> list[Cell]:
    own = study.models[cell.model]
    same = [name for name, model in study.models.items() if (model.source, model.style) == (own.source, own.style)]
    return [of for of in mapped(study) if of.model in same and of.dataset == cell.dataset]


def _gains(case: Case, cells: Sequence[Cell]) -> Estimates:
    """Dissimilarity's differences to samples, of all estimators, where the truth is drawn."""
    maps = [case.results.inputs.beams_map(cell) for cell in cells]
    for each in maps:
        enough(int(each.frame["n"].max()), f"of {each.frame['dataset'].iloc[0]}")
    return differences(joined(maps).where(method=DISSIMILARITY, quality=(SIMILARITY, EXACT_TEXT))).where(metric=GAIN)


def _at(gains: Estimates, quality: str, kappas: Collection[float], M: int) -> Estimates:
    """Those of beams under one quality, at some κ and one M."""
    places = [parse(name)[1] for name in gains.frame["setting"]]
    chosen = [place["kappa"] in kappas and place["M"] == M for place in places]
    return gains.rows(np.array(chosen)).where(variant=BEAMS, quality=quality)


def _all_above(case: Case, values: Estimates, least: float) -> Verdict:
    """Yes: the lower end of each is above ``least``; no: some upper end is below it. The value is the weakest."""
    tail = (1 - case.results.study.evaluation.confidence) / 2
    low, high = np.quantile(values.replicates, [tail, 1 - tail], axis=1)  # NaN, shown nowhere, if undefined in one
    case.notes.append(f"{(low > least).sum()} of {len(low)} places shown")
    sign: Part = "yes" if (low > least).all() else "no" if (high < least).any() else "undecided"
    weakest = int(np.nan_to_num(low, nan=-np.inf).argmin())
    ends = float(values.frame["value"].iloc[weakest]), float(low[weakest]), float(high[weakest])
    return Verdict(questions(values), sign, "-", "-", bool((high < least).any()), *ends)


def beams_win_everywhere(case: Case, kappas: Collection[float]) -> Verdict:
    """Under exact text, beams − samples above 0 at every power and these κ, on each dataset."""
    gains = _gains(case, case.cells)
    return _all_above(case, _at(gains, EXACT_TEXT, kappas, case.results.study.main.num_candidates), 0.0)


def mixtures_not_behind(case: Case, variant: str, margin: float) -> Verdict:
    """An estimator that mixes the most probable outcomes with draws is not behind samples by more, anywhere."""
    return _all_above(case, _gains(case, case.cells).where(variant=variant), -margin)


def overconfidence_costs(case: Case, kappas: tuple[float, float]) -> Verdict:
    """Under similarity, beams − samples is smaller at the first κ than at the second, at every power, paired."""
    gains, M = _gains(case, case.cells), case.results.study.main.num_candidates
    less, more = (_at(gains, SIMILARITY, [kappa], M) for kappa in kappas)
    return _all_above(case, more.minus(less), 0.0)


def crossing_between(case: Case, kappa: float, ends: tuple[float, float]) -> Verdict:
    """Under similarity, the mass from which beams − samples stays above 0 lies between ``ends`` on each dataset."""
    M, verdicts, parts = case.results.study.main.num_candidates, list[Part](), []
    for cell in case.cells:
        gains = _at(_gains(case, [cell]), SIMILARITY, [kappa], M)
        mass = _mass(case, cell, gains, M)
        found = crossing(mass[:, 0], gains.frame["value"])
        drawn = np.array([crossing(*both) for both in zip(mass[:, 1:].T, gains.replicates.T, strict=True)])
        of = interval(np.where(np.isnan(drawn), 1.0, drawn), case.results.study.evaluation.confidence)
        low, high = (np.nan if end is None else end for end in (of.low, of.high))
        case.notes.append(f"{cell.dataset} {found:.2f} [{low:.2f}, {high:.2f}]")
        inside, outside = ends[0] <= low and high <= ends[1], high < ends[0] or low > ends[1]
        verdicts.append("yes" if inside else "no" if outside else "undecided")
        parts.append((found, low, high, int(gains.frame["n"].max())))
    size: Part = "no" if "no" in verdicts else "undecided" if "undecided" in verdicts else "yes"
    table = np.array(parts)
    return Verdict(int(table[:, 3].sum()), "-", size, "-", size == "no", *map(float, table[:, :3].mean(axis=0)))


def tempered_as_sharpened(case: Case, kappas: Collection[float]) -> Verdict:
    """A token temperature gives nearly the beams − samples of a sharpened distribution of equal mass.

    The two are of different numbers of questions, so not paired.
    """
    (cell, *_), study = case.cells, case.results.study
    plain, M, gaps = _untempered(study, cell)[0], study.main.num_candidates, []
    for quality, kappa in itertools.product((SIMILARITY, EXACT_TEXT), kappas):
        own, others = (_at(_gains(case, [of]), quality, [kappa], M) for of in (cell, plain))
        own = own.rows(own.frame["setting"] == setting(1.0, kappa, M))
        mass, masses, values = _mass(case, cell, own, M)[0], _mass(case, plain, others, M), _with_value(others)
        sharpened = [np.interp(*at) for at in zip(mass, masses.T, values.T, strict=True)]
        gaps.append(_with_value(own)[0] - sharpened)
    rows = [{"value": gap[0], "n": int(own.frame["n"].max())} for gap in gaps]
    inside, summary = case.negligible(Estimates.from_rows(rows, [gap[1:] for gap in gaps]))
    size: Part = "no" if "no" in inside else "yes" if set(inside) == {"yes"} else "undecided"
    widest = summary.iloc[int(summary["value"].abs().argmax())]
    ends = (float(widest[name]) for name in ("value", "low", "high"))
    return Verdict(int(widest["n"]), "-", size, "-", size == "no", *ends)


OF_MAPS = (beams_win_everywhere, mixtures_not_behind, overconfidence_costs, crossing_between)


def _with_value(each: Estimates) -> Floats:
    """[rows, 1 + resamples] the values, then their replicates."""
    return np.column_stack([each.frame["value"].to_numpy(np.float64), each.replicates.astype(np.float64)])


def _mass(case: Case, cell: Cell, gains: Estimates, M: int) -> Floats:
    """[rows, 1 + resamples] the mass that M beams cover at each row's power, in the rows' order."""
    masses = case.results.inputs.beams_map(cell).where(metric="mass")
    powers = [float(parse(name)[1]["power"]) for name in gains.frame["setting"]]
    return _with_value(masses.at(pd.DataFrame({"setting": [setting(power, M=M) for power in powers]})))
