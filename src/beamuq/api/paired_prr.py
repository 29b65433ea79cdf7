"""PRR of several scores of the same answers, on the same resamples: of ``prr`` and ``compare``.

Both draw the answers, or their groups, by the same names and seed. So a score's interval is the
same in both, and that of a study's evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from beamuq.api.paired_columns import ids_of
from beamuq.array_types import Floats
from beamuq.evaluation.bootstrap import Estimate, draws_name, resample_blocks
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks, why_undefined

RESAMPLES = 2000


def names_of_answers(count: int, *columns: object) -> list[str]:
    """The ids [N] of answers, as the first of the columns that is a series by id names them.

    Else, and where an id stands twice, 1, 2, …: the ids of rows without one.
    """
    for column in columns:
        ids = ids_of(column)
        if ids is not None and len(set(ids)) == count:
            return ids
    return [str(number) for number in range(1, count + 1)]


def measured_prr(
    columns: Sequence[tuple[dict[str, str], Floats]],
    quality: Floats,
    ids: Sequence[str],
    groups: Sequence[str],
    *,
    max_rejection: float,
    resamples: int,
    seed: int,
) -> Estimates:
    """PRR of each of several scores [N], a row each with its keys, all on the same resamples.

    ``ids`` and ``groups`` [N] name each answer and what is drawn: itself, or what it belongs to.
    """
    name = draws_name("", zip(ids, groups, strict=True))
    blocks = resample_blocks(groups, resamples, seed, name)
    scores = [column for _, column in columns]
    measured = measure_blocks(scores, [Judged(quality)], blocks, ["PRR"], [max_rejection])
    drawn = [by_metric["PRR"] for (by_metric,) in measured]
    note = why_undefined("PRR", quality, max_rejection)
    rows = [
        {"metric": "PRR", "value": values[0], "n": len(quality), "note": note, **keys}
        for (keys, _), values in zip(columns, drawn, strict=True)
    ]
    return Estimates.from_rows(rows, [values[1:] for values in drawn])


@dataclass(frozen=True, repr=False)
class PRR(Estimate):
    """A PRR with its interval; it shows of which scores, by which quality, where that is known."""

    of_scores: str = field(default="", compare=False)

    def __repr__(self) -> str:
        heading = f"PRR of {self.of_scores}: " if self.of_scores else ""
        return f"Estimate({heading}{self.in_words()})"


def only_estimate(estimates: Estimates, confidence: float, of_scores: str = "") -> PRR:
    """The only row of estimates, with its interval."""
    (row,) = estimates.summary(confidence).to_dict("records")
    ends = {name: _none_if_nan(row[name]) for name in ("value", "low", "high", "std")}
    return PRR(**ends, note=str(row["note"]), n=int(row["n"]), of_scores=of_scores)


def p_or_none(difference: Estimates) -> float | None:
    """The two-sided p of the only row of estimates; None where it has no interval."""
    return _none_if_nan(float(difference.p()[0]))


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
