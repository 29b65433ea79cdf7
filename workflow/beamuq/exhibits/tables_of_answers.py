"""Tables of answers: how many are right, how many are empty, and what changes with their quality or their endings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.intervals import accuracy
from beamuq.evaluation.rank_correlations import order_agreement
from beamuq.exhibits import captions, cells, number_format
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.estimates_table import Column, Keys, Layout, Row, Value, measured, table, table_facts
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, Exhibit, Table, TableCell
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.tables_of_prr import main_methods
from beamuq.methods.registry import stored_variant
from beamuq.parquet_tables import ALL, ANSWERED
from beamuq.study_config import Study

DIFFERENCE = f"{BEAMSEARCH} - {MULTINOMIAL}"
TAU = "Kendall tau"
FORMS = {"": "", MULTINOMIAL: "samples", BEAMSEARCH: "beams"}


def main_forms(study: Study) -> list[Keys]:
    """The keys of every method and form of the main recipe."""
    return [row.keys for row in main_methods(study, study.main.recipe)]


# -- accuracy ----------------------------------------------------------------------------------------------------------


def _accuracies(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a model, a column a dataset."""
    rows: list[dict[str, Any]] = []
    for cell in chosen:
        quality, questions = inputs.frame(cell.file("quality", study.main_quality.metric)), cell.file("questions")
        found = accuracy(quality, inputs.frame(questions), study.main_quality.threshold, study.evaluation.confidence)
        numbers = {"value": found.value, "low": found.low, "high": found.high, "n": found.n}
        rows.append(cell.place | {"metric": "accuracy"} | numbers)
    estimates = Estimates.made(rows, [row["value"] for row in rows])
    columns = [
        Column({"dataset": name, "metric": "accuracy"}, (of.category, of.title), show=_percent)
        for name, of in study.datasets.items()
        if name in cells.datasets_of(study, chosen)
    ]
    body = [Row((study.models[model].title,), {"model": model}) for model in cells.by_model(chosen)]
    return table(study, Layout(estimates, ("Model",), body, columns), table_facts(study, estimates))


def _percent(row: Value) -> TableCell:
    around = f"[{100 * row['low']:.0f}, {100 * row['high']:.0f}]"
    return TableCell(number_format.percent(row["value"]), spread=around)


# -- empty answers -----------------------------------------------------------------------------------------------------


def _with_and_without_empty(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Two rows a cell: PRR of all questions, and of the answered ones; the CSV has every form of the main recipe."""
    forms = main_forms(study)
    rows: list[dict[str, Any]] = []
    body: list[Row] = []
    for cell in chosen:
        empty = inputs.empty(cell)["greedy"]
        rows.append(cell.place | {"metric": "empty answers", "value": empty.share, "n": empty.n})
        titles = study.datasets[cell.dataset].title + MARK * empty.too_many, f"{empty.empty} of {empty.n}"
        for subset in (ALL, ANSWERED):
            body.append(Row((*titles, subset), cell.place | {"setting": subset}, study.models[cell.model].title))
    each = joined([measured(study, inputs, chosen, forms, subset=of).assign(setting=of) for of in (ALL, ANSWERED)])
    columns = [
        Column({"metric": "PRR", **keys}, (captions.method_short(keys["method"]), FORMS[keys.get("variant", "")]))
        for keys in forms
        if keys["method"] == "Prob" or "variant" in keys
    ]
    counts = Estimates.made(rows, [row["value"] for row in rows])
    stub = ("Dataset", "Empty", "Questions")
    return table(study, Layout(each, stub, body, columns, further=(counts, each)), table_facts(study, each))


# -- agreement of qualities --------------------------------------------------------------------------------------------


def _judged_twice(study: Study) -> Sequence[Cell]:
    """The main cells of datasets with a further quality."""
    found = [cell for cell in cells.main_cells(study) if len(study.qualities(cell.dataset)) > 1]
    if not found:
        raise BeamUQError("compares qualities, and no main cell has two; make quality a list and add another")
    cells.check_measured(study, "PRR")
    return found


def _agreement(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell and quality: what beams gain by method, and τ with the order of methods by the main quality."""
    forms, main = main_forms(study), study.main_quality
    parts = [_gains(measured(study, inputs, chosen, forms)).assign(setting=main.metric)]
    for further in study.quality[1:]:
        judged = [cell for cell in chosen if further in study.qualities(cell.dataset)]
        if judged:
            first, second = (measured(study, inputs, judged, forms, quality=of.metric) for of in (main, further))
            parts.append(_gains(second).assign(setting=further.metric))
            parts.append(order_agreement(first, second).assign(setting=f"{main.metric} / {further.metric}"))
    body = [
        Row((cell.title(study), quality.title), cell.place | {"setting": quality.metric})
        for cell in chosen
        for quality in study.qualities(cell.dataset)
    ]
    columns = [
        Column(
            {"metric": "PRR", "method": keys["method"], "variant": DIFFERENCE},
            ("Beam − multinomial", captions.method_short(keys["method"])),
            style="signed",
            beside="interval",
        )
        for keys in forms
        if keys.get("variant") == BEAMSEARCH
    ]
    columns.append(Column({"metric": TAU, "setting": f"{main.metric} /"}, ("Order", "τ"), beside="interval"))
    each = joined(parts)
    facts = table_facts(study, each) | {"forms": len(forms)}
    return table(study, Layout(each, ("Cell", "Quality"), body, columns), facts)


def _gains(estimates: Estimates) -> Estimates:
    """Beam − multinomial."""
    beams, samples = (estimates.where(variant=variant) for variant in (BEAMSEARCH, MULTINOMIAL))
    return beams.minus(samples, on=("model", "dataset", "method"))


# -- endings -----------------------------------------------------------------------------------------------------------

METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
BEAMS = {"distinct texts": 1, "covered mass": 3, "redundant texts": 3}  # with how many digits each is printed
APART, MERGED, CHANGE = "apart", "merged", "merged − apart"


def _both_endings(study: Study) -> Sequence[Cell]:
    """The main cells, each before that of the first recipe that decodes the same questions with merged endings."""
    main = study.main

    def has(recipe: str) -> bool:
        of, scored = study.recipes[recipe], study.scoring[recipe].methods
        return of.merge_stop_tokens and main.beam in of.strategies() and set(METHODS) <= set(scored)

    needs = f"with merge_stop_tokens: true and {main.beam!r}, its scoring with methods {', '.join(METHODS)}"
    recipe = cells.first_recipe(study, has, needs)
    pairs = [(cell, replace(cell, recipe=recipe)) for cell in cells.with_methods(study, METHODS)]
    there = [pair for pair in pairs if cells.covers(study, **vars(pair[1]))]
    alike = [(one, other) for one, other in there if cells.asked(study, one) == cells.asked(study, other)]
    if not alike or study.recipes[main.recipe].merge_stop_tokens:
        raise BeamUQError(f"needs recipe {main.recipe!r} without merge_stop_tokens on the same questions as {recipe!r}")
    return [cell for pair in alike for cell in pair]


def _endings(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Three rows a cell: a column a measure of its beams and a column a method."""
    forms = [{"method": method, "variant": stored_variant(method, BEAMSEARCH)} for method in METHODS]

    apart, merged = (
        joined([*(_of_beams(study, cell, inputs) for cell in of), measured(study, inputs, of, forms)])
        for of in (chosen[::2], chosen[1::2])
    )
    each = joined(
        [apart.assign(setting=APART), merged.assign(setting=MERGED), merged.minus(apart).assign(setting=CHANGE)]
    )
    body = [
        Row((cell.title(study), setting), cell.place | {"setting": setting}, signed=setting == CHANGE)
        for cell in chosen[::2]
        for setting in (APART, MERGED, CHANGE)
    ]
    columns = [
        Column({"metric": metric, "variant": BEAMSEARCH}, ("Beams", metric.capitalize()), digits=digits)
        for metric, digits in BEAMS.items()
    ]
    columns += [Column({"metric": "PRR", **keys}, ("PRR", captions.method_short(keys["method"]))) for keys in forms]
    facts = table_facts(study, each) | {"merged": chosen[1].recipe}
    return table(study, Layout(each, ("Cell", "Endings"), body, columns), facts)


def _of_beams(study: Study, cell: Cell, inputs: Inputs) -> Estimates:
    """Means over questions of what a cell's beams are like."""
    found, beams = inputs.candidates(cell), (study.main.beam, study.main.num_candidates)
    values = (found.distinct(*beams), found.mass(*beams), found.redundancy(*beams))
    return inputs.means(cell, found.ids, dict(zip(BEAMS, values, strict=True)), variant=BEAMSEARCH)


TABLES = (
    Exhibit("base_accs", "table", cells.main_cells, ("quality", "questions"), _accuracies, scored=False),
    Exhibit("empty_answers", "table", cells.main_cells, EVALUATION, _with_and_without_empty, beyond_paper=True),
    Exhibit("quality_agreement", "table", _judged_twice, EVALUATION, _agreement, beyond_paper=True),
    Exhibit("endings", "table", _both_endings, (*EVALUATION, *CANDIDATES), _endings, beyond_paper=True),
)


def exhibits(study: Study) -> list[Exhibit]:
    """Of every study the same."""
    del study
    return list(TABLES)
