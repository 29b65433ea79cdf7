"""The warnings of rows and samples that cannot be read and are left out, as the caller asked."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from beamuq.errors import BeamUQError

TOLD_REASONS = 5  # of those for which something is left out, the most frequent
TOLD_PLACES = 10  # of what is left out for other reasons
PLACE_IN_LIST = re.compile(r"\[\d+\]")
ADVICE_TAKEN = re.compile(r"(, or|;) leave such rows out with skip_invalid \(--skip-invalid\)")
SKIP_SAMPLES = "skip_invalid_samples (--skip-invalid-samples) leaves such samples out"

Part = TypeVar("Part")
Value = TypeVar("Value")


@dataclass(frozen=True)
class LeftOut:
    """What is left out, a row or a sample: the place of its row, and why."""

    place: str
    error: BeamUQError

    @property
    def reason(self) -> str:
        """The error without the row's place, and without the places of lists in it."""
        return PLACE_IN_LIST.sub("[…]", self.told.removeprefix(f"{self.place}: "))

    @property
    def told(self) -> str:
        """The error without the advice to leave out such rows, which was taken."""
        return ADVICE_TAKEN.sub("", str(self.error))


@dataclass
class SampleSkipping:
    """Whether samples that cannot be read are left out, and those of a row that were.

    ``is_asked`` None: who reads the rows has no such option, and no error names it.
    """

    is_asked: bool | None = None
    errors: list[BeamUQError] = field(default_factory=list)

    def readable(
        self, parts: Iterable[Part], read: Callable[[int, Part], Value]
    ) -> list[tuple[Part, Value]]:
        """Each part that ``read`` takes, with what it gives; it is called with the part's number.

        Raises the error of a part that it does not take, unless such parts are left out.
        """
        values = []
        for number, part in enumerate(parts):
            try:
                values.append((part, read(number, part)))
            except BeamUQError as error:
                self.leave_out(error)
        return values

    def leave_out(self, error: BeamUQError) -> None:
        """Keep the error of a sample that is left out; raises it where none is."""
        if not self.is_asked:
            raise self.naming_option(error) from error
        self.errors.append(error)

    def naming_option(self, error: BeamUQError) -> BeamUQError:
        """The error of a sample, with the option that leaves it out, where there is one."""
        if self.is_asked is None or SKIP_SAMPLES in str(error):
            return BeamUQError(str(error))
        return BeamUQError(f"{error}; {SKIP_SAMPLES}")


def tell_of_rows_left_out(left_out: Sequence[LeftOut], valid: int, where: str) -> None:
    """Warn of rows that are left out, and say how many for which reason.

    Raises the first error where no row is left, and BeamUQError where more are left out than stay:
    what is wrong is then not a row.
    """
    if not left_out:
        return
    if not valid:
        raise left_out[0].error
    count = len(left_out)
    if count > valid:
        raise BeamUQError(
            f"{where}: {count} of {count + valid} rows cannot be read, more than half; mend them, "
            f"as none is left out then. The first: {left_out[0].error}"
        )
    warnings.warn(
        f"{where}: {count} of {count + valid} rows left out: {_by_reason(left_out, where)}",
        stacklevel=3,
    )


def tell_of_samples_left_out(left_out: Sequence[LeftOut], valid: int, where: str) -> None:
    """Warn of samples that are left out of rows that stay, and say how many for which reason.

    ``valid``: how many samples stay. Raises BeamUQError where more are left out.
    """
    if not left_out:
        return
    count = len(left_out)
    if count > valid:
        raise BeamUQError(
            f"{where}: {count} of {count + valid} samples cannot be read, more than half; mend "
            f"them, as none is left out then. The first: {left_out[0].error}"
        )
    rows = len({sample.place for sample in left_out})
    warnings.warn(
        f"{where}: {count} of {count + valid} samples left out, in {rows} rows, which are scored "
        f"with the others: {_by_reason(left_out, where)}",
        stacklevel=3,
    )


def _by_reason(left_out: Sequence[LeftOut], where: str) -> str:
    """The most frequent reasons, each with how often, and the first row that has it."""
    by_reason: dict[str, list[LeftOut]] = {}
    for part in left_out:
        by_reason.setdefault(part.reason, []).append(part)
    most_frequent = sorted(by_reason, key=lambda reason: -len(by_reason[reason]))[:TOLD_REASONS]
    sentences = []
    for reason in most_frequent:
        parts = by_reason[reason]
        first = parts[0].told.removeprefix(f"{where}: ")
        place = parts[0].place.removeprefix(f"{where}: ")
        sentences.append(first if len(parts) == 1 else f"{len(parts)} as {place}: {reason}")
    others = [part for part in left_out if part.reason not in most_frequent]
    if others:
        places = [part.place.removeprefix(f"{where}: ") for part in others]
        more = ["…"] if len(places) > TOLD_PLACES else []
        first_places = ", ".join([*places[:TOLD_PLACES], *more])
        sentences.append(f"{len(others)} for other reasons: {first_places}")
    return " | ".join(sentences)
