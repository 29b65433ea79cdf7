"""Tables of data, prompts and methods, and of answers: how many are right or empty, and what may be
shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from beamuq.evaluation.estimates import ALL_EMPTY, MEAN, Estimates, joined
from beamuq.evaluation.intervals import accuracy
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq.evaluation.rank_correlations import order_agreement
from beamuq.methods.registry import resolve, stored_variant
from beamuq.prompts import prompt_template
from beamuq_study import grid as cells
from beamuq_study.exhibits import captions, estimates_table
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL, method_short
from beamuq_study.exhibits.estimates_table import (
    GAIN,
    Column,
    Keys,
    Value,
    beam_gains,
    measured,
    table,
    with_mean,
)
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.table_formats import decimal, interval, percent
from beamuq_study.exhibits.tables_of_prr import main_methods, one_model
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL, ANSWERED
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Dataset, Study

# -- methods, prompts and data ---------------------------------------------------------------------

STYLES = {"base": "Base prompt", "instruct": "Instruct prompt"}
FILLED = {"history": "all preceding QA pairs", "story": "context", "options": "options (A), (B), …"}


def _methods(study: Study, *_: object) -> Table:
    """A row a baseline method: its category, and whether the study scores it."""
    scored = {resolve(name).name for scoring in study.scoring.values() for name in scoring.methods}
    listed = captions.BASELINES.items()
    values = [
        {"metric": "category", "method": name, "value": category} for name, (category, _) in listed
    ]
    rows = [
        _row(category, title, "yes" if name in scored else "no")
        for name, (category, title) in listed
    ]
    return Table(
        values, ("Category",), [("Uncertainty quantification method", "In this study")], rows
    )


def _row(title: str, *texts: object, code: bool = False) -> Row:
    return Row((title,), cells=tuple(TableCell(str(text), code=code) for text in texts))


def _prompts(study: Study, *_: object) -> Table:
    """A row a dataset: its template for base and for instruct models, with ``<…>`` where a value is
    put in.
    """
    values, rows = [], []
    for key, dataset in study.datasets.items():
        shown = {style: shown_prompt(dataset, style) for style in STYLES}
        values += [
            {"model": s, "dataset": key, "metric": "prompt", "value": text}
            for s, text in shown.items()
        ]
        rows.append(_row(dataset.title, *shown.values(), code=True))
    models = captions.listing([f"{model.title} ({model.style})" for model in study.models.values()])
    return Table(values, ("Dataset",), [tuple(STYLES.values())], rows, {"models": models})


def shown_prompt(dataset: Dataset, style: str) -> str:
    prompt = prompt_template.load(_template(style, dataset))["prompt"]
    if not dataset.few_shot:
        prompt = re.sub(r"^\{shots\}\n\n?", "", prompt, flags=re.MULTILINE)
    words = FILLED | {"shots": f"{dataset.few_shot} few-shot QA pairs"}
    return re.sub(
        r"\{(\w+)\}", lambda match: f"<{words.get(match[1], match[1].replace('_', ' '))}>", prompt
    )


def _template(style: str, dataset: Dataset) -> Path:
    return prompt_template.PROMPTS / style / f"{dataset.adapter}.txt"


def _templates(study: Study) -> list[Path]:
    return list(
        dict.fromkeys(
            _template(style, dataset) for style in STYLES for dataset in study.datasets.values()
        )
    )


def _asked(study: Study) -> Sequence[Cell]:
    return [
        Cell("", dataset)
        for dataset in study.datasets
        if any(dataset in entry.datasets for entry in study.grid)
    ]


def _datasets(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A column a dataset: counts of the files that were used."""
    frames = {cell.dataset: inputs.of(cell, "questions") for cell in chosen}
    of = {dataset: study.datasets[dataset] for dataset in frames}
    lines: dict[tuple[str, str], list[int | str]] = {
        ("# Questions", "questions"): [len(frame) for frame in frames.values()],
        ("# few-shot examples", "few_shot"): [_shots(study, inputs, cell) for cell in chosen],
        ("Max new tokens", "max_new_tokens"): [dataset.max_new_tokens for dataset in of.values()],
    }
    values = [
        {"dataset": dataset, "metric": metric, "value": value, "n": len(frame)}
        for (_, metric), datasets in lines.items()
        for (dataset, frame), value in zip(frames.items(), datasets, strict=True)
    ]
    stories = [
        f"the {len(frames[name])} questions of {dataset.title} are turns of "
        f"{frames[name]['group'].nunique()} dialogues"
        for name, dataset in of.items()
        if dataset.adapter == "coqa"
    ]
    heads = [
        tuple(dataset.category for dataset in of.values()),
        tuple(dataset.title for dataset in of.values()),
    ]
    rows = [_row(title, *datasets) for (title, _), datasets in lines.items()]
    return Table(values, ("",), heads, rows, {"dialogues": captions.listing(stories) or None})


def _shots(study: Study, inputs: Inputs, cell: Cell) -> int | str:
    of = study.datasets[cell.dataset]
    if of.adapter == "coqa":
        return "all preceding"
    return len(inputs.of(cell, "shots")) if of.few_shot else 0


FORMS = {"": "", MULTINOMIAL: "samples", BEAMSEARCH: "beams"}


def main_forms(study: Study) -> list[Keys]:
    return [row.keys for row in main_methods(study, study.main.recipe)]


def _accuracies(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    def show(row: Value) -> TableCell:
        return TableCell(
            percent(row["value"]), spread=f"[{100 * row['low']:.0f}, {100 * row['high']:.0f}]"
        )

    rows = []
    for cell in chosen:
        quality, questions = inputs.of(cell, "quality"), inputs.of(cell, "questions")
        accuracies = accuracy(
            quality, questions, study.main_quality.threshold, study.evaluation.confidence
        )
        rows.append(cell.place | {"metric": "accuracy"} | vars(accuracies))
    estimates = Estimates.from_rows(rows, [row["value"] for row in rows])
    of = {name: study.datasets[name] for name in cells.datasets_of(study, chosen)}
    columns = [
        Column({"dataset": d, "metric": "accuracy"}, (of[d].category, of[d].title), show=show)
        for d in of
    ]
    body = [Row((study.models[model].title,), {"model": model}) for model in cells.by_model(chosen)]
    return table(study, estimates, ("Model",), body, columns)


def _with_and_without_empty(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Two rows a cell: PRR of all questions, and of the answered ones; the CSV has every form of
    the main recipe.
    """
    forms, subsets = main_forms(study), (ALL, ANSWERED)
    each = joined(
        [measured(study, inputs, chosen, forms, subset=of).assign(setting=of) for of in subsets]
    )
    empty = {cell: inputs.empty(cell)["greedy"] for cell in chosen}
    counts = [
        cell.place | {"metric": "empty answers", "value": of.share, "n": of.n}
        for cell, of in empty.items()
    ]
    body: list[Row] = []
    for cell, of in empty.items():
        title = study.datasets[cell.dataset].title + estimates_table.left_out(
            each.where(**cell.place)
        )
        for subset in subsets:
            titles = title, f"{of.empty} of {of.n}", subset
            body.append(
                Row(titles, cell.place | {"setting": subset}, study.models[cell.model].title)
            )
    columns = [
        Column(
            {"metric": "PRR", **keys},
            (method_short(keys["method"]), FORMS[keys.get("variant", "")]),
        )
        for keys in forms
        if keys["method"] == "Prob" or "variant" in keys
    ]
    further = Estimates.from_rows(counts, [of.share for of in empty.values()]), each
    return table(study, each, ("Dataset", "Empty", "Questions"), body, columns, further=further)


# -- other qualities and endings -------------------------------------------------------------------

TAU = "Kendall tau"
METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
BEAMS = {
    "distinct texts": 1,
    "covered mass": 3,
    "redundant texts": 3,
}  # with how many digits each is printed
APART, MERGED, CHANGE = "apart", "merged", "merged − apart"


def _judged_twice(study: Study) -> Sequence[Cell]:
    return [cell for cell in cells.main_cells(study) if len(study.qualities(cell.dataset)) > 1]


def _agreement(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell and quality: what beams gain by method, and τ with the order of methods by the
    main quality.
    """
    forms, main, parts = main_forms(study), study.main_quality, []
    for quality in study.quality:
        if judged := [cell for cell in chosen if quality in study.qualities(cell.dataset)]:
            first, second = (
                measured(study, inputs, judged, forms, quality=of.metric) for of in (main, quality)
            )
            parts.append(beam_gains(second).assign(setting=quality.metric))
            if quality != main:
                parts.append(
                    order_agreement(first, second).assign(
                        setting=f"{main.metric} / {quality.metric}"
                    )
                )
    body = [
        Row((cell.title(study), quality.title), cell.place | {"setting": quality.metric})
        for cell in chosen
        for quality in study.qualities(cell.dataset)
    ]
    gain = partial(Column, style="signed", beside="interval")
    columns = [
        gain(
            {"metric": "PRR", **keys, "variant": GAIN},
            ("Beam − multinomial", method_short(keys["method"])),
        )
        for keys in forms
        if keys.get("variant") == BEAMSEARCH
    ]
    columns.append(
        Column({"metric": TAU, "setting": f"{main.metric} /"}, ("Order", "τ"), beside="interval")
    )
    return table(study, joined(parts), ("Cell", "Quality"), body, columns, forms=len(forms))


def _both_endings(study: Study) -> Sequence[Cell]:
    """The main cells, each before that of the first recipe that decodes the same questions with
    merged endings.
    """
    recipes, beam = study.recipes, study.main.beam
    merged = cells.select(
        study, methods=METHODS, strategies=[beam], has=lambda of: recipes[of].merge_stop_tokens
    )
    if not merged or recipes[study.main.recipe].merge_stop_tokens:
        return []
    pairs = [
        (cell, replace(cell, recipe=merged[0].recipe))
        for cell in cells.with_methods(study, METHODS)
    ]
    alike = [
        pair
        for pair in pairs
        if pair[1] in merged and len({cells.questions_asked(study, of) for of in pair}) == 1
    ]
    return [cell for pair in alike for cell in pair]


def _endings(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Three rows a cell: a column a measure of its beams and a column a method."""
    forms = [
        {"method": method, "variant": stored_variant(method, BEAMSEARCH)} for method in METHODS
    ]
    apart, merged = (
        joined(
            [*(_of_beams(study, cell, inputs) for cell in of), measured(study, inputs, of, forms)]
        )
        for of in (chosen[::2], chosen[1::2])
    )
    parts = {APART: apart, MERGED: merged, CHANGE: merged.minus(apart)}
    body = [
        Row(
            (cell.title(study), setting),
            cell.place | {"setting": setting},
            signed=setting == CHANGE,
        )
        for cell in chosen[::2]
        for setting in parts
    ]
    columns = [
        Column(
            {"metric": metric, "variant": BEAMSEARCH}, ("Beams", metric.capitalize()), digits=digits
        )
        for metric, digits in BEAMS.items()
    ]
    columns += [
        Column({"metric": "PRR", **keys}, ("PRR", method_short(keys["method"]))) for keys in forms
    ]
    each = joined([part.assign(setting=setting) for setting, part in parts.items()])
    return table(study, each, ("Cell", "Endings"), body, columns, merged=chosen[1].recipe)


def _of_beams(study: Study, cell: Cell, inputs: Inputs) -> Estimates:
    candidates, beams = inputs.candidates(cell), (study.main.beam, study.main.num_candidates)
    values = (candidates.distinct(*beams), candidates.mass(*beams), candidates.redundancy(*beams))
    return inputs.means(
        cell, candidates.ids, dict(zip(BEAMS, values, strict=True)), variant=BEAMSEARCH
    )


GREEDY, TOP_BEAM, OTHER_ANSWER = "greedy", "top_beam", "top_beam - greedy"


def _augrc(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × models: AUGRC of the greedy answer, and what the top beam as the
    answer changes.
    """
    answers, parts = [answer for answer in (GREEDY, TOP_BEAM) if answer in study.answer_source], []
    for answer in answers:
        right = joined([_accuracy(study, inputs, cell, answer) for cell in chosen])
        auc = measured(
            study, inputs, chosen, main_forms(study), metric="ROC-AUC", answer_source=answer
        )
        area = auc.combined(
            right.at(auc.frame[["model", "dataset"]]),
            lambda u, a: area_under_generalised_risk(a, u),
        )
        parts += [right.assign(setting=answer), area.assign(metric="AUGRC", setting=answer)]
    each = joined(parts)
    either = each.frame.groupby(["model", "dataset"])["empty"].transform("max")
    each = replace(
        each, frame=each.frame.assign(empty=either)
    )  # both answers of a cell are in a mean, or neither
    estimates, dataset, name = with_mean(study, each)
    body = [Row(("Accuracy",), {"metric": "accuracy"})]
    body += [
        replace(row, keys={"metric": "AUGRC", **row.keys})
        for row in main_methods(study, study.main.recipe)
    ]
    columns, two = [], TOP_BEAM in answers
    for model in cells.by_model(chosen):
        title = study.models[model].title + estimates_table.left_out(each.where(model=model))
        keys = {"model": model, "dataset": dataset}
        columns.append(Column(keys | {"setting": GREEDY}, (title, "Greedy"), beside="interval"))
        columns += [
            Column(keys | {"setting": OTHER_ANSWER}, (title, "Δ top beam"), "signed", "interval")
        ] * two
    if two:
        estimates = joined(
            [estimates, estimates.where(setting=TOP_BEAM).minus(estimates.where(setting=GREEDY))]
        )
    facts: dict[str, Any] = {"shown": name, "top_beam": "" if two else None}
    return table(study, estimates, ("Method",), body, columns, further=(estimates,), **facts)


def _accuracy(study: Study, inputs: Inputs, cell: Cell, answer: str) -> Estimates:
    """The share of a cell's answers that are right, on the resamples of its evaluation."""
    quality = inputs.of(cell, "quality")
    answers = quality[quality["answer_source"] == answer]
    right = {"accuracy": answers["value"] > study.main_quality.threshold}
    return inputs.means(cell, answers["id"].tolist(), right, empty=inputs.empty(cell)[answer].share)


# -- decisions -------------------------------------------------------------------------------------

SHOWN, WRONG, WRONG_OF_ALL, PROBABILITY = (
    "shown",
    "wrong of shown",
    "wrong",
    {"ece": "ECE", "brier": "Brier"},
)
THRESHOLDS = ("threshold", "least", "bound")
NOTHING = "nothing is shown"


def _decisions(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × share shown and share wrong of it at each α, and errors of calibrated
    probabilities.
    """
    risks = {f"risk={risk:g}": f"At most {100 * risk:g} % wrong" for risk in study.decisions.risks}
    measures = [*product((SHOWN, WRONG, WRONG_OF_ALL), risks), *product(PROBABILITY, [""])]
    read = joined(
        [
            inputs.decisions(cell, (*THRESHOLDS, SHOWN, WRONG, WRONG_OF_ALL, *PROBABILITY))
            for cell in chosen
        ]
    )
    thresholds = read.where(metric=THRESHOLDS)
    forms = estimates_table.records(thresholds.frame[["method", "variant"]].drop_duplicates())
    keys = [
        {**form, "metric": metric, "setting": risk} for form in forms for metric, risk in measures
    ]
    places = estimates_table.frame_of([cell.place | key for cell in chosen for key in keys])
    each = read.at(places, missing=NOTHING)
    estimates, dataset, name = with_mean(study, each)
    of_all, shown = (
        estimates.where(dataset=MEAN, metric=metric) for metric in (WRONG_OF_ALL, SHOWN)
    )
    with np.errstate(
        invalid="ignore"
    ):  # of what is shown in all datasets together, the share wrong
        of_shown = (
            of_all.combined(shown, np.divide)
            .undefined(shown.frame["value"] == 0, NOTHING)
            .assign(metric=WRONG)
        )
    estimates = joined(
        [each.where(metric=WRONG), of_shown, estimates.where(metric=(SHOWN, *PROBABILITY))]
    )
    gains = beam_gains(estimates)
    beams = estimates.at(
        gains.frame.drop(columns=["value", "n", "empty", "note"]).assign(variant=BEAMSEARCH)
    )
    idle = (
        (gains.frame["metric"] == SHOWN) & (beams.frame["value"] == 0) & (gains.frame["value"] == 0)
    )
    estimates = joined(
        [estimates, gains.undefined(idle, NOTHING)]
    )  # compared only where either form shows anything
    states = _states(thresholds)

    def show(value: Value) -> TableCell:
        state = states.get((value["method"], value["variant"], value["setting"]), "")
        if state and value["metric"] == SHOWN and value["note"] != ALL_EMPTY:
            return TableCell(state)
        if np.isnan(value["value"]):
            return TableCell(estimates_table.ABSENT, pointer=value["note"])
        around = f"of {value['n']} {interval(value['low'], value['high'])}"
        return TableCell(decimal(value["value"]), around.strip())

    columns = [
        Column({"metric": metric, "setting": setting}, (at_most, title), show=show)
        for setting, at_most in risks.items()
        for metric, title in ((SHOWN, "Shown"), (WRONG, "Wrong"))
    ]
    columns += [
        Column({"metric": of}, ("Probability", title), beside="interval")
        for of, title in PROBABILITY.items()
    ]
    place, body = {"model": chosen[0].model, "dataset": dataset}, []
    for form in forms:
        body.append(Row((captions.method_title(**form),), place | form))
        if form["variant"] == BEAMSEARCH and form | {"variant": MULTINOMIAL} in forms:
            body.append(
                Row(("  beam − multinomial",), place | form | {"variant": GAIN}, signed=True)
            )
    tried = (
        thresholds.where(metric="threshold").frame.groupby("dataset", sort=False).size().unique()
    )
    facts: dict[str, Any] = captions.question_facts(
        study, each.where(metric=tuple(PROBABILITY)).frame
    )
    facts |= {"shown": name, "tried": captions.listing([str(count) for count in tried])}
    return table(
        study, estimates, ("Method",), body, columns, further=(estimates, thresholds), **facts
    )


def _states(thresholds: Estimates) -> dict[Any, str]:
    """Of each method, variant and α why nothing is shown on any dataset: refused, or none of its
    thresholds passes.
    """
    states, frame = dict[Any, str](), thresholds.frame
    if frame["dataset"].nunique() > 1:
        frame = frame[~thresholds.too_empty]
    for form, part in frame.groupby(["method", "variant", "setting"], sort=False):
        threshold, least = (part[part["metric"] == name] for name in ("threshold", "least"))
        if threshold["value"].isna().all():
            states[form] = "refused" if (least["n"] < least["value"]).any() else "none"
    return states


def exhibits(study: Study) -> list[Exhibit]:
    described = partial(Exhibit, kind="table", reads=(), cells=lambda _: [], quality=False)
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    of_all, prr = (
        partial(ours, cells=cells.main_cells),
        dict[str, Any](reads=EVALUATION, metric="PRR"),
    )
    augrc, accuracies = (*EVALUATION, "quality", "questions"), ("quality", "questions")
    decided = partial(ours, reads=("decisions",), build=_decisions, caption="decisions")
    models = {study.models[model].label: model for model in cells.models(study, study.main.recipe)}
    return [
        described("test_datasets", cells=_asked, reads=("questions", "shots"), build=_datasets),
        described("lmpoly_methods", build=_methods),
        described("prompts", build=_prompts, files=_templates),
        Exhibit("base_accs", "table", cells.main_cells, accuracies, _accuracies),
        of_all("empty_answers", build=_with_and_without_empty, **prr),
        ours("quality_agreement", cells=_judged_twice, build=_agreement, **prr),
        ours("endings", cells=_both_endings, reads=(*EVALUATION, *CANDIDATES), build=_endings),
        of_all("augrc", reads=augrc, build=_augrc, metric="ROC-AUC"),
        decided("decisions", cells=one_model),
        *(
            decided(f"decisions_{label}", cells=partial(cells.main_cells, model=of))
            for label, of in models.items()
        ),
    ]
