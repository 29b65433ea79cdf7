"""Tables of measurements: rows of methods or settings, columns of cells, ranked within each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, cast

from beamuq.exhibits import captions, holm_bold, number_format
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableCell,
    TableExhibit,
    TableGrid,
    TableHeading,
    TableRow,
    TableRule,
)
from beamuq.exhibits.read_evaluation import Measured
from beamuq.study_config import Study


@dataclass(frozen=True)
class TablePlace:
    """Where a number stands: the key columns of the published values."""

    model: str = ""
    dataset: str = ""
    method: str = ""
    variant: str = ""
    setting: str = ""

    def __or__(self, other: TablePlace) -> TablePlace:
        """Both keys together; where both say something, ``other`` does."""
        return TablePlace(
            other.model or self.model,
            other.dataset or self.dataset,
            other.method or self.method,
            other.variant or self.variant,
            other.setting or self.setting,
        )


@dataclass(frozen=True)
class RankedRow:
    """A row: its titles and what its key adds to a column's."""

    titles: tuple[str, ...]
    key: TablePlace


@dataclass(frozen=True)
class RankedColumn:
    """A column: its titles from the upper header level to the last, and what its key adds to a row's."""

    titles: tuple[str, ...]
    key: TablePlace


RankedBody = Sequence[RankedRow | TableHeading | TableRule]


def ranked_table(
    exhibit: TableExhibit,
    study: Study,
    title: str,
    sentences: Callable[[str, str], Sequence[str]],
    *,
    datasets: Sequence[str],
    scorer: str,
    metric: str,
    stub: tuple[str, ...],
    columns: Sequence[RankedColumn],
    body: RankedBody,
    measure: Callable[[TablePlace], Measured],
    spread: bool = True,
    arrows: bool = True,
) -> BuiltTable:
    """Measure every row × column; mark best and second of each column; draw the arrow where the beam form is better.

    The cells of the second style have the interval, :mod:`beamuq.exhibits.holm_bold`'s bold, and the arrow too.
    ``sentences``: the caption's, from what says what marks are and what says what the spread is, over resamples of
    ``datasets``. ``spread``: print ± the bootstrap's standard deviation. ``arrows``: compare each ``beamsearch`` row
    with the ``multinomial`` row of the same method and setting, where that row is in the table.
    """
    lines = [item for item in body if isinstance(item, RankedRow)]
    measured = {line.key | column.key: measure(line.key | column.key) for line in lines for column in columns}
    cells: dict[TablePlace, TableCell] = {}
    for column in columns:
        keys = [line.key | column.key for line in lines]
        marks = number_format.marks([measured[key].value for key in keys])
        verdicts = holm_bold.verdicts([measured[key] for key in keys])
        for key, mark, verdict in zip(keys, marks, verdicts, strict=True):
            cell = _cell(key, measured, cast(Literal["", "best", "second"], mark), spread, arrows)
            cells[key] = replace(cell, with_interval=_interval_cell(cell, measured[key], verdict))
    grid = TableGrid(
        stub,
        tuple(zip(*(column.titles for column in columns), strict=True)),
        tuple(
            TableRow(item.titles, tuple(cells[item.key | column.key] for column in columns))
            if isinstance(item, RankedRow)
            else item
            for item in body
        ),
    )
    values = [asdict(place) | {"metric": metric} | found.numbers for place, found in measured.items()]
    shown = spread_sentence(study, datasets) if spread else "Intervals and ± are in the CSV file."
    in_brackets = sentences(bold_sentence(body), interval_sentence(study, datasets, body))
    table = exhibit.table(study, title, sentences(MARKS_SENTENCE, shown), values, grid, [scorer])
    return replace(table, interval_caption=captions.caption(study, in_brackets, scorers=[scorer], quality=True))


def _cell(
    key: TablePlace,
    measured: Mapping[TablePlace, Measured],
    mark: Literal["", "best", "second"],
    spread: bool,
    arrows: bool,
) -> TableCell:
    found = measured[key]
    if found.value is None:
        return number_format.undefined(found.note)
    other = None
    if arrows and key.variant == captions.BEAMSEARCH:
        other = measured.get(TablePlace(key.model, key.dataset, key.method, captions.MULTINOMIAL, key.setting))
    return TableCell(
        number_format.decimal(found.value),
        spread=f"± {number_format.decimal(found.std)}" if spread and found.std is not None else "",
        mark=mark,
        better=other is not None and number_format.better(found.value, other.value),
        note=found.note if spread else "",
    )


def _interval_cell(cell: TableCell, found: Measured, verdict: holm_bold.Verdict) -> TableCell | None:
    if found.value is None:
        return None
    return replace(
        cell,
        spread="",
        interval=number_format.interval(found.low, found.high),
        mark="best" if verdict.bold else "",
        note="; ".join(filter(None, (found.note, verdict.note))),
    )


def spread_sentence(study: Study, datasets: Sequence[str]) -> str:
    """What ± is."""
    return f"± is the standard deviation over {resampled(study, datasets)}."


def interval_sentence(study: Study, datasets: Sequence[str], body: RankedBody) -> str:
    """What the brackets of the style with intervals are, and whether so few resamples can distinguish anything."""
    resamples, others = study.evaluation.resamples, _others(body)
    smallest = holm_bold.smallest_p(resamples)
    few = (
        ""
        if smallest * others < holm_bold.LEVEL
        else f" {resamples} resamples are too few to distinguish any value from the best: p is at least "
        f"{smallest:.2g}, corrected over {others} comparisons {min(1.0, smallest * others):.2g}."
    )
    return f"In brackets: {captions.confidence(study)} percentile intervals over {resampled(study, datasets)}.{few}"


def bold_sentence(body: RankedBody) -> str:
    """What bold is in the style with intervals."""
    return (
        "Bold: the best of each column and every value not distinguishable from it at the "
        f"{100 * holm_bold.LEVEL:g} % level (two-sided paired bootstrap test on the same resamples, corrected by Holm "
        f"over the column's {_others(body)} comparisons with the best); a value that could not be compared is not bold "
        "and its note says why"
    )


def _others(body: RankedBody) -> int:
    return sum(isinstance(item, RankedRow) for item in body) - 1


def resampled(study: Study, datasets: Sequence[str]) -> str:
    """How many resamples, of what."""
    stories = [study.datasets[d].title for d in datasets if study.datasets[d].adapter == "coqa"]
    return (
        f"{study.evaluation.resamples} bootstrap resamples of the questions"
        + (f" (of whole stories for {captions.listing(stories)})" if stories else "")
        + (", each dataset resampled on its own" if len(datasets) > 1 else "")
    )


def size_sentence(study: Study, sizes: Mapping[str, Sequence[int]]) -> str:
    """``n`` of each dataset; sizes that differ between models are given as a range."""
    parts = {study.datasets[d].title: _range(found) for d, found in sizes.items()}
    if len(set(parts.values())) == 1:
        return f"n = {next(iter(parts.values()))} questions{' a dataset' if len(parts) > 1 else ''}."
    return f"n: {', '.join(f'{title} {count}' for title, count in parts.items())} questions."


def _range(found: Sequence[int]) -> str:
    low, high = min(found), max(found)
    return str(low) if low == high else f"{low}–{high}"


MARKS_SENTENCE = "In each column the best value is bold and the second best underlined, compared unrounded, ties alike"
ARROW_SENTENCE = "↑: the beam form is better than its multinomial counterpart"
