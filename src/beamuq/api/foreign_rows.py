"""Rows of other tools' files as they are: where their answer and samples stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beamuq.errors import BeamUQError, hint

ABSENT = object()


@dataclass(frozen=True)
class Keys:
    """Under which keys a row has its answer and its samples; "": under our own.

    A path leads into objects and lists: ``output.text``; ``choices.0.text``, the first choice's;
    ``choices.text``, all choices' texts. A key that is itself written with points goes first.
    """

    answer: str = ""
    samples: str = ""

    @property
    def are_foreign(self) -> bool:
        """Whether rows are another tool's."""
        return bool(self.answer or self.samples)

    def our_row(self, row: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The row with its answer and samples under our own keys.

        Raises BeamUQError naming the place and the key that is missing, or whose value is null.
        """
        ours = dict(row)
        if self.answer:
            ours["answer"] = _value(row, self.answer, place, "answer_key")
        if self.samples:
            samples = _value(row, self.samples, place, "samples_key")
            ours["samples"] = [samples] if isinstance(samples, str) else samples
        return ours


def _value(row: Mapping[str, Any], path: str, place: str, option: str) -> Any:
    value = value_at(row, path)
    if value is ABSENT:
        suggestion = hint(path, [str(key) for key in row])
        raise BeamUQError(f"{place}: {path}: no such key; {suggestion}, or change {option}")
    if value is None:
        raise BeamUQError(
            f"{place}: {path}: null; give a text, or leave such rows out with skip_invalid "
            "(--skip-invalid)"
        )
    return value


def value_at(row: Any, path: str) -> Any:
    """What stands at a path; ``ABSENT``: nothing does."""
    if isinstance(row, Mapping) and path in row:
        return row[path]
    first, _, rest = path.partition(".")
    value = _step(row, first)
    if value is ABSENT or not rest:
        return value
    return value_at(value, rest)


def _step(value: Any, name: str) -> Any:
    """One step of a path: a key of an object, a place of a list, or a key of all its objects."""
    if isinstance(value, Mapping):
        return value.get(name, ABSENT)
    if not isinstance(value, list):
        return ABSENT
    if name.isdigit():
        return value[int(name)] if int(name) < len(value) else ABSENT
    parts = [_step(part, name) for part in value]
    return ABSENT if ABSENT in parts or not parts else parts
