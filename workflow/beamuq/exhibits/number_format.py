"""Numbers as printed."""

from __future__ import annotations

import math


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign."""
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def percent(value: float, digits: int = 0) -> str:
    """A fraction as ``63%``."""
    return f"{100 * value:.{digits}f}%"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """``[-.012, .345]``; nothing where there is none (None or NaN)."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{decimal(low, digits)}, {decimal(high, digits)}]"
