"""Beam-weighted, consistency-based uncertainty for the answers of language models."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamuq import plot as plot
    from beamuq.api.advise import advise
    from beamuq.api.ask_model import ask, ask_all
    from beamuq.api.calibration import calibrate, decide
    from beamuq.api.calibration_class import Calibration
    from beamuq.api.candidates_of_model import decode
    from beamuq.api.choose_candidates import choose
    from beamuq.api.compare_forms import compare
    from beamuq.api.compare_quality import compare_quality
    from beamuq.api.explore_results import explore
    from beamuq.api.generate_hook import beams
    from beamuq.api.generate_output import from_generate
    from beamuq.api.inspect_logs import from_inspect
    from beamuq.api.open_models import model_folder
    from beamuq.api.quality_of_answers import quality
    from beamuq.api.score_candidates import prr, score
    from beamuq.api.score_file import score_file

__version__ = "0.3.0"
__all__ = [
    "Calibration",
    "advise",
    "ask",
    "ask_all",
    "beams",
    "calibrate",
    "choose",
    "compare",
    "compare_quality",
    "decide",
    "decode",
    "explore",
    "from_generate",
    "from_inspect",
    "model_folder",
    "prr",
    "quality",
    "score",
    "score_file",
]

# imported when first used: no step needs one, and what this file imports is code of every rule
_MODULES = {
    "advise": ("advise",),
    "ask_model": ("ask", "ask_all"),
    "calibration": ("calibrate", "decide"),
    "calibration_class": ("Calibration",),
    "candidates_of_model": ("decode",),
    "choose_candidates": ("choose",),
    "compare_forms": ("compare",),
    "compare_quality": ("compare_quality",),
    "explore_results": ("explore",),
    "generate_hook": ("beams",),
    "generate_output": ("from_generate",),
    "inspect_logs": ("from_inspect",),
    "open_models": ("model_folder",),
    "quality_of_answers": ("quality",),
    "score_candidates": ("prr", "score"),
    "score_file": ("score_file",),
}


def __dir__() -> list[str]:
    return [*__all__, "__version__", "plot"]


def __getattr__(name: str) -> Any:
    if name == "plot":
        return importlib.import_module("beamuq.plot")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"beamuq.api.{module}"), name)
    near = difflib.get_close_matches(name, [*__all__, "plot"], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'beamuq' has no attribute {name!r}{hint}")
