"""One method's scores as a series that knows which rows of ``score`` it came from.

``decide`` compares what those rows say (method, form, settings, model, …) with the calibration.
Pandas keeps the rows where it slices, sorts, copies, reindexes or concatenates, and also where it
computes: so a score counts as that of a row only where id and value are the row's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from beamuq.api.candidate_records import LABELS
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError

FACTS = ("method", "variant", "setting", "similarity", "candidates", "scored_with", "version")
"""What a row of ``score`` says of how its value was made."""
OF_THE_ANSWER = tuple(name for name in LABELS if name.startswith(("model", "prompt")))
NO_METHOD = ("value", "score", "scores")
"""Names of a series of scores that say nothing of the method."""
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

    def __finalize__(self, other: Any, method: str | None = None, **kwargs: Any) -> ScoreSeries:
        super().__finalize__(other, method, **kwargs)  # type: ignore[misc]  # which its stubs leave out
        parts = getattr(other, "input_objs", None) or getattr(
            other, "objs", None
        )  # of pandas 3 and 2
        if parts is not None and not isinstance(other, pd.Series | pd.DataFrame):
            rows = [getattr(part, "scored_rows", None) for part in parts]
            known = [part for part in rows if part is not None]
            self.scored_rows = pd.concat(known) if len(known) == len(rows) else None
        return self


def score_series(rows: pd.DataFrame, name: str) -> ScoreSeries:
    """The values of rows of ``score``, all of one method in one form, by id."""
    kept = [name for name in ("id", "value", *FACTS, *OF_THE_ANSWER) if name in rows]
    series = ScoreSeries(rows["value"].to_numpy(), index=pd.Index(rows["id"], name="id"), name=name)
    series.scored_rows = pd.DataFrame(rows[kept])
    return series


@dataclass(frozen=True)
class Origin:
    """What is known of where scores [N] come from.

    method: None where nothing says it. rows [N]: what ``score`` said of each score, or None where
    that is not known; doubt: why it is not, where there were rows.
    """

    method: str | None
    rows: tuple[Mapping[str, Any], ...] | None
    doubt: str = ""


def origin_of(scores: object, values: Floats) -> Origin:
    """Where scores come from: their rows, where id and value are a row's; else their name alone.

    ``values`` [N]: ``scores`` as numbers.

    Raises BeamUQError naming an id whose value is another than ``score`` gave, or if there are
    scores of several methods, forms or settings.
    """
    name = getattr(scores, "name", None) if isinstance(scores, pd.Series) else None
    named = str(name) if name is not None and str(name) not in NO_METHOD else None
    scored = getattr(scores, "scored_rows", None) if isinstance(scores, ScoreSeries) else None
    if scored is None or not isinstance(scores, ScoreSeries):
        return Origin(named, None)
    for fact in ("method", "variant", "setting"):
        several = list(dict.fromkeys(scored[fact]))
        if len(several) > 1:
            raise BeamUQError(
                f"scores: {fact}: {several[0]!r} and {several[1]!r}: give those of one"
            )
    method = str(scored["method"].iloc[0])
    rows = list(_own_rows(scores.index, values, scored))
    if any(row is None for row in rows):
        return Origin(method, None, "its ids are not those that score gave")
    return Origin(method, tuple(row for row in rows if row is not None))


def _own_rows(
    ids: Iterable[Any], values: Floats, scored: pd.DataFrame
) -> Iterator[Mapping[str, Any] | None]:
    """Of each score the row that it is of; None: ``score`` gave no such id, and there is a value.

    An id that lacks its value now, as of reindexing, has the facts that all rows have.
    """
    by_id: dict[Any, list[dict[str, Any]]] = {}
    for row in scored.to_dict("records"):
        by_id.setdefault(row["id"], []).append({str(key): value for key, value in row.items()})
    for label, value in zip(ids, values, strict=True):
        rows = by_id.get(label, [])
        if pd.isna(value):
            yield rows[0] if rows else {}
            continue
        if not rows:
            yield None
            continue
        own = next(
            (row for row in rows if math.isclose(row["value"], value, rel_tol=ROUNDED)), None
        )
        if own is None:
            raise BeamUQError(
                f"scores: id {label!r}: {value:.6g}, where score gave {rows[0]['value']:.6g} for "
                f"{rows[0]['method']}: "
                "these are other scores by now; give them as score gave them, or as an array "
                "(to_numpy()), which says "
                "nothing of a method"
            )
        yield own
