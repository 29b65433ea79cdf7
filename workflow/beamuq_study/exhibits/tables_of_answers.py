"""Tables of answers: how many are right or empty, further qualities and endings, AUGRC, and what may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.evaluation.estimates import ALL_EMPTY, MEAN, Estimates, joined
from beamuq.evaluation.intervals import accuracy
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq.evaluation.rank_correlations import order_agreement
from beamuq.methods.registry import stored_variant
from beamuq_study.exhibits import captions, cells, estimates_table, table_formats
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.estimates_table import GAIN, Column, Keys, Value, left_out, measured, table, with_mean
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.exhibits.tables_of_prr import main_methods, one_model
from beamuq_study.parquet_tables import ALL, ANSWERED
from beamuq_study.study_config import Study

TAU = "Kendall tau"
FORMS = {"": "", MULTINOMIAL: "samples", BEAMSEARCH: "beams"}


def main_forms(study: Study) -> list[Keys]:
    """The keys of every method and form of the main recipe."""
    return [row.keys for row in main_methods(study, study.main.recipe)]


# -- accuracy ----------------------------------------------------------------------------------------------------------


def _accuracies(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a model, a column a dataset."""
    rows = []
    for cell in chosen:
        quality, questions = inputs.of(cell, "quality"), inputs.of(cell, "questions")
        accuracies = accuracy(quality, questions, study.main_quality.threshold, study.evaluation.confidence)
        rows.append(cell.place | {"metric": "accuracy"} | vars(accuracies))
    estimates = Estimates.from_rows(rows, [row["value"] for row in rows])
    of = {name: study.datasets[name] for name in cells.datasets_of(study, chosen)}
    columns = [Column({"dataset": d, "metric": "accuracy"}, (of[d].category, of[d].title), show=_percent) for d in of]
    body = [Row((study.models[model].title,), {"model": model}) for model in cells.by_model(chosen)]
    return table(study, estimates, ("Model",), body, columns)


def _percent(row: Value) -> TableCell:
    around = f"[{100 * row['low']:.0f}, {100 * row['high']:.0f}]"
    return TableCell(table_formats.percent(row["value"]), spread=around)


# -- empty answers -----------------------------------------------------------------------------------------------------


def _with_and_without_empty(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Two rows a cell: PRR of all questions, and of the answered ones; the CSV has every form of the main recipe."""
    forms, subsets = main_forms(study), (ALL, ANSWERED)
    each = joined([measured(study, inputs, chosen, forms, subset=of).assign(setting=of) for of in subsets])
    empty = {cell: inputs.empty(cell)["greedy"] for cell in chosen}
    counts = [cell.place | {"metric": "empty answers", "value": of.share, "n": of.n} for cell, of in empty.items()]
    body: list[Row] = []
    for cell, of in empty.items():
        title = study.datasets[cell.dataset].title + left_out(each.where(**cell.place))
        for subset in subsets:
            titles = title, f"{of.empty} of {of.n}", subset
            body.append(Row(titles, cell.place | {"setting": subset}, study.models[cell.model].title))
    columns = [
        Column({"metric": "PRR", **keys}, (captions.method_short(keys["method"]), FORMS[keys.get("variant", "")]))
        for keys in forms
        if keys["method"] == "Prob" or "variant" in keys
    ]
    further = Estimates.from_rows(counts, [of.share for of in empty.values()]), each
    return table(study, each, ("Dataset", "Empty", "Questions"), body, columns, further=further)


# -- agreement of qualities --------------------------------------------------------------------------------------------


def _judged_twice(study: Study) -> Sequence[Cell]:
    """The main cells of datasets with a further quality."""
    return [cell for cell in cells.main_cells(study) if len(study.qualities(cell.dataset)) > 1]


def _agreement(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell and quality: what beams gain by method, and τ with the order of methods by the main quality."""
    forms, main, parts = main_forms(study), study.main_quality, []
    for quality in study.quality:
        judged = [cell for cell in chosen if quality in study.qualities(cell.dataset)]
        if judged:
            first, second = (measured(study, inputs, judged, forms, quality=of.metric) for of in (main, quality))
            parts.append(estimates_table.beam_gains(second).assign(setting=quality.metric))
            if quality != main:
                parts.append(order_agreement(first, second).assign(setting=f"{main.metric} / {quality.metric}"))
    body = [
        Row((cell.title(study), quality.title), cell.place | {"setting": quality.metric})
        for cell in chosen
        for quality in study.qualities(cell.dataset)
    ]
    columns = [
        Column({"metric": "PRR", **keys, "variant": GAIN}, ("Beam − multinomial", title), "signed", "interval")
        for keys in forms
        if keys.get("variant") == BEAMSEARCH
        for title in [captions.method_short(keys["method"])]
    ]
    columns.append(Column({"metric": TAU, "setting": f"{main.metric} /"}, ("Order", "τ"), beside="interval"))
    return table(study, joined(parts), ("Cell", "Quality"), body, columns, forms=len(forms))


# -- endings -----------------------------------------------------------------------------------------------------------

METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
BEAMS = {"distinct texts": 1, "covered mass": 3, "redundant texts": 3}  # with how many digits each is printed
APART, MERGED, CHANGE = "apart", "merged", "merged − apart"


def _both_endings(study: Study) -> Sequence[Cell]:
    """The main cells, each before that of the first recipe that decodes the same questions with merged endings."""
    merged = cells.select(study, methods=METHODS, strategies=[study.main.beam], has=lambda of: of.merge_stop_tokens)
    if not merged or study.recipes[study.main.recipe].merge_stop_tokens:
        return []
    pairs = [(cell, replace(cell, recipe=merged[0].recipe)) for cell in cells.with_methods(study, METHODS)]
    alike = [pair for pair in pairs if pair[1] in merged and len({cells.asked(study, of) for of in pair}) == 1]
    return [cell for pair in alike for cell in pair]


def _endings(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Three rows a cell: a column a measure of its beams and a column a method."""
    forms = [{"method": method, "variant": stored_variant(method, BEAMSEARCH)} for method in METHODS]
    apart, merged = (
        joined([*(_of_beams(study, cell, inputs) for cell in of), measured(study, inputs, of, forms)])
        for of in (chosen[::2], chosen[1::2])
    )
    parts = {APART: apart, MERGED: merged, CHANGE: merged.minus(apart)}
    body = [
        Row((cell.title(study), setting), cell.place | {"setting": setting}, signed=setting == CHANGE)
        for cell in chosen[::2]
        for setting in parts
    ]
    columns = [
        Column({"metric": metric, "variant": BEAMSEARCH}, ("Beams", metric.capitalize()), digits=digits)
        for metric, digits in BEAMS.items()
    ]
    columns += [Column({"metric": "PRR", **keys}, ("PRR", captions.method_short(keys["method"]))) for keys in forms]
    each = joined([part.assign(setting=setting) for setting, part in parts.items()])
    return table(study, each, ("Cell", "Endings"), body, columns, merged=chosen[1].recipe)


def _of_beams(study: Study, cell: Cell, inputs: Inputs) -> Estimates:
    """Means over questions of what a cell's beams are like."""
    candidates, beams = inputs.candidates(cell), (study.main.beam, study.main.num_candidates)
    values = (candidates.distinct(*beams), candidates.mass(*beams), candidates.redundancy(*beams))
    return inputs.means(cell, candidates.ids, dict(zip(BEAMS, values, strict=True)), variant=BEAMSEARCH)


# -- AUGRC -------------------------------------------------------------------------------------------------------------

GREEDY, TOP_BEAM, OTHER_ANSWER = "greedy", "top_beam", "top_beam - greedy"


def _augrc(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × models: AUGRC of the greedy answer, and what the top beam as the answer changes."""
    rows = main_methods(study, study.main.recipe)
    answers, parts = [answer for answer in (GREEDY, TOP_BEAM) if answer in study.answer_source], []
    for answer in answers:
        right = joined([_accuracy(study, inputs, cell, answer) for cell in chosen])
        auc = measured(study, inputs, chosen, main_forms(study), metric="ROC-AUC", answer_source=answer)
        area = auc.combined(right.at(auc.frame[["model", "dataset"]]), lambda u, a: area_under_generalised_risk(a, u))
        parts += [right.assign(setting=answer), area.assign(metric="AUGRC", setting=answer)]
    each = joined(parts)
    either = each.frame.groupby(["model", "dataset"])["empty"].transform("max")
    each = replace(each, frame=each.frame.assign(empty=either))  # both answers of a cell are in a mean, or neither
    estimates, dataset, name = with_mean(study, each)
    body = [Row(("Accuracy",), {"metric": "accuracy"})]
    body += [replace(row, keys={"metric": "AUGRC", **row.keys}) for row in rows]
    columns = []
    for model in cells.by_model(chosen):
        title = study.models[model].title + left_out(each.where(model=model))
        keys = {"model": model, "dataset": dataset}
        columns.append(Column(keys | {"setting": GREEDY}, (title, "Greedy"), beside="interval"))
        if TOP_BEAM in answers:
            columns.append(Column(keys | {"setting": OTHER_ANSWER}, (title, "Δ top beam"), "signed", "interval"))
    if TOP_BEAM in answers:
        estimates = joined([estimates, estimates.where(setting=TOP_BEAM).minus(estimates.where(setting=GREEDY))])
    top_beam = "" if TOP_BEAM in answers else None
    return table(study, estimates, ("Method",), body, columns, further=(estimates,), shown=name, top_beam=top_beam)


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
    estimates, dataset, name = with_mean(study, each)
    mean = estimates.where(dataset=MEAN)
    estimates = joined([each.where(metric=WRONG), _wrong_of_shown(mean), estimates.where(metric=(SHOWN, *PROBABILITY))])
    estimates = joined([estimates, _gains(estimates)])
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
        "tried": captions.listing([str(count) for count in tried]),
    }
    return table(study, estimates, ("Method",), body, columns, further=(estimates, thresholds), **facts)


def _wrong_of_shown(estimates: Estimates) -> Estimates:
    """Of means over datasets: of what is shown in all of them together, the share wrong."""
    wrong, shown = (estimates.where(metric=metric) for metric in (WRONG_OF_ALL, SHOWN))

    def ratio(a: Floats, b: Floats) -> Floats:
        return np.divide(a, b, out=np.full_like(a, np.nan), where=b != 0)

    return wrong.combined(shown, ratio).undefined(shown.frame["value"] == 0, NOTHING).assign(metric=WRONG)


def _gains(estimates: Estimates) -> Estimates:
    """Beam − multinomial of methods with both forms; of shares shown only where either form shows anything."""
    gains = estimates_table.beam_gains(estimates)
    beams = estimates.at(gains.frame.drop(columns=["value", "n", "empty", "note"]).assign(variant=BEAMSEARCH))
    idle = (gains.frame["metric"] == SHOWN) & (beams.frame["value"] == 0) & (gains.frame["value"] == 0)
    return gains.undefined(idle, NOTHING)


def _states(thresholds: Estimates) -> dict[Any, str]:
    """Of each method, variant and α why nothing is shown on any dataset: refused, or none of its thresholds passes."""
    states = dict[Any, str]()
    several = thresholds.frame["dataset"].nunique() > 1
    frame = thresholds.frame[~thresholds.too_empty] if several else thresholds.frame
    for form, part in frame.groupby(["method", "variant", "setting"], sort=False):
        threshold, least = (part[part["metric"] == name] for name in ("threshold", "least"))
        if threshold["value"].isna().all():
            states[form] = "refused" if (least["n"] < least["value"]).any() else "none"
    return states


def _share(value: Value) -> TableCell:
    """A share with its interval, and of how many."""
    if np.isnan(value["value"]):
        return TableCell("–", pointer=value["note"])
    around = table_formats.interval(value["low"], value["high"])
    return TableCell(table_formats.decimal(value["value"]), f"of {value['n']} {around}".strip())


def exhibits(study: Study) -> list[Exhibit]:
    """Of every study the same, and decisions of each model."""
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    of_all, prr = partial(ours, cells=cells.main_cells), dict[str, Any](reads=EVALUATION, metric="PRR")
    augrc, accuracies = (*EVALUATION, "quality", "questions"), ("quality", "questions")
    decided = partial(ours, reads=("decisions",), build=_decisions, template="decisions")
    models = {study.models[model].label: model for model in cells.models(study, study.main.recipe)}
    return [
        Exhibit("base_accs", "table", cells.main_cells, accuracies, _accuracies, scored=False),
        of_all("empty_answers", build=_with_and_without_empty, **prr),
        ours("quality_agreement", cells=_judged_twice, build=_agreement, **prr),
        ours("endings", cells=_both_endings, reads=(*EVALUATION, *CANDIDATES), build=_endings),
        of_all("augrc", reads=augrc, build=_augrc, metric="ROC-AUC"),
        decided("decisions", cells=one_model),
        *(decided(f"decisions_{label}", cells=partial(cells.main_cells, model=of)) for label, of in models.items()),
    ]
