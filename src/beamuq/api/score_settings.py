"""The settings of ``score`` that its values depend on, as the column ``scored_with`` says them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ScoreSettings:
    """Settings under which two scores of one method can be compared; None: not known.

    similarity: a hash of the similarity's model, or a name of what it compares.
    """

    temperature: float
    epsilon: float
    alpha: float
    equivalence_threshold: float | None
    without_ending: bool
    similarity: str | None


def scored_with(settings: ScoreSettings) -> str:
    """The column ``scored_with``: an object in JSON."""
    return json.dumps(asdict(settings))


def settings_in_json(text: str | None) -> str | None:
    """The column as it is; raises ValueError unless it is an object in JSON, or None."""
    if text is None:
        return None
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError("must be an object in JSON, as score writes it")
    return text
