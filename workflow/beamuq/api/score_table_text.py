"""Score tables as text."""

from __future__ import annotations

import pandas as pd

from beamuq.exhibits.exhibit_types import csv_text

FORMATS = ("markdown", "csv", "jsonl")


def render(scores: pd.DataFrame, form: str) -> str:
    """A score table as ``markdown``, ``csv`` or ``jsonl``; a missing value is empty, in JSON ``null``."""
    if form == "csv":
        return csv_text(scores)
    if form == "jsonl":
        return str(scores.to_json(orient="records", lines=True, force_ascii=False))
    shown = scores.assign(**{name: [number(value) for value in scores[name]] for name in ("value", "low", "high")})
    rows = [list(shown.columns), [" --- "] * len(shown.columns), *shown.astype(str).to_numpy().tolist()]
    return "".join(f"| {' | '.join(_cell(text) for text in row)} |\n" for row in rows)


def number(value: float) -> str:
    """Four significant digits; "" for a missing value."""
    return "" if pd.isna(value) else f"{value:.4g}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
