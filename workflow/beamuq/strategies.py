"""The one grammar of strategies and settings: ``kind`` and ``key=value`` pairs, such as ``diverse G=2 lambda=0.5``.

A value is a number, of either sign, or ``True`` or ``False``: ``beam M=10 length_penalty=-1.0 early_stopping=True``. A
setting that is one parameter is its own kind: ``epsilon=0.1``, ``alpha=0.9``, ``K=3``, ``M=5``.
"""

from __future__ import annotations

import re

import numpy as np

from beamuq.errors import BeamUQError

_WORDS = {"True": True, "False": False}
_VALUE = r"(?:True|False|-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)"
_FORM = re.compile(rf"(?P<kind>[a-z]+)?(?P<pairs>(?:(?:^| )[A-Za-z_]+={_VALUE})*)")


def number(value: float) -> str:
    """A number as the tables spell it: ``0``, ``1.0``, ``0.00001``, ``3`` (an integer stays one)."""
    if value == 0 or isinstance(value, int):
        return str(int(value))
    return np.format_float_positional(value, trim="0")


def parse(text: str) -> tuple[str, dict[str, float | bool]]:
    """Kind and parameters of a strategy or setting: ``"beam M=10"`` → ``("beam", {"M": 10.0})``.

    Raises
    ------
    BeamUQError
        If the text is not of this grammar.
    """
    form = _FORM.fullmatch(text)
    if not form or not text:
        raise BeamUQError(f"{text!r} is not a strategy or setting; write one like 'beam M=10' or 'epsilon=0.1'")
    pairs = dict(pair.split("=") for pair in form["pairs"].split())
    return form["kind"] or next(iter(pairs)), {
        key: _WORDS[value] if value in _WORDS else float(value) for key, value in pairs.items()
    }
