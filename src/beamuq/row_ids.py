"""The one rule for what names a question or a group, whether a row, a file or a series gives it."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

EXACT = 2**53  # from here on two whole numbers may be one float
LONGEST = 38  # digits of a decimal number
FIX = "give a text or a whole number"


def id_text(value: Any) -> str:
    """A text as it is, a whole number as text: 1, 1.0 and "1" name the same.

    Files and frames make floats of whole numbers where another row has none.

    Raises ValueError with the fix for what is missing or empty, for true and false, a number that
    is not whole, a float too large to be told from its neighbours, and what is no text or number.
    """
    if isinstance(value, str):
        if not value.strip():
            raise ValueError(f"is empty; {FIX}")
        return str(value)
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"is true or false, which names nothing; {FIX}")
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal):
        return _whole_decimal(value)
    if isinstance(value, Real):
        return _whole_float(float(value))
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"is missing; {FIX}, or leave the key out of every row")
    raise ValueError(f"is a {type(value).__name__}; {FIX}")


def group_text(value: Any) -> str | None:
    """As :func:`id_text`; None says that a row names no group."""
    return None if value is None else id_text(value)


def _whole_decimal(value: Decimal) -> str:
    if not value.is_finite() or value.adjusted() >= LONGEST or value != value.to_integral_value():
        raise ValueError(f"is no whole number; {FIX}")
    return str(int(value))


def _whole_float(value: float) -> str:
    if value != value:
        raise ValueError(f"is a hole, as frames have; {FIX}, or leave the key out of every row")
    if not value.is_integer():
        raise ValueError(f"is no whole number; {FIX}")
    if abs(value) >= EXACT:
        raise ValueError("is a float so large that two whole numbers may be one; give it as a text")
    return str(int(value))
