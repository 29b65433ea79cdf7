"""Beam-weighted, consistency-based uncertainty for LLM answers: a folder per stage, in the order data flows."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# by name, not by import: what this file imports counts as code of every rule
_FUNCTIONS = {
    "ask": "beamuq.api.ask_model",
    "ask_all": "beamuq.api.ask_model",
    "score": "beamuq.api.score_candidates",
    "calibrate": "beamuq.api.calibrate_and_decide",
    "decide": "beamuq.api.calibrate_and_decide",
    "explore": "beamuq.api.explore_results",
}


def __getattr__(name: str) -> Any:
    """Those of ``beamuq.api``, imported when first used: a step needs none."""
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}")
