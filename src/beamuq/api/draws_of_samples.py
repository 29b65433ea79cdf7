"""Several disjoint draws among a question's samples, each scored on its own.

As in a study whose samples make several draws: each is a setting of the methods over samples, and
what samples give is the mean over them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from beamuq.api.candidate_records import CandidateRecord, QuestionRecord
from beamuq.errors import BeamUQError

SETTING = re.compile(r"M=(\d+) draw=(\d+)")


def setting_of_draw(size: int, number: int) -> str:
    """The setting of a draw of so many samples: ``M=10 draw=3``, from 1."""
    return f"M={size} draw={number}"


def settings_of_draws(settings: Iterable[str]) -> list[str]:
    """Those among settings that are of a draw, in the order of the draws."""
    numbers: dict[str, int] = {}
    for setting in settings:
        match = SETTING.fullmatch(setting)
        if match:
            numbers[setting] = int(match[2])
    return sorted(numbers, key=lambda setting: numbers[setting])


def check_draws(records: Sequence[QuestionRecord], size: int, where: str) -> None:
    """Refuse samples that do not make the same number of draws, two or more, in each question.

    Raises BeamUQError naming the question.
    """
    expected = len(records[0].samples) // size
    for record in records:
        count = len(record.samples)
        if count % size or count < 2 * size:
            raise BeamUQError(
                f"{where}: id {record.id!r}: samples: {count}: must be two draws of {size} or more "
                "without a rest; give as many, or another draw_size (--draw-size)"
            )
        if count != expected * size:
            raise BeamUQError(
                f"{where}: id {record.id!r}: samples: {count}: {records[0].id!r} has "
                f"{len(records[0].samples)}; give each question as many draws"
            )


def draws_of(samples: Sequence[CandidateRecord], size: int) -> list[list[CandidateRecord]]:
    """Samples in disjoint draws of so many, in their order."""
    return [list(samples[start : start + size]) for start in range(0, len(samples), size)]
