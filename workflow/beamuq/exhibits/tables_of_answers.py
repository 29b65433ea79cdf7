"""Tables of answers: how many are right, how many are empty, and what changes with their quality or their endings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.intervals import accuracy
from beamuq.evaluation.rank_correlations import order_agreement
from beamuq.exhibits import captions, cells, number_format
from beamuq.exhibits.captions import BEAMSEARCH
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import GAIN, Column, Keys, Value, beam_gains, left_out, measured, table
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, Exhibit, Row, Table, TableCell
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.tables_of_prr import main_methods
from beamuq.methods.registry import stored_variant
from beamuq.parquet_tables import ALL, ANSWERED
from beamuq.study_config import Recipe, Scoring, Study

TAU = "Kendall tau"
FORMS = {"": "", captions.MULTINOMIAL: "samples", BEAMSEARCH: "beams"}


def main_forms(study: Study) -> list[Keys]:
    """The keys of every method and form of the main recipe."""
    return [row.keys for row in main_methods(study, study.main.recipe)]


# -- accuracy ----------------------------------------------------------------------------------------------------------


def _accuracies(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a model, a column a dataset."""
    rows = []
    for cell in chosen:
        quality, questions = inputs.of(cell, "quality"), inputs.of(cell, "questions")
        found = accuracy(quality, questions, study.main_quality.threshold, study.evaluation.confidence)
        rows.append(cell.place | {"metric": "accuracy"} | vars(found))
    estimates = Estimates.made(rows, [row["value"] for row in rows])
    columns = [
        Column({"dataset": name, "metric": "accuracy"}, (of.category, of.title), show=_percent)
        for name, of in study.datasets.items()
        if name in cells.datasets_of(study, chosen)
    ]
    body = [Row((study.models[model].title,), {"model": model}) for model in cells.by_model(chosen)]
    return table(study, estimates, ("Model",), body, columns)


def _percent(row: Value) -> TableCell:
    around = f"[{100 * row['low']:.0f}, {100 * row['high']:.0f}]"
    return TableCell(number_format.percent(row["value"]), spread=around)


# -- empty answers -----------------------------------------------------------------------------------------------------


def _with_and_without_empty(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """Two rows a cell: PRR of all questions, and of the answered ones; the CSV has every form of the main recipe."""
    forms, subsets = main_forms(study), (ALL, ANSWERED)
    each = joined([measured(study, inputs, chosen, forms, subset=of).assign(setting=of) for of in subsets])
    counts: list[dict[str, Any]] = []
    body: list[Row] = []
    for cell in chosen:
        empty = inputs.empty(cell)["greedy"]
        counts.append(cell.place | {"metric": "empty answers", "value": empty.share, "n": empty.n})
        title = study.datasets[cell.dataset].title + left_out(each.where(**cell.place))
        for subset in subsets:
            titles = title, f"{empty.empty} of {empty.n}", subset
            body.append(Row(titles, cell.place | {"setting": subset}, study.models[cell.model].title))
    columns = [
        Column({"metric": "PRR", **keys}, (captions.method_short(keys["method"]), FORMS[keys.get("variant", "")]))
        for keys in forms
        if keys["method"] == "Prob" or "variant" in keys
    ]
    further = Estimates.made(counts, [row["value"] for row in counts]), each
    return table(study, each, ("Dataset", "Empty", "Questions"), body, columns, further=further)


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
    forms, main, parts = main_forms(study), study.main_quality, []
    for quality in study.quality:
        judged = [cell for cell in chosen if quality in study.qualities(cell.dataset)]
        if judged:
            first, found = (measured(study, inputs, judged, forms, quality=of.metric) for of in (main, quality))
            parts.append(beam_gains(found).assign(setting=quality.metric))
            if quality != main:
                parts.append(order_agreement(first, found).assign(setting=f"{main.metric} / {quality.metric}"))
    body = [
        Row((cell.title(study), quality.title), cell.place | {"setting": quality.metric})
        for cell in chosen
        for quality in study.qualities(cell.dataset)
    ]
    gained = [keys["method"] for keys in forms if keys.get("variant") == BEAMSEARCH]
    heads = [("Beam − multinomial", captions.method_short(method)) for method in gained]
    columns = [
        Column({"metric": "PRR", "method": method, "variant": GAIN}, head, "signed", "interval")
        for method, head in zip(gained, heads, strict=True)
    ]
    columns.append(Column({"metric": TAU, "setting": f"{main.metric} /"}, ("Order", "τ"), beside="interval"))
    return table(study, joined(parts), ("Cell", "Quality"), body, columns, forms=len(forms))


# -- endings -----------------------------------------------------------------------------------------------------------

METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
BEAMS = {"distinct texts": 1, "covered mass": 3, "redundant texts": 3}  # with how many digits each is printed
APART, MERGED, CHANGE = "apart", "merged", "merged − apart"


def _both_endings(study: Study) -> Sequence[Cell]:
    """The main cells, each before that of the first recipe that decodes the same questions with merged endings."""
    main = study.main

    def has(recipe: Recipe, scoring: Scoring) -> bool:
        scored = set(METHODS) <= set(scoring.methods)
        return recipe.merge_stop_tokens and main.beam in recipe.strategies() and scored

    needs = f"with merge_stop_tokens: true and {main.beam!r}, its scoring with methods {', '.join(METHODS)}"
    recipe = cells.recipes_with(study, has, needs)[0]
    pairs = [(cell, replace(cell, recipe=recipe)) for cell in cells.with_methods(study, METHODS)]
    alike = [
        pair
        for pair in pairs
        if cells.covers(study, **vars(pair[1])) and len({cells.asked(study, of) for of in pair}) == 1
    ]
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
    found, beams = inputs.candidates(cell), (study.main.beam, study.main.num_candidates)
    values = (found.distinct(*beams), found.mass(*beams), found.redundancy(*beams))
    return inputs.means(cell, found.ids, dict(zip(BEAMS, values, strict=True)), variant=BEAMSEARCH)


def exhibits(study: Study) -> list[Exhibit]:
    """Of every study the same."""
    del study
    ours = partial(Exhibit, kind="table", beyond_paper=True)
    return [
        Exhibit("base_accs", "table", cells.main_cells, ("quality", "questions"), _accuracies, scored=False),
        ours("empty_answers", cells=cells.main_cells, reads=EVALUATION, build=_with_and_without_empty),
        ours("quality_agreement", cells=_judged_twice, reads=EVALUATION, build=_agreement),
        ours("endings", cells=_both_endings, reads=(*EVALUATION, *CANDIDATES), build=_endings),
    ]
