"""Tables of risk: AUGRC, which compares answers and models, and what may be shown with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from beamuq.evaluation.estimates import ALL_EMPTY, MEAN, Estimates, Floats, joined
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq.exhibits import captions, cells, estimates_table, number_format
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import GAIN, Column, Value, table, with_mean
from beamuq.exhibits.exhibit import EVALUATION, Exhibit, Row, Table, TableCell
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.tables_of_prr import main_methods, of_model, of_one_model
from beamuq.study_config import Study

# -- AUGRC -------------------------------------------------------------------------------------------------------------

GREEDY, TOP_BEAM, CHANGE = "greedy", "top_beam", "top_beam - greedy"


def _ranked(study: Study) -> Sequence[Cell]:
    cells.check_measured(study, "ROC-AUC")
    return cells.main_cells(study)


def _augrc(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × models: AUGRC of the greedy answer, and what the top beam as the answer changes."""
    rows = main_methods(study, study.main.recipe)
    answers = [answer for answer in (GREEDY, TOP_BEAM) if answer in study.answer_source]
    parts = []
    for answer in answers:
        right = joined([_accuracy(study, inputs, cell, answer) for cell in chosen])
        forms = [row.keys for row in rows]
        auc = estimates_table.measured(study, inputs, chosen, forms, metric="ROC-AUC", answer_source=answer)
        area = auc.combined(right.at(auc.frame[["model", "dataset"]]), lambda u, a: area_under_generalised_risk(a, u))
        parts += [right.assign(setting=answer), area.assign(metric="AUGRC", setting=answer)]
    each = joined(parts)
    either = each.frame.groupby(["model", "dataset"])["empty"].transform("max")
    each = replace(each, frame=each.frame.assign(empty=either))  # both answers of a cell are in a mean, or neither
    found, dataset, name = with_mean(study, each)
    body = [Row(("Accuracy",), {"metric": "accuracy"})]
    body += [replace(row, keys={"metric": "AUGRC", **row.keys}) for row in rows]
    columns = []
    for model in cells.by_model(chosen):
        title = study.models[model].title + estimates_table.left_out(each.where(model=model))
        keys = {"model": model, "dataset": dataset}
        columns.append(Column(keys | {"setting": GREEDY}, (title, "Greedy"), beside="interval"))
        if TOP_BEAM in answers:
            columns.append(Column(keys | {"setting": CHANGE}, (title, "Δ top beam"), "signed", "interval"))
    if TOP_BEAM in answers:
        found = joined([found, found.where(setting=TOP_BEAM).minus(found.where(setting=GREEDY))])
    top_beam = "" if TOP_BEAM in answers else None
    return table(study, found, ("Method",), body, columns, further=(found,), shown=name, top_beam=top_beam)


def _accuracy(study: Study, inputs: Inputs, cell: Cell, answer: str) -> Estimates:
    """The share of a cell's answers that are right, on the resamples of its evaluation."""
    quality = inputs.of(cell, "quality")
    answers = quality[quality["answer_source"] == answer]
    right = {"accuracy": answers["value"] > study.main_quality.threshold}
    return inputs.means(cell, answers["id"].tolist(), right, empty=inputs.empty(cell)[answer].share)


# -- decisions ---------------------------------------------------------------------------------------------------------

SHOWN, WRONG, WRONG_OF_ALL, PROBABILITY = "shown", "wrong of shown", "wrong", {"ece": "ECE", "brier": "Brier"}
NOTHING = "nothing is shown"


def _decisions(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × share shown and share wrong of it at each α, and errors of calibrated probabilities."""
    risks = {f"risk={risk:g}": f"At most {100 * risk:g} % wrong" for risk in study.decisions.risks}
    measures = [*product((SHOWN, WRONG, WRONG_OF_ALL), risks), *product(PROBABILITY, [""])]
    read = joined([inputs.decisions(cell) for cell in chosen])
    thresholds = read.where(metric=("threshold", "least", "bound"))
    forms = estimates_table.records(thresholds.frame[["method", "variant"]].drop_duplicates())
    keys = [{**form, "metric": metric, "setting": risk} for form in forms for metric, risk in measures]
    each = read.at(estimates_table.frame_of([cell.place | key for cell in chosen for key in keys]), missing=NOTHING)
    found, dataset, name = with_mean(study, each)
    mean = found.where(dataset=MEAN)
    found = joined([each.where(metric=WRONG), _wrong_of_shown(mean), found.where(metric=(SHOWN, *PROBABILITY))])
    found = joined([found, _gains(found)])
    states = _states(thresholds)

    def shown(value: Value) -> TableCell:
        state = states.get((value["method"], value["variant"], value["setting"]), "")
        return TableCell(state) if state and value["note"] != ALL_EMPTY else _share(value)

    columns = [
        Column({"metric": metric, "setting": setting}, (at_most, title), show=show)
        for setting, at_most in risks.items()
        for metric, title, show in ((SHOWN, "Shown", shown), (WRONG, "Wrong", _share))
    ]
    columns += [Column({"metric": of}, ("Probability", title), beside="interval") for of, title in PROBABILITY.items()]
    place, body = {"model": chosen[0].model, "dataset": dataset}, []
    for form in forms:
        body.append(Row((captions.method_title(**form),), place | form))
        if form["variant"] == BEAMSEARCH and form | {"variant": MULTINOMIAL} in forms:
            body.append(Row(("  beam − multinomial",), place | form | {"variant": GAIN}, signed=True))
    tried = thresholds.where(metric="threshold").frame.groupby("dataset", sort=False).size().unique()
    facts = estimates_table.question_facts(study, each.where(metric=tuple(PROBABILITY))) | {
        "shown": name,
        "model": study.models[chosen[0].model].title,
        "guarantee": f"{100 * study.decisions.confidence:g} %",
        "tried": captions.listing([str(count) for count in tried]),
    }
    return table(study, found, ("Method",), body, columns, further=(found, thresholds), **facts)


def _wrong_of_shown(found: Estimates) -> Estimates:
    """Of means over datasets: of what is shown in all of them together, the share wrong."""
    wrong, shown = (found.where(metric=metric) for metric in (WRONG_OF_ALL, SHOWN))

    def ratio(a: Floats, b: Floats) -> Floats:
        return np.divide(a, b, out=np.full_like(a, np.nan), where=b != 0)

    return wrong.combined(shown, ratio).undefined(shown.frame["value"] == 0, NOTHING).assign(metric=WRONG)


def _gains(found: Estimates) -> Estimates:
    """Beam − multinomial of methods with both forms; of shares shown only where either form shows anything."""
    gains = estimates_table.beam_gains(found)
    beams = found.at(gains.frame.drop(columns=["value", "n", "empty", "note"]).assign(variant=BEAMSEARCH))
    idle = (gains.frame["metric"] == SHOWN) & (beams.frame["value"] == 0) & (gains.frame["value"] == 0)
    return gains.undefined(idle, NOTHING)


def _states(thresholds: Estimates) -> dict[Any, str]:
    """Of each method, variant and α why nothing is shown on any dataset: refused, or none of its thresholds passes."""
    found = dict[Any, str]()
    several = thresholds.frame["dataset"].nunique() > 1
    frame = thresholds.frame[~thresholds.too_empty] if several else thresholds.frame
    for form, part in frame.groupby(["method", "variant", "setting"], sort=False):
        threshold, least = (part[part["metric"] == name] for name in ("threshold", "least"))
        if threshold["value"].isna().all():
            found[form] = "refused" if (least["n"] < least["value"]).any() else "none"
    return found


def _share(value: Value) -> TableCell:
    """A share with its interval, and of how many."""
    if np.isnan(value["value"]):
        return TableCell("–", pointer=value["note"])
    around = number_format.interval(value["low"], value["high"])
    return TableCell(number_format.decimal(value["value"]), f"of {value['n']} {around}".strip())


def exhibits(study: Study) -> list[Exhibit]:
    """AUGRC, and decisions of one model and of each."""
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    decided = partial(ours, reads=("decisions",), build=_decisions, template="decisions")
    models = {study.models[model].label: model for model in cells.models(study, study.main.recipe)}
    return [
        ours("augrc", cells=_ranked, reads=(*EVALUATION, "quality", "questions"), build=_augrc),
        decided("decisions", cells=of_one_model),
        *(decided(f"decisions_{label}", cells=partial(of_model, model)) for label, model in models.items()),
    ]
