"""Tables of answers: how many are right or empty, other qualities, endings and produced answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from beamuq.array_types import Floats
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.intervals import accuracy
from beamuq.evaluation.prr_and_auc import area_under_generalised_risk
from beamuq.evaluation.rank_correlations import order_agreement
from beamuq.methods.registry import stored_variant
from beamuq_study import grid
from beamuq_study.exhibits.captions import method_short
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import GAIN, beam_gains, left_out, measured, with_mean
from beamuq_study.exhibits.table_formats import percent
from beamuq_study.exhibits.table_of_numbers import Column, Keys, Value, table
from beamuq_study.exhibits.tables_of_prr import main_methods
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL, ANSWERED
from beamuq_study.result_files import Empty, Inputs
from beamuq_study.study_config import Quality, Study


def main_forms(study: Study) -> list[Keys]:
    """The method and variant of each row of the main tables."""
    return [row.keys for row in main_methods(study, study.main.recipe)]


# -- right answers ---------------------------------------------------------------------------------


def accuracies(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Models × datasets: the share of greedy answers that are right."""
    rows = []
    for cell in chosen:
        measures = accuracy(
            inputs.of(cell, "quality"),
            inputs.of(cell, "questions"),
            study.main_quality.threshold,
            study.evaluation.confidence,
        )
        rows.append(cell.place | {"metric": "accuracy"} | vars(measures))
    estimates = Estimates.from_rows(rows, [row["value"] for row in rows])
    datasets = {name: study.datasets[name] for name in grid.datasets_of(study, chosen)}
    columns = [
        Column(
            {"dataset": name, "metric": "accuracy"},
            (dataset.category, dataset.title),
            show=_percents,
        )
        for name, dataset in datasets.items()
    ]
    body = [Row((study.models[model].title,), {"model": model}) for model in grid.by_model(chosen)]
    return table(study, estimates, ("Model",), body, columns)


def _percents(value: Value) -> TableCell:
    spread = f"[{100 * value['low']:.0f}, {100 * value['high']:.0f}]"
    return TableCell(percent(value["value"]), spread)


# -- empty answers ---------------------------------------------------------------------------------

FORM_HEADS = {"": "", OVER_SAMPLES: "samples", OVER_BEAMS: "beams"}


def with_and_without_empty(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Two rows a cell: PRR of all questions, and of the answered ones.

    The CSV has every form of the main recipe.
    """
    forms = main_forms(study)
    estimates = joined(
        [
            measured(study, inputs, chosen, forms, subset=subset).assign(setting=subset)
            for subset in (ALL, ANSWERED)
        ]
    )
    empty = {cell: inputs.empty(cell)["greedy"] for cell in chosen}
    body: list[Row] = []
    for cell, count in empty.items():
        mark = left_out(estimates.where(**cell.place))
        body += _rows_with_and_without(study, cell, mark, count)
    columns = [
        Column(
            {"metric": "PRR", **form},
            (method_short(form["method"]), FORM_HEADS[form.get("variant", "")]),
        )
        for form in forms
        if form["method"] == "Prob" or "variant" in form
    ]
    further = (_shares_of_empty(empty), estimates)
    stub = ("Dataset", "Empty", "Questions")
    return table(study, estimates, stub, body, columns, further=further)


def _rows_with_and_without(study: Study, cell: Cell, mark: str, count: Empty) -> list[Row]:
    """The rows of a cell; ``mark`` follows its dataset's title."""
    dataset = study.datasets[cell.dataset].title + mark
    return [
        Row(
            (dataset, f"{count.empty} of {count.n}", subset),
            cell.place | {"setting": subset},
            study.models[cell.model].title,
        )
        for subset in (ALL, ANSWERED)
    ]


def _shares_of_empty(empty: dict[Cell, Empty]) -> Estimates:
    rows = [
        cell.place | {"metric": "empty answers", "value": count.share, "n": count.n}
        for cell, count in empty.items()
    ]
    return Estimates.from_rows(rows, [count.share for count in empty.values()])


# -- other qualities -------------------------------------------------------------------------------

TAU = "Kendall tau"


def _judged_twice(study: Study) -> Sequence[Cell]:
    return [cell for cell in grid.main_cells(study) if len(study.qualities(cell.dataset)) > 1]


def quality_agreement(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell and quality: what beams gain by method, and τ of two orders of methods.

    The orders are that by the main quality and that by the row's.
    """
    forms = main_forms(study)
    parts = [
        part
        for quality in study.quality
        for part in _gains_and_agreement(study, chosen, inputs, quality)
    ]
    body = [
        Row((cell.title(study), quality.title), cell.place | {"setting": quality.metric})
        for cell in chosen
        for quality in study.qualities(cell.dataset)
    ]
    columns = [
        Column(
            {"metric": "PRR", **form, "variant": GAIN},
            ("Beam − multinomial", method_short(form["method"])),
            "signed",
            "interval",
        )
        for form in forms
        if form.get("variant") == OVER_BEAMS
    ]
    of_orders = {"metric": TAU, "setting": f"{study.main_quality.metric} /"}
    columns.append(Column(of_orders, ("Order", "τ"), beside="interval"))
    stub = ("Cell", "Quality")
    facts = {"forms": len(forms)}
    return table(study, joined(parts), stub, body, columns, facts=facts)


def _gains_and_agreement(
    study: Study, chosen: Sequence[Cell], inputs: Inputs, quality: Quality
) -> list[Estimates]:
    """By one quality what beams gain, and τ with the order by the main one, if it is another."""
    judged = [cell for cell in chosen if quality in study.qualities(cell.dataset)]
    if not judged:
        return []
    forms = main_forms(study)
    by_quality = measured(study, inputs, judged, forms, quality=quality.metric)
    gains = beam_gains(by_quality).assign(setting=quality.metric)
    main = study.main_quality
    if quality == main:
        return [gains]
    by_main = measured(study, inputs, judged, forms, quality=main.metric)
    agreement = order_agreement(by_main, by_quality)
    return [gains, agreement.assign(setting=f"{main.metric} / {quality.metric}")]


# -- endings ---------------------------------------------------------------------------------------

METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
DIGITS_OF_BEAMS = {"distinct texts": 1, "covered mass": 3, "redundant texts": 3}
"""What is measured of beams, and with how many digits each is printed."""
APART = "apart"
MERGED = "merged"
CHANGE = "merged − apart"


def _both_endings(study: Study) -> Sequence[Cell]:
    """The main cells, each before that of the first recipe with merged endings.

    Both decode the same questions.
    """
    if study.recipes[study.main.recipe].merge_stop_tokens:
        return []
    merged = grid.select(
        study,
        methods=METHODS,
        strategies=[study.main.beam],
        has=lambda recipe: study.recipes[recipe].merge_stop_tokens,
    )
    pairs: list[Cell] = []
    for cell in grid.with_methods(study, METHODS) if merged else []:
        counterpart = replace(cell, recipe=merged[0].recipe)
        if counterpart in merged and grid.questions_asked(
            study, counterpart
        ) == grid.questions_asked(study, cell):
            pairs += [cell, counterpart]
    return pairs


def endings(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Three rows a cell: a column a measure of its beams and a column a method."""
    main_cells = chosen[::2]
    parts = {
        APART: _beams_and_prr(study, main_cells, inputs),
        MERGED: _beams_and_prr(study, chosen[1::2], inputs),
    }
    parts[CHANGE] = parts[MERGED].minus(parts[APART])
    estimates = joined([part.assign(setting=setting) for setting, part in parts.items()])
    body = [
        Row(
            (cell.title(study), setting),
            cell.place | {"setting": setting},
            signed=setting == CHANGE,
        )
        for cell in main_cells
        for setting in parts
    ]
    stub = ("Cell", "Endings")
    facts = {"merged": chosen[1].recipe}
    return table(study, estimates, stub, body, _columns_of_endings(), facts=facts)


def _columns_of_endings() -> list[Column]:
    """Measures of beams, then methods."""
    of_beams = [
        Column(
            {"metric": metric, "variant": OVER_BEAMS},
            ("Beams", metric.capitalize()),
            digits=digits,
        )
        for metric, digits in DIGITS_OF_BEAMS.items()
    ]
    of_methods = [
        Column({"metric": "PRR", **form}, ("PRR", method_short(form["method"])))
        for form in _beam_forms()
    ]
    return [*of_beams, *of_methods]


def _beam_forms() -> list[Keys]:
    return [{"method": method, "variant": stored_variant(method, OVER_BEAMS)} for method in METHODS]


def _beams_and_prr(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Estimates:
    """Of each cell the measures of its beams, then PRR of its methods."""
    of_beams = [_measures_of_beams(study, cell, inputs) for cell in chosen]
    return joined([*of_beams, measured(study, inputs, chosen, _beam_forms())])


def _measures_of_beams(study: Study, cell: Cell, inputs: Inputs) -> Estimates:
    candidates = inputs.candidates(cell)
    beam = study.main.beam
    size = study.main.num_candidates
    values = {
        "distinct texts": candidates.distinct(beam, size),
        "covered mass": candidates.mass(beam, size),
        "redundant texts": candidates.redundancy(beam, size),
    }
    return inputs.means(cell, candidates.ids, values, variant=OVER_BEAMS)


# -- produced answers ------------------------------------------------------------------------------

GREEDY = "greedy"
TOP_BEAM = "top_beam"
OTHER_ANSWER = "top_beam - greedy"


def augrc(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Methods in every form × models: AUGRC of the greedy answer, and what the top beam changes."""
    answers = [answer for answer in (GREEDY, TOP_BEAM) if answer in study.answer_source]
    has_both = TOP_BEAM in answers
    of_cells = joined([_accuracy_and_area(study, chosen, inputs, answer) for answer in answers])
    of_cells = _with_larger_share_of_empty(of_cells)
    averaged = with_mean(study, of_cells)
    estimates = averaged.estimates
    if has_both:
        change = estimates.where(setting=TOP_BEAM).minus(estimates.where(setting=GREEDY))
        estimates = joined([estimates, change])
    body = [Row(("Accuracy",), {"metric": "accuracy"})]
    for row in main_methods(study, study.main.recipe):
        body.append(replace(row, keys={"metric": "AUGRC", **row.keys}))
    columns = []
    for model in grid.by_model(chosen):
        title = study.models[model].title + left_out(of_cells.where(model=model))
        place = {"model": model, "dataset": averaged.dataset}
        columns += _columns_of_answers(place, title, has_both=has_both)
    return table(
        study,
        estimates,
        ("Method",),
        body,
        columns,
        further=(estimates,),
        facts={"shown": averaged.title, "top_beam": "" if has_both else None},
    )


def _columns_of_answers(place: Keys, title: str, *, has_both: bool) -> list[Column]:
    """The greedy answer and, where there are both, what the top beam changes."""
    greedy = Column({**place, "setting": GREEDY}, (title, "Greedy"), beside="interval")
    if not has_both:
        return [greedy]
    keys = {**place, "setting": OTHER_ANSWER}
    return [greedy, Column(keys, (title, "Δ top beam"), "signed", "interval")]


def _accuracy_and_area(
    study: Study, chosen: Sequence[Cell], inputs: Inputs, answer: str
) -> Estimates:
    """Accuracy of the answers of one source in each cell, and AUGRC of every form."""
    right = joined([_accuracy(study, inputs, cell, answer) for cell in chosen])
    auc = measured(study, inputs, chosen, main_forms(study), metric="ROC-AUC", answer_source=answer)
    of_same_cell = right.at(auc.frame[["model", "dataset"]])
    area = auc.combined(of_same_cell, _area_from_auc_and_accuracy)
    return joined([right.assign(setting=answer), area.assign(metric="AUGRC", setting=answer)])


def _area_from_auc_and_accuracy(auc: Floats, share_right: Floats) -> Floats:
    return area_under_generalised_risk(share_right, auc)


def _accuracy(study: Study, inputs: Inputs, cell: Cell, answer: str) -> Estimates:
    """The share of a cell's answers that are right, on the resamples of its evaluation."""
    quality = inputs.of(cell, "quality")
    answers = quality[quality["answer_source"] == answer]
    right = {"accuracy": answers["value"] > study.main_quality.threshold}
    return inputs.means(cell, answers["id"].tolist(), right, empty=inputs.empty(cell)[answer].share)


def _with_larger_share_of_empty(estimates: Estimates) -> Estimates:
    """Each cell with its larger share of empty answers: both answers are in a mean, or neither."""
    frame = estimates.frame
    larger = frame.groupby(["model", "dataset"])["empty"].transform("max")
    return replace(estimates, frame=frame.assign(empty=larger))


def exhibits(_: Study) -> list[Exhibit]:
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    return [
        Exhibit("base_accs", "table", grid.main_cells, ("quality", "questions"), accuracies),
        ours(
            "empty_answers",
            cells=grid.main_cells,
            reads=EVALUATION,
            build=with_and_without_empty,
            metric="PRR",
        ),
        ours(
            "quality_agreement",
            cells=_judged_twice,
            reads=EVALUATION,
            build=quality_agreement,
            metric="PRR",
        ),
        ours("endings", cells=_both_endings, reads=(*EVALUATION, *CANDIDATES), build=endings),
        ours(
            "augrc",
            cells=grid.main_cells,
            reads=(*EVALUATION, "quality", "questions"),
            build=augrc,
            metric="ROC-AUC",
        ),
    ]
