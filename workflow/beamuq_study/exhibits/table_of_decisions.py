"""Tables of decisions: what each method may show with a guarantee, and how often that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from beamuq.evaluation.estimates import ALL_EMPTY, MEAN, Estimates, joined
from beamuq_study import grid
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import GAIN, beam_gains, with_mean
from beamuq_study.exhibits.table_formats import decimal, interval
from beamuq_study.exhibits.table_of_numbers import (
    ABSENT,
    Column,
    Keys,
    Value,
    frame_of,
    records,
    table,
)
from beamuq_study.exhibits.tables_of_prr import one_model
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

SHOWN = "shown"
WRONG_OF_SHOWN = "wrong of shown"
WRONG_OF_ALL = "wrong"
SHARES = (SHOWN, WRONG_OF_SHOWN, WRONG_OF_ALL)
PROBABILITY = {"ece": "ECE", "brier": "Brier"}
"""Errors of calibrated probabilities, and their titles."""
THRESHOLDS = ("threshold", "least", "bound")
NOTHING = "nothing is shown"

Form = tuple[str, str, str]
"""Method, variant and setting, which names the α."""


def decisions(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Forms of methods × shares shown and wrong at each α, and errors of probabilities."""
    risks = {f"risk={risk:g}": f"At most {100 * risk:g} % wrong" for risk in study.decisions.risks}
    stored = joined(
        [inputs.decisions(cell, (*THRESHOLDS, *SHARES, *PROBABILITY)) for cell in chosen]
    )
    thresholds = stored.where(metric=THRESHOLDS)
    forms = records(thresholds.frame[["method", "variant"]].drop_duplicates())
    of_cells = stored.at(_places(chosen, forms, list(risks)), missing=NOTHING)
    averaged = with_mean(study, of_cells)
    shares = joined(
        [
            of_cells.where(metric=WRONG_OF_SHOWN),
            _wrong_of_shown_in_all(averaged.estimates),
            averaged.estimates.where(metric=(SHOWN, *PROBABILITY)),
        ]
    )
    estimates = joined([shares, _gains(shares)])
    place = {"model": chosen[0].model, "dataset": averaged.dataset}
    probabilities = of_cells.where(metric=tuple(PROBABILITY))
    return table(
        study,
        estimates,
        ("Method",),
        _rows(place, forms),
        _columns(risks, _Printed(_states(thresholds))),
        further=(estimates, thresholds),
        facts={
            **captions.question_facts(study, probabilities.frame),
            "shown": averaged.title,
            "tried": _thresholds_tried(thresholds),
        },
    )


def _places(chosen: Sequence[Cell], forms: Sequence[Keys], risks: Sequence[str]) -> pd.DataFrame:
    """The keys of every share at every α, and of the errors of probabilities, of each form."""
    measures = [{"metric": share, "setting": risk} for share in SHARES for risk in risks]
    measures += [{"metric": error, "setting": ""} for error in PROBABILITY]
    return frame_of(
        [
            {**cell.place, **form, **measure}
            for cell in chosen
            for form in forms
            for measure in measures
        ]
    )


def _wrong_of_shown_in_all(estimates: Estimates) -> Estimates:
    """Of what is shown in all datasets together, the share wrong."""
    wrong = estimates.where(dataset=MEAN, metric=WRONG_OF_ALL)
    shown = estimates.where(dataset=MEAN, metric=SHOWN)
    with np.errstate(invalid="ignore"):
        shares = wrong.combined(shown, np.divide)
    return shares.undefined(shown.frame["value"] == 0, NOTHING).assign(metric=WRONG_OF_SHOWN)


def _gains(estimates: Estimates) -> Estimates:
    """Beam forms minus multinomial ones, where either shows anything."""
    gains = beam_gains(estimates)
    keys = gains.frame.drop(columns=["value", "n", "empty", "note"])
    beams = estimates.at(keys.assign(variant=OVER_BEAMS))
    neither = (beams.frame["value"] == 0) & (gains.frame["value"] == 0)
    return gains.undefined((gains.frame["metric"] == SHOWN) & neither, NOTHING)


def _states(thresholds: Estimates) -> dict[Form, str]:
    """Why a form shows nothing on any dataset at an α.

    "refused": there are too few questions for any threshold; "none": none of them passes.
    """
    frame = thresholds.frame
    if frame["dataset"].nunique() > 1:
        frame = frame[~thresholds.too_empty]
    states: dict[Form, str] = {}
    for keys, part in frame.groupby(["method", "variant", "setting"], sort=False):
        threshold = part[part["metric"] == "threshold"]
        least = part[part["metric"] == "least"]
        if threshold["value"].isna().all():
            method, variant, setting = map(str, keys)
            refused = (least["n"] < least["value"]).any()
            states[method, variant, setting] = "refused" if refused else "none"
    return states


def _thresholds_tried(thresholds: Estimates) -> str:
    """How many thresholds a dataset has, for all methods and α together."""
    frame = thresholds.where(metric="threshold").frame
    counts = frame.groupby("dataset", sort=False).size().unique()
    return captions.listing([str(count) for count in counts])


def _rows(place: Keys, forms: Sequence[Keys]) -> list[Row]:
    """A row a form, and one of the difference below the beam form of a method that has both."""
    rows = []
    for form in forms:
        rows.append(Row((captions.method_title(**form),), {**place, **form}))
        if form["variant"] == OVER_BEAMS and {**form, "variant": OVER_SAMPLES} in forms:
            keys = {**place, **form, "variant": GAIN}
            rows.append(Row(("  beam − multinomial",), keys, signed=True))
    return rows


def _columns(risks: Mapping[str, str], printed: _Printed) -> list[Column]:
    """Shares shown and wrong at each α, by setting and title, then errors of probabilities."""
    columns = []
    for setting, title in risks.items():
        for metric, head in ((SHOWN, "Shown"), (WRONG_OF_SHOWN, "Wrong")):
            keys = {"metric": metric, "setting": setting}
            columns.append(Column(keys, (title, head), show=printed.cell))
    for metric, head in PROBABILITY.items():
        columns.append(Column({"metric": metric}, ("Probability", head), beside="interval"))
    return columns


@dataclass(frozen=True)
class _Printed:
    """How a share is printed: as a number, or why nothing is shown."""

    states: Mapping[Form, str]

    def cell(self, value: Value) -> TableCell:
        """A share, or the state of its form at this α."""
        state = self.states.get((value["method"], value["variant"], value["setting"]))
        if state and value["metric"] == SHOWN and value["note"] != ALL_EMPTY:
            return TableCell(state)
        if np.isnan(value["value"]):
            return TableCell(ABSENT, pointer=value["note"])
        around = f"of {value['n']} {interval(value['low'], value['high'])}"
        return TableCell(decimal(value["value"]), around.strip())


def exhibits(study: Study) -> list[Exhibit]:
    decided = partial(
        Exhibit,
        kind="table",
        reads=("decisions",),
        build=decisions,
        caption="decisions",
        beyond_paper=True,
    )
    models = {study.models[model].label: model for model in grid.models(study, study.main.recipe)}
    return [
        decided("decisions", cells=one_model),
        *(
            decided(f"decisions_{label}", cells=partial(grid.main_cells, model=model))
            for label, model in models.items()
        ),
    ]
