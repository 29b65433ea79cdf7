"""Score tables as text."""

from __future__ import annotations

import pandas as pd

FORMATS = ("markdown", "csv", "jsonl")


def render(scores: pd.DataFrame, form: str) -> str:
    """A score table as ``markdown``, ``csv`` or ``jsonl``; a missing value is empty, in JSON ``null``."""
    if form == "csv":
        return str(scores.to_csv(index=False))
    if form == "jsonl":
        return str(scores.to_json(orient="records", lines=True, force_ascii=False))
    shown = scores.assign(value=[number(value) for value in scores["value"]])
    rows = [list(shown.columns), [" --- "] * len(shown.columns), *shown.astype(str).to_numpy().tolist()]
    return "".join(f"| {' | '.join(_cell(text) for text in row)} |\n" for row in rows)


def number(value: float) -> str:
    """Four significant digits; "" for a missing value."""
    return "" if pd.isna(value) else f"{value:.4g}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
