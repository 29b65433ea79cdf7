"""Beam-weighted, consistency-based uncertainty for LLM answers: a folder per stage, in the order data flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamuq.api.ask_model import ask as ask
    from beamuq.api.score_candidates import score as score

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``beamuq.ask`` and ``beamuq.score``, imported when first used: a step needs neither."""
    if name == "ask":
        from beamuq.api.ask_model import ask

        return ask
    if name == "score":
        from beamuq.api.score_candidates import score

        return score
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}")
