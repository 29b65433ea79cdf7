"""Whether what the methods are said to do depends on the quality of answers that they are judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap
from beamuq.evaluation.bootstrap import Difference, Estimate
from beamuq.evaluation.estimates import TIE
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.estimates_table import Row
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableBody,
    TableCell,
    TableExhibit,
    TableGrid,
    TableRow,
    block,
)
from beamuq.exhibits.read_evaluation import Key, Measurements, read_measurements
from beamuq.exhibits.tables_of_prr import main_methods
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Quality, Study

Floats = NDArray[np.float64]
Pair = tuple[Difference | None, Difference | None]


@dataclass(frozen=True)
class AgreementOfCell:
    """One cell of ``n`` questions under the main quality and a further one, each pair in that order.

    ``differences``: beam − multinomial by method, None where undefined; ``note``: why. ``tau``: Kendall's τ-b of the
    order of the methods, in [−1, 1].
    """

    differences: dict[str, Pair]
    tau: Estimate
    n: int
    note: str = ""


@dataclass(frozen=True)
class QualityAgreement(TableExhibit):
    """Beam − multinomial in PRR under the main quality and each further one, and Kendall's τ of the methods' order."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of the main recipe for every model × dataset."""
        if len(study.quality) < 2:
            raise BeamUQError("compares qualities, and the study has one; make quality a list and add another")
        if "PRR" not in study.evaluation.metrics:
            raise BeamUQError("needs PRR; add it to evaluation.metrics")
        cells = exhibit_cells.main_cells(study)
        pairs = [(model, dataset) for model, datasets in cells.items() for dataset in datasets]
        return exhibit_cells.evaluation_artifacts(pairs, study.main.recipe, study.main.scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a cell under each further quality, a column a method with both forms, then τ and n."""
        rows = [item.keys for item in main_methods(study, study.main.recipe) if isinstance(item, Row)]
        keys = [Key("PRR", place["method"], place.get("variant", "")) for place in rows]
        methods = [key.method for key in keys if key.variant == captions.BEAMSEARCH]
        files = self.artifacts(study)
        main = read_measurements(study, inputs, files)
        body: TableBody = []
        values: list[dict[str, Any]] = []
        told = []
        for further in study.quality[1:]:
            other = read_measurements(study, inputs, files, further.metric)
            found = {
                cell: agreement(main[cell], other[cell], keys, methods, study.evaluation.confidence)
                for cell in other
                if further in study.qualities(cell[1])
            }
            body += block(f"{study.main_quality.title} / {further.title}", body)
            for (model, dataset), of in found.items():
                titles = (study.models[model].title, study.datasets[dataset].title)
                body.append(TableRow(titles, tuple(_cells(of))))
                values += _values(study, further, {"model": model, "dataset": dataset, "n": of.n}, of)
            told.append(_tally(further, list(found.values())))
        datasets = list(dict.fromkeys(dataset for _, dataset in main))
        sentences = [
            "Beam − multinomial in PRR under the first quality / under the other; bold: its sign differs; *: its "
            f"{captions.confidence(study)} paired interval leaves out 0.",
            *told,
            f"τ: Kendall's τ-b of the two orders of all {len(keys)} methods and forms by PRR, with its "
            f"{captions.confidence(study)} interval: 1 for the same order, 0 for unrelated ones.",
            f"Intervals are percentiles of {captions.resampled(study, datasets)}, shared by both qualities.",
            "n: questions.",
        ]
        heads = list(map(captions.method_short, methods))
        grid = TableGrid(
            ("Model", "Dataset"),
            ((*("Beam − multinomial",) * len(heads), "Order", ""), (*heads, "τ", "n")),
            tuple(body),
        )
        values = [dict(row) for row in {tuple(row.items()): None for row in values}]  # the main quality's stand once
        title = f"PRR under {study.main_quality.title} and under other qualities"
        return self.table(study, title, [f"{title}.", *sentences], values, grid)


def agreement(
    main: Measurements, other: Measurements, keys: Sequence[Key], methods: Sequence[str], confidence: float
) -> AgreementOfCell:
    """One cell's measurements under two qualities, of the same resamples, held against each other.

    ``keys``: the methods and forms that are put in order; ``methods``: those whose two forms are compared.
    """
    both = (main, other)
    differences: dict[str, Pair] = {
        method: (_difference(main, method, confidence), _difference(other, method, confidence)) for method in methods
    }
    points, drawn = (
        np.array([[value(of, key) for key in keys] for of in both], np.float64)
        for value in (_value, Measurements.replicates)
    )
    tau, interval = float(kendall_tau(*points)), bootstrap.interval(kendall_tau(*drawn.swapaxes(1, 2)), confidence)
    notes = dict.fromkeys(of[key].note for of in both for key in keys if of[key].value is None)
    if np.isnan(tau):
        estimate = Estimate(None, None, None, None, "; ".join(notes) or "undefined: PRR is the same for every method")
    else:
        estimate = Estimate(tau, interval.low, interval.high, interval.std, interval.note)
    return AgreementOfCell(differences, estimate, main[keys[0]].n, "; ".join(notes))


def kendall_tau(a: Floats, b: Floats) -> Floats:
    """Kendall's τ-b of the last axis of a and b [..., K]: −1 to 1, 1 for one order; NaN where any value is, or all tie.

    Values within 1e-12 tie.
    """
    one, two = np.triu_indices(a.shape[-1], 1)
    signs = [_signs(values[..., one] - values[..., two]) for values in (a, b)]
    pairs = np.sqrt((signs[0] ** 2).sum(-1) * (signs[1] ** 2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((signs[0] * signs[1]).sum(-1) / pairs, dtype=np.float64)


def _signs(differences: Floats) -> Floats:
    """−1, 0 or 1, NaN for NaN; rounding is no difference."""
    return np.asarray(np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences)), dtype=np.float64)


def _value(of: Measurements, key: Key) -> float:
    value = of[key].value
    return np.nan if value is None else value


def _difference(of: Measurements, method: str, confidence: float) -> Difference | None:
    beam, sample = (Key("PRR", method, variant) for variant in (captions.BEAMSEARCH, captions.MULTINOMIAL))
    a, b = of[beam].value, of[sample].value
    if a is None or b is None:
        return None
    return bootstrap.difference(a, b, of.replicates(beam), of.replicates(sample), confidence)


def _flips(pair: Pair) -> bool:
    """Whether the sign differs; none that is 0 or undefined does."""
    first, second = (0.0 if of is None or of.value is None else float(_signs(np.array(of.value))) for of in pair)
    return first * second < 0


def _shown(of: Estimate | None) -> bool:
    """Whether the interval excludes 0."""
    return of is not None and number_format.excludes_zero(of.low, of.high)


def _cells(of: AgreementOfCell) -> Iterator[TableCell]:
    """A cell a method, then τ and n."""
    for pair in of.differences.values():
        text = " / ".join(map(_text, pair))
        cell = TableCell(text, mark="best" if _flips(pair) else "", note=of.note if None in pair else "")
        yield replace(cell, pointer=" / ".join(_interval(of) or "–" for of in pair))
    yield TableCell(_text(of.tau).removesuffix("*"), spread=_interval(of.tau), note=of.tau.note)
    yield TableCell(str(of.n))


def _text(of: Estimate | None) -> str:
    """The value, with the star of :func:`_shown`; no whole cell, so its minus is written as one."""
    if of is None or of.value is None:
        return "n/a"
    return number_format.decimal(of.value).replace("-", "−") + "*" * _shown(of)


def _interval(of: Estimate | None) -> str:
    return number_format.interval(of.low, of.high) if of else ""


def _values(study: Study, further: Quality, cell: dict[str, Any], of: AgreementOfCell) -> Iterator[dict[str, Any]]:
    """The rows of the CSV of one cell; a difference's setting is its quality."""
    main = study.main_quality.metric
    for method, pair in of.differences.items():
        place = cell | {"metric": "PRR", "method": method, "variant": "beamsearch - multinomial"}
        for metric, found in zip((main, further.metric), pair, strict=True):
            yield place | {"setting": metric} | _numbers(found)
    yield cell | {"metric": "Kendall tau", "setting": f"{main} / {further.metric}"} | _numbers(of.tau)


def _numbers(of: Estimate | None) -> dict[str, float | None]:
    return {name: getattr(of, name, None) for name in ("value", "std", "low", "high")}


def _tally(further: Quality, cells: Sequence[AgreementOfCell]) -> str:
    """How many differences have another sign under a further quality, and how many of these are shown."""
    pairs = [pair for of in cells for pair in of.differences.values() if None not in pair]
    shown = [sum(map(_shown, pair)) for pair in pairs if _flips(pair)]
    return (
        f"{further.title}: the sign differs in {len(shown)} of {len(pairs)}; of these, both intervals leave out 0 in "
        f"{shown.count(2)}, one in {shown.count(1)}, neither, so that it may be chance, in {shown.count(0)}."
    )
