"""Numbers as the paper prints them."""

from __future__ import annotations

import math
import re


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    return re.sub(r"^(-?)0\.", r"\1.", text if float(text) else text.lstrip("-"))


def interval(low: float, high: float, digits: int = 3) -> str:
    """``[-.012, .345]``; nothing where there is none (NaN)."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{decimal(low, digits)}, {decimal(high, digits)}]"
