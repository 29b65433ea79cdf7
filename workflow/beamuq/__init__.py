"""Beam-weighted, consistency-based uncertainty for LLM answers: a room per stage, in the order data flows."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``beamuq.ask`` and ``beamuq.score``, imported when first used; both are modules that can be called."""
    if name in ("ask", "score"):
        return importlib.import_module(f"beamuq.{name}")
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}")
