"""Numbers as printed, and ranks within a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beamuq.exhibits.exhibit_types import TableCell

TIE = 1e-12
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
    text, spread = decimal(value, digits), interval(low, high, digits)
    return TableCell(f"+{text}" if float(text) > 0 else text, spread=spread, note=note)


def marks(values: Sequence[float | None]) -> list[str]:
    """``best`` for every value equal to the largest, ``second`` for every value equal to the next one below it.

    Values are compared unrounded; those within 1e-12 are equal (the same ranking by another sum). None: no mark.
    """
    known = sorted({v for v in values if v is not None}, reverse=True)
    if not known:
        return [""] * len(values)
    best = known[0]
    second = next((v for v in known if v < best - TIE), None)
    return [
        "" if v is None else "best" if v >= best - TIE else "second" if second is not None and v >= second - TIE else ""
        for v in values
    ]


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign."""
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def better(value: float | None, other: float | None) -> bool:
    """Whether ``value`` is strictly above ``other``, unrounded."""
    return value is not None and other is not None and value > other + TIE
