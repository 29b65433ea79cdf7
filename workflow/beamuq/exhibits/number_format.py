"""Numbers as printed."""

from __future__ import annotations

from dataclasses import replace

from beamuq.evaluation.estimates import TIE
from beamuq.exhibits.exhibit_types import TableCell

MEAN_INTERVALS = "t intervals over questions, cut at 0 and 1; none below five questions or where all are equal"


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def percent(value: float, digits: int = 0) -> str:
    """A fraction as ``63%``."""
    return f"{100 * value:.{digits}f}%"


def undefined(reason: str) -> TableCell:
    """A value that does not exist, with why."""
    return TableCell("n/a", note=reason)


def with_interval(cell: TableCell, low: float | None, high: float | None, digits: int = 3) -> TableCell:
    """The cell with its interval at the pointer, where there is one."""
    return replace(cell, pointer=interval(low, high, digits))


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """``[-.012, .345]``; nothing where there is none."""
    return "" if low is None or high is None else f"[{decimal(low, digits)}, {decimal(high, digits)}]"


def excludes_zero(low: float | None, high: float | None) -> bool:
    """Whether 0 lies outside an interval; False where there is none."""
    return low is not None and high is not None and (low > 0 or high < 0)


def difference(value: float, low: float | None, high: float | None, note: str = "", digits: int = 3) -> TableCell:
    """A difference with its sign, its interval beside it."""
    return TableCell(signed(value, digits), spread=interval(low, high, digits), note=note)


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign."""
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def better(value: float | None, other: float | None) -> bool:
    """Whether ``value`` is strictly above ``other``, unrounded."""
    return value is not None and other is not None and value > other + TIE
