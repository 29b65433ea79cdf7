"""What each method would let a person decide: shares shown under a guarantee, realised risks, calibration errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beamuq.evaluation.estimates import ALL_EMPTY
from beamuq.evaluation.guaranteed_threshold import units_needed
from beamuq.exhibits import captions, empty_answers, exhibit_cells, number_format
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableExhibit, TableGrid, TableRow
from beamuq.exhibits.read_evaluation import Measured, difference, mean_of
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

SHOWN, WRONG, ECE, BRIER = "shown", "wrong of shown", "ece", "brier"
DIFFERENCE = f"{captions.BEAMSEARCH} - {captions.MULTINOMIAL}"
Form = tuple[str, str]  # method, variant
Column = tuple[str, float | None]  # measure, α
NOTHING = Measured(None, None, None, None, 0)


class CellDecisions:
    """One file of decisions: ``rows`` by method, variant, metric and α; ``forms``: methods with their variants.

    ``left_out``: whether so many answers are empty that no mean may have the cell (D28, empty answers).
    """

    def __init__(self, inputs: Inputs, file: Artifact) -> None:
        table, empty = inputs[file].table, empty_answers.in_footer(inputs[file], "greedy")
        self.left_out = empty is not None and empty.too_many
        lists = table.column("values").combine_chunks()
        flat, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
        self.rows: dict[tuple[str, str, str, float | None], Measured] = {}
        forms: dict[str, dict[str, None]] = {}
        for place, row in enumerate(table.drop_columns(["values"]).to_pylist()):
            drawn = flat[offsets[place] : offsets[place + 1]].astype(np.float64)
            key = (row["method"], row["variant"], row["metric"], row["risk"])
            numbers = {name: row[name] for name in ("value", "low", "high", "std", "n", "note")}
            self.rows[key] = Measured(**numbers, replicates=drawn if len(drawn) else None)
            forms.setdefault(row["method"], {})[row["variant"]] = None
        self.forms = {method: tuple(variants) for method, variants in forms.items()}

    def __getitem__(self, key: tuple[str, str, str, float | None]) -> Measured:
        return self.rows.get(key, NOTHING)

    def refused(self, form: Form, risk: float) -> int:
        """Where there are too few to test any threshold on: how many have to calibrate at least; else 0."""
        least = self[(*form, "least", risk)]
        return units_needed(int(least.value or 0)) if least.n < (least.value or 0) else 0

    def tried(self, risks: int) -> int:
        """How many thresholds are sought on the same answers."""
        return risks * sum(map(len, self.forms.values()))


@dataclass(frozen=True)
class DecisionsTable(TableExhibit):
    """Methods in every form × share shown and share wrong of it at each α, and errors of calibrated probabilities.

    Of one dataset, or the mean over those of the main recipe; of ``model``, or the first base model of the main cells.
    """

    dataset: str = ""
    model: str = ""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Decisions of the model's main cells."""
        return list(self._files(study).values())

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a form, and beam − multinomial below a method's two."""
        risks = study.decisions.risks
        columns: list[Column] = [(name, risk) for risk in risks for name in (SHOWN, WRONG)]
        columns += [(ECE, None), (BRIER, None)]
        files = self._files(study)
        cells = {dataset: CellDecisions(inputs, file) for dataset, file in files.items()}
        datasets, model = list(cells), next(iter(files.values())).model
        values: list[dict[str, Any]] = []
        for dataset, cell in cells.items():
            values += _values(study, {"model": model, "dataset": dataset}, {dataset: cell}, columns)
        if len(cells) > 1:
            values += _values(study, {"model": model, "dataset": "mean"}, cells, columns)
        body = tuple(_block(study, cells, columns))
        name = study.datasets[datasets[0]].title if len(datasets) == 1 else f"mean over {len(datasets)} datasets"
        title = f"What may be shown with a guarantee, {name}, {study.models[model].title}"
        tried = list(dict.fromkeys(cell.tried(len(risks)) for cell in cells.values()))
        head = tuple(f"At most {_percent(risk)} wrong" if risk else "Probability" for _, risk in columns)
        names = {SHOWN: "Shown", WRONG: "Wrong", ECE: "ECE", BRIER: "Brier"}
        grid = TableGrid(("Method",), (head, tuple(names[column] for column, _ in columns)), body)
        sentences = [f"{title}.", *_sentences(study, datasets, tried)]
        brackets = (
            f"In brackets: {captions.confidence(study)} percentile intervals over "
            f"{captions.resampled(study, datasets)}, of the test half for the shares, thresholds held; none "
            "where all resamples are equal. Differences are paired."
        )
        return self.table(study, title, [*sentences, f"{brackets} Others are in the CSV file."], values, grid)

    def _files(self, study: Study) -> dict[str, Artifact]:
        main, run = study.main, exhibit_cells.models(study, study.main.recipe)
        model = exhibit_cells.first_model(study, self.model, lambda name: name in run)
        return {
            dataset: Artifact("decisions", dataset, model, main.recipe, main.scorer)
            for dataset in exhibit_cells.main_cells(study, [model])[model]
            if self.dataset in ("", dataset)
        }


def over_datasets(
    study: Study, cells: Mapping[str, CellDecisions], form: Form, columns: Sequence[Column]
) -> dict[Column, Measured]:
    """Each column of a form: means over datasets; of what is shown in all of them together, the share wrong.

    Where nothing may be shown on a dataset, its share is 0. A mean leaves out cells with too many empty answers.
    """
    cells = _averaged(cells)
    titles = [study.datasets[dataset].title for dataset in cells]
    found: dict[Column, Measured] = {}
    for name, risk in columns:
        if name != WRONG:
            rows = [cell[(*form, name, risk)] for cell in cells.values()]
            found[name, risk] = mean_of(rows, titles, study.evaluation.confidence)
    for name, risk in columns:
        if name == WRONG and len(cells) == 1:
            found[name, risk] = next(iter(cells.values()))[(*form, WRONG, risk)]
        elif name == WRONG:
            rows = [cell[(*form, "wrong", risk)] for cell in cells.values()]
            wrong = mean_of(rows, titles, study.evaluation.confidence)
            found[name, risk] = _ratio(wrong, found[SHOWN, risk], study.evaluation.confidence)
    return {column: found[column] for column in columns}


def _averaged(cells: Mapping[str, CellDecisions]) -> Mapping[str, CellDecisions]:
    return {dataset: cell for dataset, cell in cells.items() if len(cells) == 1 or not cell.left_out}


def _ratio(wrong: Measured, shown: Measured, confidence: float) -> Measured:
    """Wrong of shown, paired; undefined where nothing is, and without an interval where all or none are wrong."""
    if not wrong.n or not shown.value or wrong.value is None:
        return replace(NOTHING, note="nothing is shown")
    assert wrong.replicates is not None
    assert shown.replicates is not None
    with np.errstate(invalid="ignore"):
        drawn = np.asarray(wrong.replicates / shown.replicates, dtype=np.float64)
    value = wrong.value / shown.value
    if np.nanmin(drawn) == np.nanmax(drawn):
        return Measured(value, None, None, None, wrong.n, "all resamples are equal: no interval", drawn)
    return Measured.resampled(value, drawn, wrong.n, confidence)


def _block(study: Study, cells: Mapping[str, CellDecisions], columns: Sequence[Column]) -> Iterator[TableRow]:
    for method, variants in next(iter(cells.values())).forms.items():
        rows = {variant: over_datasets(study, cells, (method, variant), columns) for variant in variants}
        for variant, of in rows.items():
            states: dict[float | None, tuple[int, int, str]] = {
                risk: _state(study, cells, (method, variant), risk) for _, risk in columns if risk
            }
            title = captions.method_title(method, variant)
            yield TableRow((title,), tuple(_cell(name, risk, of[name, risk], states) for name, risk in columns))
        if both := _difference(study, rows):
            yield TableRow(("  beam − multinomial",), tuple(_signed(both[column]) for column in columns))


def _difference(study: Study, rows: Mapping[str, Mapping[Column, Measured]]) -> dict[Column, Measured]:
    """Beam − multinomial in every column, paired; of shares shown only where either form shows anything."""
    if not {captions.MULTINOMIAL, captions.BEAMSEARCH} <= set(rows):
        return {}
    beams, samples = rows[captions.BEAMSEARCH], rows[captions.MULTINOMIAL]
    return {
        (name, risk): NOTHING
        if name == SHOWN and not beams[name, risk].value and not samples[name, risk].value
        else difference(beams[name, risk], samples[name, risk], study.evaluation.confidence)
        for name, risk in beams
    }


def _state(study: Study, cells: Mapping[str, CellDecisions], form: Form, risk: float) -> tuple[int, int, str]:
    """On how many datasets there is a threshold, on how many it is refused, and why."""
    cells = _averaged(cells)
    with_threshold = sum(cell[(*form, "threshold", risk)].value is not None for cell in cells.values())
    refused = {dataset: needed for dataset, cell in cells.items() if (needed := cell.refused(form, risk))}
    if not refused:
        return with_threshold, 0, ""
    units = ", ".join(
        f"{study.datasets[dataset].title} {cells[dataset][(*form, 'threshold', risk)].n}" for dataset in refused
    )
    least = int(next(iter(cells.values()))[(*form, "least", risk)].value or 0)
    needed = max(refused.values())
    return (
        with_threshold,
        len(refused),
        f"no guarantee: at most {_percent(risk)} wrong takes {least} shown answers without an error to test on, so at "
        f"least {needed} questions that calibrate, twice as many in all, and more with errors; here {units} calibrate",
    )


def _cell(
    name: str, risk: float | None, of: Measured, states: Mapping[float | None, tuple[int, int, str]]
) -> TableCell:
    if of.note == ALL_EMPTY:
        return number_format.undefined(of.note)
    if name == SHOWN:
        known, refused, why = states[risk]
        if refused and not known:
            return TableCell("refused", note=why)
        if not known:
            return TableCell("none")
        cell = TableCell(number_format.decimal(of.value or 0.0), note=why)
    elif of.value is None:
        return TableCell("–") if name == WRONG else number_format.undefined(of.note)
    else:
        spread = f"of {of.n}" if name == WRONG else ""
        cell = TableCell(number_format.decimal(of.value), spread=spread)
    return number_format.with_interval(cell, of.low, of.high)


def _signed(of: Measured) -> TableCell:
    return TableCell("–") if of.value is None else number_format.difference(of.value, of.low, of.high)


def _percent(risk: float) -> str:
    return f"{100 * risk:g} %"


def _sentences(study: Study, datasets: Sequence[str], tried: Sequence[int]) -> list[str]:
    return [
        "Half of a dataset's questions, drawn by seed, calibrate; the other half tests. Shown: the share of the test "
        "half at or below the threshold of the first half; wrong: of these (of how many), the share that is "
        f"({study.main_quality.title} ≤ {study.main_quality.threshold:g}). The guarantee: with confidence "
        f"{100 * study.decisions.confidence:g} % over calibrations, no more than the α of the column would be wrong of "
        "what is shown in the long run, for all methods, forms and α of a cell together "
        f"({captions.listing([str(count) for count in tried])} thresholds, each tested at the confidence's complement "
        "divided by that); the shares wrong are what the test half gave.",
        "Refused: too few questions for any guarantee; none: no threshold passes. Either way nothing is shown, which "
        "counts as 0 in a mean.",
        "Of stories one question each calibrates, and the shares count stories alike."
        if any(study.datasets[dataset].adapter == "coqa" for dataset in datasets)
        else "",
        "ECE: expected calibration error over ten bins of equal width, above 0 even of perfect probabilities, and the "
        "more so the fewer answers; Brier: mean squared error. Lower is better in both; of Venn–Abers probabilities, "
        "the two merged into one, cross-fitted over all questions of a cell.",
    ]


def _values(
    study: Study, place: dict[str, str], cells: Mapping[str, CellDecisions], columns: Sequence[Column]
) -> Iterator[dict[str, Any]]:
    """Rows of the CSV of one dataset, thresholds among them, or of the mean."""
    forms = next(iter(cells.values())).forms
    for method, variants in forms.items():
        rows = {variant: over_datasets(study, cells, (method, variant), columns) for variant in variants}
        for variant, of in {**rows, DIFFERENCE: _difference(study, rows)}.items():
            key = place | {"method": method, "variant": variant}
            for (name, risk), one in of.items():
                yield key | {"metric": name, "setting": _setting(risk)} | one.numbers
        if len(cells) == 1:
            (cell,) = cells.values()
            for (of_method, variant, metric, risk), one in cell.rows.items():
                if of_method == method and metric in ("threshold", "bound", "least"):
                    key = place | {"method": method, "variant": variant, "metric": metric}
                    yield key | {"setting": _setting(risk)} | one.numbers


def _setting(risk: float | None) -> str:
    return "" if risk is None else f"risk={risk:g}"
