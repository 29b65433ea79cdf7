"""Score tables as text."""

from __future__ import annotations

import re

import pandas as pd

from beamuq.exhibits.exhibit_types import csv_text
from beamuq.exhibits.markdown_table import escape, line

_PLAIN = re.compile(r"-?[\d.e+-]*|[\[(][-a-zA-Z0-9 .∞]+, [-a-zA-Z0-9 .∞]+[\])]")  # a number, or a range
FORMATS = ("markdown", "csv", "jsonl")


def render(scores: pd.DataFrame, form: str) -> str:
    """A score table as ``markdown``, ``csv`` or ``jsonl``; a missing value is empty, in JSON ``null``."""
    if form == "csv":
        return csv_text(scores)
    if form == "jsonl":
        return str(scores.to_json(orient="records", lines=True, force_ascii=False))
    shown = scores.assign(**{name: [number(value) for value in scores[name]] for name in ("value", "low", "high")})
    rows = [list(map(_cell, row)) for row in shown.astype(str).to_numpy().tolist()]
    return "".join(f"{line(row)}\n" for row in (list(shown.columns), ["---"] * len(shown.columns), *rows))


def number(value: float) -> str:
    """Four significant digits; "" for a missing value."""
    return "" if pd.isna(value) else f"{value:.4g}"


def _cell(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else escape(text)
