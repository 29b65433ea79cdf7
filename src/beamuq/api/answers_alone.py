"""Answers without samples and beams, as rows: what ``quality`` judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.api.candidate_records import Records
from beamuq.api.paired_columns import ids_of
from beamuq.api.rows import Rows, is_object, none_if_hole, plain, with_ids
from beamuq.api.score_series import ScoreSeries
from beamuq.errors import BeamUQError

Texts = Iterable[str]
"""Answers alone, a text each: a list, an array, a series."""
OF_CHOICE = {"id", "text", "candidate", "answer", "answer_value"}
"""Columns by which a frame is known as one of ``choose``."""

JUDGED = "judged"
CHOSEN = "chosen"
"""What ``quality`` says in ``attrs`` of its series where it judged what was chosen."""
SHOWN = "shown"
"""What ``wide`` says there, whose scores are of the answers that are shown."""


def answer_rows(rows: Rows | Records | Texts) -> Rows | Records:
    """Rows with an answer each.

    A text is a row. A series has a row each, by the ids that its index names. Of the frame of
    ``choose`` the answer is the text that was chosen. All else is as it was given.

    Raises BeamUQError for a mapping or a set, which have no order of rows.
    """
    if isinstance(rows, pd.Series):
        return _rows_of_series(rows)
    if isinstance(rows, pd.DataFrame):
        return _rows_of_frame(with_ids(rows))
    if isinstance(rows, Mapping | set | frozenset):
        raise BeamUQError(
            f"rows: a {type(rows).__name__}; give a list with an answer a row, or a series of "
            "answers by id: pandas.Series(answers).rename_axis('id')"
        )
    if isinstance(rows, Records | str | Path) or is_object(rows) or not isinstance(rows, Iterable):
        return rows  # type: ignore[return-value]  # whoever reads it refuses what is no rows
    return [_row(row) for row in rows]


def is_scores(rows: object) -> bool:
    """Whether it is a frame of ``score``."""
    return isinstance(rows, pd.DataFrame) and set(rows.columns) >= {"id", "method", "value"}


def is_choice(rows: object) -> bool:
    """Whether it is a frame of ``choose``."""
    return isinstance(rows, pd.DataFrame) and set(rows.columns) >= OF_CHOICE


def check_are_of_the_same(scores: object, quality: object) -> None:
    """Raises BeamUQError for scores as a quality, and for chosen texts' quality beside scores.

    Known are the frame of ``score``, one method's scores of it, and columns of its ``wide()``,
    which are of the answers.
    """
    check_is_no_score("quality", quality)
    judged_chosen = isinstance(quality, pd.Series) and quality.attrs.get(JUDGED) == CHOSEN
    of_answers = isinstance(scores, pd.Series | pd.DataFrame) and scores.attrs.get(JUDGED) == SHOWN
    if judged_chosen and (of_answers or isinstance(scores, ScoreSeries) or is_scores(scores)):
        raise BeamUQError(
            "quality: of the texts that choose picked, and the scores are of the answers; to rank "
            "the picked, give prr the column value of choose's frame"
        )


def check_is_no_score(name: str, quality: object) -> None:
    """Raises BeamUQError for a method's scores where a quality is due, as where two are swapped."""
    if isinstance(quality, ScoreSeries) and quality.scored_rows is not None:
        methods = ", ".join(quality.scored_rows["method"].unique())
        raise BeamUQError(
            f"{name}: scores of {methods}, higher where an answer is more uncertain; "
            "give scores first, and as quality what beamuq.quality returns"
        )


def _rows_of_series(answers: pd.Series[Any]) -> list[dict[str, Any]]:
    texts = [none_if_hole(text) for text in answers]
    if ids_of(answers) is None:
        return [{"answer": text} for text in texts]
    return [{"id": label, "answer": text} for label, text in zip(answers.index, texts, strict=True)]


def _rows_of_frame(table: pd.DataFrame) -> Rows:
    if not is_choice(table):
        return table
    texts = [none_if_hole(text) for text in table["text"]]
    return [{"id": name, "answer": text} for name, text in zip(table["id"], texts, strict=True)]


def _row(row: Any) -> Any:
    """A row as it is; anything else is an answer, or is refused as one."""
    return row if isinstance(plain(row), Mapping) else {"answer": row}
