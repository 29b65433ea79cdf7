"""One method's scores as a series that knows which rows of ``score`` it came from.

``decide`` compares what those rows say (method, form, settings, model, …) with the calibration.
Pandas keeps the rows where it slices, sorts, copies, reindexes or concatenates, and also where it
computes: so a score counts as that of a row only where id and value are the row's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import pandas as pd

from beamuq.api.candidate_records import LABELS
from beamuq.api.rows import none_if_hole
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.methods.registry import METHODS, candidates_of

Row = Mapping[str, Any]
FACTS = (
    *("method", "variant", "setting", "similarity", "note", "candidates"),
    *("scored_with", "version"),
)
"""What a row of ``score`` says of how its value was made."""
OF_THE_ANSWER = tuple(name for name in LABELS if name.startswith(("model", "prompt", "server")))
SIMILARITY_PARTS = {"pairs.similarity", "pairs.contradiction", "pairs.same", "sentence_similarity"}
"""Needs of a method that a similarity fills."""
NO_METHOD = ("value", "score", "scores")
"""Names of a series of scores that say nothing of the method."""
NO_NAME = ("", "None", "nan")
"""Texts that stand for a name where there is none, as a file of Parquet has it."""
ROUNDED = 1e-6  # as a share: of what float32 keeps of a score
UNNAMED = "score"
"""The method of a calibration of scores that came without a name."""


class ScoreSeries(pd.Series):
    """Scores of one method by id, higher = more uncertain, with the rows that they came from.

    A slice, a copy, a reindexed series and ``pd.concat`` of such series keep the rows.
    ``to_numpy``, ``to_frame`` and files do not: a calibration then says what it cannot compare.
    """

    _metadata = ["_name", "scored_rows"]
    scored_rows: pd.DataFrame | None = None

    @property
    def _constructor(self) -> type[ScoreSeries]:
        return ScoreSeries

    def __repr__(self) -> str:
        return "\n".join(filter(None, [super().__repr__(), self._origin_in_words()]))

    def _origin_in_words(self) -> str:
        """What is shown below the values: of which form they are, by which similarity.

        Of computed ones, such as ``1 - scores``, of which scores they are not the values any more.
        """
        rows = self.scored_rows
        if rows is None or rows.empty:
            return ""
        method = str(rows["method"].iloc[0])
        if not _are_values_of(rows, self):
            return f"computed of {method}, no scores of it any more"
        forms = [
            form_in_words(method, str(variant), candidate_counts(of_form))
            for variant, of_form in rows.groupby("variant", sort=False)
        ]
        settings = [f"setting: {setting}" for setting in rows["setting"].unique() if setting]
        names = similarity_of(rows, method)
        similarity = f"similarity: {names}" if names else ""
        return "; ".join(filter(None, [", ".join(filter(None, forms)), *settings, similarity]))

    def __finalize__(self, other: Any, method: str | None = None, **kwargs: Any) -> ScoreSeries:
        super().__finalize__(other, method, **kwargs)  # type: ignore[misc]  # which its stubs leave out
        if isinstance(other, pd.Series | pd.DataFrame):
            return self
        # of a concatenation, as pandas 3 and 2 have it
        parts = getattr(other, "input_objs", None) or getattr(other, "objs", None)
        if parts is not None:
            rows = [getattr(part, "scored_rows", None) for part in parts]
            known_rows = [part_rows for part_rows in rows if part_rows is not None]
            self.scored_rows = pd.concat(known_rows) if len(known_rows) == len(rows) else None
        return self


UNKNOWN_COUNTS = (0, 0)
"""The fewest and the most candidates of a question, where that is not known."""


def candidate_counts(rows: pd.DataFrame) -> tuple[int, int]:
    """The fewest and the most candidates that rows with a value were scored over; else 0, 0."""
    if "candidates" not in rows:
        return UNKNOWN_COUNTS
    counts = rows.loc[rows["value"].notna(), "candidates"]
    if counts.empty or counts.isna().any():
        return UNKNOWN_COUNTS
    return int(counts.min()), int(counts.max())


def counted(kind: str, counts: tuple[int, int]) -> str:
    """``10 beams``, ``4 to 10 samples``; ``beams`` where it is not known how many."""
    fewest, most = counts
    if not most:
        return kind
    if fewest < most:
        return f"{fewest} to {most} {kind}"
    return f"{most} {kind}" if most > 1 else f"{most} {kind.removesuffix('s')}"


def form_in_words(
    method: str, variant: str, counts: tuple[int, int] = UNKNOWN_COUNTS, *, plain: bool = False
) -> str:
    """Of which form a score is: ``over 10 beams (beamsearch)``; "": its method is not known.

    ``counts``: of candidates, the fewest and the most. ``plain``: without the paper's word.
    """
    if method not in METHODS and variant == "":
        return ""
    kind = kind_of(method, variant)
    words = "of the answer alone" if kind == "answer" else f"over {counted(kind, counts)}"
    return words if plain or not variant else f"{words} ({variant})"


def kind_of(method: str, variant: str) -> str:
    """What a score compares the answer with: answer, samples or beams.

    A method in one form of which nothing is known is taken to be over samples.
    """
    if method in METHODS:
        return candidates_of(METHODS[method], variant)
    return "beams" if variant == "beamsearch" else "samples"


def score_in_words(scores: object, values: Floats) -> str:
    """What a score is: ``Dissimilarity over 10 samples``; "" where nothing says it.

    ``values`` [N]: ``scores`` as numbers. The rows of a series count where id and value are theirs;
    of another series its name.
    """
    if not isinstance(scores, pd.Series):
        return ""
    rows = scores.scored_rows if isinstance(scores, ScoreSeries) else None
    if rows is None or rows.empty:
        return _method_in_name(scores) or ""
    if not _are_of(rows, scores.index, values):
        return ""
    first = rows[["method", "variant", "setting"]].iloc[0]
    counts = candidate_counts(rows[rows["id"].isin(scores.index)])
    name = f"{first['method']} {first['setting']}".strip()
    return f"{name} {form_in_words(first['method'], first['variant'], counts, plain=True)}".strip()


def similarity_in_words(scores: object) -> str:
    """By which similarity scores compare texts, as far as a series or a frame says it; else ""."""
    if isinstance(scores, ScoreSeries) and scores.scored_rows is not None:
        rows = scores.scored_rows
        return ", ".join(filter(None, {similarity_of(rows, name) for name in rows["method"]}))
    if not isinstance(scores, pd.Series | pd.DataFrame):
        return ""
    method, _, _ = name_of_column(scores).partition(" ")
    return str(scores.attrs.get("similarity", "")) if compares_texts(method) else ""


def name_of_column(column: object) -> str:
    """What a series is called; "" of anything else, and of one whose name is no text.

    That of a column of an array is its number, and that of a computed one may be None or NaN.
    """
    name = getattr(column, "name", None)
    return name if isinstance(name, str) and name not in NO_NAME else ""


def judge_in_words(quality: object) -> str:
    """By what a quality judges: its name; of a metric's values that were cut in two, that too."""
    name = name_of_column(quality)
    is_cut = isinstance(quality, pd.Series) and quality.dtype == bool
    return f"{name}, cut into right and wrong" if name and is_cut else name


def judged_in_words(scores: object, values: Floats, quality: object) -> str:
    """What is measured of scores: ``Dissimilarity over 10 beams by answer_f1, similarity minilm``.

    As far as the two say it; "" where the scores say nothing. ``values`` [N]: them as numbers.
    """
    what = score_in_words(scores, values)
    if not what:
        return ""
    judge = judge_in_words(quality)
    judged = f"{what} by {judge}" if judge else what
    similarity = similarity_in_words(scores)
    return f"{judged}, similarity {similarity}" if similarity else judged


def _are_of(rows: pd.DataFrame, ids: pd.Index, values: Floats) -> bool:
    """Whether values are those of rows, all of one method in one form."""
    if len(rows[["method", "variant", "setting"]].drop_duplicates()) > 1:
        return False
    by_id = dict(zip(rows["id"], rows["value"], strict=True))
    own_values = [by_id.get(label, math.nan) for label in ids]
    return all(
        math.isclose(own, value, rel_tol=ROUNDED)
        for own, value in zip(own_values, values, strict=True)
    )


def _are_values_of(rows: pd.DataFrame, series: pd.Series[Any]) -> bool:
    """Whether each value of a series, of any type, is that of a row of its id, or missing."""
    rows_of_ids = _rows_of_ids(rows[["id", "value"]], series.index)
    return all(
        _is_value_of(known_rows, value)
        for known_rows, value in zip(rows_of_ids, series, strict=True)
    )


def _is_value_of(rows: list[Row], value: Any) -> bool:
    """Whether a value is missing, or a number and that of one of the rows of its id."""
    if none_if_hole(value) is None:
        return True
    if not isinstance(value, Real | Decimal):
        return False
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        return False
    return any(math.isclose(row["value"], number, rel_tol=ROUNDED) for row in rows)


def similarity_of(rows: pd.DataFrame, method: str) -> str:
    """By which similarity a method's scores compare texts; "": by none, or it is not known."""
    if "similarity" not in rows or not compares_texts(method):
        return ""
    names = rows.loc[rows["method"] == method, "similarity"].dropna().unique()
    return ", ".join(names)


def compares_texts(method: str) -> bool:
    """Whether a similarity is in a method's scores, as far as is known."""
    known_method = METHODS.get(method)
    if known_method is None:
        return True
    return not known_method.all_needs.isdisjoint(SIMILARITY_PARTS)


def score_series(rows: pd.DataFrame, name: str) -> ScoreSeries:
    """The values of rows of ``score``, all of one method in one form, by id."""
    columns = [column for column in ("id", "value", *FACTS, *OF_THE_ANSWER) if column in rows]
    series = ScoreSeries(rows["value"].to_numpy(), index=pd.Index(rows["id"], name="id"), name=name)
    series.scored_rows = pd.DataFrame(rows[columns])
    return series


@dataclass(frozen=True)
class Origin:
    """What is known of where scores [N] come from.

    method: None where nothing says it. rows [N]: what ``score`` said of each score, or None where
    that is not known; doubt: why it is not, where there were rows.
    """

    method: str | None
    rows: tuple[Row, ...] | None
    doubt: str = ""


def origin_of(scores: object, values: Floats) -> Origin:
    """Where scores come from: their rows, where id and value are a row's; else their name alone.

    ``values`` [N]: ``scores`` as numbers.

    Raises BeamUQError naming an id whose value is another than ``score`` gave, or if there are
    scores of several methods, forms or settings.
    """
    scored_rows = scores.scored_rows if isinstance(scores, ScoreSeries) else None
    if scored_rows is None or not isinstance(scores, pd.Series):
        return Origin(_method_in_name(scores), None)
    _check_one_form(scored_rows)
    method = str(scored_rows["method"].iloc[0])
    rows_of_ids = _rows_of_ids(scored_rows, scores.index)
    own_rows = [
        _own_row(rows, label, value)
        for rows, label, value in zip(rows_of_ids, scores.index, values, strict=True)
    ]
    known_rows = tuple(row for row in own_rows if row is not None)
    if len(known_rows) < len(own_rows):
        return Origin(method, None, "its ids are not those that score gave")
    return Origin(method, known_rows)


def _check_one_form(scored_rows: pd.DataFrame) -> None:
    for fact in ("method", "variant", "setting"):
        several = list(dict.fromkeys(scored_rows[fact]))
        if len(several) > 1:
            raise BeamUQError(
                f"scores: {fact}: {several[0]!r} and {several[1]!r}: give those of one"
            )


def _rows_of_ids(scored_rows: pd.DataFrame, ids: Iterable[Any]) -> list[list[Row]]:
    """The rows that each id has, of which concatenation makes several."""
    by_id: dict[Any, list[Row]] = {}
    for row in scored_rows.to_dict("records"):
        by_id.setdefault(row["id"], []).append({str(key): row[key] for key in row})
    return [by_id.get(label, []) for label in ids]


def _method_in_name(scores: object) -> str | None:
    """The method that a series is named after; None where the name says none."""
    name = name_of_column(scores) if isinstance(scores, pd.Series) else ""
    return name if name and name not in NO_METHOD else None


def _own_row(rows: list[Row], label: object, value: float) -> Row | None:
    """The row, of those of one id, that has the value; None: ``score`` gave no such id.

    An id that lacks its value now, as of reindexing, has the facts that all rows have.
    """
    if math.isnan(value):
        return rows[0] if rows else {}
    if not rows:
        return None
    for row in rows:
        if math.isclose(row["value"], value, rel_tol=ROUNDED):
            return row
    raise BeamUQError(
        f"scores: id {label!r}: {value:.6g}, where score gave {rows[0]['value']:.6g} for "
        f"{rows[0]['method']}: these are other scores by now; give them as score gave them, or as "
        "an array (to_numpy()), which says nothing of a method"
    )
