"""How right answers are, by a study's metrics, compared as questions of one's own are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.api.answers_alone import CHOSEN, JUDGED, answer_rows, is_choice
from beamuq.api.answers_alone import Texts as Answers
from beamuq.api.candidate_records import Records, read_records
from beamuq.api.open_models import check_models_extra, model_folder
from beamuq.api.paired_columns import check_order, check_order_beside_rows
from beamuq.api.rows import Rows, plain
from beamuq.errors import BeamUQError
from beamuq.row_ids import id_text
from beamuq.scorers.named_options import GOLD_LABEL
from beamuq.scorers.quality_metrics import (
    FOLDED,
    LEARNED,
    QUALITY,
    Learned,
    have_option,
    quality_values,
)
from beamuq.text_normalization import on_one_line

Texts = Sequence[str | Sequence[str]] | Mapping[Any, str | Sequence[str]]
"""Of each row one text or several: in the order of rows, or by id."""


def quality(
    rows: Rows | Records | Answers,
    answers: Texts | None = None,
    metric: str = "answer_f1",
    *,
    options: Texts | None = None,
    model: str | Path | None = None,
    backbone: str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> pd.Series[float]:
    """How right the answer of each row is, by a metric that a study has.

    Answers and right answers are compared as a study compares questions of one's own: letter case
    and forms of characters do not count, accents do (give both spellings), numbers count by their
    value, and the lines of an answer are joined (docs/reference/answers.md).

    Parameters
    ----------
    rows
        Answers: a list of texts; a series of them, whose index names the ids; a frame or rows with
        the key ``answer``, also without samples and beams; what decode returns; or the frame of
        choose, whose chosen texts (column ``text``) are judged. Without ids they are 1, 2, ….
    answers
        The right answers of each row, a text or a list of texts: in the order of rows, or a mapping
        by id. Without it the key ``answers`` of each row.
    metric
        answer_f1: the larger of token F1 and containment; exact_match; gold_label: whether the
        answer names the right one of the options and no other; alignscore; or module:attribute.
    options
        For gold_label, the options of each question as they were shown, in the order of rows or by
        id; the right one stands in ``answers`` word for word, no letter of it.
    model, backbone
        For alignscore: the checkpoint's folder, and the one with its config and tokenizer.
    device, dtype, threads
        Of alignscore, as for score.

    Returns
    -------
    A series by id, in [0, 1], higher = better, named after the metric.

    Raises BeamUQError in one line: a bad row, other answers or options than rows, a series of them
    whose index names the rows in another order, a row without a right answer, for gold_label
    without one that is an option, an unknown metric, a missing model.

    Examples
    --------
    >>> rows = [{"id": "1", "answer": "Rome, of course", "samples": ["Rome", "Milan"]}]
    >>> beamuq.quality(rows, [["Rome"]]).to_dict()
    {'1': 1.0}
    >>> beamuq.quality(["Rome", "Milan"], ["Rome", "Rome"], "exact_match").tolist()
    [1.0, 0.0]
    >>> best = beamuq.choose(rows, similarity="lexical")
    >>> beamuq.quality(best, [["Rome"]]).to_dict()
    {'1': 1.0}
    """
    records = read_records(answer_rows(rows), to_score=False)
    ids = [record.id for record in records]
    _check_order("answers", answers, rows, ids)
    _check_order("options", options, rows, ids)
    if answers is None:
        right_answers = [_answers_of_row(record.id, record.answers) for record in records]
    else:
        right_answers = _texts_by_row("answers", answers, ids)
    listed_options = [] if options is None else _texts_by_row("options", options, ids)
    learned = Learned(options=listed_options)
    if metric == GOLD_LABEL:
        if options is None:
            raise BeamUQError("options: missing; gold_label needs the options of each question")
        _check_are_options(ids, right_answers, listed_options)
    if metric in LEARNED:
        learned = _opened(metric, model, backbone, device=device, dtype=dtype, threads=threads)
    texts = [record.answer.text for record in records]
    if metric in QUALITY:
        texts = list(map(on_one_line, texts))
    values = quality_values(metric, texts, right_answers, FOLDED, learned)
    series = pd.Series(values, index=pd.Index(ids, name="id"), name=metric)
    if is_choice(rows):
        series.attrs[JUDGED] = CHOSEN
    return series


def _check_order(name: str, column: object, rows: object, ids: Sequence[str]) -> None:
    """Refuse a series that is taken in its order, where its index names the rows in another one."""
    if not isinstance(column, pd.Series) or column.index.name == "id":
        return
    if isinstance(rows, pd.Series):
        check_order(**{"rows": rows, name: column})
    else:
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        check_order_beside_rows(name, column, ids, index)


def _answers_of_row(row_id: str, answers: Sequence[str] | None) -> list[str]:
    if not answers:
        raise BeamUQError(
            f"answers: id {row_id!r}: the row has none; give answers, a list of right ones for "
            "each row"
        )
    return list(answers)


def _check_are_options(
    ids: Sequence[str],
    right_answers: Sequence[Sequence[str]],
    options: Sequence[Sequence[str]],
) -> None:
    """Raises BeamUQError naming the first row of whose right answers none is an option."""
    for row_id, texts, listed in zip(ids, right_answers, options, strict=True):
        if not have_option(texts, listed):
            raise BeamUQError(
                f"answers: id {row_id!r}: {texts[0]!r:.60}: none of the row's options; give the "
                f"option's text, word for word: {', '.join(map(repr, listed)):.120}"
            )


def _texts_by_row(name: str, column: object, ids: Sequence[str]) -> list[list[str]]:
    """The texts of each row; raises BeamUQError naming the row that has none."""
    if isinstance(column, pd.Series):
        column = column.to_dict() if column.index.name == "id" else column.tolist()
    parts = plain(column)
    if isinstance(parts, Mapping):
        parts = _in_order_of_ids(name, parts, ids)
    elif isinstance(parts, str) or not isinstance(parts, Iterable):
        raise BeamUQError(
            f"{name}: a {type(column).__name__}; give a list with one entry a row, or a mapping by "
            "id"
        )
    listed = list(parts)
    if len(listed) != len(ids):
        raise BeamUQError(f"{name}: {len(listed)}, rows: {len(ids)}; give one entry a row")
    return [_texts(name, row_id, part) for row_id, part in zip(ids, listed, strict=True)]


def _in_order_of_ids(name: str, parts: Mapping[Any, Any], ids: Sequence[str]) -> list[Any]:
    by_id = {_id_of(name, key): part for key, part in parts.items()}
    for row_id in ids:
        if row_id not in by_id:
            raise BeamUQError(f"{name}: id {row_id!r}: missing; give one entry a row")
    known_ids = set(ids)
    for key in by_id:
        if key not in known_ids:
            raise BeamUQError(f"{name}: id {key!r}: no row has it; give those of the rows")
    return [by_id[row_id] for row_id in ids]


def _id_of(name: str, key: Any) -> str:
    try:
        return id_text(key)
    except ValueError as error:
        raise BeamUQError(f"{name}: id {key!r:.40}: {error}") from error


def _texts(name: str, row_id: str, part: Any) -> list[str]:
    """One text, or several, of a row."""
    texts = [part] if isinstance(part, str) else part
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BeamUQError(f"{name}: id {row_id!r}: {part!r:.60}; give a text or a list of texts")
    if not any(text.strip() for text in texts):
        raise BeamUQError(f"{name}: id {row_id!r}: none; give at least one text")
    return texts


def _opened(
    metric: str,
    model: str | Path | None,
    backbone: str | Path | None,
    *,
    device: str,
    dtype: str,
    threads: int,
) -> Learned:
    """The files of a learned metric, and what it is run with."""
    if model is None or backbone is None:
        raise BeamUQError(
            f"metric {metric}: give model, the checkpoint's folder, and backbone, the one with "
            "config and tokenizer"
        )
    check_models_extra()
    from beamuq.models import devices

    torch_device, torch_dtype = devices.prepare(device, dtype, threads)
    return Learned(
        model=model_folder(str(model)),
        backbone=model_folder(str(backbone), weights=False),
        dtype=torch_dtype,
        device=torch_device,
    )
