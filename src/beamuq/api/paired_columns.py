"""Columns given side by side in Python, one value an answer, and whether they belong together.

Nothing is converted that may have meant something else: a truth value is no score, the text "0.3"
no number, and the imaginary part of a number is not dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.methods.registry import METHODS
from beamuq.row_ids import id_text

NUMBERS = "fiu"  # numpy's kinds: floats, integers with and without sign
TRUTH = "b"
SCORES = (
    "of score's frame one method's scores, scores['Dissimilarity'], or each in turn, "
    "scores.wide().items(); to calibrate and decide give all rows to beamuq.calibrate and "
    "beamuq.decide"
)
COLUMN = {
    "quality": "what beamuq.quality returns, a value an answer",
    "against": "what beamuq.quality returns, a value an answer",
    "correct": "1 or 0 an answer, such as beamuq.quality(rows, answers) > 0.5",
    "probability": "a probability an answer, such as 'right' of decisions",
    "groups": "a name an answer",
}
"""What is given where a column is due, instead of a frame."""


def number_column(name: str, values: object, *, truth_values: bool = False) -> Floats:
    """A column [N] of numbers as float64; a value that is missing (None, NaN, NA, masked) is NaN.

    ``values``: a list, tuple, array, tensor on the CPU or series of real numbers; with
    ``truth_values`` of True and False too, which are 1 and 0.

    Raises BeamUQError naming the column, the row (from 1) and the value: of another type, infinite,
    or no column.
    """
    column = _one_column(name, values)
    kinds = NUMBERS + TRUTH if truth_values else NUMBERS
    if column.dtype.kind == "O":
        numbers = np.array(
            [_number(name, row, value, truth_values) for row, value in enumerate(column, start=1)],
            dtype=np.float64,
        )
    elif column.dtype.kind in kinds:
        numbers = column.astype(np.float64)
    else:
        raise _no_numbers(name, f"of type {column.dtype}")
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        row = int(infinite[0])
        fix = "mend it, or give None where there is none"
        raise BeamUQError(f"{name}: row {row + 1}: {numbers[row]}: must be finite; {fix}")
    return numbers


def group_column(groups: object) -> list[str]:
    """What belongs together, [N], as text, by the one rule for ids (:func:`.id_text`).

    Raises BeamUQError naming the row (from 1) and the value: missing, or no name.
    """
    column = _one_column("groups", groups)
    return [_group(row, value) for row, value in enumerate(column.tolist(), start=1)]


def check_order(**columns: object) -> None:
    """Refuse series of other answers or in another order, which their places would pair wrongly.

    An index counts as the names of answers. The one that pandas gives by itself, 0, 1, 2, …, names
    nothing beside one of texts, and the series is taken in its order.

    Raises BeamUQError naming both series and an answer that one of them lacks.
    """
    series = {name: column for name, column in columns.items() if isinstance(column, pd.Series)}
    if len(series) < 2:
        return
    (first, reference), *following = series.items()
    for name, column in following:
        _check_two(first, reference.index, name, column.index)


def check_order_beside_rows(
    name: str, column: pd.Series[Any], ids: Sequence[str], index: pd.Index | None = None
) -> None:
    """As :func:`check_order`, of a column that is taken in the order of rows with these ids.

    ``index``: that of the rows, where they are a frame; a column of the same frame has it too. Ids
    that count the rows, as those of rows without ids do, name nothing beside an index of texts.

    Raises BeamUQError naming the column, and an answer that is missing in it or in the rows.
    """
    labels = [_label(label) for label in column.index]
    has_index_of_rows = index is not None and column.index.equals(index)
    if labels == list(ids) or has_index_of_rows or len(labels) != len(ids):
        return
    if sorted(labels) == sorted(ids):
        raise BeamUQError(
            f"rows, {name}: the same ids in two orders; give the second as "
            f"{name}.rename_axis('id'), which is paired by id"
        )
    if index is not None and sorted(labels) == sorted(map(_label, index)):
        check_order(**{"rows": pd.Series(index, index=index), name: column})
    counted = [str(number) for number in range(1, 1 + len(ids))]
    if list(ids) != counted and not _counts_places(column.index):
        check_order(**{"rows": pd.Series(ids, index=list(ids)), name: column})


def ids_of(column: object) -> list[str] | None:
    """The ids that a series' index names; None: it has none but 0, 1, 2, …, or is no series."""
    if not isinstance(column, pd.Series):
        return None
    if column.index.name != "id" and _counts_places(column.index):
        return None
    return [_label(label) for label in column.index]


def _check_two(first: str, left: pd.Index, second: str, right: pd.Index) -> None:
    if left.equals(right):
        return
    left_labels = [_label(label) for label in left]
    right_labels = [_label(label) for label in right]
    if left_labels == right_labels:
        return
    if sorted(left_labels) == sorted(right_labels):
        raise BeamUQError(
            f"{first}, {second}: series of the same answers in two orders; give the second as "
            "second.loc[first.index]; of a frame of scores that is "
            "quality.loc[scores['id'].unique()]"
        )
    if len(left) == len(right) and _one_alone_counts_places(left, right):
        return
    raise BeamUQError(
        f"{first}, {second}: series of different answers "
        f"({_difference(left_labels, right_labels)}); give both of the same answers, as "
        "second.loc[first.index]; or, if they are in one order, give one as second.to_numpy(); "
        "of a frame of scores, scores[scores['id'].isin(quality.index)]"
    )


def _difference(left_labels: list[str], right_labels: list[str]) -> str:
    """In what two lists of labels differ, beside their order."""
    in_both = set(left_labels) & set(right_labels)
    in_one_alone = [label for label in (*left_labels, *right_labels) if label not in in_both]
    if in_one_alone:
        return f"{in_one_alone[0]!r} is in one of them alone"
    return "some stand in one of them more often"


def _one_alone_counts_places(left: pd.Index, right: pd.Index) -> bool:
    """Whether one index is pandas' own, 0, 1, 2, …, and the other one names answers."""
    left_is_numbered = pd.api.types.is_integer_dtype(left.dtype)
    right_is_numbered = pd.api.types.is_integer_dtype(right.dtype)
    if left_is_numbered == right_is_numbered:
        return False
    return _counts_places(left if left_is_numbered else right)


def _counts_places(index: pd.Index) -> bool:
    return list(index) == list(range(len(index)))


def _label(label: Any) -> str:
    """A label of an index as a text; a whole number is the same answer as its text."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def _one_column(name: str, values: object) -> npt.NDArray[Any]:
    """Whatever may be a column as an array [N], a list's elements as they are."""
    if isinstance(values, list | tuple):
        column = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            column[place] = value
        return column
    if isinstance(values, pd.DataFrame):
        raise BeamUQError(f"{name}: a frame; give one column of it: {COLUMN.get(name, SCORES)}")
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(
        values, Iterable
    ):
        raise _no_column(name, f"a {type(values).__name__}")
    if np.ma.isMaskedArray(values):
        values = _with_none_for_masked(values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a card, or with a gradient
        raise BeamUQError(
            f"{name}: a {type(values).__name__} ({error}); give it as a list or array"
        ) from error
    if array.ndim != 1:
        raise _no_column(name, f"a {type(values).__name__} of shape {array.shape}")
    return array


def _with_none_for_masked(values: Any) -> npt.NDArray[Any]:
    objects = np.array(values.data, dtype=object)
    objects[np.ma.getmaskarray(values)] = None
    return objects


def _number(name: str, row: int, value: object, truth_values: bool) -> float:
    if value is None or value is pd.NA or value is pd.NaT:
        return np.nan
    if isinstance(value, bool | np.bool_):
        if truth_values:
            return float(value)
    elif isinstance(value, Real):
        return float(value)
    if name == "scores" and isinstance(value, str) and value in METHODS:
        raise BeamUQError(
            f"{name}: row {row}: {value!r}: a method's name; give its scores, scores[{value!r}]; "
            "of several: {name: beamuq.prr(scores[name], quality) for name in …}"
        )
    if name == "scores" and isinstance(value, Mapping):
        raise BeamUQError(
            f"{name}: row {row}: a row of a question; score the rows first, and give one method's "
            "scores: beamuq.score(rows)['Dissimilarity']"
        )
    shown = "a series" if isinstance(value, pd.Series) else f"{value!r:.40}"
    raise _no_numbers(f"{name}: row {row}", shown)


def _no_numbers(place: str, what: str) -> BeamUQError:
    kind = ", 1 for right and 0 for wrong" if place.startswith("correct") else ""
    return BeamUQError(f"{place}: {what}; give a list of numbers{kind}, one an answer")


def _no_column(name: str, what: str) -> BeamUQError:
    if name == "groups":
        return BeamUQError(f"groups: {what}; give a list of names, one an answer")
    return _no_numbers(name, what)


def _group(row: int, value: Any) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        raise BeamUQError(f"groups: row {row}: missing; give all or none")
    try:
        return id_text(value)
    except ValueError as error:
        raise BeamUQError(f"groups: row {row}: {value!r:.40}: {error}") from error
