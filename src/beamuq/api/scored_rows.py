"""Rows of scores, as ``calibrate`` and ``decide`` read them: one method's, in one form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field

from beamuq.api.candidate_records import Labels, Name, Number, as_number
from beamuq.api.endings_in_scores import EndingCount, ending_count
from beamuq.api.rows import Rows, named, placed_rows
from beamuq.api.score_settings import settings_in_json
from beamuq.api.server_identity import ServerIdentity, read_server
from beamuq.array_types import Bools, Floats
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError, hint

COMPARED = ("similarity", "model", "model_hash", "prompt_hash", "scored_with", "version")
"""Columns in which all rows agree, and new scores agree with the calibration's."""


def _none_if_missing(value: Any) -> Any:
    """A frame that was filled in has NaN where there is no score."""
    return None if pd.isna(as_number(value)) else value


def _empty_if_no_text(value: Any) -> str:
    """A note that is missing is the empty one, and one of another tool says nothing."""
    return value if isinstance(value, str) else ""


class ScoredRow(Labels, extra="ignore"):
    """A row as ``score`` prints it, with labels for ``calibrate``; other columns are left out."""

    id: Annotated[Name, Field(min_length=1)]
    method: str
    variant: str = ""
    setting: str = ""
    value: Annotated[Number, BeforeValidator(_none_if_missing)] = None
    similarity: str = ""
    reason: str = ""
    note: Annotated[str, BeforeValidator(_empty_if_no_text)] = ""
    candidates: Annotated[int, Field(ge=0, strict=False)] | None = None
    scored_with: Annotated[str | None, AfterValidator(settings_in_json)] = None
    version: str | None = None


@dataclass(frozen=True)
class PlacedRow:
    """A row and its place, such as a file and line, with which an error begins."""

    place: str
    row: ScoredRow


@dataclass(frozen=True)
class LabelledAnswers:
    """Scores [N] of answers, whether each is right [N], and the group [N] that it belongs to."""

    scores: Floats
    right: Bools
    groups: list[str]


def rows_of_method(rows: Rows, method: str, form: str | None, setting: str) -> list[PlacedRow]:
    """The rows of one method in one form; ``form`` None: in the only form that has a score.

    Raises BeamUQError in one line: a bad row, no such method, form or setting, several forms, or
    two rows of one id.
    """
    where = f"{named(rows)}: method {method!r}"
    in_all_forms = _in_all_forms(rows, method, where)
    chosen = [
        placed
        for placed in in_all_forms
        if placed.row.setting == setting and form in (None, placed.row.variant)
    ]
    if not chosen:
        forms = sorted(
            {f"{placed.row.variant!r} and {placed.row.setting!r}" for placed in in_all_forms}
        )
        raise BeamUQError(
            f"{where}: no row of form {form!r} and setting {setting!r}; give one of those here: "
            f"{', '.join(forms)}"
        )
    if form is None:
        chosen = _in_only_form(chosen, where)
    _check_each_id_once(chosen)
    return chosen


def _in_all_forms(rows: Rows, method: str, where: str) -> list[PlacedRow]:
    method_rows: list[PlacedRow] = []
    methods: dict[str, None] = {}
    for place, mapping in placed_rows(rows):
        if mapping.get("method") == method:
            method_rows.append(PlacedRow(place, validated(ScoredRow, dict(mapping), place)))
        elif "method" in mapping:
            methods[str(mapping["method"])] = None
    if not method_rows:
        fix = "score the rows first: beamuq score FILE --output SCORED"
        if methods:
            fix = hint(method, methods)
        raise BeamUQError(f"{where}: no such score; {fix}")
    return method_rows


def _in_only_form(rows: Sequence[PlacedRow], where: str) -> list[PlacedRow]:
    """The rows of the form that has scores; of one form where none has one."""
    forms = sorted({placed.row.variant for placed in rows if placed.row.value is not None})
    if len(forms) > 1:
        raise BeamUQError(f"{where}: in the forms {', '.join(forms)}; choose one with --form")
    form = forms[0] if forms else rows[0].row.variant
    return [placed for placed in rows if placed.row.variant == form]


def _check_each_id_once(rows: Sequence[PlacedRow]) -> None:
    ids: set[str] = set()
    for placed in rows:
        key = placed.row.id
        if key in ids:
            raise BeamUQError(f"{placed.place}: id {key!r} stands twice; give each answer its own")
        ids.add(key)


def labelled_answers(
    rows: Sequence[PlacedRow], quality_threshold: float | None, where: str
) -> LabelledAnswers:
    """The answers to calibrate on, in the order of rows; without groups each is one of its own.

    Every row has a score. Raises BeamUQError in one line: a missing group or label, or all answers
    in one group.
    """
    if not rows:
        raise BeamUQError(f"{where}: correct: null in every row; give some hundreds a label")
    grouped = any(placed.row.group is not None for placed in rows)
    for placed in rows:
        if grouped and placed.row.group is None:
            raise BeamUQError(
                f"{placed.place}: group: missing, other rows have one; give all or none"
            )
    right = np.array([_is_right(placed, quality_threshold) for placed in rows])
    groups = [placed.row.group or placed.row.id for placed in rows]
    if len(set(groups)) < 2:
        raise BeamUQError(
            f"{where}: group: all {len(groups)} answers are of one group; nothing in it is "
            "independent"
        )
    scores = np.array([placed.row.value for placed in rows], dtype=np.float64)
    return LabelledAnswers(scores, right, groups)


def with_label(rows: Sequence[PlacedRow], where: str) -> list[PlacedRow]:
    """The rows without those whose label is null, of which it warns.

    A row that has neither ``correct`` nor ``quality`` stays, to be refused.
    """
    labelled = [placed for placed in rows if not _is_label_null(placed.row)]
    left_out = len(rows) - len(labelled)
    if left_out:
        warnings.warn(
            f"{where}: {left_out} of {len(rows)} without a label left out; what is promised is of "
            "answers like the others",
            stacklevel=3,
        )
    return labelled


def with_score(rows: Sequence[PlacedRow], where: str) -> list[PlacedRow]:
    """The rows without those that have no score of the method, of which it warns.

    Raises BeamUQError where more than half have none, naming the first and its reason.
    """
    without = [placed for placed in rows if placed.row.value is None]
    if not without:
        return list(rows)
    row = without[0].row
    reason = f" ({row.reason})" if row.reason else ""
    count = f"{len(without)} of {len(rows)}"
    if 2 * len(without) > len(rows):
        place = without[0].place.removeprefix(f"{where}: ")
        raise BeamUQError(
            f"{where}: {count} answers have no score of {row.method}, more than half; score them, "
            f"or calibrate another method. The first: {place}: value: null{reason}"
        )
    warnings.warn(
        f"{where}: {count} without a score of {row.method} left out{reason}; decide shows none of "
        "such answers",
        stacklevel=3,
    )
    return [placed for placed in rows if placed.row.value is not None]


def _is_label_null(row: ScoredRow) -> bool:
    has_key = bool({"correct", "quality"} & row.model_fields_set)
    return has_key and row.correct is None and row.quality is None


def _is_right(placed: PlacedRow, quality_threshold: float | None) -> bool:
    is_right = label_of(placed, quality_threshold)
    if is_right is not None:
        return is_right
    place = placed.place
    quality = placed.row.quality
    if quality is None:
        raise BeamUQError(
            f"{place}: id {placed.row.id}: correct: missing; give 0 or 1, or 'quality' with "
            "--quality-threshold; where it is not known give null"
        )
    raise BeamUQError(
        f"{place}: quality: {quality:g}: from where on is it right? give --quality-threshold"
    )


def label_of(placed: PlacedRow, quality_threshold: float | None) -> bool | None:
    """Whether an answer is right; None: its row has no ``correct``, and no quality to go by.

    Raises BeamUQError naming a ``correct`` that is neither 0 nor 1.
    """
    correct = placed.row.correct
    quality = placed.row.quality
    if correct is not None:
        if correct not in (0, 1):
            raise BeamUQError(
                f"{placed.place}: correct: {correct:g}: must be 0 or 1; for a quality write "
                "'quality'"
            )
        return bool(correct)
    if quality is None or quality_threshold is None:
        return None
    return quality > quality_threshold


def facts_of(rows: Sequence[PlacedRow]) -> dict[str, Any]:
    """What rows say that a calibration is compared with: COMPARED and what rows may differ in.

    ``candidates`` are the fewest and the most of a score, of the rows that say; None: none does.
    ``endings``: how many of the scores lack their ending's log-probability; None: not known.
    ``server``: that of all rows.

    Raises BeamUQError naming a row that says another thing than the first one.
    """
    counts = [placed.row.candidates for placed in rows if placed.row.candidates is not None]
    values = {name: _value_of_all(rows, name) for name in COMPARED}
    values["server"] = _server_of_all(rows)
    values["endings"] = _endings(rows)
    return values | {"candidates": (min(counts), max(counts)) if counts else None}


def _endings(rows: Sequence[PlacedRow]) -> EndingCount | None:
    """Of rows that ``score`` gave, whose notes say it; None: of others nothing is known."""
    endings = ending_count([placed.row.note for placed in rows if placed.row.value is not None])
    is_known = rows[0].row.scored_with is not None or endings.lacking > 0
    return endings if is_known else None


def _server_of_all(rows: Sequence[PlacedRow]) -> ServerIdentity | None:
    """The server of all rows, whose probes may differ by its noise; None: there is none."""
    texts = {placed.row.server: placed for placed in rows}
    first_text = rows[0].row.server
    first = None if first_text is None else read_server(first_text)
    for text, placed in texts.items():
        other = None if text is None else read_server(text)
        if (first is None) != (other is None):
            raise BeamUQError(
                f"{placed.place}: server: some rows have one and others none; give rows of one"
            )
        differences = [] if first is None or other is None else other.differences(first)
        if differences:
            raise BeamUQError(
                f"{placed.place}: server: not that of the other rows ({differences[0]}); give rows "
                "of one"
            )
    return first


def _value_of_all(rows: Sequence[PlacedRow], name: str) -> Any:
    first = getattr(rows[0].row, name)
    for placed in rows:
        value = getattr(placed.row, name)
        if value != first:
            raise BeamUQError(
                f"{placed.place}: {name}: {value!r}, other rows have {first!r}; give rows of one"
            )
    return first
