"""Beam-weighted, consistency-based uncertainty for the answers of language models: what `import beamuq` offers."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamuq.api.ask_model import ask, ask_all
    from beamuq.api.calibrate_and_decide import calibrate, decide
    from beamuq.api.calibration import Calibration
    from beamuq.api.decode_prompts import decode
    from beamuq.api.explore_results import explore
    from beamuq.api.open_models import model_folder
    from beamuq.api.prr_of_scores import prr
    from beamuq.api.score_candidates import score
    from beamuq.api.transformers_generate import beams, from_generate

__version__ = "0.1.0"
__all__ = [
    "Calibration",
    "ask",
    "ask_all",
    "beams",
    "calibrate",
    "decide",
    "decode",
    "explore",
    "from_generate",
    "model_folder",
    "prr",
    "score",
]

# imported when first used: no step needs one, and what this file imports counts as code of every rule
_FUNCTIONS = {
    "ask": "beamuq.api.ask_model",
    "ask_all": "beamuq.api.ask_model",
    "score": "beamuq.api.score_candidates",
    "decode": "beamuq.api.decode_prompts",
    "beams": "beamuq.api.transformers_generate",
    "from_generate": "beamuq.api.transformers_generate",
    "model_folder": "beamuq.api.open_models",
    "prr": "beamuq.api.prr_of_scores",
    "Calibration": "beamuq.api.calibration",
    "calibrate": "beamuq.api.calibrate_and_decide",
    "decide": "beamuq.api.calibrate_and_decide",
    "explore": "beamuq.api.explore_results",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    near = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}{hint}")
