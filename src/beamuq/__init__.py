"""Beam-weighted, consistency-based uncertainty for the answers of language models: what `import beamuq` offers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamuq.api.ask_model import ask, ask_all
    from beamuq.api.calibrate_and_decide import calibrate, decide
    from beamuq.api.explore_results import explore
    from beamuq.api.score_candidates import score

__version__ = "0.1.0"
__all__ = ["ask", "ask_all", "calibrate", "decide", "explore", "score"]

# imported when first used: no step needs one, and what this file imports counts as code of every rule
_FUNCTIONS = {
    "ask": "beamuq.api.ask_model",
    "ask_all": "beamuq.api.ask_model",
    "score": "beamuq.api.score_candidates",
    "calibrate": "beamuq.api.calibrate_and_decide",
    "decide": "beamuq.api.calibrate_and_decide",
    "explore": "beamuq.api.explore_results",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}")
